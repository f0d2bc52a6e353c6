# What is resident with each optimizer, and what a step takes: a bar for each method in an optimizer's group, the resident
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
# Pixels from the top: 13 for a bar, 12 between groups.
above(g) = g < 2 ? 0 : (sum [k=1:g-1] members[k])
at(i) = 84 + 13 * (above(group[i]) + place[i]) + 12 * group[i]
middle(g) = 84 + 13 * above(g) + 6.5 * (members[g] + 1) + 12 * g
known = 0
stats data using (count(column('published'))) nooutput
beside = known
unit = 2.0**30
most = 0
upper(v) = v > most ? (most = v) : 0
stats data using (upper(column('peak')), upper(column('published')), 0) nooutput
method_list = ''
do for [i=1:series_count] { if (method[i] ne 'published' && !strstrt(method_list.' ', ' '.method[i].' ')) { method_list = method_list.' '.method[i] } }

width = 900
rigid = 1
bottom = 84 + 13 * series_count + 12 * groups + 22
height = bottom + 128
heading = 'What optimizers keep, and what a step takes'
load scripts.'/page.gp'
set tmargin at screen down(84)
set lmargin at screen across(215)
set rmargin at screen across(800)
set xrange [0 : most / unit * 1.02]
set yrange [bottom : 84]
unset ytics
set border 1
set label 1 'memory (GiB): resident, and peak of a step' at screen across(507),down(bottom + 42) center textcolor rgb ink front
do for [g=1:groups] {
    set label 500+g group_name[g] noenhanced at screen across(205),down(middle(g)) right font legend_font textcolor rgb ink front
}
foot = bottom + 70
do for [m=1:words(method_list)] {
    name = word(method_list, m)
    set object 400+m rectangle from screen across(25 + 120 * (m - 1)),down(foot - 6) to screen across(39 + 120 * (m - 1)),down(foot + 6) fc rgb colour(name) fs solid noborder
    set label 400+m name noenhanced at screen across(46 + 120 * (m - 1)),down(foot) left font legend_font textcolor rgb ink
}
set label 600 'full colour: resident; pale: the rest of a step' at screen across(25 + 120 * words(method_list)),down(foot) left font legend_font textcolor rgb ink front
if (beside) {
    set label 601 '' at screen across(680),down(foot) point pt 6 ps 0.8*dot lw 1.6 lc rgb '#111111' front
    set label 602 'published, of a whole run' at screen across(692),down(foot) left font legend_font textcolor rgb ink front
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
