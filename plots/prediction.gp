# A step's time as the profile's measured rates say it, against what it took: on the left both, with a whisker for the range
# that is said; on the right one over the other, with what the machine was slower by than when the rates were measured taken
# out of the times, and pale as they were. Dashed: a tenth either way; dotted: a quarter.
load scripts.'/style.gp'

small = 1e300
large = 0
extend(v) = (small = v < small ? v : small, large = v > large ? v : large, 1)
stats data using (extend(column('measured_ms')), extend(column('estimate_ms')), \
    column('estimate_low_ms') > 0 ? extend(column('estimate_low_ms')) : 0, column('estimate_high_ms') > 0 ? extend(column('estimate_high_ms')) : 0) nooutput
small = small / 1.3
large = large * 1.3
furthest = 1.3
far(v) = (furthest = v > furthest ? v : furthest, 1 / v > furthest ? (furthest = 1 / v) : 0, 1)
stats data using (far(column('estimate_ms') / column('measured_ms'))) nooutput
stats data using (count(column('at_speed_ms'))) nooutput
steady = known > 0
# Without slowdowns the times as they are.
time = steady ? 'at_speed_ms' : 'measured_ms'
stats data using (abs(column('estimate_ms') / column('measured_ms') - 1)) name 'E' nooutput
stats data using (abs(column('estimate_ms') / column(time) - 1)) name 'S' nooutput

panels = panels_of('times ratio')
width = width_for(words(panels))
bottom = 400
legend_extra = 'range tenth quarter'
legend_rows = rows_for(5)
height = bottom + 105 + 20 * legend_rows
heading = sprintf('Step time: predicted against measured (error: median %.1f %%, worst %.1f %%, %d trials', 100 * E_median, 100 * E_max, E_records)
heading = heading.(steady ? sprintf('; at the speed of the calibration %.1f %%, %.1f %%)', 100 * S_median, 100 * S_max) : ')')
load scripts.'/page.gp'

set logscale xy
set xrange [small : large]
steps = ''
do for [power=floor(log10(small)):ceil(log10(large))] {
    do for [digit in '1 2 5'] { v = digit * 10.0**power; steps = steps.sprintf('%s"%g" %g', steps eq '' ? '' : ', ', v, v) }
}
eval 'set xtics ('.steps.')'
eval 'set ytics ('.steps.')'
set yrange [small : large]
set multiplot
set samples 2
if (shows('times')) {
call scripts.'/panel.gp' 'times' 'predicted (ms)' 'measured (ms)'
plot x with lines lw 1 lc rgb pale, 1.1 * x with lines lw 1 dt 2 lc rgb pale, 0.9 * x with lines lw 1 dt 2 lc rgb pale, \
     1.25 * x with lines lw 1 dt 3 lc rgb pale, 0.75 * x with lines lw 1 dt 3 lc rgb pale, \
     for [i=1:series_count] data using (of(i, 'measured_ms')):(column('estimate_ms')):(column('estimate_low_ms')):(column('estimate_high_ms')) \
         with yerrorbars lw 1 pt mark_of(i) ps 0.7*dot lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'measured_ms')):(column('estimate_ms')):(told(i, 'measured_ms estimate_ms estimate_low_ms estimate_high_ms')) @under_pointer
}
if (shows('ratio')) {
set yrange [1 / (1.1 * furthest) : 1.1 * furthest]
set ytics ('0.5' 0.5, '0.75' 0.75, '0.9' 0.9, '1' 1, '1.1' 1.1, '1.25' 1.25, '2' 2, '5' 5)
call scripts.'/panel.gp' 'ratio' (steady ? 'predicted over measured, at that speed (pale: as is)' : 'predicted over measured') 'measured (ms)'
plot 1 with lines lw 1 lc rgb pale, 1.1 with lines lw 1 dt 2 lc rgb pale, 0.9 with lines lw 1 dt 2 lc rgb pale, \
     1.25 with lines lw 1 dt 3 lc rgb pale, 0.75 with lines lw 1 dt 3 lc rgb pale, \
     for [i=1:series_count] data using (steady ? of(i, 'measured_ms') : NaN):(column('estimate_ms') / column('measured_ms')) \
         with points pt mark_of(i) ps 0.5*dot lc rgb '#C4C4C4' notitle, \
     for [i=1:series_count] data using (of(i, 'measured_ms')):(column('estimate_ms') / column(time)) \
         with points pt mark_of(i) ps 0.8*dot lc rgb tint(i) @named, \
     for [i=1:pointed] data using (of(i, 'measured_ms')):(column('estimate_ms') / column(time)):(told(i, 'measured_ms at_speed_ms estimate_ms')) @under_pointer
}
unset multiplot
