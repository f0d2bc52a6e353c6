# From commit to commit: time and peak memory of a step over what they were at the first commit that has the trial. A ring
# marks where they changed, as `longbp history` says it.
load scripts.'/style.gp'

stats data using 'commit' nooutput
commits = int(STATS_max)
array revision[commits]
do for [c=1:commits] { revision[c] = '' }
note_commit(c) = (revision[c] = strcol('revision'), c)
stats data using (note_commit(int(column('commit')))) nooutput
every_nth = (commits + 7) / 8
commit_ticks = ''
do for [c=1:commits:every_nth] { commit_ticks = commit_ticks.sprintf('%s"%s" %d', commit_ticks eq '' ? '' : ', ', revision[c], c) }
known = 0
stats data using (count(column('time_ratio'))) nooutput
timed = known > 0

panels = panels_of(timed ? 'time memory' : 'memory')
legend_below = 88
width = width_for(words(panels))
bottom = 370
legend_rows = rows_for(2)
height = bottom + 125 + 20 * legend_rows
heading = 'From commit to commit'
load scripts.'/page.gp'
set xrange [0.7 : commits + 0.3]
eval 'set xtics rotate by -35 ('.commit_ticks.')'
set multiplot
do for [name in (timed ? 'time peak' : 'peak')] {
    panel = name eq 'time' ? 'time' : 'memory'
    if (!shows(panel)) { continue }
    stats data using (column(name.'_ratio')) nooutput
    reach = larger(STATS_max - 1, 1 - STATS_min)
    reach = larger(1.2 * reach, 0.05)
    set yrange [1 - reach : 1 + reach]
    call scripts.'/panel.gp' panel (name eq 'time' ? 'time of one step, over the first' : 'peak memory, over the first') ''
    plot 1 with lines lw 1 dt 2 lc rgb pale, \
         for [i=1:series_count] data using (of(i, 'commit')):(column(name.'_ratio')) \
             with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.7*dot*wide_by(i) lc rgb tint(i) @named, \
         for [i=1:series_count] data using (column(name.'_changed') == 1 ? of(i, 'commit') : NaN):(column(name.'_ratio')) \
             with points pt 6 ps 2.2*dot lw 1.8 lc rgb tint(i) @named, \
         for [i=1:pointed] data using (of(i, 'commit')):(column(name.'_ratio')):(told(i, 'commit time_ratio peak_ratio')) @under_pointer
}
unset multiplot
