# Time of a step by category: one bar per method, stacked by category, its length the step's time; in a part that has room for
# it its share of the step.
load scripts.'/style.gp'

# The categories in the order of the table's columns, the first one the sixth column.
categories = 'GEMM attention_forward attention_backward attention_glue convolution delta_forward delta_backward norm RoPE SwiGLU routing bias embedding head copy optimizer idle'
shades     = '#0072B2 #009E73 #56B4E9 #F0E442 #117733 #44AA99 #999933 #E69F00 #8C6D1F #D55E00 #AA4499 #661100 #88CCEE #CC79A7 #888888 #332288 #DDDDDD'
light      = ' attention_glue norm embedding attention_backward idle '
shade(c) = toned(word(shades, c))
used = ''
do for [c=1:words(categories)] {
    stats data using (column(word(categories, c))) nooutput
    if (STATS_max > 0) { used = used.sprintf(' %d', c) }
}
part(k) = column(word(categories, int(word(used, k))))
total_to(k) = k < 1 ? 0 : (sum [j=1:k] part(j))
stats data using (total_to(words(used))) nooutput
most = STATS_max
stats data using 'estimated' nooutput
estimated = STATS_max > 0
unit = most >= 20000 ? 1000.0 : 1.0

# Pixels from the left, as far as the longest label wants, and from the top.
left = slim ? 25 : longest < 15 ? 135 : longest > 55 ? 415 : 30 + 7 * longest
pitch = slim ? 46 : 30
at(i) = 65 + pitch * i
width = width_of(900)
right = width - 80
rigid = 1
bottom = 65 + pitch * series_count + 24
legend_across = int((width - 40) / 170)
legend_lines = (words(used) + legend_across - 1) / legend_across
height = bottom + 100 + 20 * legend_lines
heading = estimated ? "Where a step's time would go: an estimate" : "Where a step's time goes"
load scripts.'/page.gp'
set tmargin at screen down(75)
set lmargin at screen across(left)
set rmargin at screen across(right)
set xrange [0 : most / unit]
set yrange [bottom : 75]
unset ytics
set border 1
set label 1 (unit > 1 ? 'time of one step (s)' : 'time of one step (ms)') at screen across((left + right) / 2.0),down(bottom + 42) center textcolor rgb ink front
side = slim ? 'left' : 'right'
do for [i=1:series_count] {
    set label 500+i label[i] noenhanced at screen across(slim ? left : left - 10),down(at(i) - (slim ? 20 : 0)) @side font legend_font textcolor rgb ink front
}
do for [k=1:words(used)] {
    set object 400+k rectangle from screen across(25 + 170 * ((k - 1) % legend_across)),down(bottom + 62 + 20 * ((k - 1) / legend_across)) \
        to screen across(39 + 170 * ((k - 1) % legend_across)),down(bottom + 76 + 20 * ((k - 1) / legend_across)) fc rgb shade(int(word(used, k))) fs solid noborder
    set label 400+k underscored(word(categories, int(word(used, k)))) at screen across(46 + 170 * ((k - 1) % legend_across)),down(bottom + 69 + 20 * ((k - 1) / legend_across)) \
        left font legend_font textcolor rgb ink
}
tone(k) = strstrt(light, ' '.word(categories, int(word(used, k))).' ') ? '#222222' : '#ffffff'
row = 'int(column("series"))'
share(k) = part(k) > 36.0 / (right - left) * most ? sprintf('%.0f %%', 100 * part(k) / total_to(words(used))) : ''
plot for [k=1:words(used)] data using (total_to(k) / unit):(at(@row)):(total_to(k - 1) / unit):(total_to(k) / unit):(at(@row) - 10):(at(@row) + 10) \
         with boxxyerror fc rgb shade(int(word(used, k))) fs solid noborder, \
     for [k=1:words(used)] data using ((total_to(k - 1) + part(k) / 2) / unit):(at(@row)):(share(k)) \
         with labels center font small_font textcolor rgb tone(k), \
     data using (total_to(words(used)) / unit):(at(@row)):(sprintf('%.4g %s', total_to(words(used)) / unit, unit > 1 ? 's' : 'ms')) \
         with labels left offset 0.6,0 font small_font textcolor rgb ink
