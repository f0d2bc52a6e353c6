#include "harness/sweep/progress.h"
#include "harness/record/record_read.h"
#include "harness/spec/trial_text.h"
#include "harness/text/size.h"
#include "harness/text/text.h"
#include "kernels/base/clock.h"
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#define REASON_BYTES     160 // bytes of a reason that are shown; the record has all of it
#define SHOW_EVERY_S     0.2 // between updates of a line
#define PLAIN_LINES_FROM ((size_t)1 << 30)

void progress_open(struct progress *progress, const struct spec *spec, size_t total, enum progress_detail detail)
{
    *progress = (struct progress){.detail = detail,
                                  .spec = spec,
                                  .terminal = detail != PROGRESS_QUIET && isatty(STDERR_FILENO),
                                  .total = total,
                                  .start_s = clock_s()};
}

// "1:02:03", "4:05"
static void clock_text(double seconds, char *text, size_t bytes)
{
    long s = lround(seconds);
    if (s >= 3600)
        snprintf(text, bytes, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, bytes, "%ld:%02ld", s / 60, s % 60);
}

void progress_clear(const struct progress *progress)
{
    if (progress->terminal)
        fputs("\r\033[K", stderr);
}

void progress_bytes(struct progress *progress, size_t done)
{
    double now = clock_s();
    size_t tenth = progress->total / 10 + 1;
    if (done >= progress->total) {
        progress_clear(progress);
        return;
    }
    bool due = progress->terminal ? now >= progress->shown_s + SHOW_EVERY_S
                                  : progress->total >= PLAIN_LINES_FROM && done / tenth > progress->done / tenth;
    if (!due || done == 0)
        return;
    char written[32], all[32], left[32];
    size_text(done, written, sizeof written);
    size_text(progress->total, all, sizeof all);
    clock_text((now - progress->start_s) / (double)done * (double)(progress->total - done), left, sizeof left);
    progress_clear(progress);
    fprintf(stderr, "%s of %s, %s left%s", written, all, left, progress->terminal ? "" : "\n");
    fflush(stderr);
    progress->done = done;
    progress->shown_s = now;
}

void progress_step(struct progress *progress, size_t done, const char *words)
{
    double now = clock_s();
    char left[32];
    if (!progress->terminal || done == 0 || now < progress->shown_s + SHOW_EVERY_S)
        return;
    clock_text((now - progress->start_s) / (double)done * (double)(progress->total - done), left, sizeof left);
    fprintf(stderr, "\r\033[K%s, %s left", words, left);
    fflush(stderr);
    progress->done = done;
    progress->shown_s = now;
}

static void describe_with_program(const struct spec *spec, const struct trial *trial, const char *program,
                                  char *text, size_t bytes)
{
    trial_text(trial, spec, text, bytes);
    if (program)
        text_append(text, bytes, "  (%s)", program);
}

void progress_begin(const struct progress *progress, const struct trial *trial, const char *program)
{
    char what[512], left[32] = "";
    describe_with_program(progress->spec, trial, program, what, sizeof what);
    if (progress->detail == PROGRESS_VERBOSE)
        fprintf(stderr, "[%zu/%zu] begins, id %s: %s\n", progress->done + 1, progress->total, trial->id, what);
    if (!progress->terminal)
        return;
    if (progress->done) {
        double each_s = (clock_s() - progress->start_s) / (double)progress->done;
        clock_text(each_s * (double)(progress->total - progress->done), left, sizeof left);
        text_append(left, sizeof left, " left  ");
    }
    fprintf(stderr, "\r\033[K[%zu/%zu] %s%.80s", progress->done + 1, progress->total, left, what);
    fflush(stderr);
}

static void print_end(const struct progress *progress, const struct record *record, enum record_status status,
                      const char *what)
{
    bool all = progress->detail == PROGRESS_VERBOSE || !record->reason || strlen(record->reason) <= REASON_BYTES;
    fprintf(stderr, "[%zu/%zu] %-11s %8.2f s  %s", progress->done, progress->total, record_status_name(status),
            record->wall_s, what);
    if (status != RECORD_OK && record->reason)
        fprintf(stderr, ": %.*s%s", all ? (int)strlen(record->reason) : REASON_BYTES, record->reason,
                all ? "" : "...");
    if (record_gradient_undecided(record))
        fprintf(stderr, ": its gradient is not judged, for rounding in %s explains an error of %.2g",
                record->trial.dtype, record->gradient.bound);
    fputc('\n', stderr);
}

void progress_end(struct progress *progress, const struct trial *trial, const char *program,
                  enum record_status status, const char *line)
{
    char what[512];
    struct record record;
    struct interned interned = {0};
    struct status none = {0};
    record_read(&record, line, strlen(line), &interned, "record", &none);
    progress->done++;
    progress->counts[status]++;
    describe_with_program(progress->spec, trial, program, what, sizeof what);
    progress_clear(progress);
    if (status != RECORD_OK || progress->detail != PROGRESS_QUIET || record_gradient_undecided(&record))
        print_end(progress, &record, status, what);
    interned_free(&interned);
}

void progress_counts(const struct progress *progress, char *text, size_t bytes)
{
    *text = 0;
    for (int i = 0; i < RECORD_STATUS_COUNT; i++)
        if (progress->counts[i])
            text_append(text, bytes, "%s%zu %s", *text ? ", " : "", progress->counts[i],
                        record_status_name((enum record_status)i));
}
