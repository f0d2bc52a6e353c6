# The legend below a panel of published.gp: its series; the mark is the paper's points, the line ours. call 'published-legend.gp' PANEL
unset for [l=200:399] label l
unset for [l=200:399] arrow l
do for [i=1:series_count] {
    if (panel[i] == ARG1) {
        legend_left = panel_left(ARG1) - 35 + (place_in[i] % legend_across) * 0.54 * (room - 20)
        legend_top = panel_top(ARG1) + tall + 60 + 18 * (place_in[i] / legend_across)
        set arrow 200+i from screen across(legend_left),down(legend_top) to screen across(legend_left + 52),down(legend_top) \
            nohead lw 2*wide_by(i) dt dash(rank[i]) lc rgb tint(i) front
        set label 200+i '' at screen across(legend_left + 26),down(legend_top) point pt shape(i) ps 0.75*dot lw 1.5 lc rgb tint(i) front
        set label 300+i label[i] noenhanced at screen across(legend_left + 60),down(legend_top) left font legend_font textcolor rgb ink front
    }
}
