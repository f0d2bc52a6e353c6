# Peak memory against context or batch, ours beside what a paper published.
load scripts.'/style.gp'
time = 0
unit = 2.0**30
load scripts.'/published.gp'

set multiplot
do for [p=1:panel_total] {
    set lmargin at screen across(panel_left(p))
    set rmargin at screen across(panel_right(p))
    set tmargin at screen down(panel_top(p))
    set bmargin at screen down(panel_top(p) + tall)
    set label 1 '{/:Bold '.panel_name[p].'}' enhanced at screen across(panel_left(p) - 35),down(panel_top(p) - 35) left font legend_font textcolor rgb '#111111' front
    set label 2 axis_title at screen across((panel_left(p) + panel_right(p)) / 2),down(panel_top(p) + tall + 38) center font small_font textcolor rgb ink front
    set label 3 'peak memory (GiB)' at screen across(panel_left(p) - 35),down(panel_top(p) - 14) left font small_font textcolor rgb ink front
    # One model's panels share an axis; other models have their own.
    set yrange [*:*]
    stats data using (several ? (int(column('panel')) == p ? column('ours') : NaN) : column('ours')) nooutput
    low = STATS_min / unit
    high = limit > 0 ? limit / unit : STATS_max / unit
    set yrange [low - 0.04 * (high - low) : high + 0.14 * (high - low)]
    level(i) = high + (high - low) * (0.04 + 0.10 * (sum [k=1:i] (panel[k] == p)) / (1.0 + sum [k=1:series_count] (panel[k] == p)))
    call scripts.'/published-legend.gp' p
    plot for [i=1:series_count] data using (inside(i, p, axis)):(column('ours') / unit) with linespoints pt 7 ps 0.25*dot lw 2*wide_by(i) dt dash(rank[i]) lc rgb tint(i), \
         for [i=1:pointed] data using (inside(i, p, axis)):(column('ours') / unit):(told(i, axis.' ours_bytes:ours published_bytes:published')) @under_pointer, \
         for [i=1:series_count] data using (inside(i, p, axis)):(column('published') / unit) with points pt shape(i) ps 0.75*dot lw 1.5 lc rgb tint(i), \
         for [i=1:pointed] data using (inside(i, p, axis)):(column('published') / unit):(told(i, axis.' ours_bytes:ours published_bytes:published')) @under_pointer, \
         for [i=1:series_count] data using (column('oom') == 1 ? inside(i, p, axis) : NaN):(level(i)) with points pt 2 ps 0.9*dot lw 2 lc rgb tint(i), \
         limit > 0 ? limit / unit : NaN with lines lw 1.2 dt 2 lc rgb pale
    unset for [l=101:104] label l
    unset for [l=900:907] label l
    unset for [l=900:905] arrow l
}
unset multiplot
