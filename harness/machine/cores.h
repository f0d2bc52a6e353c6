// Cores: how many processors this process can keep busy: those it may run on, or fewer if its control group limits
// processor time.
#pragma once
#include <stddef.h>

// At least one.
size_t cores_usable(void);
// The same for a given number of processors and a control group (version 2), named by a text like
// /proc/self/cgroup. The files of the group and its ancestors are under `root`.
size_t cores_allowed(size_t processors, const char *root, const char *cgroup);
