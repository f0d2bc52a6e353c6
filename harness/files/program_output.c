#include "harness/files/program_output.h"
#include "harness/files/io.h"
#include "kernels/base/status.h"
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

FILE *program_output_open(pid_t *child, char *const *arguments)
{
    int ends[2];
    posix_spawn_file_actions_t actions;
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int error = posix_spawnp(child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error)
        close(ends[0]);
    return error ? NULL : fdopen(ends[0], "r");
}

int program_output_close(FILE *stream, pid_t child)
{
    int state = 0;
    fclose(stream);
    return io_wait(child, &state, 0) == child && WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}
