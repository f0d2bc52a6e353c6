# The y axis of a panel is logarithmic, from a little below the least to a little above the greatest, with ticks that are as
# close as the decades between leave room for. call 'decades.gp' LEAST GREATEST
set logscale y 10
set yrange [ARG1 / 1.25 : ARG2 * 1.25]
decade_digits = ARG2 / ARG1 < 60 ? '1 2 5' : ARG2 / ARG1 < 3000 ? '1 3' : '1'
decade_ticks = ''
do for [power=floor(log10(ARG1))-1:ceil(log10(ARG2))] {
    do for [digit in decade_digits] { v = digit * 10.0**power; decade_ticks = decade_ticks.sprintf('%s"%g" %g', decade_ticks eq '' ? '' : ', ', v, v) }
}
eval 'set ytics ('.decade_ticks.')'
