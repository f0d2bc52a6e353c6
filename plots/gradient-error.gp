# Relative L2 error of the gradient by method and dtype, on a logarithmic axis from left to right, broken where nothing lies;
# an upright bar is the noise floor: full against itself in that dtype, summed in another order. A difference of exactly 0
# stands at the left edge.
load scripts.'/style.gp'

dtypes = ''
dtype_count = 0
see(name) = strstrt(dtypes, '"'.name.'"') ? 0 : (dtypes = dtypes.' "'.name.'"', dtype_count = dtype_count + 1)
stats data using (see(strcol('dtype')), 1) nooutput

# The axis has whole decades; of three or more in a row that have nothing in them it is broken, and left of all stands 0.
power(v) = int(floor(log10(v) + 1e-9))
least = 1000
most = -1000
zeros = 0
extend(v) = v > 0 ? (least = power(v) < least ? power(v) : least, most = power(v) > most ? power(v) : most) : v == 0 ? (zeros = 1) : 0
stats data using (extend(column('relative_l2')), extend(column('noise_floor')), 1) nooutput
if (least > most) { least = -17; most = -16 }
decades = most - least + 1
array taken[decades]
array shown[decades]
array place[decades]
do for [k=1:decades] { taken[k] = k == 1 || k == decades }
occupy(v) = v > 0 ? (taken[power(v) - least + 1] = 1) : 0
stats data using (occupy(column('relative_l2')), occupy(column('noise_floor')), 1) nooutput
last = 0
do for [k=1:decades] {
    if (taken[k]) { do for [j=last+1:k] { shown[j] = j == k || k - last <= 3 }; last = k }
}
# In decades from the left: where each begins, and the middles of what is left out.
gap = 0.35
end = zeros ? gap : 0
breaks = zeros ? sprintf(' %g', gap / 2) : ''
shown_count = 0
do for [k=1:decades] {
    if (!shown[k] && shown[k > 1 ? k - 1 : 1]) { breaks = breaks.sprintf(' %g', end + gap / 2); end = end + gap }
    place[k] = end
    if (shown[k]) { end = end + 1; shown_count = shown_count + 1 }
}
spot(v) = v > 0 ? place[power(v) - least + 1] + log10(v) - power(v) : v == 0 ? 0 : NaN
marks = '7 5 9 13 11 6'
shape(k) = int(word(marks, 1 + (k - 1) % 6))
width = width_of(900)
# The dtypes below the axis, as many side by side as their longest name has room for.
longest_dtype = 0
do for [k=1:dtype_count] { longest_dtype = larger(longest_dtype, strlen(word(dtypes, k))) }
dtype_step = larger(180, 40 + 6.5 * longest_dtype)
beside = larger(1, int((width - 80) / dtype_step))
dtype_x(k) = 60 + dtype_step * ((k - 1) % beside)
dtype_y(k) = bottom + 72 + 20 * ((k - 1) / beside)
rigid = 1
pitch = slim ? 40 : 26
bottom = 100 + pitch * series_count
floor_words = wrapped('noise floor: what full itself changes by in this dtype when it sums in another order', int((width - 95) / 6.5))
height = bottom + 145 + 20 * ((dtype_count - 1) / beside) + 18 * (lines(floor_words) - 1)
heading = 'Gradient error by method and dtype'
load scripts.'/page.gp'
left = slim ? 40 : 60 + 6.6 * (longest > 12 ? longest : 12)
set lmargin at screen across(left)
set rmargin at screen across(width - 30)
set tmargin at screen down(75)

set xrange [0 : end]
set xtics (zeros ? '0' : '' 0)
do for [k=1:decades] {
    step = shown_count > (slim ? 6 : 12) ? (slim ? 1 + shown_count / 6 : 2) : 1
    if (shown[k] && k % step == 0) { set xtics add (sprintf('1e%d', least + k - 1) place[k]) }
    if (shown[k] && (k == decades || !shown[k < decades ? k + 1 : k])) { set xtics add (sprintf('1e%d', least + k) place[k] + 1) }
    if (shown[k] && shown_count < (slim ? 2 : 4)) { do for [digit in '2 5'] { set xtics add (sprintf('%se%d', digit, least + k - 1) place[k] + log10(digit + 0)) } }
}
unset mxtics
# The axis between its breaks.
set border 2
from = 0
do for [k=1:words(breaks) + 1] {
    to = k > words(breaks) ? end : word(breaks, k) - gap / 5
    set arrow 400+k from first from,graph 0 to first to,graph 0 nohead lw 1 lc rgb '#999999' back
    if (k <= words(breaks)) {
        set label 400+k '//' at first word(breaks, k) + 0.0,graph 0 center font small_font textcolor rgb pale front
        from = word(breaks, k) + gap / 5
    }
}
axis_side = slim ? 'left' : 'center'
set label 98 'relative L2 error against the f64 reference'.(words(breaks) > zeros ? (slim ? '; nothing lies at //' : '; nothing lies in what is left out at //') : '') at screen (slim ? across(25) : 0.6),down(bottom + 42) @axis_side textcolor rgb ink
set yrange [series_count + 0.6 : 0.4]
unset ytics
do for [i=1:series_count] {
    if (slim) {
        set label i label[i] noenhanced at graph 0, first i - 0.4 left font legend_font textcolor rgb ink front
        continue
    }
    set label i label[i] noenhanced at graph 0, first i right offset -1.2,0 font legend_font textcolor rgb ink
}

do for [k=1:dtype_count] {
    set label 200+k '' at screen across(dtype_x(k)),down(dtype_y(k)) point pt shape(k) ps 1.1*dot lw 1.8 lc rgb pale
    set label 300+k word(dtypes, k) noenhanced at screen across(dtype_x(k) + 15),down(dtype_y(k)) left font legend_font textcolor rgb ink
}
set arrow 299 from screen across(60),down(dtype_y(dtype_count) + 11) to screen across(60),down(dtype_y(dtype_count) + 29) \
    nohead lw 1.5 lc rgb pale
set label 399 floor_words at screen across(75),down(dtype_y(dtype_count) + 20) left font legend_font textcolor rgb ink

plot for [k=1:dtype_count] data using (strcol('dtype') eq word(dtypes, k) ? spot(column('noise_floor')) : NaN):(column('series') - (slim ? 0.2 : 0.36)):(0):(slim ? 0.4 : 0.72) \
         with vectors nohead lw 1.5 lc rgb pale, \
     for [i=1:series_count] for [k=1:dtype_count] data \
         using (int(column('series')) == i && strcol('dtype') eq word(dtypes, k) ? spot(column('relative_l2')) : NaN):(column('series')) \
         with points pt shape(k) ps 1.1*dot lw 1.8 lc rgb tint(i) @named, \
     for [i=1:pointed] data using (int(column('series')) == i ? spot(column('relative_l2')) : NaN):(column('series')):(told(i, 'relative_l2 noise_floor')) @under_pointer
