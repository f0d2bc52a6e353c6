# The cost of bf16 accumulators, against the number of chunks that are added up: on the left the error against the f64 reference, on
# the right what the dtype of the sums alone changes. The dotted line is the noise floor: full with sums in f32, in another
# order.
load scripts.'/style.gp'

# A series' rank is its pair of dtypes: nothing, dKV, dW, both in bf16; and dKV, both, rounded stochastically. The pair has
# a colour; with dKV in bf16 lines are dashed and marks hollow, for these curves may lie on those without; dotted and
# dashed where it is rounded stochastically. The method has its mark.
tint(i) = toned(word('#222222 #009E73 #0072B2 #D55E00 #009E73 #D55E00', 1 + rank[i] % 6))
dash(rank) = rank >= 4 ? 4 : rank % 2 ? 2 : 1

stats data using 'chunks' nooutput
set logscale x 2
set xrange [STATS_min / 1.25 : STATS_max * 1.25]
stats data using (tick(column('chunks'))) nooutput
if (ticks_shown(12) ne '') { eval 'set xtics ('.ticks_shown(12).')' }
floor_l2 = 0
stats data using (int(column('rank')) == 0 && column('noise_floor') > floor_l2 ? (floor_l2 = column('noise_floor')) : 0) nooutput

# The same decades in both panels.
small = floor_l2 > 0 ? floor_l2 : 1e300
large = 0
extend(v) = v > 0 ? (small = v < small ? v : small, large = v > large ? v : large) : 0
stats data using (extend(column('relative_l2')), extend(column('sums_relative_l2')), 1) nooutput
set logscale y
set yrange [small / 1.5 : large * 1.5]
steps = ''
do for [power=floor(log10(small))-1:ceil(log10(large))] {
    do for [digit in '1 2 5'] { v = digit * 10.0**power; steps = steps.sprintf('%s"%g" %g', steps eq '' ? '' : ', ', v, v) }
}
eval 'set ytics ('.steps.')'

panels = panels_of('error sums')
width = width_for(words(panels))
bottom = 370
legend_extra = floor_l2 > 0 ? 'floor' : ''
legend_rows = rows_for(2)
height = bottom + 105 + 20 * legend_rows
heading = 'Sums in bf16 against the number of chunks'
load scripts.'/page.gp'

set multiplot
if (floor_l2 > 0) { set label 5 'noise floor' at graph 0.99,first floor_l2 right offset 0,0.5 font small_font textcolor rgb pale front }
if (shows('error')) {
call scripts.'/panel.gp' 'error' 'relative L2 error against f64' 'chunks of the context'
plot for [i=1:series_count] data using (of(i, 'chunks')):(column('relative_l2')) \
         with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'chunks')):(column('relative_l2')):(told(i, 'chunks relative_l2')) @under_pointer, \
     (floor_l2 > 0 ? floor_l2 : NaN) with lines lw 1.2 dt 3 lc rgb pale
}
if (shows('sums')) {
call scripts.'/panel.gp' 'sums' 'relative L2 of what sums in bf16 alone change' 'chunks of the context'
plot for [i=1:series_count] data using (of(i, 'chunks')):(column('sums_relative_l2') > 0 ? column('sums_relative_l2') : NaN) \
         with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'chunks')):(column('sums_relative_l2') > 0 ? column('sums_relative_l2') : NaN):(told(i, 'chunks sums_relative_l2')) @under_pointer, \
     (floor_l2 > 0 ? floor_l2 : NaN) with lines lw 1.2 dt 3 lc rgb pale
}
unset multiplot
