// Picture: a table with its texts, drawn by its figure's script in each requested format.
#pragma once
#include "harness/plot/series_choice.h"

struct picture_size {
    double width_mm, height_mm; // 0: the figure's default
};

// "170x110mm", "6.7x4.3in", "8.5x6cm", or only the width: "85mm". Returns false and a status for other texts, or a
// size below 30 mm or above 2000 mm.
bool picture_size_parse(const char *text, struct picture_size *size, struct status *status);

struct picture;
// Takes a drawn picture, an SVG for a page: its marks have tooltips (style.gp).
typedef void picture_taker(void *taker, const struct picture *picture, const char *svg);

struct picture_room {
    size_t left, left_out; // pictures still accepted, and pictures left out
};

// Pictures that wait to be drawn.
struct picture_queue {
    size_t count;
    struct picture *pictures; // their texts are copies; the form is borrowed
};

// Output and style of all pictures of a request.
struct picture_form {
    picture_taker *take; // replaces files; NULL: files
    void *taker;
    struct picture_room *room; // of the taker; NULL: unlimited
    const char *folder;        // created if missing
    const char *scripts;       // folder of the gnuplot scripts
    const char *formats;       // some of "svg,png,pdf,tsv"; tsv is the picture's table
    const char *title;         // replaces the figures' own headings, "": none; NULL: keep them
    const char *style;         // some of "bare,grey,serif"; NULL: none
    const char *font;          // a system font family; NULL: the style's
    const char *panel;         // name of the only panel drawn; NULL: all
    const char *log;           // the logarithmic axes: "x", "y", "x,y", "none"; NULL: the figure's
    struct picture_size size;
    struct series_choice *series; // shown series
    struct picture_queue *queue;  // of postponed pictures; NULL: draws at once
};

struct picture {
    const struct picture_form *form;
    const char *name;           // of the files
    const char *kind;           // the name without settings, by which claims refer to it
    const char *figure;         // the script
    const char *claim;          // a related claim, above the setting; NULL: none
    struct figure_table *table; // reduced by drawing to what is shown
    const char *along;          // see struct figure
    bool logarithmic;
    const char *setting, *source, *machine; // below the heading, and two lines at the foot
};

// Returns false and a status that names the option of `longbp plot` if formats or axes are invalid.
bool picture_form_check(const struct picture_form *form, struct status *status);
// Writes folder/NAME.FORMAT and prints each path, or passes the picture on; nothing if the table has none of the
// selected series. Returns false and a status if a file cannot be written or drawing failed.
bool picture_draw(const struct picture *picture, struct status *status);
// Draws the waiting pictures in order. Release with picture_queue_free.
bool picture_queue_draw(const struct picture_queue *queue, struct status *status);
void picture_queue_free(struct picture_queue *queue);
