#define _GNU_SOURCE // getline
#include "harness/results/revision_order.h"
#include "kernels/base/status.h"
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// What git prints; NULL if it could not be started.
static FILE *start(pid_t *child)
{
    char *arguments[] = {"git", "rev-list", "--topo-order", "--reverse", "HEAD", NULL};
    int ends[2];
    posix_spawn_file_actions_t actions;
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int error = posix_spawnp(child, "git", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error)
        close(ends[0]);
    return error ? NULL : fdopen(ends[0], "r");
}

bool revision_order(const char *const *revisions, size_t count, size_t *places)
{
    enum { LEAST = 7 }; // digits of a revision that is cut off
    pid_t child;
    int state = 0;
    FILE *stream = start(&child);
    if (!stream)
        return false;
    char *line = NULL;
    size_t capacity = 0, found = 0;
    bool *is_found = calloc(count + 1, sizeof *is_found);
    CHECK(is_found);
    for (size_t place = 0; getline(&line, &capacity, stream) > 0; place++)
        for (size_t i = 0; i < count; i++) {
            size_t digits = strlen(revisions[i]);
            if (is_found[i] || digits < LEAST || strncmp(line, revisions[i], digits) != 0)
                continue;
            is_found[i] = true;
            places[i] = place;
            found++;
        }
    free(line);
    free(is_found);
    fclose(stream);
    bool fine = waitpid(child, &state, 0) == child && WIFEXITED(state) && WEXITSTATUS(state) == 0;
    return fine && found == count;
}
