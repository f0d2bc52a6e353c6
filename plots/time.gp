# Time of one step against context: the median of the samples, whiskers from the fastest to the slowest; of a method that
# draws its chunks the mean over draws, whiskers of two standard errors. On the left the whole range; on the right per
# token, where the methods' differences can be read at every context.
load scripts.'/style.gp'
load scripts.'/context.gp'

stats data using 'step_ms' nooutput
unit = STATS_max >= 20000 ? 1000.0 : 1.0
stats data using 'low_ms' nooutput
fastest = STATS_min / unit
stats data using 'high_ms' nooutput
slowest = STATS_max / unit
set logscale x 2
set xrange [least / 1.2 : most * 1.2]
if (ticks_shown(12) ne '') { eval 'set xtics ('.ticks_shown(12).')' }

panels = panels_of('time per-token')
width = width_for(words(panels))
bottom = 370
known = 0
stats data using (whiskered(column('low_ms'), column('high_ms'), column('drawn')) ? count(1) : 0) nooutput
whiskers = known > 0
stats data using (note_drawn(column('drawn'), strcol('method'))) nooutput
stats data using (note_fixed(column('step_ms'), column('drawn'), strcol('method'))) nooutput
legend_extra = (drawn_methods eq '' ? '' : 'errors').(whiskers ? ' whiskers' : '')
legend_rows = rows_for(3)
height = bottom + 105 + 20 * legend_rows
heading = 'Step time against context'
load scripts.'/page.gp'

set multiplot
if (shows('time')) {
load scripts.'/decades.gp'
call scripts.'/panel.gp' 'time' (unit > 1 ? 'time of one step (s)' : 'time of one step (ms)') 'context (tokens)'
plot for [i=1:series_count] data using (of(i, 'context')):(column('low_ms') / unit):(0):((column('high_ms') - column('low_ms')) / unit) \
         with vectors @whisker lc rgb tint(i) @named, \
     for [i=1:series_count] data using (of(i, 'context')):(column('step_ms') / unit) \
         with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'context')):(column('step_ms') / unit):(told(i, 'context step_ms low_ms high_ms')) @under_pointer
}

if (shows('per-token')) {
unset logscale y
set ytics autofreq
set yrange [0 : *]
call scripts.'/panel.gp' 'per-token' 'time per token (µs)' 'context (tokens)'
per_token(name) = 1000.0 * column(name) / column('context')
plot for [i=1:series_count] data using (of(i, 'context')):(per_token('low_ms')):(0):(per_token('high_ms') - per_token('low_ms')) \
         with vectors @whisker lc rgb tint(i) @named, \
     for [i=1:series_count] data using (of(i, 'context')):(per_token('step_ms')) \
         with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'context')):(per_token('step_ms')):(told(i, 'context step_ms low_ms high_ms')) @under_pointer
}
unset multiplot
