#define _GNU_SOURCE // asprintf
#include "harness/record/result_log.h"
#include "harness/files/input_files.h"
#include "harness/files/io.h"
#include "harness/files/output_file.h"
#include "harness/record/result_file.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static bool io_failed(const struct result_log *log, const char *what, struct status *status)
{
    return status_set(status, STATUS_IO, "%s: cannot %s: %s", log->path, what, strerror(errno));
}

// Creates the file's folder if it is missing (one level).
static void make_folder(const char *path)
{
    char *copy = strdup(path);
    mkdir(dirname(copy), 0777); // if this fails, opening the file reports why
    free(copy);
}

// Tells whether the path still leads to the locked file, which another sweep may have moved before.
static bool is_current(const struct result_log *log)
{
    struct stat ours, theirs;
    return fstat(log->file, &ours) == 0 && stat(log->path, &theirs) == 0 && ours.st_ino == theirs.st_ino &&
           ours.st_dev == theirs.st_dev;
}

static void close_file(struct result_log *log)
{
    if (log->file >= 0)
        close(log->file); // releases the lock
    log->file = -1;
}

// A pipe opened for reading too would accept records without a reader; this way open waits for one.
static int open_file(const char *path)
{
    struct stat file;
    bool pipe = stat(path, &file) == 0 && S_ISFIFO(file.st_mode);
    return io_open(path, (pipe ? O_WRONLY : O_RDWR | O_CREAT) | O_APPEND | O_CLOEXEC, 0666);
}

static bool open_locked(struct result_log *log, struct status *status)
{
    for (;;) {
        struct stat file;
        log->file = open_file(log->path);
        if (log->file < 0 && errno == ENOENT)
            return status_set(status, STATUS_IO, "%s: cannot write to its folder: there is none; make it first",
                              log->path);
        if (log->file < 0 || fstat(log->file, &file) != 0)
            return io_failed(log, "open it for writing", status);
        log->regular = S_ISREG(file.st_mode);
        if (!log->regular) {
            signal(SIGPIPE, SIG_IGN); // a closed pipe becomes a write error, which is reported
            return true;
        }
        if (!io_lock(log->file, LOCK_EX | LOCK_NB)) {
            if (errno != EWOULDBLOCK)
                return io_failed(log, "lock it", status);
            return status_set(status, STATUS_BAD_INPUT,
                              "%s: another sweep is writing to this file; wait for it, or choose another --out",
                              log->path);
        }
        log->end = file.st_size;
        if (is_current(log))
            return true;
        close_file(log);
    }
}

static bool note_id(void *ids, const struct result_line *line, struct status *status)
{
    (void)status;
    result_ids_add(ids, line->record);
    return true;
}

struct trials {
    struct result_ids ids;
    bool have_all; // all of them are in another file
};

static bool look_up(void *visitor, const struct result_line *line, struct status *status)
{
    (void)status;
    struct trials *trials = visitor;
    trials->have_all = trials->have_all && result_ids_find(&trials->ids, line->record->id).records > 0;
    return true;
}

// Tells whether a file has records of these trials only, so that replacing it loses nothing.
static bool are_all(struct trials *trials, const char *path)
{
    struct result_file file;
    struct status why = {0};
    trials->have_all = true;
    bool read = result_file_scan(&file, path, look_up, trials, &why);
    result_file_close(&file);
    return read && trials->have_all;
}

// FILE.bak, to be freed; or FILE.bak.2 and so on, if it has trials that FILE lacks, as after an unfinished sweep
// that was to measure them again.
static char *backup_of(const char *file)
{
    struct result_file moved;
    struct status why = {0};
    struct trials trials = {0};
    struct stat found;
    char *backup = NULL, number[24] = "";
    result_file_scan(&moved, file, note_id, &trials.ids, &why);
    result_file_close(&moved);
    for (size_t i = 2; !backup; i++) {
        CHECK(asprintf(&backup, "%s.bak%s", file, number) > 0);
        bool kept =
            stat(backup, &found) == 0 && S_ISREG(found.st_mode) && found.st_size > 0 && !are_all(&trials, backup);
        if (kept) {
            free(backup);
            backup = NULL;
        }
        snprintf(number, sizeof number, ".%zu", i);
    }
    result_ids_free(&trials.ids);
    return backup;
}

static bool move_away(struct result_log *log, struct status *status)
{
    char *file = output_file_target(log->path), *backup = backup_of(file);
    bool moved = output_file_rename(file, backup) ||
                 status_set(status, STATUS_IO, "%s: cannot move it to %s: %s", log->path, backup, strerror(errno));
    free(backup);
    free(file);
    close_file(log);
    return moved && open_locked(log, status);
}

static bool cut(struct result_log *log)
{
    return io_truncate(log->file, log->end) && io_sync(log->file);
}

// Reads the ids of existing records, without changes.
static bool read_existing(struct result_log *log, struct status *status)
{
    struct status reason = {0};
    struct result_file file;
    bool fine = result_file_scan(&file, log->path, note_id, &log->existing, &reason);
    if (fine) {
        result_file_warn(&file);
        log->unterminated = file.unterminated;
        log->end = (off_t)file.intact_bytes;
        log->torn = file.intact_bytes < file.bytes;
    }
    result_file_close(&file);
    return fine || status_set(status, reason.code,
                              "%s; the file is left as it is: choose another --out, or --fresh to move it away",
                              reason.message);
}

// Continues after the last complete record.
static bool resume(struct result_log *log, struct status *status)
{
    if (!read_existing(log, status))
        return false;
    if (log->torn && !cut(log))
        return io_failed(log, "cut off its torn last line", status);
    output_file_sync_folder(log->path);
    return true;
}

bool result_log_open(struct result_log *log, const char *path, bool fresh, struct status *status)
{
    *log = (struct result_log){.path = path, .file = -1, .created = access(path, F_OK) != 0};
    make_folder(path);
    if (!open_locked(log, status))
        return false;
    if (input_files_have(path))
        return status_set(status, STATUS_BAD_INPUT, "%s: is an input of this command; choose another name", path);
    log->moves = fresh && log->regular && log->end > 0;
    return !log->regular || log->moves || resume(log, status);
}

bool result_log_begin(struct result_log *log, struct status *status)
{
    if (!log->moves)
        return true;
    log->moves = false;
    return move_away(log, status) && resume(log, status);
}

void result_log_abandon(struct result_log *log)
{
    if (log->created && log->regular && log->end == 0 && is_current(log))
        unlink(log->path);
}

bool result_log_append(struct result_log *log, const char *line, struct status *status)
{
    char *text;
    int bytes = asprintf(&text, "%s%s\n", log->unterminated ? "\n" : "", line);
    CHECK(bytes > 0);
    bool synced = io_write(log->file, text, (size_t)bytes) && io_sync(log->file);
    free(text);
    if (synced) {
        log->end += bytes;
        log->unterminated = false;
        return true;
    }
    io_failed(log, "write a record", status);
    if (log->regular && !cut(log))
        fprintf(stderr, "%s: the last line may be torn: %s\n", log->path, strerror(errno));
    return false;
}

bool result_log_kept(const struct result_log *log, struct status *status)
{
    struct stat file;
    if (!log->regular)
        return true;
    if (stat(log->path, &file) != 0)
        return status_set(status, STATUS_IO,
                          "%s: was removed or moved while records were written to it: %s; they are not there",
                          log->path, strerror(errno));
    if (!is_current(log))
        return status_set(
            status, STATUS_IO,
            "%s: was replaced while records were written to it; they are not in the file that is there now",
            log->path);
    return file.st_size == log->end || status_set(status, STATUS_IO,
                                                  "%s: was changed by something else while records were written to "
                                                  "it: %lld bytes, not the %lld written",
                                                  log->path, (long long)file.st_size, (long long)log->end);
}

void result_log_close(struct result_log *log)
{
    close_file(log);
    result_ids_free(&log->existing);
    *log = (struct result_log){.file = -1};
}
