# Relative L2 error of the gradient by method and dtype, on a logarithmic axis from left to right; an upright bar is the
# noise floor: full against itself in that dtype, summed in another order. A difference of exactly 0 stands at the left edge.
load scripts.'/style.gp'

dtypes = ''
dtype_count = 0
see(name) = strstrt(dtypes, '"'.name.'"') ? 0 : (dtypes = dtypes.' "'.name.'"', dtype_count = dtype_count + 1)
stats data using (see(strcol('dtype')), 1) nooutput

# The ends of the axis: whole powers of ten around everything above 0.
small = 1e300
large = 0
extend(v) = v > 0 ? (small = v < small ? v : small, large = v > large ? v : large) : 0
stats data using (extend(column('relative_l2')), extend(column('noise_floor')), 1) nooutput
if (large == 0) { small = 1e-17; large = 1e-15 }
high_end = 10.0**ceil(log10(large) + 0.1)
zeros = 0
stats data using (column('relative_l2') == 0 ? (zeros = zeros + 1) : 0) nooutput
low_end = 10.0**(floor(log10(small / 1.1)) - (zeros > 0))

spot(v) = v > 0 ? v : v == 0 ? low_end : NaN
marks = '7 5 9 13 11 6'
shape(k) = int(word(marks, 1 + (k - 1) % 6))
width = 900
# The dtypes below the axis, as many side by side as their longest name has room for.
longest_dtype = 0
do for [k=1:dtype_count] { longest_dtype = larger(longest_dtype, strlen(word(dtypes, k))) }
dtype_step = larger(180, 40 + 6.5 * longest_dtype)
beside = larger(1, int(820 / dtype_step))
dtype_x(k) = 60 + dtype_step * ((k - 1) % beside)
dtype_y(k) = bottom + 72 + 20 * ((k - 1) / beside)
rigid = 1
bottom = 100 + 26 * series_count
height = bottom + 145 + 20 * ((dtype_count - 1) / beside)
heading = 'Gradient error by method and dtype'
load scripts.'/page.gp'
set lmargin at screen across(60 + 6.6 * (longest > 12 ? longest : 12))
set rmargin at screen across(870)
set tmargin at screen down(75)

set logscale x
set xrange [low_end : high_end]
decades = log10(high_end / low_end)
ends = decades > 12 ? 100.0 : 10.0
set xtics low_end * (zeros ? ends : 1), ends, high_end
if (zeros) { set xtics add ('0' low_end) }
if (decades < 3) {
    do for [power=floor(log10(low_end) + 0.5):floor(log10(high_end) + 0.5)-1] {
        do for [digit in '2 5'] { set xtics add (sprintf('%se%d', digit, power) digit * 10.0**power) }
    }
}
unset mxtics
set format x '1e%T'
set label 98 'relative L2 error against the f64 reference' at screen 0.6,down(bottom + 42) center textcolor rgb ink
set yrange [series_count + 0.6 : 0.4]
unset ytics
do for [i=1:series_count] {
    set label i label[i] noenhanced at graph 0, first i right offset -1.2,0 font legend_font textcolor rgb ink
}

do for [k=1:dtype_count] {
    set label 200+k '' at screen across(dtype_x(k)),down(dtype_y(k)) point pt shape(k) ps 1.1*dot lw 1.8 lc rgb pale
    set label 300+k word(dtypes, k) noenhanced at screen across(dtype_x(k) + 15),down(dtype_y(k)) left font legend_font textcolor rgb ink
}
set arrow 299 from screen across(60),down(dtype_y(dtype_count) + 11) to screen across(60),down(dtype_y(dtype_count) + 29) \
    nohead lw 1.5 lc rgb pale
set label 399 'noise floor: what full itself changes by in this dtype when it sums in another order' at screen across(75),down(dtype_y(dtype_count) + 20) left font legend_font textcolor rgb ink

plot for [k=1:dtype_count] data using (strcol('dtype') eq word(dtypes, k) ? spot(column('noise_floor')) : NaN):(column('series') - 0.36):(0):(0.72) \
         with vectors nohead lw 1.5 lc rgb pale, \
     for [i=1:series_count] for [k=1:dtype_count] data \
         using (int(column('series')) == i && strcol('dtype') eq word(dtypes, k) ? spot(column('relative_l2')) : NaN):(column('series')) \
         with points pt shape(k) ps 1.1*dot lw 1.8 lc rgb tint(i) @named, \
     for [i=1:pointed] data using (int(column('series')) == i ? spot(column('relative_l2')) : NaN):(column('series')):(told(i, 'relative_l2 noise_floor')) @under_pointer
