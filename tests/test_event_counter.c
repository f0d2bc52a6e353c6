// Tests of counted events of this process's threads, and of a trial's instructions. The processor that tests run
// on may have no counters: the tests count page faults, which every kernel counts, and replace the readings of a
// trial, by perf_event_open here (linked with --wrap=syscall).
#define _GNU_SOURCE // pipe2
#include "harness/machine/event_counter.h"
#include "harness/trial/trial_run.h"
#include "tests/trial_of.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/perf_event.h>
#include <math.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES 200

// --- perf_event_open

struct reading {
    uint64_t events, enabled_ns, running_ns;
};

static enum { KERNEL, MADE_UP, REFUSED } opens;
static const struct reading *readings; // of the first thread that is opened, one after the other
static size_t reading_count, opened;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, const struct perf_event_attr *event, pid_t thread, int cpu, int group,
                    unsigned long flags);

static int made_up(void)
{
    int ends[2];
    if (opened++) {
        errno = ESRCH; // as of a thread that has ended
        return -1;
    }
    size_t bytes = reading_count * sizeof *readings;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], readings, bytes), bytes);
    close(ends[1]);
    return ends[0];
}

long __wrap_syscall(long number, const struct perf_event_attr *event, pid_t thread, int cpu, int group,
                    unsigned long flags)
{
    assert_int_equal(number, SYS_perf_event_open);
    if (opens == KERNEL)
        return __real_syscall(number, event, thread, cpu, group, flags);
    assert_true(event->type == PERF_TYPE_HARDWARE && event->config == PERF_COUNT_HW_INSTRUCTIONS);
    errno = EACCES;
    return opens == REFUSED ? -1 : made_up();
}

// --- counting

static void *touch(void *unused)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
    madvise(pages, PAGES * page, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < PAGES; i++)
        *(volatile char *)(pages + i * page) = 1;
    munmap(pages, PAGES * page);
    return unused;
}

static pthread_barrier_t counted;

static void *touch_later(void *unused)
{
    pthread_barrier_wait(&counted);
    return touch(unused);
}

// Events of a thread from before the counter, of the thread that opens it, and of a thread that starts afterwards.
static void events_of_all_threads_are_counted(void **state)
{
    (void)state;
    struct event_counter counter;
    pthread_t before, behind;
    pthread_barrier_init(&counted, NULL, 2);
    assert_int_equal(pthread_create(&before, NULL, touch_later, &counter), 0);
    bool open = event_counter_open(&counter, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS);
    double start = event_counter_read(&counter);
    assert_ptr_equal(touch(&counter), &counter);
    double own = event_counter_read(&counter) - start;
    pthread_barrier_wait(&counted);
    assert_int_equal(pthread_join(before, NULL), 0);
    double two = event_counter_read(&counter) - start;
    assert_int_equal(pthread_create(&behind, NULL, touch, &counter), 0);
    assert_int_equal(pthread_join(behind, NULL), 0);
    double three = event_counter_read(&counter) - start;
    event_counter_close(&counter);
    pthread_barrier_destroy(&counted);
    if (!open) {
        print_message("the kernel lets this process count nothing: page faults are not counted\n");
        skip();
    }
    double found[] = {own, two, three};
    for (size_t i = 0; i < COUNT(found); i++)
        if (!(found[i] >= (double)(i + 1) * PAGES && found[i] < (double)(i + 1.5) * PAGES))
            fail_msg("%zu threads: %g page faults of %d pages each", i + 1, found[i], PAGES);
}

static void what_nobody_counts_is_not_known(void **state)
{
    (void)state;
    struct event_counter counter;
    assert_false(event_counter_open(&counter, 12345, 0));
    assert_true(isnan(event_counter_read(&counter)));
    event_counter_close(&counter);
    // A processor with fewer counters than events.
    static const struct reading partly[] = {{1000, 50, 50}, {2000, 100, 90}};
    opens = MADE_UP, opened = 0, readings = partly, reading_count = COUNT(partly);
    assert_true(event_counter_open(&counter, PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS));
    assert_true(event_counter_read(&counter) == 1000);
    assert_true(isnan(event_counter_read(&counter)));
    assert_true(isnan(event_counter_read(&counter))); // and of one that says nothing more
    event_counter_close(&counter);
}

// --- a trial's instructions

// Read before and behind each of three samples: 90, 70 and 80.
static const struct reading three_samples[] = {{10, 1, 1},  {100, 1, 1}, {200, 2, 2},
                                               {270, 3, 3}, {300, 4, 4}, {380, 5, 5}};

static double instructions_of(const char *trial_json)
{
    struct trial trial = trial_of(trial_json);
    opened = 0, readings = three_samples, reading_count = COUNT(three_samples);
    char *line = trial_run(&trial, -1);
    json_t *record = json_loads(line, 0, NULL);
    const json_t *count = json_object_get(record, "instructions");
    if (!count || strcmp(json_string_value(json_object_get(record, "status")), "ok"))
        fail_msg("%s", line);
    double value = json_is_null(count) ? NAN : json_number_value(count);
    // Beside it, what each sample took of the processors.
    const json_t *times = json_object_get(record, "cpu_ms"), *time;
    size_t i;
    assert_int_equal(json_array_size(times), trial.planned ? 0 : 3);
    json_array_foreach(times, i, time) assert_true(json_number_value(time) > 0);
    json_decref(record);
    free(line);
    trial_free(&trial);
    return value;
}

#define TRIAL(method, more)                                                                                        \
    "{'model': {'layers': 1, 'width': 8, 'heads': 2, 'ffn': 8, 'vocab': 11}, 'context': 24, 'method': " method     \
    ", 'measure': {'warmup': 1, 'samples': 3, 'gradient': 'none'}" more "}"
#define SPACO "{'name': 'spaco', 'chunk': 4, 'budget': 2, 'sampler': 'uniform'}"

static void a_step_has_the_fewest_of_its_samples(void **state)
{
    (void)state;
    opens = MADE_UP;
    assert_true(instructions_of(TRIAL("'full'", "")) == 70);
    assert_true(instructions_of(TRIAL("'full'", ", 'optimizer': 'adamw'")) == 70);
    // If samples differ, the counts are the first one's.
    assert_true(instructions_of(TRIAL(SPACO, "")) == 90);
    assert_true(instructions_of(TRIAL("'full'", ", 'optimizer': 'bcd'")) == 90);
}

static void elsewhere_there_are_none(void **state)
{
    (void)state;
    opens = REFUSED;
    assert_true(isnan(instructions_of(TRIAL("'full'", ""))));
    opens = MADE_UP;
    assert_true(isnan(instructions_of(TRIAL("'full'", ", 'device': 'plan-cpu'"))));
}

// By the processor, where it has counters.
static void the_processors_own(void **state)
{
    (void)state;
    struct event_counter counter;
    opens = KERNEL;
    bool open = event_counter_open(&counter, PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
    event_counter_close(&counter);
    double found = instructions_of(TRIAL("'full'", ""));
    assert_true(open ? found > 1000 : isnan(found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_of_all_threads_are_counted), cmocka_unit_test(what_nobody_counts_is_not_known),
        cmocka_unit_test(a_step_has_the_fewest_of_its_samples), cmocka_unit_test(elsewhere_there_are_none),
        cmocka_unit_test(the_processors_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
