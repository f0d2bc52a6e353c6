#include "harness/machine/machine_load.h"
#include "kernels/base/clock.h"
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

bool machine_time_read(struct machine_time *time, const char *text, double ticks_per_s)
{
    double user, nice, system, idle, wait, interrupts, soft, stolen;
    // Guest time is included in user and nice.
    if (sscanf(text, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &wait, &interrupts, &soft,
               &stolen) != 8)
        return false;
    time->busy_s = (user + nice + system + interrupts + soft) / ticks_per_s;
    time->stolen_s = stolen / ticks_per_s;
    return true;
}

// The waiting times of threads that have ended are lost; the thread pool of a step persists.
static double waited_s(void)
{
    DIR *threads = opendir("/proc/self/task");
    double waited_ns = 0, own;
    bool known = threads != NULL;
    for (const struct dirent *thread; threads && (thread = readdir(threads));) {
        char path[64 + NAME_MAX];
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", thread->d_name);
        FILE *file = *thread->d_name == '.' ? NULL : fopen(path, "re");
        // Nanoseconds it ran, nanoseconds it waited for a processor, and how many times.
        bool told = file && fscanf(file, "%*f %lf", &own) == 1;
        known &= told || *thread->d_name == '.';
        waited_ns += told ? own : 0;
        if (file)
            fclose(file);
    }
    if (threads)
        closedir(threads);
    return known ? waited_ns * 1e-9 : NAN;
}

struct machine_time machine_time_take(void)
{
    struct machine_time time = {.wall_s = (double)clock_ns() * 1e-9, .load = NAN};
    struct timespec own;
    char text[512] = "";
    FILE *file = fopen("/proc/stat", "re");
    if (file) {
        size_t bytes = fread(text, 1, sizeof text - 1, file);
        text[bytes] = '\0';
        fclose(file);
    }
    time.taken = clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own) == 0 &&
                 machine_time_read(&time, text, (double)sysconf(_SC_CLK_TCK));
    time.own_s = (double)own.tv_sec + 1e-9 * (double)own.tv_nsec;
    if (getloadavg(&time.load, 1) != 1)
        time.load = NAN;
    time.waited_s = waited_s();
    return time;
}

struct record_load machine_load_between(const struct machine_time *start, const struct machine_time *end,
                                        size_t cores, size_t usable, size_t threads)
{
    struct record_load load = {true, start->load, (double)cores, NAN, NAN, NAN};
    double wall_s = end->wall_s - start->wall_s;
    double waited_s = end->waited_s - start->waited_s;
    if (threads <= usable && wall_s > 0 && waited_s >= 0)
        load.waited_cores = waited_s / wall_s;
    if (!start->taken || !end->taken || wall_s < MACHINE_LOAD_MIN_S)
        return load;
    double others_s = end->busy_s - start->busy_s - (end->own_s - start->own_s);
    load.other_cores = fmax(others_s, 0) / wall_s; // ticks are coarse
    load.stolen_cores = fmax(end->stolen_s - start->stolen_s, 0) / wall_s;
    return load;
}
