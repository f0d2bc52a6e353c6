// Picture: a table and the words around it, drawn by the script of its figure in every format that is wanted.
#pragma once
#include "harness/plot/series_choice.h"

struct picture_size {
    double width_mm, height_mm; // 0: as the figure has it
};

// "170x110mm", "6.7x4.3in", "8.5x6cm", or the width alone: "85mm". False and a status if it is none of these, or
// smaller than 30 mm or larger than 2000 mm.
bool picture_size_parse(const char *text, struct picture_size *size, struct status *status);

struct picture;
// Takes a drawn picture, an SVG that is made for a page: its marks tell of themselves under the pointer (style.gp).
typedef void picture_taker(void *taker, const struct picture *picture, const char *svg);

struct picture_room {
    size_t left, left_out; // pictures that are still taken, and those that are not drawn, for there was no room
};

// Pictures that wait to be drawn.
struct picture_queue {
    size_t count;
    struct picture *pictures; // whose texts are copies, and borrow the form
};

// Where pictures go and how they look, alike for all that one request draws.
struct picture_form {
    picture_taker *take; // instead of files; NULL: files
    void *taker;
    struct picture_room *room; // of the taker; NULL: any number
    const char *folder;        // made if it is not there
    const char *scripts;       // folder of the gnuplot scripts
    const char *formats;       // some of "svg,png,pdf,tsv"; tsv is the table that the picture is drawn from
    const char *title;         // instead of the figures' own headings, "": none; NULL: those
    const char *style;         // some of "bare,grey,serif"; NULL: none
    const char *font;          // a family of the system's; NULL: as the style has it
    const char *panel;         // the one that is drawn, by its name; NULL: all
    const char *log;           // the logarithmic axes: "x", "y", "x,y", "none"; NULL: as the figure has them
    struct picture_size size;
    struct series_choice *series; // that are shown
    struct picture_queue *queue;  // of what is not drawn at once; NULL: all is
};

struct picture {
    const struct picture_form *form;
    const char *name;           // of the files
    const char *kind;           // the name without what tells settings apart, by which claims name it
    const char *figure;         // the script
    const char *claim;          // that it is about, above the setting; NULL: none
    struct figure_table *table; // of which drawing leaves what is shown
    const char *along;          // and whether that axis is logarithmic: as of struct figure
    bool logarithmic;
    const char *setting, *source, *machine; // below the heading, and two lines at the foot
};

// False and a status that names the option of `longbp plot` if the formats or the axes are none.
bool picture_form_check(const struct picture_form *form, struct status *status);
// Writes folder/NAME.FORMAT and prints the path of each, or has the picture taken; nothing where none of the chosen
// series is in the table. False and a status if a file cannot be written or drawing failed.
bool picture_draw(const struct picture *picture, struct status *status);
// Draws what waits, in its order. Release with picture_queue_free.
bool picture_queue_draw(const struct picture_queue *queue, struct status *status);
void picture_queue_free(struct picture_queue *queue);
