# Common part of all figures: the table's series, one colour and mark per method, lines and fonts. A script loads this file,
# sets width, height, heading and the panels' bottom (pixels), loads page.gp, and draws to stdout. Optional settings:
# given_title, given_width and given_height (1/96 inch, the paper's unit of pixels), given_log (x, y, x,y or none), given_style
# (some of bare, grey, serif), claim (what the picture is about, above the setting). By hand:
# gnuplot -e "data='T.tsv'; format='svg'; scripts='plots'; setting=''; source=''; machine=''" plots/memory.gp > P.svg

set datafile separator "\t"
set datafile columnheaders
set datafile missing NaN

# Okabe and Ito's colours, safe for all kinds of colour blindness. A new method gets the next one.
method_names = 'full checkpoint streambp seco spaco forward'
colours = '#222222 #E69F00 #0072B2 #009E73 #CC79A7 #56B4E9 #D55E00 #8C6D1F'
filled = '7 5 9 13 11 15 7 5'
hollow = '6 4 8 12 10 14 6 4'
place(method) = 1 + (sum [p=1:words(method_names)] (word(method_names, p) eq method ? p - 1 : 0)) + \
                (strstrt(' '.method_names.' ', ' '.method.' ') ? 0 : words(method_names))
# Without colours each is the grey that is as light.
styled(name) = exists('given_style') ? strstrt(','.given_style.',', ','.name.',') > 0 : 0
grey = styled('grey')
byte_of(colour, k) = (int('0x'.colour[2:*]) >> (8 * k)) & 255
lightness(colour) = int(0.299 * byte_of(colour, 2) + 0.587 * byte_of(colour, 1) + 0.114 * byte_of(colour, 0))
grey_of(value) = sprintf('#%02X%02X%02X', value, value, value)
toned(colour) = grey ? grey_of(lightness(colour)) : colour
colour(method) = toned(word(colours, place(method)))
# Series of one method share colour and shape; the dashes and the filling of the mark tell them apart.
mark(method, rank) = int(word(rank % 2 ? hollow : filled, place(method)))
dash(rank) = int(word('1 2 4 5 3', 1 + rank % 5))
# More line than gap: a curve of few points is seen between its marks.
set dashtype 2 (10,5)
set dashtype 4 (12,4,3,4)
set dashtype 5 (12,4,3,4,3,4)
# A method's fourth series and those behind it have colours that no method has (Tol's muted set), another one each; with nine
# colours and five kinds of dashes none is repeated before the forty-ninth.
muted = '#332288 #88CCEE #AA4499 #117733 #DDAA33 #882255 #999933 #661100 #44AA99'
hue(k) = toned(word(muted, 1 + k % 9))

ink = '#333333'
pale = '#777777'
set border 3 lw 1 lc rgb '#999999'
set tics nomirror out scale 0.6 textcolor rgb ink
set grid lt 1 lw 0.7 lc rgb '#E2E2E2'
set style fill solid 1 noborder
unset key

# The series of the table: their number, and method, label and rank of each.
stats data using 'series' nooutput
series_count = int(STATS_max)
array method[series_count]
array label[series_count]
array rank[series_count]
note(i) = (method[i] = strcol('method'), label[i] = strcol('label'), rank[i] = int(column('rank')), i)
stats data using (note(int(column('series')))) nooutput
# A column of the rows of one series.
of(i, name) = int(column('series')) == i ? column(name) : NaN
# A figure may give its series other colours and marks, and draw some without marks.
tint(i) = rank[i] < 3 ? colour(method[i]) : hue(rank[i] - 3 + 3 * (place(method[i]) - 1))
mark_of(i) = mark(method[i], rank[i])
lined(i) = 0
# The first curve is wider, so that it is seen behind later ones.
wide_by(i) = 1 + 0.7 * (series_count - i) / series_count

# How many rows have a number in the column: stats data using (count(column(...))), after known = 0.
known = 0
count(x) = x == x ? (known = known + 1) : 0
# Whether a time has a whisker from its fastest sample to its slowest: it is no mean of draws, and they differ.
whiskered(low, high, drawn) = drawn != drawn && low < high
# Numbers of a column, each once, as the list that `set xtics (...)` takes; with kilo = 1 as 64k for 65536. Where they
# are more than stand side by side, `ticks_shown(most)` has the powers of two alone, and '' if there are none.
kilo = 0
ticks = ''
powers = ''
tick_count = 0
tick_text(v) = kilo && v >= 1024 && int(v) % 1024 == 0 ? sprintf('"%.0fk" %.0f', v / 1024, v) : sprintf('"%.0f" %.0f', v, v)
is_power(v) = v > 0 && abs(log(v) / log(2) - floor(log(v) / log(2) + 0.5)) < 1e-9
tick(v) = strstrt(ticks.',', tick_text(v).',') ? 0 : (ticks = ticks.(ticks eq '' ? '' : ', ').tick_text(v), \
          tick_count = tick_count + 1, powers = powers.(!is_power(v) ? '' : (powers eq '' ? '' : ', ').tick_text(v)), 1)
ticks_shown(most) = tick_count > (exists('given_width') ? smaller(most, given_width / 40) : most) ? powers : ticks

# The panels of a figure: panels = panels_of('time memory'), of which --panel may name one; a script draws those that
# shows('memory') says are shown.
panels_of(names) = !exists('given_panel') ? names : strstrt(' '.names.' ', ' '.given_panel.' ') ? given_panel : ''
panels = 'all'
shows(name) = strstrt(' '.panels.' ', ' '.name.' ') > 0

# Words in lines of so many letters.
gap(text, at) = at < 2 ? 0 : text[at:at] eq ' ' ? at : gap(text, at - 1)
wrapped(text, letters) = strlen(text) <= letters || !gap(text, letters) ? text : \
    text[1:gap(text, letters)-1]."\n".wrapped(text[gap(text, letters)+1:*], letters)
lines(text) = strstrt(text, "\n") ? 1 + lines(text[strstrt(text, "\n")+1:*]) : 1

# The widest page whose smallest letters, 8.25 pt where nothing is made smaller, are 6 pt on paper. On a slim page panels stand
# below each other, and the names of bars and rows above them. The panels of a rigid page, of bars, have a height of their own.
larger(a, b) = a > b ? a : b
smaller(a, b) = a < b ? a : b
page_max = exists('given_width') ? 1.37 * given_width : 1e9
slim = page_max < 580
rigid = 0
longest = 0
do for [i=1:series_count] { if (strlen(label[i]) > longest) { longest = strlen(label[i]) } }
# How wide a page of all panels is: as given, unless words would not fit; page.gp makes it smaller then.
width_for(panels) = !exists('given_width') ? 900 : larger(given_width + 0, smaller(page_max, larger(panels > 1 && !slim ? 700 : 480, 136 + 6.5 * longest)))
# The same of a page that is so wide where nothing is given.
width_of(natural) = exists('given_width') ? larger(given_width + 0, smaller(page_max, natural)) : natural

# The legend below the panels: as many columns as the longest of its texts leaves room for. Call legend_extra = '...', then
# legend_rows = rows_for(most columns).
legend_extra = ''
# The methods whose times are means of draws, where others' are not: stats data using (note_drawn(column('drawn'), strcol('method'))).
drawn_methods = ''
note_drawn(drawn, method) = drawn != drawn || strstrt(' '.drawn_methods.',', ' '.method.',') ? 0 : \
    (drawn_methods = drawn_methods.(drawn_methods eq '' ? '' : ', ').method, 1)
# Then, where a method's chunks are drawn in some curves and not in others, (note_fixed(column('step_ms'), the same)).
note_fixed(ms, drawn, method) = ms == ms && drawn != drawn && strstrt(' '.drawn_methods.',', ' '.method.',') ? \
    (drawn_methods = 'drawn chunks', 1) : 0
limit_text = ''
cross_text = ''
extra_text(name) = name eq 'cross' ? 'out of memory'.cross_text : name eq 'least' ? 'least memory; smaller chunks take more' : \
    name eq 'break-even' ? 'break-even chunk of experts' : name eq 'errors' ? (drawn_methods eq '' ? '' : drawn_methods.': ').'mean of draws ± 2 std. errors' : \
    name eq 'whiskers' ? (drawn_methods eq '' ? '' : 'others: ').'fastest to slowest sample' : name eq 'limit' ? 'memory limit, '.limit_text : name eq 'bound' ? 'lower bound' : \
    name eq 'rounds' ? '95 % interval over rounds' : name eq 'seeds' ? '95 % interval over seeds' : name eq 'range' ? 'range of the prediction' : name eq 'tenth' ? 'off by 10 %' : name eq 'quarter' ? 'off by 25 %' : \
    'noise floor: sums in f32, in another order'
longest_extra(k) = k > words(legend_extra) ? 0 : larger(strlen(extra_text(word(legend_extra, k))), longest_extra(k + 1))
fits(columns) = 96 + 6.5 * larger(longest, longest_extra(1)) <= (width - 40.0) / columns
columns_for(most) = most > 1 && !fits(most) ? columns_for(most - 1) : most
# Texts that are wider than a column are wrapped; a row is 20 pixels high, or as high as such a text.
legend_text(e) = e <= series_count ? label[e] : extra_text(word(legend_extra, e - series_count))
legend_words(e) = wrapped(legend_text(e), int((legend_step - 80) / 6.5))
most_lines(e) = e > legend_entries ? 1 : larger(lines(legend_words(e)), most_lines(e + 1))
# How many rows of 20 pixels the legend takes.
rows_for(most) = (legend_entries = series_count + words(legend_extra), legend_step = (width - 40) / columns_for(most), \
                  legend_down = (legend_entries + columns_for(most) - 1) / columns_for(most), legend_pitch = 2 + 18 * most_lines(1), \
                  int(ceil(legend_down * legend_pitch / 20.0)))
# Its top, in pixels below the panels.
legend_below = 68

# The unit in which so many bytes can be read.
memory_unit(bytes) = bytes > 8 * 2.0**30 ? 'GiB' : bytes > 2 * 2.0**20 ? 'MiB' : 'KiB'
memory_unit_bytes(bytes) = bytes > 8 * 2.0**30 ? 2.0**30 : bytes > 2 * 2.0**20 ? 2.0**20 : 2.0**10
memory_text(bytes) = sprintf('%.2f ', bytes / memory_unit_bytes(bytes)).memory_unit(bytes)
# Everything drawn of a series has its name, by which a page shows and hides it: end the clause in @named. What a page tells of a
# mark under the pointer is columns of its row: a clause for [i=1:pointed] with told(i, 'context ours_bytes:ours') as its third
# column that ends in @under_pointer. Pictures that are files have no such marks.
named = 'title label[i] noenhanced'
pointed = exists('interactive') ? series_count : 0
under_pointer = "with labels hypertext point pt 7 ps 1.2*dot lc rgb '#FF000000'"
shown_as(name) = strstrt(name, ':') ? name[1:strstrt(name, ':')-1] : name
taken_from(name) = strstrt(name, ':') ? name[strstrt(name, ':')+1:*] : name
values(names, k) = k > words(names) ? '' : sprintf(' %s=%.15g', shown_as(word(names, k)), column(taken_from(word(names, k)))).values(names, k + 1)
told(i, names) = sprintf('series=%d', i).values(names, 1)
# A word with its underscores as spaces.
underscored(text) = strstrt(text, '_') ? text[1:strstrt(text, '_')-1].' '.text[strstrt(text, '_')+1:*] : text
