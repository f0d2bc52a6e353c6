// Open MPI's mpirun starts the ranks of one machine without a daemon or ssh (plm isolated), over shared memory
// alone, on any number of processors. Its files are in a folder of the trial's own, which whoever kills it can
// remove.
#include "harness/process/launch.h"
#include "harness/machine/cores.h"
#include "harness/machine/environment.h"
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void add(struct launch *launch, const char *argument)
{
    launch->arguments = realloc(launch->arguments, (launch->count + 2) * sizeof *launch->arguments);
    CHECK(launch->arguments && argument);
    launch->arguments[launch->count] = strdup(argument);
    launch->arguments[++launch->count] = NULL;
}

static bool in_path(const char *program)
{
    const char *search = getenv("PATH");
    char *folders = strdup(search ? search : ""), *rest = folders, path[4096];
    bool found = false;
    for (char *folder; !found && (folder = strsep(&rest, ":"));) {
        snprintf(path, sizeof path, "%s/%s", *folder ? folder : ".", program);
        found = access(path, X_OK) == 0;
    }
    free(folders);
    return found;
}

// Splits a command such as "srun -n {ranks}" into words.
static void add_words(struct launch *launch, const char *words)
{
    static const char place[] = "{ranks}";
    char *copy = strdup(words), *rest = copy, argument[4096];
    for (char *word; (word = strsep(&rest, " "));) {
        char *at = strstr(word, place);
        if (at)
            snprintf(argument, sizeof argument, "%.*s%zu%s", (int)(at - word), word, launch->ranks,
                     at + strlen(place));
        else
            snprintf(argument, sizeof argument, "%s", word);
        if (*word)
            add(launch, argument);
    }
    free(copy);
}

static bool add_mpirun(struct launch *launch, struct status *status)
{
    char number[32], threads[64];
    if (!in_path("mpirun"))
        return status_set(status, STATUS_UNSUPPORTED,
                          "a trial over several ranks needs mpirun, which is not on PATH: install openmpi-bin, or "
                          "name another launcher with --launch");
    if (!rank_folder_make(&launch->folder, status))
        return false;
    snprintf(number, sizeof number, "%zu", launch->ranks);
    const char *const words[] = {"mpirun", "-n", number, "--oversubscribe", "--bind-to", "none"};
    const char *const parameters[][2] = {
        {"pml", "ob1"},
        {"btl", "self,vader"},
        {"plm", "isolated"},
        {"opal_signal", ""},                // no message of its own when a rank is killed
        {"odls_base_sigkill_timeout", "0"}, // no delay for ranks that wait for the killed one
        {"orte_tmpdir_base", launch->folder.path},
        {"btl_vader_backing_directory", launch->folder.path},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        add(launch, words[i]);
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        add(launch, "--mca");
        add(launch, parameters[i][0]);
        add(launch, parameters[i][1]);
    }
    // mpirun counts the machine's cores instead of the usable ones.
    if (launch->ranks * environment_threads(launch->ranks) > cores_usable()) {
        add(launch, "--mca");
        add(launch, "mpi_yield_when_idle");
        add(launch, "1");
    }
    if (getuid() == 0)
        add(launch, "--allow-run-as-root");
    if (!getenv("OMP_NUM_THREADS")) {
        snprintf(threads, sizeof threads, "OMP_NUM_THREADS=%zu", environment_threads(launch->ranks));
        add(launch, "-x");
        add(launch, threads);
    }
    return true;
}

bool launch_open(struct launch *launch, const char *words, size_t ranks, const char *const *command,
                 struct status *status)
{
    *launch = (struct launch){.ranks = ranks};
    if (words)
        add_words(launch, words);
    else if (!add_mpirun(launch, status))
        return false;
    for (; *command; command++)
        add(launch, *command);
    return true;
}

void launch_close(struct launch *launch)
{
    rank_folder_remove(&launch->folder);
    for (size_t i = 0; i < launch->count; i++)
        free(launch->arguments[i]);
    free(launch->arguments);
    *launch = (struct launch){0};
}

bool launch_explain(const struct launch *launch, const char *tail, char *reason, size_t bytes)
{
    const char *said = strstr(tail, "process rank ");
    size_t rank;
    int number;
    if (said &&
        sscanf(said, "process rank %zu with PID %*d on node %*s exited on signal %d", &rank, &number) == 2) {
        const char *name = sigabbrev_np(number);
        snprintf(reason, bytes, "rank %zu of %zu: killed by signal SIG%s (%s)", rank, launch->ranks,
                 name ? name : "?", strsignal(number));
        return true;
    }
    said = strstr(tail, "Process name: [[");
    if (said && sscanf(said, "Process name: [[%*d,%*d],%zu] Exit code: %d", &rank, &number) == 2) {
        snprintf(reason, bytes, "rank %zu of %zu: ended with exit code %d", rank, launch->ranks, number);
        return true;
    }
    return false;
}

void launch_follow(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

// A name that only one child of the launcher can hold, and that vanishes with it.
bool launch_first_to_tell(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "longbp-tells-%d", (int)getppid());
    int kept = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    return kept < 0 || bind(kept, (struct sockaddr *)&name, bytes) == 0 || errno != EADDRINUSE;
}
