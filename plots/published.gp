# Common part of the two figures of published points: one panel each for the table's panels, our curves as lines, the paper's
# points as marks of the same colour, filled for the first series of a method and chunk, hollow for those behind it. The
# script that loads it sets unit and time (0, 1).
axis = ''
per = ''
stats data using (axis = strcol('axis'), per = strcol('of'), 1) nooutput
axis_title = axis eq 'batch' ? 'batch (sequences)' : 'context (tokens)'
heading = time ? 'Time of one '.per.' against '.axis.': estimate beside published measurements' \
               : 'Peak memory against '.axis.', planned and published'
array panel[series_count]
array chunk[series_count]
array panel_name[series_count]
note_panel(i) = (panel[i] = int(column('panel')), chunk[i] = int(column('chunk')), panel_name[panel[i]] = strcol('panel_label'), panel[i])
stats data using (note_panel(int(column('series')))) nooutput
panel_total = int(STATS_max)
several = 0
stats data using (strcol('panel_label') eq 'other methods' || column('chunk') > 0 ? 1 : 0) nooutput
several = STATS_max == 0

# One colour per chunk where a panel's curves differ in it, else one per method.
chunk_sizes = '32 64 128 256 512 1024 2048 4096'
chunk_colours = '#CC79A7 #0072B2 #009E73 #E69F00 #D55E00 #56B4E9 #8C6D1F #222222'
chunk_tint(c) = toned(word(chunk_colours, 1 + (sum [k=1:words(chunk_sizes)] (int(word(chunk_sizes, k)) == c ? k - 1 : 0))))
# Another framework's curve is a thin grey one.
others(i) = strstrt(label[i], ', transformers ') > 0
tint(i) = others(i) ? toned('#888888') : chunk[i] ? chunk_tint(chunk[i]) : colour(method[i])
shape(i) = chunk[i] ? (rank[i] ? 6 : 7) : mark(method[i], rank[i] ? 1 : 0)

shown_axis = 'column("ours") == column("ours") || column("published") == column("published") || column("oom") == 1 ? column(axis) : NaN'
stats data using (@shown_axis) nooutput
least = STATS_min
most = STATS_max
stats data using (int(column(axis)) % 512 == 0 || is_power(column(axis)) ? 0 : 1) nooutput
binary = STATS_max == 0
linear = !binary && most / least < 8
if (!linear) { set logscale x (binary ? 2 : 10) }
set xrange [linear ? 0 : least / 1.3 : most * (linear ? 1.05 : 1.3)]
if (linear) { set format x "%'.0f" }
if (binary) {
    set xtics ('1' 1, '2' 2, '4' 4, '8' 8, '16' 16, '32' 32, '64' 64, '128' 128, '256' 256, '512' 512, '1k' 1024, '2k' 2048, '4k' 4096, '8k' 8192, '16k' 16384, '32k' 32768, '64k' 65536, '128k' 131072, '256k' 262144, '512k' 524288, '1M' 1048576, '2M' 2097152, '4M' 4194304)
}
if (!binary && !linear) {
    set xtics ('100' 100, '1,000' 1000, '10,000' 10000, '100,000' 100000)
    set mxtics 10
}
known = 0
stats data using (count(column('limit_bytes'))) nooutput
limit = 0
if (known) { stats data using 'limit_bytes' nooutput; limit = STATS_max }
known = 0
stats data using (column('oom') == 1 ? count(1) : 0) nooutput
ooms = known

across_count = slim || panel_total == 1 ? 1 : panel_total == 3 ? 3 : 2
down_count = (panel_total + across_count - 1) / across_count
width = width_of(across_count == 3 ? 1230 : 900)
rigid = 1
room = (width - 20.0) / across_count
tall = 270
# A panel's legend stands below it, in two columns, on a slim page or with another framework's long names in one.
long_names = 0
do for [i=1:series_count] { long_names = long_names || others(i) }
legend_across = slim || long_names ? 1 : 2
array place_in[series_count]
legend_entries = 0
do for [i=1:series_count] {
    place_in[i] = (sum [k=1:i] (panel[k] == panel[i])) - 1
    legend_entries = larger(legend_entries, place_in[i] + 1)
}
legend_rows = (legend_entries + legend_across - 1) / legend_across
pitch = tall + 115 + 18 * legend_rows
bottom = 118 + pitch * (down_count - 1) + tall + 15 + 18 * legend_rows
autograd = 0
do for [i=1:series_count] { autograd = autograd || strstrt(label[i], 'as autograd') > 0 }
autograd_words = wrapped('as autograd: all logits at once; norms and the products of the MLP are kept, not rebuilt', int((width - 50) / 6.5))
unstated = 0
do for [i=1:series_count] { unstated = unstated || strstrt(label[i], ' inferred') > 0 }
unstated_words = wrapped("inferred: the source does not state it; it is chosen because the source's points are met with it", int((width - 50) / 6.5))
foot_count = 2 + (!time && limit > 0) + (!time && ooms > 0)
height = bottom + 120 + (slim ? 18 * (foot_count - 1) : 0) + (autograd ? 4 + 18 * lines(autograd_words) : 0) + (unstated ? 4 + 18 * lines(unstated_words) : 0)
load scripts.'/page.gp'

# Legend of the marks, once for all panels.
foot_x(wide_x) = slim ? 25 : wide_x
foot_y(row) = bottom + 68 + (slim ? 18 * row : 0)
set arrow 900 from screen across(foot_x(25)),down(foot_y(0)) to screen across(foot_x(25) + 34),down(foot_y(0)) nohead lw 2 lc rgb pale front
set label 900 (time ? 'ours, estimate' : 'ours, planned') at screen across(foot_x(25) + 43),down(foot_y(0)) left font legend_font textcolor rgb ink front
set label 901 '' at screen across(foot_x(268) + 17),down(foot_y(1)) point pt shape(1) ps 0.8*dot lw 1.5 lc rgb pale front
set label 902 (time ? 'published, measured' : 'published') at screen across(foot_x(257) + 43),down(foot_y(1)) left font legend_font textcolor rgb ink front
if (!time) {
    if (limit > 0) {
        set arrow 903 from screen across(foot_x(425)),down(foot_y(2)) to screen across(foot_x(425) + 34),down(foot_y(2)) nohead lw 1.2 dt 2 lc rgb pale front
        set label 903 sprintf('memory limit, %.2f GiB', limit / 2.0**30) at screen across(foot_x(425) + 43),down(foot_y(2)) left font legend_font textcolor rgb ink front
    }
    if (ooms) {
        set label 904 '' at screen across(foot_x(648) + 17),down(foot_y(foot_count - 1)) point pt 2 ps 0.9*dot lw 2 lc rgb pale front
        set label 905 'out of memory from here on' at screen across(foot_x(637) + 43),down(foot_y(foot_count - 1)) left font legend_font textcolor rgb ink front
    }
}

if (autograd) { set label 906 autograd_words at screen across(25),down(foot_y(slim ? foot_count : 0) + (slim ? 0 : 20)) left font legend_font textcolor rgb ink front }
if (unstated) { set label 907 unstated_words at screen across(25),down(foot_y(slim ? foot_count : 0) + (slim ? 0 : 20) + (autograd ? 18 * lines(autograd_words) : 0)) left font legend_font textcolor rgb ink front }

set key noautotitle
panel_left(p) = 55 + ((p - 1) % across_count) * room
panel_right(p) = panel_left(p) + room - 70
panel_top(p) = 118 + ((p - 1) / across_count) * pitch
# Rows of a panel and of a series in it.
inside(i, p, name) = int(column('series')) == i && panel[i] == p ? column(name) : NaN
# The first curve of a panel is wider, so that it is seen behind later ones.
wide_by(i) = others(i) ? 0.5 : 1 + 1.4 * ((sum [k=1:series_count] (panel[k] == panel[i])) - 1 - place_in[i]) / legend_entries
