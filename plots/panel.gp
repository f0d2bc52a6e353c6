# A panel between two positions from the left, in pixels of a page that is 900 wide; above it what its vertical axis shows,
# below it the other axis. On a wider or narrower page the panels change, not what stands between them. Ranges and scales of
# the axes are set before: it puts those in their place that are given.
# Labels of the axes would stand at a distance that differs between terminals. call 'panel.gp' LEFT RIGHT UP ALONG
side_by_side = int(900 / (ARG2 - ARG1 + 60))
panel_index = int(ARG1 * side_by_side / 900)
panel_start = ARG1 + panel_index * (width - 900) / side_by_side
panel_end = ARG2 + (panel_index + 1) * (width - 900) / side_by_side
set lmargin at screen across(panel_start)
set rmargin at screen across(panel_end)
set label 2 ARG4 at screen across((panel_start + panel_end) / 2),down(bottom + 42) center textcolor rgb ink front
set label 1 ARG3 at screen across(panel_start - 45),down(77) left textcolor rgb ink front
if (exists('given_log')) {
    if (given_log eq 'none') { unset logscale; set xrange [*:*]; set yrange [0:*]; set ytics autofreq }
    if (strstrt(given_log, 'x')) { set logscale x 2; set xrange [*:*] }
    if (strstrt(given_log, 'y')) { set logscale y 2; set yrange [*:*] }
    if (given_log ne 'y') { set autoscale xfix; set offsets graph 0.04,graph 0.04,0,0 }
}
