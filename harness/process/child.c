// Child: the parent waits for four things at once: the child's record, its stderr, signals, and the timeout.
#include "harness/process/child.h"
#include "harness/files/io.h"
#include "harness/machine/exit_code.h"
#include "harness/machine/program_path.h"
#include "harness/process/interrupt.h"
#include "harness/process/launch.h"
#include "harness/process/rank_answers.h"
#include "harness/spec/trial.h"
#include "kernels/base/clock.h"
#include "kernels/base/host_memory.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAIL_BYTES 900 // bytes of the child's stderr that are kept
#define ANSWER_S   2.0 // extra time in which ranks that timed out report who waits

struct child {
    pid_t pid;
    int output, errors; // the parent's ends, not blocking; -1: closed
    char *line;         // stdout so far
    size_t line_bytes, line_capacity;
    char *tail; // of stderr
    size_t tail_bytes, tail_capacity;
    long oom_kills; // the machine's count when the child started
    double start_s;
};

// How many processes the kernel's out-of-memory killer has killed since boot.
static long oom_kills(void)
{
    long kills = 0;
    char line[128];
    FILE *file = fopen("/proc/vmstat", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "oom_kill %ld", &kills) == 1)
            break;
    if (file)
        fclose(file);
    return kills;
}

int child_signals_open(struct status *status)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGCHLD);
    interrupt_add_all(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGCHLD, SIG_DFL); // if a parent ignored it, it would never arrive
    int signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals < 0)
        status_set(status, STATUS_IO, "signalfd: %s", strerror(errno));
    return signals;
}

bool child_signals_interrupted(int signals)
{
    struct signalfd_siginfo signal;
    bool interrupted = false;
    while (io_read(signals, &signal, sizeof signal) == sizeof signal)
        interrupted |= signal.ssi_signo != SIGCHLD;
    return interrupted;
}

void child_signals_close(int signals)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    if (signals >= 0)
        close(signals);
}

// Runs between fork and exec, so it uses system calls alone.
static void become_trial(const char *program, const struct launch *launch, int input, int output, int errors,
                         int store, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0); // its own group: killed as a whole, and ^C reaches only the sweep
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) // the parent died before prctl
        _exit(1);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    // If memory runs out, the kernel kills the trial rather than the sweep.
    int score = io_open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC, 0);
    if (score >= 0 && io_write(score, "800", 3))
        close(score);
    if (dup2(input, 0) < 0 || dup2(output, 1) < 0 || dup2(errors, 2) < 0)
        _exit(1);
    if (launch) {
        execvp(launch->arguments[0], launch->arguments);
        _exit(127);
    }
    // If it already has the number, it must still survive exec.
    bool stored =
        store == CHILD_STORE ? fcntl(store, F_SETFD, 0) == 0 : store >= 0 && dup2(store, CHILD_STORE) >= 0;
    char *const arguments[] = {(char *)"longbp", (char *)"trial", stored ? (char *)"references" : NULL, NULL};
    execv(program ? program : program_path(), arguments);
    dprintf(STDERR_FILENO, "%s: cannot be started: %s", program ? program : program_path(), strerror(errno));
    _exit(127);
}

// A file in memory with the text; unlike a pipe it needs no reader for long texts.
static int memory_file(const char *text)
{
    int file = io_memory_file("trial");
    if (file >= 0 && io_write_at(file, text, strlen(text), 0))
        return file;
    if (file >= 0)
        close(file);
    return -1;
}

// Starts a new tail of stderr of this size.
static void keep_tail(struct child *child, size_t bytes)
{
    child->tail = realloc(child->tail, bytes + 1);
    child->tail_capacity = bytes;
    child->tail_bytes = 0;
    *child->tail = 0;
}

static bool start(struct child *child, const char *program, const struct launch *launch, const char *trial,
                  int store, struct status *status)
{
    *child = (struct child){.output = -1, .errors = -1, .oom_kills = oom_kills(), .start_s = clock_s()};
    keep_tail(child, TAIL_BYTES);
    int input = memory_file(trial), output[2] = {-1, -1}, errors[2] = {-1, -1};
    pid_t parent = getpid();
    bool ready = input >= 0 && pipe2(output, O_CLOEXEC) == 0 && pipe2(errors, O_CLOEXEC) == 0;
    child->pid = ready ? fork() : -1;
    if (child->pid == 0)
        become_trial(program, launch, input, output[1], errors[1], store, parent);
    if (child->pid < 0)
        status_set(status, STATUS_IO, "cannot start a process for the trial: %s", strerror(errno));
    else
        setpgid(child->pid, child->pid); // in parent and child, whichever runs first
    int ours[] = {input, output[1], errors[1]};
    for (int i = 0; i < 3; i++)
        if (ours[i] >= 0)
            close(ours[i]);
    child->output = output[0];
    child->errors = errors[0];
    if (child->pid > 0) {
        fcntl(child->output, F_SETFL, O_NONBLOCK);
        fcntl(child->errors, F_SETFL, O_NONBLOCK);
    }
    return child->pid > 0;
}

static void close_end(int *end)
{
    if (*end >= 0)
        close(*end);
    *end = -1;
}

static void read_output(struct child *child)
{
    while (child->output >= 0) {
        if (child->line_capacity - child->line_bytes < 4096) {
            child->line_capacity = 2 * child->line_capacity + 65536;
            child->line = realloc(child->line, child->line_capacity);
        }
        ssize_t got =
            io_read(child->output, child->line + child->line_bytes, child->line_capacity - child->line_bytes - 1);
        if (got == 0)
            close_end(&child->output);
        if (got <= 0)
            return;
        child->line_bytes += (size_t)got;
    }
}

static void read_errors(struct child *child)
{
    char chunk[TAIL_BYTES];
    while (child->errors >= 0) {
        ssize_t got = io_read(child->errors, chunk, sizeof chunk);
        if (got == 0)
            close_end(&child->errors);
        if (got <= 0)
            return;
        size_t fresh = (size_t)got;
        size_t room = child->tail_capacity - fresh, kept = child->tail_bytes < room ? child->tail_bytes : room;
        memmove(child->tail, child->tail + child->tail_bytes - kept, kept);
        memcpy(child->tail + kept, chunk, fresh);
        child->tail_bytes = kept + fresh;
        child->tail[child->tail_bytes] = 0;
    }
}

// Waits for the child's end, and kills it on timeout or signal; `result->end` records our kill. Ranks first get
// time to report who waits for whom.
static int wait_for(struct child *child, const struct launch *launch, double timeout_s, int signals,
                    struct child_result *result)
{
    int wait_status = 0;
    bool killed = false;
    size_t asked = 0;
    while (io_wait(child->pid, &wait_status, WNOHANG) == 0) {
        double left_s = timeout_s > 0 && !killed ? child->start_s + timeout_s - clock_s() : INFINITY;
        struct pollfd events[] = {{.fd = signals, .events = POLLIN},
                                  {.fd = child->output, .events = POLLIN},
                                  {.fd = child->errors, .events = POLLIN}};
        // At most a second, in case another reader of `signals` took the SIGCHLD.
        poll(events, 3, left_s > 1 ? 1000 : left_s > 0 ? (int)ceil(left_s * 1000) : 0);
        read_output(child);
        read_errors(child);
        if (killed)
            continue;
        bool late =
            left_s <= 0 || (asked == RANK_ANSWERS_ASKED && rank_answers_complete(child->tail, launch->ranks));
        if ((result->interrupted = child_signals_interrupted(signals))) {
            result->end = CHILD_INTERRUPTED;
        } else if (late && launch && asked < RANK_ANSWERS_ASKED) {
            result->end = CHILD_TIMEOUT;
            asked++;
            timeout_s = clock_s() - child->start_s + ANSWER_S; // from now, because this process may be slow too
            keep_tail(child, TAIL_BYTES + RANK_ANSWER_BYTES * launch->ranks);
            kill(child->pid, RANK_ANSWERS_SIGNAL);
            continue;
        } else if (late) {
            result->end = CHILD_TIMEOUT;
        } else {
            continue;
        }
        killed = true;
        kill(-child->pid, SIGKILL);
        kill(child->pid, SIGKILL); // in case the group does not exist yet
    }
    kill(-child->pid, SIGKILL); // includes processes that the trial started
    read_output(child);
    read_errors(child);
    return wait_status;
}

static void judge(struct child *child, const struct launch *launch, int wait_status, struct child_result *result)
{
    char of_rank[160];
    bool explained = launch && launch_explain(launch, child->tail, of_rank, sizeof of_rank);
    for (size_t end = child->tail_bytes; end > 0 && child->tail[end - 1] == '\n';)
        child->tail[--end] = 0;
    const char *separator = child->tail[0] ? ": " : "";
    bool signalled = WIFSIGNALED(wait_status);
    int signal = signalled ? WTERMSIG(wait_status) : 0;
    bool killed = signal == SIGKILL || (launch && WEXITSTATUS(wait_status) == 128 + SIGKILL);
    if (killed && oom_kills() > child->oom_kills) {
        result->end = CHILD_OOM;
        snprintf(result->reason, sizeof result->reason,
                 "the machine ran out of memory and the kernel killed the trial (SIGKILL)%s%s", separator,
                 child->tail);
    } else if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == EXIT_OUT_OF_MEMORY) {
        result->end = CHILD_OOM;
        snprintf(result->reason, sizeof result->reason, "%s", explained ? of_rank : child->tail);
    } else if (explained) {
        snprintf(result->reason, sizeof result->reason, "%s", of_rank);
    } else if (signalled) {
        snprintf(result->reason, sizeof result->reason, "killed by signal SIG%s (%s)%s%s%s",
                 sigabbrev_np(signal) ? sigabbrev_np(signal) : "?", strsignal(signal),
                 signal == SIGKILL ? ", sent by another process" : "", separator, child->tail);
    } else if (WEXITSTATUS(wait_status) != 0) {
        snprintf(result->reason, sizeof result->reason, "ended with exit code %d%s%s", WEXITSTATUS(wait_status),
                 separator, child->tail);
    } else {
        snprintf(result->reason, sizeof result->reason, "ended without a record%s%s", separator, child->tail);
    }
}

bool child_run(const char *program, const struct launch *launch, const char *trial, int store, double timeout_s,
               int signals, struct child_result *result, struct status *status)
{
    struct child child;
    *result = (struct child_result){.end = CHILD_RECORD};
    bool started = start(&child, program, launch, trial, store, status);
    if (started) {
        int wait_status = wait_for(&child, launch, timeout_s, signals, result);
        char *newline = child.line_bytes ? memchr(child.line, '\n', child.line_bytes) : NULL;
        bool clean = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
        // A record that was complete before the timeout counts. Among ranks, the first to fail reports.
        if (clean && newline && (launch || newline == child.line + child.line_bytes - 1)) {
            *newline = 0;
            result->end = CHILD_RECORD;
            result->line = child.line;
            child.line = NULL;
        } else if (result->end == CHILD_TIMEOUT) {
            snprintf(result->reason, sizeof result->reason, "did not end within %g seconds", timeout_s);
            if (launch)
                rank_answers_blame(child.tail, launch->ranks, result->blame, sizeof result->blame);
        } else if (result->end == CHILD_RECORD) {
            result->end = CHILD_CRASH;
            judge(&child, launch, wait_status, result);
        }
    }
    close_end(&child.output);
    close_end(&child.errors);
    free(child.line);
    free(child.tail);
    result->wall_s = clock_s() - child.start_s;
    return started;
}

void child_result_free(struct child_result *result)
{
    free(result->line);
    *result = (struct child_result){0};
}
