# Live memory over one step, stacked by category: one panel per method, all on the same axes, so that heights and lengths
# compare.
load scripts.'/style.gp'

# Categories that hold something, by their column in the table.
categories = 'weights gradients optimizer data hidden_checkpoints kv_cache kv_gradients activations logits workspace host'
shades     = '#BBBBBB #888888 #666666 #DDDDDD #E69F00 #0072B2 #56B4E9 #009E73 #D55E00 #CC79A7 #222222'
shade(c) = toned(word(shades, c))
used = ''
do for [c=1:words(categories)] {
    stats data using (column(word(categories, c))) nooutput
    if (STATS_max > 0) { used = used.sprintf(' %d', c) }
}
total_to(c) = sum [k=1:c] column(word(categories, int(word(used, k))))
stats data using (total_to(words(used))) nooutput
unit_name = memory_unit(STATS_max)
unit = memory_unit_bytes(STATS_max)
highest = STATS_max / unit

known = 0
stats data using (count(column('ms'))) nooutput
timed = known > 0
stats data using (column(timed ? 'ms' : 'flops')) nooutput
longest_step = STATS_max
axis_unit = timed ? (longest_step > 20000 ? 1000.0 : 1.0) : (longest_step > 2e12 ? 1e12 : 1e9)
axis_name = timed ? (longest_step > 20000 ? 'time (s)' : 'time (ms)') : (longest_step > 2e12 ? 'work (TFLOP)' : 'work (GFLOP)')

array peak[series_count]
do for [i=1:series_count] {
    stats data using (int(column('series')) == i ? total_to(words(used)) : NaN) nooutput
    peak[i] = STATS_max / unit
}

width = width_of(900)
rigid = 1
panel = 110
bottom = 80 + panel * series_count
legend_across = int((width - 40) / 170)
legend_lines = (words(used) + legend_across - 1) / legend_across
height = bottom + 100 + 20 * legend_lines
heading = 'Live memory over one step'
load scripts.'/page.gp'
set lmargin at screen across(70)
set rmargin at screen across(width - 20)
set label 1 'memory ('.unit_name.')' at screen across(25),down(75) left textcolor rgb ink
set xrange [0 : longest_step / axis_unit * 1.01]
set yrange [0 : highest * 1.15]
# About three ticks: 1, 2 or 5 times a power of ten.
power = 10.0**floor(log10(highest / 3))
third = highest / 3 / power
set ytics power * (third < 1.5 ? 1 : third < 3.5 ? 2 : third < 7 ? 5 : 10)
do for [k=1:words(used)] {
    set object 400+k rectangle from screen across(25 + 170 * ((k - 1) % legend_across)),down(bottom + 56 + 20 * ((k - 1) / legend_across)) \
        to screen across(39 + 170 * ((k - 1) % legend_across)),down(bottom + 70 + 20 * ((k - 1) / legend_across)) fc rgb shade(int(word(used, k))) fs solid noborder
    set label 400+k underscored(word(categories, int(word(used, k)))) at screen across(46 + 170 * ((k - 1) % legend_across)),down(bottom + 63 + 20 * ((k - 1) / legend_across)) \
        left font legend_font textcolor rgb ink
}

set multiplot
do for [i=1:series_count] {
    set tmargin at screen down(90 + panel * (i - 1))
    set bmargin at screen down(90 + panel * i - 22)
    set label 2 label[i] noenhanced at screen across(80),down(90 + panel * (i - 1) + 11) left font legend_font textcolor rgb '#111111' front
    set label 3 sprintf('peak %.4g %s', peak[i], unit_name) at screen across(width - 20),down(90 + panel * (i - 1) + 11) right font small_font textcolor rgb pale front
    if (i == series_count) { set label 4 axis_name at screen across(width / 2.0 + 25),down(bottom + 30) center textcolor rgb ink }
    set format x (i == series_count ? '%g' : '')
    plot for [k=words(used):1:-1] data using (of(i, timed ? 'ms' : 'flops') / axis_unit):(total_to(k) / unit) with filledcurves y=0 \
        fc rgb shade(int(word(used, k))) fs solid noborder
    unset for [l=400:420] label l
    unset for [l=101:104] label l
    unset label 1
}
unset multiplot
