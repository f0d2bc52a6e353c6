// Under mpirun: a test that, started by itself, starts itself under mpirun with one number of ranks after another;
// without Open MPI it says so and does nothing.
#pragma once
#include "harness/process/launch.h"
#include "kernels/comm/world.h"
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

static struct world world;
static char rank_device[16] = "cpu", rank_plan[16] = "plan-cpu"; // this rank's, and its plan's

// Under the sanitizers, which take several times as long, one number of ranks alone, into which nothing divides.
#ifdef __SANITIZE_ADDRESS__
enum { ONLY_RANKS = 3 };
#else
enum { ONLY_RANKS = 0 };
#endif

// As one of several ranks.
static bool open_world(void)
{
    struct status status = {0};
    setenv("CMOCKA_TEST_ABORT", "1", 1); // a rank that fails must not leave the others waiting
    launch_follow();
    const char *device = getenv("RANKS_DEVICE");
    if (device)
        snprintf(rank_plan, sizeof rank_plan, "plan-%s", device);
    if (!world_open_mpi(&world, &status) || !world_join(&world, device ? device : rank_device, &status)) {
        fprintf(stderr, "%s\n", status.message);
        return false;
    }
    if (device)
        snprintf(rank_device, sizeof rank_device, "%s:%zu", device, world.local_rank);
    if (world.comm.rank > 0)
        CHECK(freopen("/dev/null", "w", stdout));
    printf("%zu ranks\n", world.comm.size);
    return true;
}

// The exit code, of a test that passed.
static int close_world(void)
{
    world_close(&world);
    return 0;
}

// The exit code; -1: there is no mpirun.
static int start(size_t ranks, const char *program)
{
    struct launch launch;
    struct status status = {0};
    const char *const command[] = {program, "ranks", NULL};
    int code = -1;
    if (launch_open(&launch, NULL, ranks, command, &status)) {
        pid_t child = fork();
        if (child == 0) {
            execvp(launch.arguments[0], launch.arguments);
            _exit(127);
        }
        int ended;
        CHECK(child > 0 && waitpid(child, &ended, 0) == child);
        code = WIFEXITED(ended) ? WEXITSTATUS(ended) : 1;
    } else {
        printf("ranks: left out, %s\n", status.message);
    }
    launch_close(&launch);
    return code;
}

static int start_all(const char *program, const size_t *counts, size_t count)
{
    char plugin[4096], path[PATH_MAX];
    snprintf(plugin, sizeof plugin, "%s/longbp-mpi.so", getenv("BUILD") ? getenv("BUILD") : "build");
    if (access(plugin, F_OK) != 0) {
        printf("ranks: left out, there is no %s: it needs openmpi-bin and libopenmpi-dev\n", plugin);
        return 0;
    }
    setenv("LONGBP_MPI", realpath(plugin, path), 1);
    int code = 0;
    const char *given = getenv("LONGBP_RANKS");
    size_t only = given ? strtoul(given, NULL, 10) : ONLY_RANKS;
    for (size_t i = 0; i < count && code == 0; i++)
        if (!only || counts[i] == only)
            code = start(counts[i], program);
    return code > 0;
}
