# Metrics of the objectives of training runs, against steps: of held-out sequences where these were evaluated, else means
# of a few steps. A panel for each metric that a run has.
load scripts.'/style.gp'

names = ''
do for [name in 'margin accuracy clip_low clip_high kl entropy z_loss'] {
    known = 0
    stats data using (count(column(name))) nooutput
    if (known) { names = names.(names eq '' ? '' : ' ').name }
}
title(name) = name eq 'margin' ? 'reward margin of the pairs (nats)' : \
              name eq 'accuracy' ? 'share of pairs with a margin above 0' : \
              name eq 'clip_low' ? 'share of ratios below the bound' : \
              name eq 'clip_high' ? 'share of ratios above the bound' : \
              name eq 'kl' ? 'divergence k3 (nats per token)' : \
              name eq 'entropy' ? 'entropy (nats per token)' : 'logsumexp^2 (mean of tokens)'
tint(i) = method[i] eq 'spaco' && rank[i] ? hue(rank[i] - 1) : colour(method[i])

panels = panels_of(names)
width = width_for(words(panels))
bottom = 370
legend_rows = rows_for(3)
height = bottom + 105 + 20 * legend_rows
heading = 'What training by preferences and advantages changes'
load scripts.'/page.gp'

set multiplot
do for [p=1:words(names)] {
    name = word(names, p)
    if (!shows(name)) { continue }
    if (name eq 'accuracy') { set yrange [-0.05:1.05] } else { set yrange [*:*] }
    call scripts.'/panel.gp' name title(name) 'step'
    plot for [i=1:series_count] data using (of(i, 'step')):(column(name)) \
             with linespoints lw 1.6*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.5*dot*wide_by(i) lc rgb tint(i) @named, \
         for [i=1:pointed] data using (of(i, 'step')):(column(name)):(told(i, 'step '.name)) @under_pointer
}
unset multiplot
