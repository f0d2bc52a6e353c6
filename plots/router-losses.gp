# Error of the gradient with a balancing loss of routers against chunk size, at one context: of all weights together, and of
# the tensor with the largest. A difference of exactly 0 is left out.
load scripts.'/style.gp'

stats data using 'chunk' nooutput
set logscale x 2
set xrange [STATS_min / 1.25 : STATS_max * 1.25]
stats data using (column('chunk') == column('chunk') ? tick(column('chunk')) : 0) nooutput
if (ticks_shown(12) ne '') { eval 'set xtics ('.ticks_shown(12).')' }
positive(v) = v > 0 ? v : NaN
panels = panels_of('all worst')
width = width_for(words(panels))
bottom = 350
legend_extra = ''
legend_rows = rows_for(3)
height = bottom + 105 + 20 * legend_rows
heading = 'Gradient error with a balancing loss'
load scripts.'/page.gp'

set logscale y 10
set format y '10^{%T}'
set multiplot
do for [name in 'all worst'] {
    if (!shows(name)) { continue }
    field = name eq 'all' ? 'relative_l2' : 'worst_relative_l2'
    call scripts.'/panel.gp' (name) (name eq 'all' ? 'relative L2 error, all weights' : 'relative L2 error, worst tensor') 'chunk (tokens)'
    set label 501 'counts of each cell' at graph 0.04,0.86 left font small_font textcolor rgb pale front
    set label 502 'counts of the step' at graph 0.04,0.14 left font small_font textcolor rgb pale front
    plot for [i=1:series_count] data using (of(i, 'chunk')):(positive(column(field))) \
             with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
         for [i=1:series_count] data using (of(i, 'chunk')):(positive(column('cell_'.field))) \
             with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
         for [i=1:pointed] data using (of(i, 'chunk')):(positive(column(field))):(told(i, 'chunk relative_l2 worst_relative_l2')) @under_pointer
}
unset multiplot
