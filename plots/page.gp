# The page: the terminal, the heading with the setting below it, panels from 95 pixels below the top to `bottom`, and at
# the foot where the numbers are from.
set encoding utf8
if (format eq 'png') {
    # Twice the pixels, for screens and print.
    set terminal pngcairo enhanced size 2*width,2*height font 'DejaVu Sans,11' fontscale 1.9 linewidth 2 pointscale 2 background '#ffffff'
} else {
    set terminal svg enhanced size width,height dynamic font 'sans-serif,13' background '#ffffff'
}

# Marks are drawn larger by the svg terminal.
dot = format eq 'png' ? 1.0 : 0.8

# Positions in pixels from the left and the top.
across(x) = 1.0 * x / width
down(y) = 1 - 1.0 * y / height

# The error bars of gnuplot stand on white discs in the svg terminal; these are arrows with flat heads at both ends.
whisker = sprintf('heads size screen %g,90 fixed lw 1', 4.0 / width)

title_font = format eq 'png' ? 'DejaVu Sans,13' : 'sans-serif,16'
small_font = format eq 'png' ? 'DejaVu Sans,9' : 'sans-serif,11'
legend_font = format eq 'png' ? 'DejaVu Sans,10' : 'sans-serif,12'
set tics font small_font

# Labels, not a title: they are smaller than a title and stand at the left edge.
# Bold is markup, for the svg terminal does not take it from the font's name. Words from the table and the command line
# are not to be read as markup: `noenhanced`.
set label 101 '{/:Bold '.heading.'}' enhanced at screen across(20),down(26) font title_font textcolor rgb '#111111' front
set label 102 setting noenhanced at screen across(20),down(46) font small_font textcolor rgb pale front
set label 103 source noenhanced at screen across(20),down(height - 26) font small_font textcolor rgb pale front
set label 104 machine noenhanced at screen across(20),down(height - 11) font small_font textcolor rgb pale front
set tmargin at screen down(95)
set bmargin at screen down(bottom)
