# A step against the ranks that share it, over several interconnects: its time, the share of it that the busiest rank
# waits, and what the one that sends the most sends. Planned: the times are estimates.
load scripts.'/style.gp'

stats data using 'ranks' nooutput
set logscale x 2
set xrange [STATS_min / 1.25 : STATS_max * 1.25]
stats data using (tick(column('ranks'))) nooutput
if (ticks_shown(12) ne '') { eval 'set xtics ('.ticks_shown(12).')' }

# A colour for each interconnect; dashed and hollow what shares the weights out over the same.
array kinds[series_count]
note_interconnect(i) = (kinds[i] = int(column('kind')), i)
stats data using (note_interconnect(int(column('series')))) nooutput
tint(i) = hue(kinds[i] - 1)
stats data using 'time_s' nooutput
fastest = STATS_min
slowest = STATS_max

panels = panels_of('time idle sent')
width = width_for(words(panels))
bottom = 370
legend_rows = rows_for(2)
height = bottom + 105 + 20 * legend_rows
heading = 'A step over several ranks, estimated, by the interconnect between them'
load scripts.'/page.gp'

set multiplot
spaced(text) = strstrt(text, '_') ? spaced(underscored(text)) : text
panel_names = 'time_s idle_percent sent_GB'
panel_titles = 'time_of_one_step,_s the_busiest_waits,_% sent_by_a_rank,_GB'
do for [p=0:2] {
    if (!shows(word('time idle sent', p + 1))) { continue }
    if (p == 0) { load scripts.'/decades.gp' } else { unset logscale y; set ytics autofreq; set yrange [0 : *] }
    call scripts.'/panel.gp' (word('time idle sent', p + 1)) (spaced(word(panel_titles, p + 1))) 'ranks'
    plot for [i=1:series_count] data using (of(i, 'ranks')):(column(word(panel_names, p + 1))) \
         with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
         for [i=1:pointed] data using (of(i, 'ranks')):(column(word(panel_names, p + 1))):(told(i, 'ranks '.word(panel_names, p + 1))) @under_pointer
}
unset multiplot
