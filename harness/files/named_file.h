// Named file: a file of numbers that comes with the program, FOLDER/NAME.json, asked for by its name alone; or any
// other, by its path.
#pragma once
#include "harness/text/names.h"
#include "kernels/base/status.h"
#include <limits.h>

// The names in a folder, in their order.
struct named_files {
    struct names names;
    char text[NAMES_MAX][64];
};
void named_files_list(struct named_files *files, const char *folder);
// The path of the file, of a folder as share_resolve finds it, or the text itself, if it has a "/" or ends in
// ".json". kind, kinds: "profile", "profiles". False and a status that tells the known names if there is no such
// file in the folder.
bool named_file_find(char path[PATH_MAX], const char *folder, const char *kind, const char *kinds, const char *name,
                     struct status *status);
