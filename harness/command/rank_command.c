#include "harness/command/rank_command.h"
#include "harness/files/io.h"
#include "harness/machine/environment.h"
#include "harness/machine/exit_code.h"
#include "harness/plan/choice.h"
#include "harness/process/interrupt.h"
#include "harness/process/launch.h"
#include "harness/step/ranks.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Starts the launcher as a child with this process's original signal mask.
static pid_t start(char *const *arguments, const char *name, const sigset_t *signals)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    launch_follow();
    sigprocmask(SIG_SETMASK, signals, NULL);
    // The launcher would read stdin, even for ranks that do not; the caller's input must stay unread.
    int nothing = io_open("/dev/null", O_RDONLY, 0);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0)
        _exit(127);
    execvp(arguments[0], arguments);
    dprintf(STDERR_FILENO, "longbp %s: %s: cannot be started: %s\n", name, arguments[0], strerror(errno));
    _exit(EXIT_BAD_INPUT);
}

// Waits for the child and returns how it ended. Forwards an interrupt and stores its signal in *interrupted; a
// terminal's signal reaches the child directly.
static int wait_for(pid_t child, const sigset_t *interrupts, int *interrupted)
{
    int ended = -1;
    while (io_wait(child, &ended, WNOHANG) == 0) {
        siginfo_t information;
        int number = sigwaitinfo(interrupts, &information);
        if (number > 0 && number != SIGCHLD) {
            *interrupted = number;
            if (information.si_code <= 0 || number != SIGINT) // a closing terminal signals one process alone
                kill(child, SIGTERM);
        }
    }
    return ended;
}

// Removes the ranks' files however they end, on every signal but SIGKILL.
static int run_launcher(struct launch *launch, const char *name, struct status *status)
{
    sigset_t interrupts, before;
    int ended = -1, interrupted = 0;
    signal(SIGCHLD, SIG_DFL); // if it is ignored, no child is reported
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGCHLD);
    interrupt_add_all(&interrupts);
    sigprocmask(SIG_BLOCK, &interrupts, &before);
    pid_t child = start(launch->arguments, name, &before);
    if (child < 0)
        status_set(status, STATUS_IO, "cannot start the ranks: %s", strerror(errno));
    else
        ended = wait_for(child, &interrupts, &interrupted);
    launch_close(launch); // before the signal ends this process
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (interrupted)
        raise(interrupted);
    return ended;
}

static int start_ranks(const struct trial *trial, const char *words, int argc, char **argv, struct status *status)
{
    struct launch launch = {0};
    const char **arguments = calloc((size_t)argc + 2, sizeof *arguments);
    memcpy(arguments, argv, (size_t)argc * sizeof *arguments);
    arguments[0] = strrchr(argv[0], ' ') + 1;
    arguments[argc] = "--as-rank";
    int ended = -1;
    environment_choose_spins(words ? 1 : trial_ranks(trial)); // a launcher may spread them over machines
    if (ranks_launch_open(&launch, trial, NULL, arguments, words, status))
        ended = run_launcher(&launch, arguments[0], status);
    launch_close(&launch);
    free(arguments);
    return status->code != STATUS_OK ? EXIT_BAD_INPUT : WIFEXITED(ended) ? WEXITSTATUS(ended) : EXIT_CHECK_FAILED;
}

static bool join(struct world *world, const struct trial *trial, struct status *status)
{
    if (!world_open_mpi(world, status))
        return false;
    launch_follow();
    if (world->comm.size != trial_ranks(trial))
        return status_set(status, STATUS_BAD_INPUT, "%zu processes were started for %zu ranks", world->comm.size,
                          trial_ranks(trial));
    return world_join(world, trial->device, status);
}

int rank_command_code(const struct status *status)
{
    bool step_failed = status->code == STATUS_OOM || status->code == STATUS_FAILED;
    return status->code == STATUS_OK ? EXIT_FINE : step_failed ? EXIT_CHECK_FAILED : EXIT_BAD_INPUT;
}

int rank_command_run(struct trial *trial, const char *launch, bool as_rank, rank_run *run, void *context, int argc,
                     char **argv, struct status *status)
{
    struct world world;
    if (trial_ranks(trial) > 1 && !as_rank)
        return start_ranks(trial, launch, argc, argv, status);
    world_open_alone(&world);
    bool done = (!as_rank || join(&world, trial, status)) && choose_within(trial, &world, status) &&
                run(trial, &world, context, status);
    if (!done && as_rank) {
        fprintf(stderr, "%s: rank %zu of %zu: %s\n", argv[0], world.comm.rank, world.comm.size, status->message);
        _exit(rank_command_code(status));
    }
    world_close(&world);
    return rank_command_code(status);
}
