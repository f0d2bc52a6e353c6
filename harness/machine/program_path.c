#include "harness/machine/program_path.h"
#include <limits.h>
#include <stdbool.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

// Also called between fork and exec, so it uses system calls alone.
const char *program_path(void)
{
    static const char self[] = "/proc/self/exe";
    static char path[PATH_MAX];
    struct stat running, named;
    ssize_t length = readlink(self, path, sizeof path - 1);
    if (length < 0)
        return (const char *)getauxval(AT_EXECFN);
    path[length] = 0;
    // Under valgrind readlink names the program, but the kernel runs the tool.
    bool other = stat(self, &running) == 0 && stat(path, &named) == 0 &&
                 (running.st_ino != named.st_ino || running.st_dev != named.st_dev);
    return other ? path : self;
}
