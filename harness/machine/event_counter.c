#include "harness/machine/event_counter.h"
#include "harness/files/io.h"
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

// Counts events of a thread and of threads that it starts from now on. Returns -1 and errno if counting is not
// possible.
static int open_thread(pid_t thread, uint32_t type, uint64_t event)
{
    struct perf_event_attr attributes = {
        .type = type,
        .size = sizeof attributes,
        .config = event,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        .inherit = 1,
        .exclude_kernel = 1, // counting the kernel needs a privilege
        .exclude_hv = 1,
    };
    return (int)syscall(SYS_perf_event_open, &attributes, thread, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void add(struct event_counter *counter, int file)
{
    counter->files = realloc(counter->files, (counter->count + 1) * sizeof *counter->files);
    counter->files[counter->count++] = file;
}

bool event_counter_open(struct event_counter *counter, uint32_t type, uint64_t event)
{
    *counter = (struct event_counter){0};
    DIR *threads = opendir("/proc/self/task");
    bool counted = threads;
    for (const struct dirent *thread; counted && (thread = readdir(threads));) {
        long id = strtol(thread->d_name, NULL, 10);
        int file = id > 0 ? open_thread((pid_t)id, type, event) : -1;
        if (file >= 0)
            add(counter, file);
        else
            counted = id <= 0 || errno == ESRCH; // "." and "..", or a thread that has just ended
    }
    if (threads)
        closedir(threads);
    if (!counted)
        event_counter_close(counter);
    return counter->count > 0;
}

void event_counter_close(struct event_counter *counter)
{
    for (size_t i = 0; i < counter->count; i++)
        close(counter->files[i]);
    free(counter->files);
    *counter = (struct event_counter){0};
}

double event_counter_read(const struct event_counter *counter)
{
    double events = counter->count ? 0 : NAN;
    for (size_t i = 0; i < counter->count; i++) {
        struct {
            uint64_t events, enabled_ns, running_ns;
        } found;
        bool whole = io_read(counter->files[i], &found, sizeof found) == sizeof found &&
                     found.running_ns == found.enabled_ns;
        events += whole ? (double)found.events : NAN;
    }
    return events;
}
