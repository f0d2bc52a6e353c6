# The longest context against the device's memory: a line per method with whatever options go furthest, dashed and hollow with
# memory of the host besides; auto, the furthest of all, is the wide line behind the method that it is.
load scripts.'/style.gp'
tint(i) = method[i] eq 'auto' ? toned('#A9D4EF') : colour(method[i])
lined(i) = method[i] eq 'auto'
stats data using 'device_bytes' nooutput
low = STATS_min / 2.0**30
high = STATS_max / 2.0**30
stats data using 'max_context' nooutput
least = STATS_min
most = STATS_max

width = width_for(1)
bottom = 440
legend_rows = rows_for(3)
height = bottom + 105 + 20 * legend_rows
heading = 'Longest planned context against memory'
load scripts.'/page.gp'
set logscale xy
set xrange [low / 1.1 : high * 1.1]
stats data using (tick(floor(column('device_bytes') / 2.0**30 + 0.5))) nooutput
eval 'set xtics ('.ticks_shown(14).')'
set yrange [least / 1.4 : most * 1.4]
set ytics ('100' 100, '300' 300, '1,000' 1000, '3,000' 3000, '10,000' 10000, '30,000' 30000, '100,000' 100000, '300,000' 300000, '1,000,000' 1000000, '3,000,000' 3000000, '10,000,000' 10000000)
set multiplot
call scripts.'/panel.gp' 'all' 'longest context (tokens)' 'memory of the device (GiB)'
plot for [i=1:series_count] data using (of(i, 'device_bytes') / 2.0**30):(method[i] eq 'auto' ? column('max_context') : NaN) \
         with lines lw 7 dt 1 lc rgb tint(i) @named, \
     for [i=1:series_count] data using (of(i, 'device_bytes') / 2.0**30):(lined(i) ? NaN : column('max_context')) \
         with linespoints lw 1.7*wide_by(i) dt dash(rank[i]) pt mark_of(i) ps 0.8*dot*wide_by(i) lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'device_bytes') / 2.0**30):(column('max_context')):(told(i, 'device_bytes max_context')) @under_pointer
unset multiplot
