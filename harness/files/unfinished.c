#include "harness/files/unfinished.h"
#include "kernels/base/status.h"
#include <signal.h>
#include <unistd.h>

#define PATHS_MAX 8

// At file scope because signal handlers take no argument.
static const char *volatile paths[PATHS_MAX];

// Calls only system calls, because a signal handler calls it.
void unfinished_remove(void)
{
    for (int i = PATHS_MAX - 1; i >= 0; i--)
        if (paths[i] && unlink(paths[i]) != 0)
            rmdir(paths[i]);
}

// The signal has its default action again; raising it ends the program as usual.
static void remove_all(int number)
{
    unfinished_remove();
    raise(number);
}

void unfinished_add(const char *path)
{
    static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ, SIGABRT};
    int i = PATHS_MAX;
    while (i > 0 && !paths[i - 1]) // after the last one, to keep the order
        i--;
    CHECK(i < PATHS_MAX);
    paths[i] = path;
    for (size_t s = 0; s < sizeof numbers / sizeof *numbers; s++) {
        struct sigaction action;
        sigaction(numbers[s], NULL, &action);
        if (action.sa_handler != SIG_DFL) // already ours, or ignored, as under nohup
            continue;
        action = (struct sigaction){.sa_handler = remove_all, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};
        sigaction(numbers[s], &action, NULL);
    }
}

void unfinished_drop(const char *path)
{
    for (int i = 0; i < PATHS_MAX; i++)
        if (paths[i] == path)
            paths[i] = NULL;
}
