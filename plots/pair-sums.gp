# How far the difference D of a pair's log-probs is off by the dtype in which its sums are kept, against the context. Dotted:
# the size of D itself.
load scripts.'/style.gp'
load scripts.'/context.gp'

tints = '#D55E00 #E69F00 #0072B2 #222222'
tint(i) = toned(word(tints, 1 + rank[i]))
mark_of(i) = int(word('7 5 9 13', 1 + rank[i]))
dash(rank) = 1

small = 1e300
large = 0
extend(v) = v > 0 ? (small = v < small ? v : small, large = v > large ? v : large) : 0
stats data using (extend(column('error')), extend(column('difference')), 1) nooutput
set logscale y
set yrange [small / 2 : large * 2]
set format y '1e%L'

width = width_for(1)
bottom = 400
legend_rows = rows_for(2)
height = bottom + 105 + 20 * legend_rows
heading = 'Error of a pair''s difference of log-probs, by the dtype of its sums'
load scripts.'/page.gp'

call scripts.'/panel.gp' 'all' '|error of D| (nats), mean over the pairs' 'tokens of a sequence'
known = 0
first_difference = 0
stats data using (known == 0 ? (known = 1, first_difference = column('difference')) : 0) nooutput
set label 5 'D itself' at graph 0.005,first first_difference * 0.55 textcolor rgb pale font small_font
plot for [i=1:series_count] data using (of(i, 'context')):(column('error') > 0 ? column('error') : NaN) \
         with linespoints lw 1.7 pt mark_of(i) ps 0.8*dot lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'context')):(column('error') > 0 ? column('error') : NaN):(told(i, 'context error difference')) @under_pointer, \
     data using (of(1, 'context')):(column('difference')) with lines lw 1.2 dt 3 lc rgb pale
