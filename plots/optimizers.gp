# Resident bytes of each optimizer, and the peak of a step: a bar for each method in an optimizer's group, the resident
# part in full colour; behind it, as hollow marks, published peaks of whole runs.
load scripts.'/style.gp'
array group[series_count]
array group_name[series_count]
note_group(i) = (group[i] = int(column('group')), group_name[group[i]] = strcol('group_label'), group[i])
stats data using (note_group(int(column('series')))) nooutput
groups = int(STATS_max)
array members[groups]
array place[series_count]
do for [g=1:groups] { members[g] = 0 }
do for [i=1:series_count] { members[group[i]] = members[group[i]] + 1; place[i] = members[group[i]] }
# Pixels from the top: 13 for a bar, 12 between groups, on a slim page with the group's name between.
between = slim ? 30 : 12
left = slim ? 25 : 215
above(g) = g < 2 ? 0 : (sum [k=1:g-1] members[k])
at(i) = 84 + 13 * (above(group[i]) + place[i]) + between * group[i]
middle(g) = 84 + 13 * above(g) + 6.5 * (members[g] + 1) + between * g
known = 0
stats data using (count(column('published'))) nooutput
beside = known
unit = 2.0**30
most = 0
upper(v) = v > most ? (most = v) : 0
stats data using (upper(column('peak')), upper(column('published')), 0) nooutput
method_list = ''
do for [i=1:series_count] { if (method[i] ne 'published' && !strstrt(method_list.' ', ' '.method[i].' ')) { method_list = method_list.' '.method[i] } }

width = width_of(900)
right = width - 100
rigid = 1
bottom = 84 + 13 * series_count + between * groups + 22
legend_across = int((width - 40) / 120)
method_rows = slim ? (words(method_list) + legend_across - 1) / legend_across : 1
height = bottom + 128 + (slim ? 20 * (method_rows + beside) : 0)
heading = 'What optimizers keep, and what a step takes'
load scripts.'/page.gp'
set tmargin at screen down(84)
set lmargin at screen across(left)
set rmargin at screen across(right)
set xrange [0 : most / unit * 1.02]
set yrange [bottom : 84]
unset ytics
set border 1
set label 1 'memory (GiB): resident, and peak of a step' at screen across((left + right) / 2.0),down(bottom + 42) center textcolor rgb ink front
do for [g=1:groups] {
    if (slim) {
        set label 500+g group_name[g] noenhanced at screen across(left),down(middle(g) - 6.5 * members[g] - 9) left font legend_font textcolor rgb ink front
    } else {
        set label 500+g group_name[g] noenhanced at screen across(205),down(middle(g)) right font legend_font textcolor rgb ink front
    }
}
foot = bottom + 70
method_x(m) = 25 + 120 * ((m - 1) % (slim ? legend_across : 100))
method_y(m) = foot + 20 * ((m - 1) / (slim ? legend_across : 100))
do for [m=1:words(method_list)] {
    name = word(method_list, m)
    set object 400+m rectangle from screen across(method_x(m)),down(method_y(m) - 6) to screen across(method_x(m) + 14),down(method_y(m) + 6) fc rgb colour(name) fs solid noborder
    set label 400+m name noenhanced at screen across(method_x(m) + 21),down(method_y(m)) left font legend_font textcolor rgb ink
}
note_x = slim ? 25 : 25 + 120 * words(method_list)
note_y = foot + (slim ? 20 * method_rows : 0)
set label 600 'full colour: resident; pale: the rest of a step' at screen across(note_x),down(note_y) left font legend_font textcolor rgb ink front
if (beside) {
    mark_x = slim ? 31 : 680
    mark_y = note_y + (slim ? 20 : 0)
    set label 601 '' at screen across(mark_x),down(mark_y) point pt 6 ps 0.8*dot lw 1.6 lc rgb '#111111' front
    set label 602 'published, of a whole run' at screen across(mark_x + 12),down(mark_y) left font legend_font textcolor rgb ink front
}
plot for [i=1:series_count] data using (int(column('series')) == i ? column('peak') / unit : NaN):(at(i)):(0):(column('peak') / unit):(at(i) - 5):(at(i) + 5) \
         with boxxyerror fc rgb tint(i) fs transparent solid 0.35 noborder @named, \
     for [i=1:series_count] data using (int(column('series')) == i ? column('resident') / unit : NaN):(at(i)):(0):(column('resident') / unit):(at(i) - 5):(at(i) + 5) \
         with boxxyerror fc rgb tint(i) fs solid noborder @named, \
     for [i=1:series_count] data using (of(i, 'peak') / unit):(at(i)):(sprintf('%.1f, %.1f', column('resident') / unit, column('peak') / unit)) \
         with labels left offset 0.6,0 font small_font textcolor rgb ink @named, \
     for [i=1:series_count] data using (of(i, 'published') / unit):(at(i)) with points pt 6 ps 0.8*dot lw 1.6 lc rgb '#111111' @named, \
     for [i=1:series_count] data using (of(i, 'published') / unit):(at(i)):(sprintf('%.1f, %s', column('published') / unit, label[i])) \
         with labels left offset 1.0,0 font small_font textcolor rgb pale @named
