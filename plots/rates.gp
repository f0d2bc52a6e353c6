# The loss that training ends at against the rate: of held-out tokens on the left, where these were evaluated, and the mean
# of the last quarter of the steps' own on the right.
load scripts.'/style.gp'

tints = '#CC79A7 #332288 #88CCEE #AA4499 #117733 #DDAA33 #882255 #999933 #661100'
tint(i) = method[i] eq 'spaco' ? word(tints, 1 + rank[i] % 9) : colour(method[i])

known = 0
stats data using (count(column('evaluation_loss'))) nooutput
names = known ? 'evaluation_loss loss' : 'loss'
stats data using 'rate' nooutput
set logscale x
set xrange [STATS_min / 1.3 : STATS_max * 1.3]
set format x '%g'

width = 900
bottom = 370
legend_rows = rows_for(3)
height = bottom + 105 + 20 * legend_rows
heading = 'The loss that training ends at, against the rate'
load scripts.'/page.gp'

set multiplot
do for [p=1:words(names)] {
    if (p > 1) { unset for [l=101:104] label l }
    if (p == words(names)) { call scripts.'/legend.gp' 25 (bottom + 68) }
    call scripts.'/panel.gp' (70 + (p - 1) * 450) (435 + (p - 1) * 450) (word(names, p) eq 'loss' ? 'mean loss of the last quarter of the steps' : 'loss of held-out tokens, at the end') 'rate'
    plot for [i=1:series_count] data using (of(i, 'rate')):(column(word(names, p))) \
             with linespoints lw 1.7 dt dash(rank[i]) pt mark_of(i) ps 0.8*dot lc rgb tint(i)
}
unset multiplot
