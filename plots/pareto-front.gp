# A step's time against the device's memory: the candidates of which no other is better in both. The staircase is what so
# much memory allows; marks are the candidates, hollow where some of it is kept on the host, with numbers by which a list below
# says what they are; the upright line is the limit.
load scripts.'/style.gp'
stats data using 'peak_bytes' nooutput
unit = memory_unit(STATS_max)
scale = memory_unit_bytes(STATS_max)
low = STATS_min / scale
high = STATS_max / scale
stats data using 'limit_bytes' nooutput
limit = STATS_max / scale
stats data using 'seconds' nooutput
least_s = STATS_min
most_s = STATS_max

# The list, from the fastest on, which takes most.
steps_listed = 0
array listed[int(STATS_records)]
sized(bytes) = sprintf('%.4g %s', bytes / memory_unit_bytes(bytes), memory_unit(bytes))
kept(bytes) = bytes > 0 ? ', '.sized(bytes).' on the host' : ''
enter(words) = (steps_listed = steps_listed + 1, listed[steps_listed] = sprintf('%d  %s', steps_listed, words), 0)
stats data using (enter(strcol('words').sprintf(': %.4g s, ', column('seconds')).sized(column('peak_bytes')).kept(column('host_peak_bytes')))) nooutput
shows_limit = limit >= low && limit <= high * 1.6
legend_extra = shows_limit ? 'limit' : ''

width = width_for(1)
bottom = 400
legend_rows = rows_for(2)
list_lines = 0
do for [k=1:steps_listed] { listed[k] = wrapped(listed[k], int((width - 60) / 6.1)); list_lines = list_lines + lines(listed[k]) }
height = bottom + 115 + 20 * legend_rows + 18 * list_lines
heading = 'Step time against memory: the fastest exact steps'
load scripts.'/page.gp'
set logscale x 2
set xrange [low / 1.15 : high * 1.3]
set yrange [least_s - 0.1 * (most_s - least_s) - 0.05 * most_s : most_s + 0.1 * (most_s - least_s) + 0.02 * most_s]
if (low > 0 && high > 3 * low) {
    steps = ''
    do for [power=-4:16] { v = 2.0**power; steps = steps.sprintf('%s"%g" %g', steps eq '' ? '' : ', ', v, v) }
    eval 'set xtics ('.steps.')'
} else { unset logscale x; set xrange [low - 0.1 * high : 1.3 * high]; set xtics autofreq }
if (shows_limit) { set arrow 900 from first limit,graph 0 to first limit,graph 1 nohead lw 1.2 dt 2 lc rgb pale back }
set multiplot
call scripts.'/panel.gp' 'all' 'step time (s), an estimate' 'memory of the device at the peak ('.unit.')'
above_line = 0
do for [k=1:steps_listed] {
    set label 1000+k listed[k] noenhanced at screen across(33),down(bottom + 72 + 20 * legend_rows + 18 * above_line) left font small_font textcolor rgb ink front
    above_line = above_line + lines(listed[k])
}
plot data using (column('peak_bytes') / scale):(column('seconds')) with fsteps lw 1.2 lc rgb pale, \
     for [i=1:series_count] data using (of(i, 'peak_bytes') / scale):(column('seconds')) \
         with points pt mark_of(i) ps 0.9*dot lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'peak_bytes') / scale):(column('seconds')):(told(i, 'peak_bytes seconds')) @under_pointer, \
     data using (column('peak_bytes') / scale):(column('seconds')):(sprintf('%d', $0 + 1)) \
         with labels left offset 0.6,0.6 font small_font textcolor rgb ink
unset multiplot
