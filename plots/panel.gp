# A panel between two positions from the left, in pixels; above it what its vertical axis shows, below it the other axis.
# Labels of the axes would stand at a distance that differs between terminals. call 'panel.gp' LEFT RIGHT UP ALONG
set lmargin at screen across(ARG1)
set rmargin at screen across(ARG2)
set label 2 ARG4 at screen across((ARG1 + ARG2) / 2),down(bottom + 42) center textcolor rgb ink front
set label 1 ARG3 at screen across(ARG1 - 45),down(77) left textcolor rgb ink front
