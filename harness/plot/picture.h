// Picture: a table and the words around it, drawn by the script of its figure in every format that is wanted.
#pragma once
#include "kernels/base/status.h"
#include <stdbool.h>

struct picture {
    const char *folder;                     // tables go to folder/data; made if it is not there
    const char *scripts;                    // folder of the gnuplot scripts
    const char *formats;                    // "svg,png"
    const char *name;                       // of the files
    const char *figure;                     // the script
    const char *table;                      // tab-separated, with a header line
    const char *setting, *source, *machine; // below the heading, and two lines at the foot
};

// Writes folder/data/NAME.tsv and folder/NAME.FORMAT and prints the path of each picture. False and a status if a
// file cannot be written or drawing failed.
bool picture_draw(const struct picture *picture, struct status *status);
