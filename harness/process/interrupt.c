#include "harness/process/interrupt.h"
#include "kernels/base/status.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_bool asked;

static void add(sigset_t *set, const int *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct sigaction before;
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaddset(set, numbers[i]);
    }
}

void interrupt_add_all(sigset_t *set)
{
    static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,   SIGPIPE,
                                  SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGXCPU};
    add(set, numbers, sizeof numbers / sizeof *numbers);
}

static void *take_signals(void *set)
{
    int number;
    while (sigwait(set, &number) == 0) {
        if (atomic_exchange(&asked, true)) {
            sigset_t one;
            sigemptyset(&one);
            sigaddset(&one, number);
            kill(getpid(), number);
            pthread_sigmask(SIG_UNBLOCK, &one, NULL);
        }
    }
    return NULL;
}

void interrupt_open(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    static sigset_t set;
    pthread_t thread;
    sigemptyset(&set);
    add(&set, numbers, sizeof numbers / sizeof *numbers);
    signal(SIGPIPE, SIG_IGN);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    // If the thread cannot start, the signals end the program as before.
    if (pthread_create(&thread, NULL, take_signals, &set) == 0)
        pthread_detach(thread);
    else
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

void interrupt_ask(void)
{
    atomic_store(&asked, true);
}

bool interrupt_asked(void)
{
    return atomic_load(&asked);
}
