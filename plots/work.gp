# Planned time and work of a step against context: on the left the time that is estimated of it; on the right FLOPs per token, of
# all ranks.
load scripts.'/style.gp'
load scripts.'/context.gp'
if (ticks_shown(6) ne '') { eval 'set xtics ('.ticks_shown(6).')' } else { set xtics autofreq } # a panel is half a page

stats data using 'estimate_ms' nooutput
unit = STATS_max >= 20000 ? 1000.0 : 1.0
fastest = STATS_min / unit
slowest = STATS_max / unit

panels = panels_of('time flops')
width = width_for(words(panels))
bottom = 370
legend_rows = rows_for(3)
height = bottom + 105 + 20 * legend_rows
heading = 'Planned work of a step against context'
load scripts.'/page.gp'

set multiplot
if (shows('time')) {
load scripts.'/decades.gp'
call scripts.'/panel.gp' 'time' (unit > 1 ? 'estimated time of one step (s)' : 'estimated time of one step (ms)') 'context (tokens)'
plot for [i=1:series_count] data using (of(i, 'context')):(column('estimate_ms') / unit) \
         with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'context')):(column('estimate_ms') / unit):(told(i, 'context estimate_ms')) @under_pointer
}

if (shows('flops')) {
unset logscale y
set ytics autofreq
set yrange [0 : *]
call scripts.'/panel.gp' 'flops' 'GFLOP per token' 'context (tokens)'
plot for [i=1:series_count] data using (of(i, 'context')):(column('flops') / column('context') / 1e9) \
         with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'context')):(column('flops') / column('context') / 1e9):(told(i, 'context flops')) @under_pointer
}
unset multiplot
