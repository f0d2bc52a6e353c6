# Savings by a prompt that is computed once, against the number of sequences that share it: FLOPs, peak memory and time of a
# step, each over that of the same sequences with their own copies of it.
load scripts.'/style.gp'

stats data using 'group' nooutput
set logscale x 2
set xrange [STATS_min / 1.25 : STATS_max * 1.25]
stats data using (tick(column('group'))) nooutput
if (ticks_shown(12) ne '') { eval 'set xtics ('.ticks_shown(12).')' }
set yrange [0 : *]

panels = panels_of('flops memory time')
width = width_for(words(panels))
bottom = 370
known = 0
stats data using (count(column('time_ratio_low'))) nooutput
legend_extra = known ? 'rounds' : ''
legend_rows = rows_for(2)
height = bottom + 105 + 20 * legend_rows
heading = 'A shared prompt computed once, over a copy in each sequence'
load scripts.'/page.gp'

set multiplot
spaced(text) = strstrt(text, '_') ? spaced(underscored(text)) : text
panel_names = 'flops_ratio peak_ratio time_ratio'
panel_titles = 'FLOPs peak_memory time_of_one_step'
do for [p=0:2] {
    if (!shows(word('flops memory time', p + 1))) { continue }
    call scripts.'/panel.gp' (word('flops memory time', p + 1)) (spaced(word(panel_titles, p + 1)).', ratio') 'sequences of a group'
    plot for [i=1:series_count] data using (p == 2 ? of(i, 'group') : NaN):(column('time_ratio_low')):(0):(column('time_ratio_high') - column('time_ratio_low')) \
         with vectors @whisker lc rgb tint(i) @named, \
         for [i=1:series_count] data using (of(i, 'group')):(column(word(panel_names, p + 1))) \
         with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
         for [i=1:pointed] data using (of(i, 'group')):(column(word(panel_names, p + 1))):(told(i, 'group '.word(panel_names, p + 1))) @under_pointer
}
unset multiplot
