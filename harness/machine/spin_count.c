#include "harness/machine/spin_count.h"
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#define READINGS 5
#define PAUSE_MS 2

size_t spin_count_others(const char *loadavg)
{
    size_t running;
    return sscanf(loadavg, "%*f %*f %*f %zu/", &running) == 1 && running > 1 ? running - 1 : 0; // less this one
}

static size_t others_now(void)
{
    char text[128] = "";
    FILE *file = fopen("/proc/loadavg", "re");
    if (!file)
        return 0;
    size_t bytes = fread(text, 1, sizeof text - 1, file);
    text[bytes] = '\0';
    fclose(file);
    return spin_count_others(text);
}

size_t spin_count_choose(size_t processes, size_t threads, size_t cores)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};
    bool busy = threads > 1; // a single thread waits for none
    for (size_t i = 0; busy && i < READINGS; i++) {
        if (i > 0)
            nanosleep(&pause, NULL);
        busy = others_now() + processes * threads > cores;
    }
    return busy ? 0 : SPIN_COUNT;
}
