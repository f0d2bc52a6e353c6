# Time of one step or sample against context or batch: our estimate beside what a paper measured.
load scripts.'/style.gp'
time = 1
load scripts.'/published.gp'

stats data using (column('ours') / 1000) nooutput
low = STATS_min
high = STATS_max
stats data using (column('published') / 1000) nooutput
low = (STATS_min < low ? STATS_min : low)
high = (STATS_max > high ? STATS_max : high)

set multiplot
if (linear || low <= 0 || high < 4 * low) {
    set yrange [0 : high * 1.08]
} else {
    set logscale y 10
    set yrange [low / 1.3 : high * 1.3]
    set ytics (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
}
do for [p=1:panel_total] {
    set lmargin at screen across(panel_left(p))
    set rmargin at screen across(panel_right(p))
    set tmargin at screen down(panel_top(p))
    set bmargin at screen down(panel_top(p) + tall)
    set label 1 '{/:Bold '.panel_name[p].'}' enhanced at screen across(panel_left(p) - 35),down(panel_top(p) - 35) left font legend_font textcolor rgb '#111111' front
    set label 2 axis_title at screen across((panel_left(p) + panel_right(p)) / 2),down(panel_top(p) + tall + 38) center font small_font textcolor rgb ink front
    set label 3 'time of one '.per.' (s)' at screen across(panel_left(p) - 35),down(panel_top(p) - 14) left font small_font textcolor rgb ink front
    call scripts.'/published-legend.gp' p
    plot for [i=1:series_count] data using (inside(i, p, axis)):(column('ours') / 1000) with linespoints pt 7 ps 0.25*dot lw 2*wide_by(i) dt dash(rank[i]) lc rgb tint(i), \
         for [i=1:pointed] data using (inside(i, p, axis)):(column('ours') / 1000):(told(i, axis.' ours_ms:ours published_ms:published')) @under_pointer, \
         for [i=1:series_count] data using (inside(i, p, axis)):(column('published') / 1000) with points pt shape(i) ps 0.75*dot lw 1.5 lc rgb tint(i), \
         for [i=1:pointed] data using (inside(i, p, axis)):(column('published') / 1000):(told(i, axis.' ours_ms:ours published_ms:published')) @under_pointer
    unset for [l=101:104] label l
    unset for [l=900:907] label l
    unset for [l=900:905] arrow l
}
unset multiplot
