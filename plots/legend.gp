# The legend: one entry per series, then those named in legend_extra (limit cross least break-even bound floor whiskers errors rounds seeds range tenth quarter). It is made of labels and
# arrows, for gnuplot holds a key to the width of one panel. (The svg terminal joins arrows of one colour and width to one
# path with one kind of dashes: no two have one width.) Its lines are as long as a whole period of every kind of dashes. call 'legend.gp' LEFT TOP, in pixels: panel.gp does.
legend_x(e) = ARG1 + (e / legend_down) * legend_step
legend_y(e) = ARG2 + (e % legend_down) * legend_pitch
do for [e=0:legend_entries-1] {
    if (e < series_count) {
        set arrow 200+e from screen across(legend_x(e)),down(legend_y(e)) to screen across(legend_x(e) + 52),down(legend_y(e)) \
            nohead lw 1.8*wide_by(e + 1) dt dash(rank[e+1]) lc rgb tint(e + 1) front
        if (!lined(e + 1)) {
            set label 200+e '' at screen across(legend_x(e) + 26),down(legend_y(e)) \
                point pt mark_of(e + 1) ps 0.9*dot*wide_by(e + 1) lw 1.8 lc rgb tint(e + 1) front
        }
    } else {
        extra = word(legend_extra, e - series_count + 1)
        if (extra eq 'cross') {
            set label 200+e '' at screen across(legend_x(e) + 26),down(legend_y(e)) point pt 2 ps 0.9*dot lw 2 lc rgb pale front
        }
        if (extra eq 'least') {
            set label 200+e '' at screen across(legend_x(e) + 26),down(legend_y(e)) point pt 6 ps 2.2*dot lw 1.4 lc rgb pale front
        }
        if (extra eq 'whiskers' || extra eq 'errors' || extra eq 'rounds' || extra eq 'seeds' || extra eq 'range') {
            set arrow 200+e from screen across(legend_x(e) + 26),down(legend_y(e) - 7) to screen across(legend_x(e) + 26),down(legend_y(e) + 7) \
                @whisker lc rgb pale front
        }
        if (extra eq 'break-even') {
            set arrow 200+e from screen across(legend_x(e) + 26),down(legend_y(e) - 9) to screen across(legend_x(e) + 26),down(legend_y(e) + 9) \
                nohead lw 1.3 dt 3 lc rgb pale front
        }
        if (extra eq 'limit' || extra eq 'tenth') {
            set arrow 200+e from screen across(legend_x(e)),down(legend_y(e)) to screen across(legend_x(e) + 52),down(legend_y(e)) \
                nohead lw 1.2 dt 2 lc rgb pale front
        }
        if (extra eq 'floor') {
            set arrow 200+e from screen across(legend_x(e)),down(legend_y(e)) to screen across(legend_x(e) + 52),down(legend_y(e)) \
                nohead lw 1.2 dt 3 lc rgb pale front
        }
        if (extra eq 'bound' || extra eq 'quarter') {
            set arrow 200+e from screen across(legend_x(e)),down(legend_y(e)) to screen across(legend_x(e) + 52),down(legend_y(e)) \
                nohead lw 1 dt 3 lc rgb pale front
        }
    }
    set label 300+e legend_words(e + 1) noenhanced at screen across(legend_x(e) + 62),down(legend_y(e)) left font legend_font textcolor rgb ink front
}
