// Share: the files that come with the program (experiments/, plots/), found from any working folder: in the
// repository that it was built in, beside or above it, or in share/longbp beside the bin/ that it was installed in.
#pragma once
#include <limits.h>
#include <stdbool.h>

// The path of such a file or folder, by its path in the repository ("plots/style.gp"); false if it is not there.
bool share_find(const char *name, char path[PATH_MAX]);
// Resolves a path that a user wrote. A path that begins with "experiments/" and is not in the working folder names
// the file that comes with the program. Returns name or path.
const char *share_resolve(const char *name, char path[PATH_MAX]);
