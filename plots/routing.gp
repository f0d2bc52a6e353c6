# Rebuilds that choose their experts anew, against chunk size, at one context: on the left the share of pairs of a token and a
# layer for which they choose others than the first pass, on the right the gradient's error then, and with kept choices. A share of
# exactly 0 is left out.
load scripts.'/style.gp'

stats data using 'chunk' nooutput
set logscale x 2
set xrange [STATS_min / 1.25 : STATS_max * 1.25]
stats data using (tick(column('chunk'))) nooutput
if (ticks_shown(12) ne '') { eval 'set xtics ('.ticks_shown(12).')' }
positive(v) = v > 0 ? v : NaN
steps = ''
do for [power=-9:0] {
    do for [digit in '1 2 5'] { v = digit * 10.0**power; steps = steps.sprintf('%s"%g" %g', steps eq '' ? '' : ', ', v, v) }
}
panels = panels_of('flips error')
width = width_for(words(panels))
bottom = 350
legend_extra = ''
legend_rows = rows_for(3)
height = bottom + 105 + 20 * legend_rows
heading = 'Experts chosen anew in rebuilds'
load scripts.'/page.gp'

set logscale y
eval 'set ytics ('.steps.')'
set multiplot
if (shows('flips')) {
call scripts.'/panel.gp' 'flips' 'share of tokens and layers with other experts' 'chunk (tokens)'
plot for [i=1:series_count] data using (of(i, 'chunk')):(positive(column('flips'))) \
         with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'chunk')):(positive(column('flips'))):(told(i, 'chunk flips flips_max')) @under_pointer
}
if (shows('error')) {
call scripts.'/panel.gp' 'error' 'relative L2 error, all weights' 'chunk (tokens)'
set label 501 'dotted: the choices of the first pass' at graph 0.04,0.05 left font small_font textcolor rgb pale front
plot for [i=1:series_count] data using (of(i, 'chunk')):(positive(column('relative_l2'))) \
         with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:series_count] data using (of(i, 'chunk')):(positive(column('kept_relative_l2'))) \
         with linespoints lw 1.7*wide_by(i) dt 3 pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'chunk')):(positive(column('relative_l2'))):(told(i, 'chunk relative_l2 kept_relative_l2')) @under_pointer
}
unset multiplot
