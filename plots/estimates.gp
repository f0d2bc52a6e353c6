# Bias of an estimate's mean, and root mean square error of one estimate, against the mean work of its step. The exact method is
# the cross at work 1.
load scripts.'/style.gp'

stats data using 'work' nooutput
set xrange [0 : (STATS_max > 1 ? STATS_max : 1) + 0.05]

# Samplers get colours that no method has (Tol's muted set).
tint(i) = hue(rank[i])
mark_of(i) = int(word('7 5 9 13 11 4 6 8 12', 1 + rank[i] % 9))
# Solid below dashed: where two lie on each other both are seen.
dash(rank) = 1 + rank % 2

panels = panels_of('bias rms')
width = width_for(words(panels))
bottom = 350
legend_rows = rows_for(3)
height = bottom + 105 + 20 * legend_rows
heading = 'Bias and error of an estimate against its work'
load scripts.'/page.gp'

names = 'bias rms_error'
titles = '"bias, relative to the gradient" "root mean square error, relative"'
set yrange [0 : *]
set multiplot
do for [p=1:2] {
    if (!shows(word('bias rms', p))) { continue }
    call scripts.'/panel.gp' (word('bias rms', p)) word(titles, p) 'FLOPs of a step, relative to seco'
    plot for [i=1:series_count] data using (of(i, 'work')):(column(word(names, p))) \
             with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
         '+' using (1):(0) every ::0::0 with points pt 2 ps 1.2*dot lc rgb ink, \
         for [i=1:pointed] data using (of(i, 'work')):(column(word(names, p))):(told(i, 'work draws '.word(names, p))) @under_pointer
}
unset multiplot
