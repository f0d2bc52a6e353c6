// Cores: how many processors this process can keep busy: those that it may run on, unless the time that its control
// group allows comes to fewer.
#pragma once
#include <stddef.h>

// At least one.
size_t cores_usable(void);
// The same of a number of processors and of the control group that a text as that of /proc/self/cgroup names
// (version 2), whose files, and those of the groups above it, are under `root`.
size_t cores_allowed(size_t processors, const char *root, const char *cgroup);
