# A panel between two positions from the left, in pixels, and above it what its vertical axis shows.
# call 'panel.gp' LEFT RIGHT AXIS
set lmargin at screen across(ARG1)
set rmargin at screen across(ARG2)
set label 1 ARG3 at screen across(ARG1 - 45),down(77) left textcolor rgb ink front
