# An optimizer's updates after rounding weights to bf16, against the rate: the share of weights that were to move and
# stayed as they were, and the share of the updates that is lost. Means over the steps.
load scripts.'/style.gp'

tints = '#0072B2 #D55E00 #009E73 #CC79A7 #E69F00 #222222'
tint(i) = toned(word(tints, 1 + (i - 1) % words(tints)))
mark_of(i) = int(word('7 5 9 13 11 4', 1 + (i - 1) % 6))
dash(rank) = 1

stats data using 'rate' nooutput
set logscale x
set xrange [STATS_min / 1.3 : STATS_max * 1.3]
set format x '1e%L'
set yrange [-0.05:1.05]

names = 'unchanged lost'
panels = panels_of(names)
width = width_for(words(panels))
bottom = 370
legend_rows = rows_for(2)
height = bottom + 105 + 20 * legend_rows
heading = 'Updates that rounding to bf16 loses, against the rate'
load scripts.'/page.gp'

title(name) = name eq 'lost' ? 'share of the updates that is lost' : 'share of weights that were to move and did not'
set multiplot
do for [p=1:words(names)] {
    name = word(names, p)
    if (!shows(name)) { continue }
    call scripts.'/panel.gp' name title(name) 'rate'
    plot for [i=1:series_count] data using (of(i, 'rate')):(column(name)) \
             with linespoints lw 1.7 pt mark_of(i) ps 0.8*dot lc rgb tint(i) @named, \
         for [i=1:pointed] data using (of(i, 'rate')):(column(name)):(told(i, 'rate '.name)) @under_pointer
}
unset multiplot
