# The context axis of the figures against context: linear where that is legible.
stats data using 'context' nooutput
least = STATS_min
most = STATS_max
kilo = most >= 32768
stats data using (tick(column('context')), column('context')) nooutput
wide = most / least > 16
if (wide) {
    set logscale x 2
    set xrange [least / 1.15 : most * 1.15]
} else {
    set xrange [0 : most * 1.04]
}
if ((wide || most / least <= 8) && ticks_shown(12) ne '') { eval 'set xtics ('.ticks_shown(12).')' }
