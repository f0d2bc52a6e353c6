# The loss that training ends at against the rate: of held-out tokens, where these were evaluated, else the mean of the last
# quarter of the steps' own; beside it what is published, else that mean.
load scripts.'/style.gp'

tint(i) = method[i] eq 'spaco' && rank[i] ? hue(rank[i] - 1) : colour(method[i])

names = ''
do for [name in 'evaluation_loss loss published'] {
    known = 0
    stats data using (count(column(name))) nooutput
    if (known) { names = names.' '.name }
}
if (words(names) == 3) { names = 'evaluation_loss published' }
stats data using 'rate' nooutput
set logscale x
set xrange [STATS_min / 1.3 : STATS_max * 1.3]
set format x '%g'
title(name) = name eq 'loss' ? 'mean loss of the last quarter of the steps (nats)' : \
              name eq 'published' ? 'published: mean loss of the last steps (nats)' : 'loss of held-out tokens, at the end (nats)'

panels = panels_of(names)
width = width_for(words(panels))
bottom = 370
legend_rows = rows_for(3)
height = bottom + 105 + 20 * legend_rows
heading = 'The loss that training ends at, against the rate'
load scripts.'/page.gp'

set multiplot
do for [p=1:words(names)] {
    name = word(names, p)
    if (!shows(name)) { continue }
    # Diverged runs are left out of the panel's height.
    set yrange [*:*]
    stats data using name nooutput
    set yrange [STATS_min - 0.05 * (STATS_up_quartile - STATS_min) : STATS_max > 2 * STATS_up_quartile ? STATS_up_quartile * 1.25 : STATS_max + 0.05 * (STATS_up_quartile - STATS_min)]
    call scripts.'/panel.gp' name title(name) 'rate'
    plot for [i=1:series_count] data using (of(i, 'rate')):(column(name)) \
             with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
         for [i=1:pointed] data using (of(i, 'rate')):(column(name)):(told(i, 'rate '.name)) @under_pointer
}
unset multiplot
