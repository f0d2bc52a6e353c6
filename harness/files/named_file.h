// Named file: a file of numbers that comes with the program, FOLDER/NAME.json, given by its name; or any other
// file, given by its path.
#pragma once
#include "harness/text/names.h"
#include "kernels/base/status.h"
#include <limits.h>

// The names in a folder, in order.
struct named_files {
    struct names names;
    char text[NAMES_MAX][64];
};
void named_files_list(struct named_files *files, const char *folder);
// Resolves a name in a folder (see share_resolve), or takes the text as a path if it has a "/" or ends in ".json".
// kind, kinds: "profile", "profiles". Returns false and a status that lists the known names if there is no such
// file.
bool named_file_find(char path[PATH_MAX], const char *folder, const char *kind, const char *kinds, const char *name,
                     struct status *status);
