# The most that fits, a column named by `extent`, of each method on each card: a dot per method, for on a logarithmic axis a
# bar's length would mean nothing, with the number beside it; a hollow mark is what others report, in a method's row for the
# same setting, in a row of its own with what sets it apart. Loaded by max-context.gp and max-batch.gp, which set heading and
# axis, too.
array group[series_count]
array group_name[series_count]
note_group(i) = (group[i] = int(column('group')), group_name[group[i]] = strcol('group_label'), group[i])
stats data using (note_group(int(column('series')))) nooutput
groups = int(STATS_max)

# Pixels from the top: 18 for a row, 34 for a group's name, on a slim page more, where names have lines of their own.
pitch = slim ? 32 : 18
group_pitch = slim ? 56 : 34
at(i) = 76 - 18 + (slim ? 8 : 0) + pitch * i + group_pitch * group[i]
known = 0
stats data using (count(column('published'))) nooutput
beside = known
most = 0
least = 1e300
upper(v) = v > most ? (most = v) : 0
lower(v) = v > 0 && v < least ? (least = v) : 0
stats data using (upper(column(extent)), upper(column('published')), lower(column(extent)), lower(column('published')), 0) nooutput
# Within a decade the axis is linear, from 0. Nothing fits: to 1.
most = larger(most, 1)
least = least < most ? least : most
decades = most > 10 * least
low_end = decades ? least / 1.6 : 0
high_end = most * (decades ? 1.5 : 1.15)

# Pixels from the left, as far as the longest label wants; on a slim page labels stand above their row.
left = slim ? 25 : 30 + 6.9 * larger(longest, 46)
width = width_of(890 + left)
right = width - (slim ? 110 : 170)
rigid = 1
bottom = 58 + pitch * series_count + group_pitch * groups + (slim ? 30 : 16)
array group_words[groups]
do for [g=1:groups] { group_words[g] = wrapped(group_name[g], int((width - 40) / 6.1)) }
height = bottom + (beside ? 120 : 95)
load scripts.'/page.gp'
# Another framework's is grey.
tint(i) = method[i] eq 'auto' ? toned('#A9D4EF') : strstrt(label[i], ', transformers ') > 0 ? toned('#888888') : colour(method[i])
set tmargin at screen down(80)
set lmargin at screen across(left)
set rmargin at screen across(right)
thousands(v) = v >= 1e6 ? sprintf('%d,%03d,%03d', int(v / 1e6), int(v / 1000) % 1000, int(v) % 1000) : v >= 1000 ? sprintf('%d,%03d', int(v / 1000), int(v) % 1000) : sprintf('%d', int(v))
if (decades) { set logscale x 10 }
set xrange [low_end : high_end]
step = larger(10 ** floor(log10(most)), 1)
step = most / step < 2 && step > 1 ? step / 5 : most / step < 5 && step > 1 ? step / 2 : step
tick_at(v) = sprintf("'%s' %.17g", thousands(v), v)
# Few decades have 2 and 5 times a power of ten, too.
within = most / least < 300 ? '1 2 5' : '1'
eval 'set xtics ('.tick_at(decades ? 1 : 0).')'
if (decades) {
    do for [k=0:9] { do for [m in within] { eval 'set xtics add ('.tick_at(m * 10.0 ** k).')' } }
} else {
    do for [k=1:int(high_end / step)] { eval 'set xtics add ('.tick_at(k * step).')' }
}
set yrange [bottom : 80]
unset ytics
set border 1
set label 1 axis at screen across((left + right) / 2.0),down(bottom + 42) center textcolor rgb ink front
side = slim ? 'left' : 'right'
do for [i=1:series_count] {
    set label 500+i label[i] noenhanced at screen across(slim ? left : left - 10),down(at(i) - (slim ? 14 : 0)) @side font legend_font textcolor rgb (method[i] eq 'published' ? pale : ink) front
}
do for [g=1:groups] {
    first_row = 0
    do for [i=series_count:1:-1] { if (group[i] == g) { first_row = i } }
    group_text = slim ? group_words[g] : '{/:Bold '.group_name[g].'}'
    set label 1500+g group_text enhanced at screen across(20),down(at(first_row) - (slim ? 20 + 17 * (lines(group_words[g]) - 1) + 14 : 20)) left font small_font textcolor rgb '#111111' front
}
if (beside) {
    set label 2000 '' at screen across(30),down(bottom + 68) point pt 6 ps 0.9*dot lw 1.8 lc rgb pale front
    set label 2001 'published' at screen across(45),down(bottom + 68) left font legend_font textcolor rgb ink front
}
place_of(i, name) = int(column('series')) == i ? column(name) : NaN
marked(v, mark) = thousands(v).(mark eq '-' ? '' : ', '.mark)
plot for [i=1:series_count] data using (int(column('series')) == i ? low_end : NaN):(at(i)):(high_end - low_end):(0) \
         with vectors nohead lw 0.7 lc rgb '#E2E2E2' notitle, \
     for [i=1:series_count] data using (place_of(i, extent) > 0 ? column(extent) : NaN):(at(i)) \
         with points pt 7 ps 1.2*dot lc rgb tint(i) @named, \
     for [i=1:series_count] data using (place_of(i, extent) > 0 ? column(extent) : int(column('series')) == i && column(extent) == 0 ? low_end : NaN):(at(i)):(thousands(column(extent))) \
         with labels left offset 1.2,0 font small_font textcolor rgb ink @named, \
     for [i=1:series_count] data using (place_of(i, 'published')):(at(i)) with points pt 7 ps 0.9*dot lc rgb '#ffffff' @named, \
     for [i=1:series_count] data using (place_of(i, 'published')):(at(i)) with points pt 6 ps 0.9*dot lw 1.8 lc rgb '#111111' @named, \
     for [i=1:series_count] data using (method[i] eq 'published' ? place_of(i, 'published') : NaN):(at(i)):(marked(column('published'), strcol('mark'))) \
         with labels left offset 1.2,0 font small_font textcolor rgb pale @named
