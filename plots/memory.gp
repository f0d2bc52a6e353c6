# Peak memory against context: one curve per series, its lower bound thin below it, trials that ran out of memory as
# crosses above the limit; on the right, where records keep something on the host, the peak there.
load scripts.'/style.gp'
load scripts.'/context.gp'

stats data using (count(column('peak_bytes'))) nooutput
top = 1
least_peak = 1
if (known) { stats data using 'peak_bytes' nooutput; top = STATS_max; least_peak = STATS_min }
known = 0
stats data using (count(column('host_peak_bytes'))) nooutput
on_host = known
if (on_host) { stats data using 'host_peak_bytes' nooutput; host_top = STATS_max }
unit_name = memory_unit(top)
unit = memory_unit_bytes(top)
high_logscale = wide && top > 4 * least_peak
load scripts.'/crosses.gp'
if (high_logscale) { set logscale y 2 } else { set yrange [0 : *] }

panels = panels_of(on_host ? 'memory host' : 'memory')
width = width_for(words(panels))
legend_extra = 'bound'.(ooms ? ' cross' : '').(limit_shown ? ' limit' : '')
legend_rows = rows_for(3)
bottom = 400
height = bottom + 105 + 20 * legend_rows
heading = 'Peak memory against context'
load scripts.'/page.gp'
set multiplot
if (shows('memory')) {
call scripts.'/panel.gp' 'memory' 'peak memory'.(on_host ? ' of the device' : '').' ('.unit_name.')' 'context (tokens)'
eval ticks_below
plot for [i=1:series_count] data using (of(i, 'context')):(column('lower_bound_bytes') / unit) \
         with lines lw 1 dt 3 lc rgb tint(i) @named, \
     for [i=1:series_count] data using (of(i, 'context')):(column('peak_bytes') / unit) \
         with linespoints lw 2*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.9*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'context')):(column('peak_bytes') / unit):(told(i, 'context peak_bytes lower_bound_bytes')) @under_pointer, \
     for [i=1:crossed] data using (column('oom') == 1 ? of(i, 'context') : NaN):(cross(i)) \
         with points pt 2 ps 1*dot lw 2 lc rgb tint(i) @named, \
     (limit_shown ? limit / unit : NaN) with lines lw 1.2 dt 2 lc rgb pale title 'memory limit'
}

if (shows('host')) {
    set ytics autofreq
    set yrange [*:*]
    if (!high_logscale) { set yrange [0:*] }
    call scripts.'/panel.gp' 'host' 'peak memory of the host ('.memory_unit(host_top).')' 'context (tokens)'
    host_unit = memory_unit_bytes(host_top)
    plot for [i=1:series_count] data using (of(i, 'context')):(column('host_peak_bytes') / host_unit) \
             with linespoints lw 2*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.9*dot*wide_by(i) lc rgb tint(i) @named, \
         for [i=1:pointed] data using (of(i, 'context')):(column('host_peak_bytes') / host_unit):(told(i, 'context host_peak_bytes')) @under_pointer
}
unset multiplot
