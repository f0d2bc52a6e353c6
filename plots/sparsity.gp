# Cost and gain of a budget of chunks, at one context: mean time over draws against the mean time of a backward pass over
# all chunks, bias of the estimate's expectation, and root mean square error of one estimate. A panel without records is left
# out.
load scripts.'/style.gp'

stats data using (tick(column('budget')), column('budget')) nooutput
stats data using 'budget' nooutput
set xrange [STATS_min - 0.3 : STATS_max + 0.3]
if (STATS_max < 12) { eval 'set xtics ('.ticks.')' }
stats data using 'chunks' nooutput
chunks_min = int(STATS_min)
chunks_max = int(STATS_max)
budget_axis = 'budget (chunks'.(chunks_min == chunks_max ? sprintf(' of %d)', chunks_max) : ')')

# All series are of one method here, so the samplers and compensations get colours that no method has (Tol's muted set).
tint(i) = hue(rank[i])
mark_of(i) = int(word('7 5 9 13 11 4 6 8 12', 1 + rank[i] % 9))
# Solid below dashed: where two lie on each other both are seen.
dash(rank) = 1 + rank % 2

titles = '"time, relative to seco" "bias, relative to the gradient" "root mean square error, relative"'
names = 'time_ratio bias rms_error'
shown = ''
do for [p=1:3] {
    known = 0
    stats data using (count(column(word(names, p)))) nooutput
    if (known) { shown = shown.sprintf(' %d', p) }
}

panel_name(p) = word('time bias rms', int(p))
all_panels = ''
do for [k=1:words(shown)] { all_panels = all_panels.' '.panel_name(word(shown, k)) }
panels = panels_of(all_panels)
width = width_for(words(panels))
bottom = 350
known = 0
stats data using (count(column('time_ratio'))) nooutput
stats data using 'rounds' nooutput
legend_extra = known ? (STATS_max > 1 ? 'rounds' : 'errors') : ''
legend_rows = rows_for(3)
height = bottom + 105 + 20 * legend_rows
heading = 'What a budget of chunks costs and buys'
load scripts.'/page.gp'

set yrange [0 : *]
set multiplot
do for [q=1:words(shown)] {
    p = int(word(shown, q))
    if (!shows(panel_name(p))) { continue }
    call scripts.'/panel.gp' (panel_name(p)) word(titles, p) budget_axis
    if (p == 1) {
        plot 1 with lines lw 1 dt 2 lc rgb pale, \
             for [i=1:series_count] data using (of(i, 'budget')):'time_ratio_low':(0):(column('time_ratio_high') - column('time_ratio_low')) \
                 with vectors @whisker lc rgb tint(i) @named, \
             for [i=1:series_count] data using (of(i, 'budget')):'time_ratio' \
                 with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
             for [i=1:pointed] data using (of(i, 'budget')):(column('time_ratio')):(told(i, 'budget columns time_ratio')) @under_pointer
    } else {
        plot for [i=1:series_count] data using (of(i, 'budget')):(column(word(names, p))) \
                 with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
             for [i=1:pointed] data using (of(i, 'budget')):(column(word(names, p))):(told(i, 'budget chunks '.word(names, p))) @under_pointer
    }
}
unset multiplot
