# The held-out loss of training runs, the mean over their seeds: against steps or, where methods take unequal numbers of
# them, FLOPs; against the steps' time; and at the end of the runs the difference from exact gradients, paired by seed.
load scripts.'/style.gp'

# Whether all runs take as many steps.
least = 1e300
most = 0
array ends[series_count]
do for [i=1:series_count] { ends[i] = 0 }
note_end(i, s) = (ends[i] = larger(ends[i], s), 1)
stats data using (note_end(int(column('series')), column('step'))) nooutput
do for [i=1:series_count] { least = smaller(least, ends[i]); most = larger(most, ends[i]) }
along = least == most ? 'step' : 'flops'

stats data using 'flops' nooutput
tera = STATS_max >= 1e12
unit = along eq 'step' ? 1 : tera ? 1e12 : 1e9

# The exact methods keep their colours; another curve of a method, and one that draws, have others (Tol's muted set).
tint(i) = method[i] eq 'spaco' || rank[i] || method[i] eq 'deferred' ? hue(rank[i] + (method[i] eq 'spaco' ? 0 : method[i] eq 'deferred' ? 2 : 5)) : colour(method[i])
dash(rank) = 1
mark_of(i) = int(word('7 5 9 13 11 4 6 8 12', 1 + (i - 1) % 9))

# The first eighth of a run is left out of the picture's height.
stats data using 'loss' nooutput
low = STATS_min
high = STATS_max
early = 0
note_early(i, s, y) = s >= ends[i] * 0.125 && y > early ? (early = y, 1) : 0
stats data using (note_early(int(column('series')), column('step'), column('loss'))) nooutput
ceiling = early > low ? early + 0.05 * (early - low) : high + 0.03 * (high - low)
cut = high > ceiling ? ', first eighth of the runs cut off' : ''

known = 0
stats data using (count(column('difference'))) nooutput
differences = known
known = 0
stats data using (count(column('seconds'))) nooutput
timed = known
# From one tick to the next, so that some five stand on an axis.
power(x) = 10.0 ** floor(log10(x))
nice(x) = x < 2 * power(x) ? 2 * power(x) : x < 5 * power(x) ? 5 * power(x) : 10 * power(x)
tick_of(x) = nice(x / 6.0)
stats data using (column(along) / unit) nooutput
along_tick = tick_of(STATS_max)
rightmost = 0
leftmost = 0
if (timed) {
    stats data using 'seconds' nooutput
    time_tick = tick_of(STATS_max)
}
# The series that others are compared with has no difference itself.
base = ''
array compared[series_count]
do for [i=1:series_count] { compared[i] = 0 }
note_compared(i, x) = x == x ? (compared[i] = 1) : 0
stats data using (note_compared(int(column('series')), column('difference'))) nooutput
do for [i=1:series_count] { if (!compared[i]) { base = method[i] } }
if (differences) {
    stats data using 'difference_high' nooutput
    rightmost = larger(0, STATS_max)
    stats data using 'difference_low' nooutput
    leftmost = smaller(0, STATS_min)
}
panels = panels_of((along eq 'step' ? 'steps' : 'work').(timed && along ne 'step' ? ' time' : '').(differences ? ' difference' : ''))
width = width_for(words(panels))
bottom = 400
legend_extra = differences && shows('difference') ? 'seeds' : ''
legend_rows = rows_for(2)
height = bottom + 105 + 20 * legend_rows
stats data using 'seeds' nooutput
heading = sprintf('Loss of held-out tokens, mean of %d seeds%s', int(STATS_min), cut)
load scripts.'/page.gp'

set multiplot
set xrange [0 : *]
set yrange [low - 0.03 * (ceiling - low) : ceiling]
if (shows('steps') || shows('work')) {
name = along eq 'step' ? 'steps' : 'work'
set xtics along_tick
call scripts.'/panel.gp' (name) 'loss (nats)' (along eq 'step' ? 'step' : (tera ? 'TFLOPs' : 'GFLOPs').' of all steps')
plot for [i=1:series_count] data using (of(i, along) / unit):(column('loss')) \
         with linespoints lw 1.6*wide_by(i) dt 1 pt mark_of(i) ps 0.5*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, along) / unit):(column('loss')):(told(i, 'step flops loss loss_low loss_high')) @under_pointer
}
if (shows('time')) {
set xtics time_tick
call scripts.'/panel.gp' 'time' (shows('work') ? 'the same, against time' : 'loss (nats)') 'time: steps times that of one (s)'
plot for [i=1:series_count] data using (of(i, 'seconds')):(column('loss')) \
         with linespoints lw 1.6*wide_by(i) dt 1 pt mark_of(i) ps 0.5*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'seconds')):(column('loss')):(told(i, 'seconds step loss')) @under_pointer
}
if (shows('difference')) {
set xrange [leftmost - 0.04 * (rightmost - leftmost) : rightmost + 0.04 * (rightmost - leftmost)]
set xtics tick_of(rightmost - leftmost)
set yrange [series_count + 0.6 : 0.4]
unset ytics
call scripts.'/panel.gp' 'difference' ('last loss, less that of '.base) 'difference by seed (nats)'
set arrow 1 from 0, graph 0 to 0, graph 1 nohead lw 1 dt 2 lc rgb pale back
plot for [i=1:series_count] data using (of(i, 'difference_low')):(i):(column('difference_high') - column('difference_low')):(0) \
         with vectors @whisker lc rgb tint(i) @named, \
     for [i=1:series_count] data using (of(i, 'difference')):(i) with points pt mark_of(i) ps 0.9*dot lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'difference')):(i):(told(i, 'difference difference_low difference_high seeds')) @under_pointer
}
unset multiplot
