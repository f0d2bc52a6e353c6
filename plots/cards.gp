# The longest context over the number of cards that share a step: lines are planned, hollow marks of the same colour what
# others report.
load scripts.'/style.gp'
stats data using 'cards' nooutput
fewest = STATS_min
most = STATS_max
highest = 0
upper(v) = v > highest ? (highest = v) : 0
stats data using (upper(column('max_context')), upper(column('published')), 0) nooutput
stats data using (tick(column('cards'))) nooutput
known = 0
stats data using (count(column('published'))) nooutput
beside = known

width = width_for(1)
bottom = 400
legend_rows = rows_for(2)
height = bottom + 105 + 20 * (legend_rows + (beside ? 1 : 0))
heading = 'Longest planned context over several cards'
load scripts.'/page.gp'
eval 'set xtics ('.ticks.')'
set xrange [fewest - 0.5 : most + 0.5]
set yrange [0 : 1.1 * highest / 1000]
if (beside) {
    foot = bottom + 68 + 20 * legend_rows
    set label 900 '' at screen across(51),down(foot) point pt 6 ps 0.9*dot lw 1.8 lc rgb pale front
    set label 901 'published, in the colour of the method' at screen across(87),down(foot) left font legend_font textcolor rgb ink front
}
set multiplot
call scripts.'/panel.gp' 'all' 'longest context (thousands of tokens)' 'cards'
plot for [i=1:series_count] data using (of(i, 'cards')):(column('max_context') / 1000) \
         with linespoints lw 2*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.9*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'cards')):(column('max_context') / 1000):(told(i, 'cards max_context published')) @under_pointer, \
     for [i=1:series_count] data using (of(i, 'cards')):(column('published') / 1000) \
         with points pt mark(method[i], 1) ps 1.1*dot lw 1.8 lc rgb tint(i) @named
unset multiplot
