# One of a figure's panels, side by side on a page, or below each other on a slim one; above it what its vertical axis shows,
# below it the other axis. The heading comes with the first panel, the legend with the last. Ranges and scales of the axes are
# set before: it puts those in their place that are given. Labels of the axes would stand at a distance that differs between
# terminals. call 'panel.gp' NAME UP ALONG, NAME one of `panels`
slot = sum [k=1:words(panels)] (word(panels, k) eq ARG1 ? k - 1 : 0)
beside = stacked ? 1 : words(panels)
panel_start = 70 + (stacked ? 0 : slot * width / beside)
panel_end = (stacked ? width : (slot + 1) * width / beside) - 20
panel_shift = stacked ? slot * panel_pitch : 0
set lmargin at screen across(panel_start)
set rmargin at screen across(panel_end)
set tmargin at screen down(95 + panel_shift)
set bmargin at screen down(panel_bottom + panel_shift)
set label 2 ARG3 at screen across((panel_start + panel_end) / 2),down(panel_bottom + 42 + panel_shift) center textcolor rgb ink front
set label 1 ARG2 at screen across(panel_start - 45),down(77 + panel_shift) left textcolor rgb ink front
if (exists('given_log')) {
    if (given_log eq 'none') { unset logscale; set xrange [*:*]; set yrange [0:*]; set ytics autofreq }
    if (strstrt(given_log, 'x')) { set logscale x 2; set xrange [*:*] }
    if (strstrt(given_log, 'y')) { set logscale y 2; set yrange [*:*] }
    if (given_log ne 'y') { set autoscale xfix; set offsets graph 0.04,graph 0.04,0,0 }
}
if (slot > 0) { unset for [l=101:104] label l }
if (slot == words(panels) - 1) { call scripts.'/legend.gp' 25 (bottom + legend_below) }
