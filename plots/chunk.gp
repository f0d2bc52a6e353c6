# Time and memory against chunk size, at one context; memory alone if nothing was timed, and that of the host where records
# keep something there. Times are medians of the samples, of a method that draws its chunks means over draws, and of a plan
# estimates. A vertical line is the chunk below which reading a mixture's experts takes longer than multiplying by them. Methods without chunks are horizontal lines; crosses above the limit
# are trials that ran out of memory.
load scripts.'/style.gp'

stats data using 'chunk' nooutput
kilo = STATS_max >= 32768
set logscale x 2
array edge[2] = [STATS_min / 1.2, STATS_max * 1.2]
set xrange [STATS_min / 1.25 : STATS_max * 1.25]
stats data using (column('chunk') == column('chunk') ? tick(column('chunk')) : 0) nooutput
if (ticks_shown(12) ne '') { eval 'set xtics ('.ticks_shown(12).')' }
set yrange [0 : *]

stats data using (count(column('peak_bytes'))) nooutput
top = 1
if (known) { stats data using 'peak_bytes' nooutput; top = STATS_max }
unit_name = memory_unit(top)
unit = memory_unit_bytes(top)
high_logscale = 0
load scripts.'/crosses.gp'
known = 0
stats data using (count(column('host_peak_bytes'))) nooutput
on_host = known > 0
if (on_host) { stats data using 'host_peak_bytes' nooutput; host_top = STATS_max }
known = 0
stats data using (count(column('step_ms'))) nooutput
timed = known
time_unit = 1.0
break_even = NaN
stats data using (column('break_even_chunk') == column('break_even_chunk') ? (break_even = column('break_even_chunk'), 0) : 0) nooutput
break_even_shown = break_even == break_even
stats data using 'chunk' nooutput
if (break_even_shown) { set arrow 9 from break_even, graph 0 to break_even, graph 1 nohead lw 1.3 dt 3 lc rgb pale }
known = 0
stats data using (count(column('step_ms'))) nooutput
if (known) { stats data using 'step_ms' nooutput; time_unit = STATS_max >= 20000 ? 1000.0 : 1.0 }

# A method without chunks has one row: its value from one end of the axis to the other, without marks, or a cross at either end.
array flat_ms[series_count]
array flat_peak[series_count]
array flat_host[series_count]
array flat_oom[series_count]
do for [i=1:series_count] { flat_ms[i] = NaN; flat_peak[i] = NaN; flat_host[i] = NaN; flat_oom[i] = 0 }
flat(i) = (flat_ms[i] = column('step_ms'), flat_peak[i] = column('peak_bytes'), flat_host[i] = column('host_peak_bytes'), \
           flat_oom[i] = column('oom') == 1, i)
stats data using (column('chunk') == column('chunk') ? 0 : flat(int(column('series')))) nooutput
# The chunk of least memory of each curve that has smaller chunks, too: there a smaller chunk takes more memory.
array least_peak[series_count]
array least_chunk[series_count]
array smallest_chunk[series_count]
do for [i=1:series_count] { least_peak[i] = NaN; least_chunk[i] = NaN; smallest_chunk[i] = NaN }
least(i, chunk, peak) = peak != peak || chunk != chunk ? 0 : \
    (smallest_chunk[i] = smallest_chunk[i] <= chunk ? smallest_chunk[i] : chunk, \
     least_peak[i] <= peak ? 0 : (least_peak[i] = peak, least_chunk[i] = chunk), 1)
stats data using (least(int(column('series')), column('chunk'), column('peak_bytes'))) nooutput
rises_to_the_left(i) = least_chunk[i] > smallest_chunk[i]
least_shown = sum [i=1:series_count] rises_to_the_left(i)
lined(i) = flat_ms[i] == flat_ms[i] || flat_peak[i] == flat_peak[i] || flat_oom[i]

panels = panels_of((timed ? 'time ' : '').'memory'.(on_host ? ' host' : ''))
width = width_for(words(panels))
bottom = 370
known = 0
stats data using (column('chunk') == column('chunk') && whiskered(column('low_ms'), column('high_ms'), column('drawn')) ? \
    count(1) : 0) nooutput
whiskers = known > 0
stats data using (note_drawn(column('drawn'), strcol('method'))) nooutput
stats data using (note_fixed(column('step_ms'), column('drawn'), strcol('method'))) nooutput
legend_extra = (timed && drawn_methods ne '' ? 'errors' : '').(timed && whiskers ? ' whiskers' : '').(least_shown ? ' least' : '').(break_even_shown ? ' break-even' : '').(ooms ? ' cross' : '').(limit_shown ? ' limit' : '')
legend_rows = rows_for(3)
height = bottom + 105 + 20 * legend_rows
heading = timed ? 'Time and memory against chunk size' : 'Memory against chunk size'
load scripts.'/page.gp'

set multiplot
if (shows('time')) {
call scripts.'/panel.gp' 'time' (time_unit > 1 ? 'time of one step (s)' : 'time of one step (ms)') 'chunk (tokens)'
plot for [i=1:series_count] flat_ms[i] / time_unit with lines lw 1.7*wide_by(i) dt dash(rank[i]) lc rgb tint(i) @named, \
     for [i=1:series_count] data using (of(i, 'chunk')):(column('low_ms') / time_unit):(0):((column('high_ms') - column('low_ms')) / time_unit) \
         with vectors @whisker lc rgb tint(i) @named, \
     for [i=1:series_count] data using (of(i, 'chunk')):(column('step_ms') / time_unit) \
         with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'chunk')):(column('step_ms') / time_unit):(told(i, 'chunk step_ms low_ms high_ms')) @under_pointer
}

if (shows('memory')) {
call scripts.'/panel.gp' 'memory' 'peak memory'.(on_host ? ' of the device' : '').' ('.unit_name.')' 'chunk (tokens)'
eval ticks_below
plot for [i=1:series_count] flat_peak[i] / unit with lines lw 1.7*wide_by(i) dt dash(rank[i]) lc rgb tint(i) @named, \
     for [i=1:series_count] data using (of(i, 'chunk')):(column('peak_bytes') / unit) \
         with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'chunk')):(column('peak_bytes') / unit):(told(i, 'chunk peak_bytes')) @under_pointer, \
     for [i=1:series_count] '+' using (rises_to_the_left(i) ? least_chunk[i] : NaN):(least_peak[i] / unit) every ::0::0 \
         with points pt 6 ps 2.2*dot lw 1.4 lc rgb tint(i) @named, \
     for [i=1:crossed] data using (column('oom') == 1 ? of(i, 'chunk') : NaN):(cross(i)) \
         with points pt 2 ps 1*dot lw 2 lc rgb tint(i) @named, \
     for [i=1:crossed] for [end=0:1] '+' using (flat_oom[i] ? edge[1+end] : NaN):(cross(i)) every ::0::0 \
         with points pt 2 ps 1*dot lw 2 lc rgb tint(i) @named, \
     (limit_shown ? limit / unit : NaN) with lines lw 1.2 dt 2 lc rgb pale title 'memory limit'
}

if (shows('host')) {
set ytics autofreq
set yrange [0 : *]
call scripts.'/panel.gp' 'host' 'peak memory of the host ('.memory_unit(host_top).')' 'chunk (tokens)'
host_unit = memory_unit_bytes(host_top)
plot for [i=1:series_count] flat_host[i] / host_unit with lines lw 1.7*wide_by(i) dt dash(rank[i]) lc rgb tint(i) @named, \
     for [i=1:series_count] data using (of(i, 'chunk')):(column('host_peak_bytes') / host_unit) \
         with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'chunk')):(column('host_peak_bytes') / host_unit):(told(i, 'chunk host_peak_bytes')) @under_pointer
}
unset multiplot
