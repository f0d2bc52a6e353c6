# Trials that ran out of memory: crosses above the limit, for how much they would have taken is not known; those of different
# series stand above each other in the order of the legend. Give top, the highest value in bytes, unit, the axis's, and
# high_logscale, whether it is logarithmic. cross(i) is a height in units, for series 1 to crossed. Before the panel is drawn:
# eval ticks_below, for where crosses stand the axis has no numbers.
known = 0
stats data using (column('oom') == 1 ? count(1) : 0) nooutput
ooms = known
crossed = ooms ? series_count : 0
known = 0
stats data using (count(column('limit_bytes'))) nooutput
limit = 0
if (known) { stats data using 'limit_bytes' nooutput; limit = STATS_max }
# A limit far above all curves would only flatten them.
limit_shown = limit > 0 && (ooms || top > limit / 3)
limit_text = memory_text(limit)
ceiling = limit_shown ? limit : top * 1.02

array level[series_count]
levels = 0
do for [i=series_count:1:-1] {
    known = 0
    stats data using (int(column('series')) == i && column('oom') == 1 ? count(1) : 0) nooutput
    if (known) { levels = levels + 1 }
    level[i] = levels
}
cross_text = (limit_shown ? ': above the limit' : '').(levels > 1 ? ', first series on top' : '')
# Peaks above the limit are of steps that were not held to it.
highest = larger(ceiling, top)
cross(i) = highest * (high_logscale ? 1.1**level[i] : 1 + 0.045 * level[i]) / unit

# A fifth of the axis, or about that.
whole_step(x) = (power = 10.0**floor(log10(x)), power * (x < 1.5 * power ? 1 : x < 3.5 * power ? 2 : x < 7.5 * power ? 5 : 10))
ticks_below = !ooms || exists('given_log') ? '' : high_logscale ? sprintf('set ytics 2.0**-20, 2, %.9g', highest / unit) : \
    sprintf('set yrange [0:%.9g]; set ytics 0, %.9g, %.9g', highest * (1 + 0.045 * (levels + 1)) / unit, \
            whole_step(highest / unit / 5), highest / unit)
