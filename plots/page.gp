# The page: the terminal, the heading with the setting below it, panels from 95 pixels below the top to `bottom`, and at
# the foot where the numbers are from.
set encoding utf8
bare = styled('bare')
if (exists('given_title')) { heading = given_title }
# A heading is of all panels; one alone has its own title.
if (bare || (exists('given_panel') && !exists('given_title'))) { heading = '' }

heading = wrapped(heading, int((width - 40) / 9.5))
setting = wrapped(setting, int((width - 40) / 6.1))
if (exists('claim')) { setting = wrapped(claim, int((width - 40) / 6.1))."\n".setting }
source = wrapped(source, int((width - 40) / 6.1))
machine = wrapped(machine, int((width - 40) / 6.1))
# Their height beyond one line each; an absent one takes none.
above = (heading eq '' ? -24 : 24 * (lines(heading) - 1)) + (bare ? -20 : 17 * (lines(setting) - 1))
below = bare ? -30 : 17 * (lines(source) + lines(machine) - 2)
height = height + above + below
# Panels below each other: what stands between two of them is as high as that between the first and the heading.
panel_bottom = bottom
stacked = slim && words(panels) > 1
stack_count = stacked ? words(panels) : 1
panel_pitch = bottom
if (stacked) {
    bottom = bottom + panel_pitch * (words(panels) - 1)
    height = height + panel_pitch * (words(panels) - 1)
}

# Made smaller by zoom where that is wider or higher than given; higher panels where there is room.
zoom = exists('given_width') ? 1.0 * given_width / width : 1.0
if (exists('given_height')) {
    stretch = rigid ? 0 : larger(given_height / zoom - height, (255 - panel_bottom) * stack_count)
    bottom = bottom + stretch
    panel_bottom = panel_bottom + stretch / stack_count
    panel_pitch = panel_pitch + stretch / stack_count
    height = height + stretch
    if (height * zoom > given_height) {
        zoom = 1.0 * given_height / height
        if (!rigid) { width = given_width / zoom }
    }
}

# Only a height that is given makes letters smaller than 6 pt (page_max of style.gp). The program shows what begins so.
if (exists('telling') && 8.25 * zoom < 5.95) {
    print sprintf('notice: %s: letters of %.1f pt; at this width 6 pt take a height of %.0f mm', telling, 8.25 * zoom, ceil(6 / 8.25 * height * 25.4 / 96))
}

face = exists('given_font') ? given_font : \
    format eq 'svg' ? (styled('serif') ? 'serif' : 'sans-serif') : (styled('serif') ? 'DejaVu Serif' : 'DejaVu Sans')
if (format eq 'png') {
    # Twice the pixels, for screens; 300 an inch where a size is given, for print.
    fine = zoom * (exists('given_width') ? 300 / 96.0 : 2)
    set terminal pngcairo enhanced size fine*width,fine*height font face.',11' fontscale 0.95*fine linewidth fine pointscale fine background '#ffffff'
}
if (format eq 'pdf') {
    set terminal pdfcairo enhanced size zoom*width/96.0,zoom*height/96.0 font face.',11' fontscale 0.7*zoom linewidth 1.5*zoom pointscale 0.75*zoom background '#ffffff'
}
if (format eq 'svg') {
    # Its size on paper is an attribute of the file: harness/plot/picture.c.
    set terminal svg enhanced size width,height dynamic font face.',13' background '#ffffff'
}

# Marks are drawn larger by the svg terminal.
dot = format eq 'svg' ? 0.8 : 1.0

# Positions in pixels from the left and the top.
across(x) = 1.0 * x / width
down(y) = 1 - 1.0 * (y + above) / height

# The error bars of gnuplot stand on white discs in the svg terminal; these are arrows with flat heads at both ends.
whisker = sprintf('heads size screen %g,90 fixed lw 1', 4.0 / width)

title_font = face.(format eq 'svg' ? ',16' : ',13')
small_font = face.(format eq 'svg' ? ',11' : ',9')
legend_font = face.(format eq 'svg' ? ',12' : ',10')
set tics font small_font

# Labels, not a title: they are smaller than a title and stand at the left edge.
# Bold is markup, for the svg terminal does not take it from the font's name. Words from the table and the command line
# are not to be read as markup: `noenhanced`, or a backslash before what would be.
bold = ''
do for [k=1:strlen(heading)] {
    letter = heading[k:k]
    bold = bold.(letter eq "\n" ? "}\n{/:Bold " : strstrt('{}^_@&~\', letter) ? '\'.letter : letter)
}
from_top(y) = 1 - 1.0 * y / height
if (!bare) {
if (heading ne '') { set label 101 '{/:Bold '.bold.'}' enhanced at screen across(20),from_top(26) font title_font textcolor rgb '#111111' front }
set label 102 setting noenhanced at screen across(20),from_top(heading eq '' ? 22 : 46 + 24 * (lines(heading) - 1)) font small_font textcolor rgb pale front
set label 103 source noenhanced at screen across(20),from_top(height - 26 - below) font small_font textcolor rgb pale front
set label 104 machine noenhanced at screen across(20),from_top(height - 11 - 17 * (lines(machine) - 1)) font small_font textcolor rgb pale front
}
set tmargin at screen down(95)
set bmargin at screen down(bottom)
