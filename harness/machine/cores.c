#include "harness/machine/cores.h"
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 4096

static void read_text(const char *path, char *text, size_t bytes)
{
    FILE *file = fopen(path, "re");
    size_t got = file ? fread(text, 1, bytes - 1, file) : 0;
    text[got] = '\0';
    if (file)
        fclose(file);
}

// The limit of one control group: "150000 100000", microseconds of processor time per period, is two processors;
// "max 100000" is no limit.
static size_t quota(const char *folder, size_t processors)
{
    char path[PATH_BYTES + 16], text[128];
    double time, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    read_text(path, text, sizeof text);
    if (sscanf(text, "%lf %lf", &time, &period) != 2 || !(time > 0 && period > 0))
        return processors;
    double cores = ceil(time / period);
    return cores < (double)processors ? (size_t)cores : processors;
}

size_t cores_allowed(size_t processors, const char *root, const char *cgroup)
{
    char folder[PATH_BYTES];
    const char *found = strstr(cgroup, "0::/");
    int length = found ? (int)strcspn(found + 3, "\n") : 0;
    snprintf(folder, sizeof folder, "%s%.*s", root, length, found ? found + 3 : "");
    size_t min = quota(folder, processors);
    for (char *slash; strlen(folder) > strlen(root) && (slash = strrchr(folder, '/'));) {
        *slash = '\0';
        size_t above = quota(folder, processors);
        min = above < min ? above : min;
    }
    return min;
}

size_t cores_usable(void)
{
    char cgroup[PATH_BYTES];
    cpu_set_t set;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    size_t processors = sched_getaffinity(0, sizeof set, &set) == 0 ? (size_t)CPU_COUNT(&set)
                        : online > 0                                ? (size_t)online
                                                                    : 1;
    read_text("/proc/self/cgroup", cgroup, sizeof cgroup);
    return cores_allowed(processors, "/sys/fs/cgroup", cgroup);
}
