# The loss of training runs: of held-out tokens where these were evaluated, else the mean of the steps' own. On the left
# against steps, or against tokens where runs take different ones in a step; on the right against the steps' time.
load scripts.'/style.gp'

known = 0
stats data using (count(column('evaluation_loss'))) nooutput
shown = known ? 'evaluation_loss' : 'loss'
# Whether a step takes as many tokens in every run.
least = 1e300
most = 0
per_step(t, s) = s > 0 ? (least = t / s < least ? t / s : least, most = t / s > most ? t / s : most, 1) : 0
stats data using (per_step(column('tokens'), column('step'))) nooutput
along = least == most ? 'step' : 'tokens'

# Runs of a method that draws its chunks get colours that no method has (Tol's muted set).
tint(i) = method[i] eq 'spaco' && rank[i] ? hue(rank[i] - 1) : colour(method[i])

stats data using shown nooutput
low = STATS_min
high = STATS_max
# The first tenth of a run is left out of the picture's height, where that is no large part of the points.
stats data using along nooutput
furthest = STATS_max
few = STATS_records < 12 * series_count
early = 0
note_early(x, y) = x >= furthest * 0.1 && y > early ? (early = y, 1) : 0
stats data using (note_early(column(along), column(shown))) nooutput
ceiling = early > low && !few ? early + 0.1 * (early - low) : high + 0.03 * (high - low)
set yrange [low - 0.03 * (high - low) : ceiling]
cut = high > ceiling ? ', first tenth cut off' : ''

panels = panels_of('steps time')
width = width_for(words(panels))
bottom = 400
legend_rows = rows_for(3)
height = bottom + 105 + 20 * legend_rows
heading = shown eq 'loss' ? 'Loss of training runs' : 'Loss of held-out tokens during training'
load scripts.'/page.gp'

set multiplot
scale = along eq 'tokens' ? 1000.0 : 1
if (shows('steps')) {
call scripts.'/panel.gp' 'steps' ((shown eq 'loss' ? 'loss (nats), mean of a few steps' : 'loss of held-out tokens (nats)').cut) (along eq 'tokens' ? 'thousands of tokens' : 'step')
plot for [i=1:series_count] data using (of(i, along) / scale):(column(shown)) \
         with linespoints lw 1.6*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.5*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, along) / scale):(column(shown)):(told(i, along.' '.shown)) @under_pointer
}
if (shows('time')) {
call scripts.'/panel.gp' 'time' (shows('steps') ? 'the same, against time' : (shown eq 'loss' ? 'loss (nats), mean of a few steps' : 'loss of held-out tokens (nats)').cut) 'time of the steps (s)'
plot for [i=1:series_count] data using (of(i, 'seconds')):(column(shown)) \
         with linespoints lw 1.6*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.5*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'seconds')):(column(shown)):(told(i, 'seconds '.along.' '.shown)) @under_pointer
}
unset multiplot
