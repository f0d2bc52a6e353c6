# The y axis of a panel is logarithmic, from a little below `fastest` to a little above `slowest`, with ticks that are as
# close as the decades between leave room for; without a number to draw it is as it is.
if (fastest > 0 && slowest >= fastest) {
    set logscale y 10
    set yrange [fastest / 1.25 : slowest * 1.25]
    decade_digits = slowest / fastest < 60 ? '1 2 5' : slowest / fastest < 3000 ? '1 3' : '1'
    decade_ticks = ''
    do for [power=floor(log10(fastest))-1:ceil(log10(slowest)):1+int(log10(slowest / fastest) / 12)] {
        do for [digit in decade_digits] { v = digit * 10.0**power; decade_ticks = decade_ticks.sprintf('%s"%g" %g', decade_ticks eq '' ? '' : ', ', v, v) }
    }
    eval 'set ytics ('.decade_ticks.')'
}
