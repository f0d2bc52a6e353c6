// Places and queues: an arena each, copies between them, the events that order them, and the clocks of a plan.
#define _GNU_SOURCE // nftw, mkdtemp
#include "kernels/device/ops.h"
#include "tests/aborts.h"
#include "tests/late.h"
#include "tests/scratch.h"
#include <math.h>

static struct device *opened(const char *name)
{
    struct status status = {0};
    struct device *device = device_open(name, DTYPE_F64, 0, &status);
    assert_non_null(device);
    return device;
}

static void a_place_has_its_own_arena(void **state)
{
    (void)state;
    const char *const names[] = {"cpu", "plan-cpu", "plan-cuda"};
    for (size_t i = 0; i < 3; i++) {
        struct device *device = opened(names[i]);
        size_t before = device->arena.live_bytes;
        assert_int_equal(device->host.limit_bytes > 0, !device->ops->dataless);
        struct tensor x = tensor_new_in(device, PLACE_HOST, 10, 100, DTYPE_F64, CATEGORY_HIDDEN_CHECKPOINTS);
        struct tensor y = tensor_new_in(device, PLACE_HOST, 1, 1, DTYPE_F64, CATEGORY_KV_CACHE);
        assert_non_null(x.data);
        assert_int_equal(x.place, PLACE_HOST);
        assert_int_equal(tensor_rows(x, 3, 2).place, PLACE_HOST);
        struct tensor z = tensor_new(device, 1, 1, DTYPE_F64, CATEGORY_DATA);
        assert_int_equal(z.place, PLACE_DEVICE);
        tensor_free(device, &x);
        assert_int_equal(device->host.live_bytes, 256);
        assert_int_equal(device->host.peak_bytes, 8192 + 256);
        assert_int_equal(device->host.peak_by_category[CATEGORY_HIDDEN_CHECKPOINTS], 8192);
        assert_int_equal(device->host.peak_by_category[CATEGORY_KV_CACHE], 256);
        tensor_free(device, &y);
        assert_int_equal(device->host.live_bytes, 0);
        assert_int_equal(device->arena.peak_bytes, before + 256);
        tensor_free(device, &z);
        assert_int_equal(device->arena.live_bytes, before);
        device_close(device);
    }
}

static void a_full_place_says_what_is_missing(void **state)
{
    (void)state;
    static const struct {
        enum place place;
        size_t limit_bytes;
        const char *says;
    } cases[] = {{PLACE_DEVICE, 3 * 8192, "8192 bytes too few so far (limits.memory)"},
                 {PLACE_HOST, 3 * 8192, "8192 bytes too few so far (limits.host_memory)"},
                 {PLACE_DEVICE, 4 * 8192 - 1, ", 1 byte too few so far (limits.memory)"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct device *device = opened("cpu");
        struct arena *arena = device_arena(device, cases[i].place);
        arena_limit(arena, cases[i].limit_bytes, NULL);
        struct tensor a = tensor_new_in(device, cases[i].place, 2, 1024, DTYPE_F64, CATEGORY_KV_CACHE);
        struct tensor b = tensor_new_in(device, cases[i].place, 2, 1024, DTYPE_F64, CATEGORY_KV_CACHE);
        assert_null(b.data);
        assert_int_equal(device->status.code, STATUS_OOM);
        assert_non_null(strstr(device->status.message, cases[i].says));
        assert_non_null(strstr(device->status.message, "kv_cache"));
        tensor_free(device, &a);
        device_close(device);
    }
}

// On a machine with one memory, both places share its free bytes.
static void host_and_device_share_one_memory(void **state)
{
    (void)state;
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct device *device = opened("cpu");
        struct arena *other = device_arena(device, place == PLACE_HOST ? PLACE_DEVICE : PLACE_HOST);
        assert_true(other->shared_bytes > 0 && other->shared_bytes == other->limit_bytes);
        struct tensor a = tensor_new_in(device, (enum place)place, 1, 1 << 18, DTYPE_F64, CATEGORY_KV_CACHE);
        other->shared_bytes = (2 << 20) + 8192;
        struct tensor b = tensor_new_in(device, other->place, 1, 1024, DTYPE_F64, CATEGORY_DATA);
        assert_non_null(b.data);
        assert_null(tensor_new_in(device, other->place, 1, 32, DTYPE_F64, CATEGORY_DATA).data);
        assert_int_equal(device->status.code, STATUS_OOM);
        assert_non_null(strstr(device->status.message, "256 bytes too few so far (free memory of the machine)"));
        tensor_free(device, &b);
        tensor_free(device, &a);
        device_close(device);
    }
    // A limit that was given is of the one place alone.
    struct status status = {0};
    struct device *device = device_open("cpu", DTYPE_F64, 1 << 20, &status);
    struct tensor kept = tensor_new_in(device, PLACE_HOST, 1, 1 << 18, DTYPE_F64, CATEGORY_KV_CACHE);
    struct tensor x = tensor_new(device, 1, 1 << 17, DTYPE_F64, CATEGORY_DATA);
    assert_non_null(x.data);
    tensor_free(device, &x);
    tensor_free(device, &kept);
    device_close(device);
}

static size_t entries(const char *folder)
{
    DIR *directory = opendir(folder);
    size_t count = 0;
    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static void the_host_may_be_a_folder(void **state)
{
    const struct scratch *scratch = *state;
    struct device *device = opened("cpu");
    double written[300], found[300] = {0};
    for (size_t i = 0; i < 300; i++)
        written[i] = (double)i;
    device->host_folder = scratch->folder;
    struct tensor x = tensor_new_in(device, PLACE_HOST, 3, 100, DTYPE_F64, CATEGORY_KV_CACHE);
    assert_int_equal(device->status.code, STATUS_OK);
    assert_int_equal(device->host.live_bytes, 2560);
    assert_int_equal(entries(scratch->folder), 2); // its file has no name
    char line[512], mapped = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        mapped |= strstr(line, scratch->folder) != NULL;
    fclose(maps);
    assert_true(mapped);
    tensor_write(device, x, written);
    tensor_read(device, x, found);
    assert_memory_equal(found, written, sizeof found);
    // Released memory is kept for the next step, whose pages are then mapped.
    void *before = x.data;
    tensor_free(device, &x);
    assert_int_equal(device->host.live_bytes, 0);
    struct tensor other = tensor_new_in(device, PLACE_HOST, 3, 200, DTYPE_F64, CATEGORY_KV_CACHE);
    x = tensor_new_in(device, PLACE_HOST, 3, 100, DTYPE_F64, CATEGORY_KV_CACHE);
    assert_ptr_equal(x.data, before);
    assert_ptr_not_equal(other.data, before);
    struct tensor second = tensor_new_in(device, PLACE_HOST, 3, 100, DTYPE_F64, CATEGORY_KV_CACHE);
    assert_ptr_not_equal(second.data, before);
    tensor_free(device, &second);
    tensor_free(device, &other);
    tensor_free(device, &x);
    device->host_folder = "/nowhere/at/all";
    x = tensor_new_in(device, PLACE_HOST, 3, 300, DTYPE_F64, CATEGORY_KV_CACHE);
    assert_null(x.data);
    assert_int_equal(device->status.code, STATUS_BAD_INPUT);
    assert_non_null(strstr(device->status.message, "host.folder: no file can be made in /nowhere/at/all: "));
    device_close(device);
}

static void operate_on_the_host(struct device *device, struct tensor t, struct tensor host)
{
    op_copy(device, host, t);
}
static void copy_out_to_the_device(struct device *device, struct tensor t, struct tensor host)
{
    (void)host;
    copy_out(device, t, t);
}
static void copy_in_the_wrong_way(struct device *device, struct tensor t, struct tensor host)
{
    copy_in(device, host, t);
}
static void copy_another_size(struct device *device, struct tensor t, struct tensor host)
{
    copy_out(device, tensor_rows(host, 0, 1), t);
}

static void a_wrong_place_is_a_bug(void **state)
{
    (void)state;
    void (*const mistakes[])(struct device *, struct tensor, struct tensor) = {
        operate_on_the_host, copy_out_to_the_device, copy_in_the_wrong_way, copy_another_size};
    struct device *device = opened("cpu");
    struct tensor t = tensor_new(device, 2, 3, DTYPE_F64, CATEGORY_DATA);
    struct tensor host = tensor_new_in(device, PLACE_HOST, 2, 3, DTYPE_F64, CATEGORY_DATA);
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        EXPECT_ABORT(mistakes[i](device, t, host));
    tensor_free(device, &t);
    tensor_free(device, &host);
    device_close(device);
}

// There and back, every wait in its place. The number that
// comes back, NaN if a wait is missing.
static double there_and_back(struct device *device)
{
    double sent = 5, found;
    struct tensor x = tensor_new(device, 1, 1, DTYPE_F64, CATEGORY_DATA);
    struct tensor host = tensor_new_in(device, PLACE_HOST, 1, 1, DTYPE_F64, CATEGORY_DATA);
    struct tensor y = tensor_new(device, 1, 1, DTYPE_F64, CATEGORY_DATA);
    tensor_write(device, x, &sent);
    event_wait(device, QUEUE_OUT, event_record(device, QUEUE_COMPUTE));
    copy_out(device, host, x);
    struct event out = event_record(device, QUEUE_OUT);
    event_wait(device, QUEUE_IN, out);
    copy_in(device, y, host);
    struct event in = event_record(device, QUEUE_IN);
    event_wait(device, QUEUE_COMPUTE, in);
    tensor_free(device, &host);
    op_scale(device, y, 2);
    tensor_read(device, y, &found);
    event_wait(device, QUEUE_COMPUTE, out);
    tensor_free(device, &x);
    tensor_free(device, &y);
    return device->ops->dataless ? 2 * sent : found;
}

static void copies_are_counted_and_ordered(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool late;
        enum queue dropped_of, dropped_for;
        bool wrong;
    } cases[] = {{"cpu", false, 0, 0, false},
                 {"plan-cpu", false, 0, 0, false},
                 {"cpu", true, 0, 0, false},
                 {"cpu", true, QUEUE_COMPUTE, QUEUE_OUT, false}, // the way back has waited for it
                 {"cpu", true, QUEUE_COMPUTE, QUEUE_IN, true},
                 {"cpu", true, QUEUE_IN, QUEUE_OUT, true}};
    struct counters first = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct device *device = opened(cases[i].name);
        if (cases[i].late)
            late_open(device, cases[i].dropped_of, cases[i].dropped_for);
        double found = there_and_back(device);
        assert_true(cases[i].wrong ? found != 10 : found == 10);
        first = i ? first : device->counters;
        assert_memory_equal(&device->counters, &first, sizeof first);
        if (cases[i].late)
            late_close(device);
        device_close(device);
    }
    assert_true(first.link_bytes[QUEUE_OUT] == 8 && first.link_bytes[QUEUE_IN] == 8);
    assert_true(first.launches == 1 && first.bytes_moved == 16);
}

// A roofline in round numbers: 2 bytes a second on the device, 1 over the link, no launches.
static void an_estimate_is_the_longest_queue(void **state)
{
    (void)state;
    struct device *device = opened("plan-cpu");
    struct counters *counters = &device->counters;
    struct tensor x = tensor_new(device, 1, 100, DTYPE_F64, CATEGORY_DATA); // zero: 400 s
    struct tensor host = tensor_new_in(device, PLACE_HOST, 1, 100, DTYPE_F64, CATEGORY_DATA);
    struct tensor small = tensor_new_in(device, PLACE_HOST, 1, 10, DTYPE_F64, CATEGORY_DATA); // copy: 80 s
    device->roofline = (struct roofline){.flops_per_s = 1, .bytes_per_s = 2, .link_bytes_per_s = 1};

    // Beside each other: the longer one.
    op_zero(device, x);
    copy_in(device, tensor_reshape(tensor_rows(tensor_reshape(x, 100, 1), 0, 10), 1, 10), small);
    assert_true(counters_clock_s(counters) == 400 && counters->clock_s[QUEUE_IN] == 80);
    // Copies in both directions one after the other add up. Independent work runs meanwhile.
    event_wait(device, QUEUE_OUT, event_record(device, QUEUE_COMPUTE));
    copy_out(device, host, x);
    struct event out = event_record(device, QUEUE_OUT);
    op_zero(device, x);
    assert_true(counters->clock_s[QUEUE_OUT] == 1200 && counters->clock_s[QUEUE_COMPUTE] == 800);
    assert_true(counters_clock_s(counters) == 1200);
    event_wait(device, QUEUE_COMPUTE, out);
    op_zero(device, x);
    assert_true(counters->clock_s[QUEUE_COMPUTE] == 1600 && counters->clock_s[QUEUE_IN] == 80);
    // A wait for what has been is none, nor is one for oneself.
    event_wait(device, QUEUE_COMPUTE, out);
    event_wait(device, QUEUE_IN, (struct event){0});
    event_wait(device, QUEUE_IN, event_record(device, QUEUE_IN));
    assert_true(counters_clock_s(counters) == 1600 && counters->clock_s[QUEUE_IN] == 80);
    // By operation alone, as if there were no queues.
    assert_true(counters->estimate_s == 1200);
    // A launch each, and a link of no known rate takes for ever.
    device->roofline.launch_s = 1;
    copy_out(device, host, x);
    assert_true(counters->clock_s[QUEUE_OUT] == 2001);
    device->roofline.link_bytes_per_s = 0;
    copy_out(device, host, x);
    assert_true(isinf(counters_clock_s(counters)));
    tensor_free(device, &small);
    tensor_free(device, &host);
    tensor_free(device, &x);
    device_close(device);
}

// A failed device is asked for nothing more, but what it was asked for is still waited for.
static void a_failed_device_is_asked_for_nothing(void **state)
{
    (void)state;
    struct device *device = opened("cpu");
    late_open(device, 0, 0);
    struct tensor x = tensor_new(device, 1, 1, DTYPE_F64, CATEGORY_DATA);
    struct tensor host = tensor_new_in(device, PLACE_HOST, 1, 1, DTYPE_F64, CATEGORY_DATA);
    op_zero(device, x);
    copy_out(device, host, x);
    status_set(&device->status, STATUS_OOM, "for a test");
    copy_in(device, x, host);
    assert_true(device->counters.link_bytes[QUEUE_IN] == 0);
    *(double *)host.data = 1;
    event_wait(device, QUEUE_COMPUTE, event_record(device, QUEUE_OUT)); // which is recorded after it had failed
    assert_true(*(double *)host.data == 0);
    tensor_free(device, &x);
    tensor_free(device, &host);
    late_close(device);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_has_its_own_arena),
        cmocka_unit_test(a_full_place_says_what_is_missing),
        cmocka_unit_test(host_and_device_share_one_memory),
        cmocka_unit_test_setup_teardown(the_host_may_be_a_folder, scratch_setup, scratch_teardown),
        cmocka_unit_test(a_wrong_place_is_a_bug),
        cmocka_unit_test(copies_are_counted_and_ordered),
        cmocka_unit_test(an_estimate_is_the_longest_queue),
        cmocka_unit_test(a_failed_device_is_asked_for_nothing),
    };
    return cmocka_run_group_tests_name("places", tests, NULL, NULL);
}
