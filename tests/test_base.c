// The base: arena, dtypes, random numbers, columns.
#include "kernels/base/random.h"
#include "kernels/base/size_text.h"
#include "kernels/device/ops.h"
#include "methods/schedule/chunks.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_arena_peak_by_category(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open("cpu", DTYPE_F32, 1 << 20, &status);
    arena_timeline_start(&device->arena);
    struct tensor a = tensor_new(device, 1, 1000, DTYPE_F32, CATEGORY_WEIGHTS);   // 4000 -> 4096
    struct tensor b = tensor_new(device, 10, 100, DTYPE_F64, CATEGORY_WORKSPACE); // 8000 -> 8192
    tensor_free(device, &b);
    struct tensor c = tensor_new(device, 1, 1, DTYPE_F32, CATEGORY_DATA); // 4 -> 256
    assert_int_equal(device->arena.live_bytes, 4096 + 256);
    assert_int_equal(device->arena.peak_bytes, 4096 + 8192);
    assert_int_equal(device->arena.peak_by_category[CATEGORY_WEIGHTS], 4096);
    assert_int_equal(device->arena.peak_by_category[CATEGORY_WORKSPACE], 8192);
    assert_int_equal(device->arena.peak_by_category[CATEGORY_DATA], 0);
    assert_int_equal(device->arena.timeline_count, 5); // the start and four changes
    assert_int_equal(device->arena.timeline[2].live_bytes[CATEGORY_WORKSPACE], 8192);
    arena_reset_peak(&device->arena);
    assert_int_equal(device->arena.peak_bytes, 4096 + 256);

    struct tensor d = tensor_new(device, 1 << 10, 1 << 10, DTYPE_F32, CATEGORY_LOGITS);
    assert_null(d.data);
    assert_int_equal(device->status.code, STATUS_OOM);
    assert_non_null(strstr(device->status.message, "logits"));
    // Sticky: the fronts do nothing now, and nothing is allocated.
    struct tensor e = tensor_new(device, 1, 1, DTYPE_F32, CATEGORY_DATA);
    assert_null(e.data);
    op_zero(device, d);
    tensor_free(device, &a);
    tensor_free(device, &c);
    tensor_free(device, &d);
    device_close(device);
}

static void *give(struct arena *arena, size_t bytes, struct status *status)
{
    (void)bytes, (void)status;
    return arena;
}
static void take(struct arena *arena, void *pointer, size_t bytes)
{
    (void)arena, (void)pointer, (void)bytes;
}

// An allocation that just fits succeeds, and one byte more fails; temporary allocations and another place's use of
// the same memory count.
static void test_arena_limits(void **state)
{
    (void)state;
    const struct arena_source source = {.allocate = give, .release = take};
    size_t grown[CATEGORY_COUNT] = {[CATEGORY_DATA] = 512};
    for (int shared = 0; shared < 2; shared++) {
        struct arena arena, host;
        struct status status = {0};
        arena_open(&host, NULL, PLACE_HOST, source);
        arena_open(&arena, NULL, PLACE_DEVICE, source);
        arena_limit(&arena, shared ? 0 : 1024, NULL);
        arena.beside = shared ? &host : NULL;
        arena.shared_bytes = shared ? 1024 + 256 : 0;
        arena.shared_what = "both";
        assert_non_null(arena_allocate(&host, 256, CATEGORY_DATA, 0, &status));
        assert_non_null(arena_allocate(&arena, 512, CATEGORY_WORKSPACE, 0, &status));
        assert_non_null(arena_allocate(&arena, 512, CATEGORY_DATA, 0, &status));
        assert_null(arena_allocate(&arena, 1, CATEGORY_DATA, 0, &status));
        assert_int_equal(status.code, STATUS_OOM);
        arena_release(&arena, &arena, 512, CATEGORY_WORKSPACE, 0);
        assert_int_equal(arena.live_by_category[CATEGORY_WORKSPACE], 0);
        arena_reset_peak(&arena);
        assert_false(arena_touch(&arena, 513, grown));
        assert_int_equal(arena.peak_bytes, 512);
        assert_true(arena_touch(&arena, 512, grown));
        assert_int_equal(arena.peak_bytes, 1024);
        assert_int_equal(arena.peak_by_category[CATEGORY_DATA], 1024);
        assert_int_equal(arena.live_bytes, 512);
        arena_release(&arena, &arena, 512, CATEGORY_DATA, 0);
        arena_release(&host, &host, 256, CATEGORY_DATA, 0);
        arena_close(&arena);
        arena_close(&host);
    }
    struct arena arena;
    struct status status = {0};
    arena_open(&arena, NULL, PLACE_DEVICE, source);
    assert_non_null(arena_allocate(&arena, 512, CATEGORY_DATA, 0, &status));
    assert_false(arena_touch(&arena, SIZE_MAX - 511, grown)); // more than can be addressed
    assert_true(arena_touch(&arena, SIZE_MAX - 512, grown));
    assert_null(arena_allocate(&arena, SIZE_MAX - 600, CATEGORY_DATA, 0, &status));
    assert_non_null(strstr(status.message, "are more than can be addressed: 512 B are live"));
    arena_release(&arena, &arena, 512, CATEGORY_DATA, 0);
    arena_close(&arena);
}

static void test_sizes_beyond_addresses(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open("cpu", DTYPE_F32, 0, &status);
    tensor_new(device, SIZE_MAX / 2, 3, DTYPE_F64, CATEGORY_DATA);
    assert_int_equal(device->status.code, STATUS_OOM);
    device->status = (struct status){0};
    tensor_new(device, SIZE_MAX / 8, 1, DTYPE_F64, CATEGORY_DATA);
    assert_int_equal(device->status.code, STATUS_OOM);
    device->status = (struct status){0};
    tensor_new(device, SIZE_MAX / 2 + 1, 2, DTYPE_F64, CATEGORY_DATA); // whose product is 0
    assert_int_equal(device->status.code, STATUS_OOM);
    device_close(device);
    assert_null(device_open("abacus", DTYPE_F32, 0, &status));
    assert_non_null(strstr(status.message, "abacus"));
    status = (struct status){0};
    assert_null(device_open("cpu", DTYPE_F16, 0, &status));
    assert_int_equal(status.code, STATUS_UNSUPPORTED);
}

// Quoted text in a message sends no control characters to the terminal.
static void test_control_characters_in_messages(void **state)
{
    (void)state;
    struct status status = {0};
    assert_false(status_set(&status, STATUS_BAD_INPUT, "%s", "a\x1b[31m\n\x7f\xc2\x9b\xc3\xa9"));
    assert_string_equal(status.message, "a?[31m?"
                                        "???"
                                        "\xc3\xa9");
}

static void test_sizes_in_words(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        const char *text;
    } sizes[] = {{0, "0 B"},
                 {1023, "1023 B"},
                 {1024, "1.00 KiB"},
                 {1536, "1.50 KiB"},
                 {1 << 20, "1.00 MiB"},
                 {(size_t)5 << 29, "2.50 GiB"},
                 {(size_t)1 << 40, "1.00 TiB"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char text[32];
        size_text(sizes[i].bytes, text, sizeof text);
        assert_string_equal(text, sizes[i].text);
    }
}

// The known answers that the authors of Random123 publish for philox4x32-10.
static void test_philox_known_answers(void **state)
{
    (void)state;
    const uint32_t zero[4] = {0}, zero_key[2] = {0};
    const uint32_t ones[4] = {~0u, ~0u, ~0u, ~0u}, ones_key[2] = {~0u, ~0u};
    const uint32_t zero_out[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    const uint32_t ones_out[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    uint32_t out[4];
    philox(out, zero, zero_key);
    assert_memory_equal(out, zero_out, sizeof out);
    philox(out, ones, ones_key);
    assert_memory_equal(out, ones_out, sizeof out);
}

static void test_random_moments(void **state)
{
    (void)state;
    struct random random = random_named(1, "moments"), other = random_named(1, "others");
    double sum = 0, square = 0, uniform = 0, product = 0;
    const size_t n = 100000;
    for (size_t i = 0; i < n; i++) {
        double x = random_normal(&random, i), u = random_uniform(&random, i);
        assert_true(u >= 0 && u < 1 && isfinite(x));
        assert_true(random_below(&random, i, 7) < 7);
        sum += x, square += x * x, uniform += u, product += x * random_normal(&other, i);
    }
    // Five standard deviations; the seed is fixed.
    assert_true(fabs(sum / n) < 5 / sqrt(n));
    assert_true(fabs(square / n - 1) < 5 * sqrt(2.0 / n));
    assert_true(fabs(uniform / n - 0.5) < 5 * sqrt(1.0 / 12 / n));
    assert_true(fabs(product / n) < 5 / sqrt(n));
    assert_true(random_bits(&random, 3) != random_bits(&other, 3));
}

// The bits are the generator's definition: another compiler, flag or processor must not change one.
static void test_normal_bits(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    const struct random random = random_named(7, "model.embed_tokens.weight");
    const uint64_t first = ((uint64_t)1 << 32) - COUNT / 2; // both halves of an index count
    double values[COUNT];
    uint64_t sum = 0;
    random_normals(&random, first, COUNT, 0, 1, values);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(values[i] == random_normal(&random, first + i)); // several at a time are as one
        sum = sum * 0x9e3779b97f4a7c15u + double_bits(values[i]);
    }
    assert_int_equal(sum, 0x713e728b0204a8ca);
    random_normals(&random, first, COUNT, 1, 0.1, values);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(values[i] == fma(0.1, random_normal(&random, first + i), 1));
}

// Against the C library's long double, at random and where an argument is extreme.
static void test_normal_is_accurate(void **state)
{
    (void)state;
    const struct random random = random_named(1, "words");
    const uint64_t max = ~(uint64_t)0, edges[] = {0, (uint64_t)1 << 11, max, max << 11, max << 12, max >> 1};
    const size_t edge_count = sizeof edges / sizeof *edges;
    for (size_t i = 0; i < 200000 + edge_count * edge_count; i++) {
        uint64_t words[2] = {edges[i % edge_count], edges[i / edge_count % edge_count]};
        if (i >= edge_count * edge_count) {
            random_words(&random, i, words);
            words[0] |= i % 3 ? 0 : max << 30;                              // near 1
            words[1] = i % 5 ? words[1] : (i % 8) << 61 | (words[1] >> 35); // near an eighth of a turn
        }
        double u = (double)((words[0] >> 11) + 1) * 0x1p-53,
               angle = 2 * M_PI * ((double)(words[1] >> 11) * 0x1p-53);
        double expected = (double)(sqrtl(-2 * logl(u)) * cosl(angle)), found = normal_of(words);
        if (!(fabs(found - expected) <= 4 * 0x1p-53 * fabs(expected))) {
            fail_msg("words %llx and %llx give %.17g, not %.17g", (unsigned long long)words[0],
                     (unsigned long long)words[1], found, expected);
        }
    }
}

static void test_dtypes(void **state)
{
    (void)state;
    enum dtype dtype;
    for (int i = 0; i < DTYPE_COUNT; i++)
        assert_true(dtype_from_name(dtype_name(i), &dtype) && dtype == (enum dtype)i);
    assert_false(dtype_from_name("f8", &dtype));
    // bf16 has 8 bits of precision: ties go to even.
    assert_true(dtype_round(1 + 0x1p-8, DTYPE_BF16) == 1);
    assert_true(dtype_round(1 + 3 * 0x1p-8, DTYPE_BF16) == 1 + 0x1p-6);
    assert_true(dtype_round(1 + 0x1p-8 + 0x1p-20, DTYPE_BF16) == 1 + 0x1p-7);
    assert_true(isnan(dtype_from_bf16(dtype_bf16(NAN))));
    assert_true(isinf(dtype_round(3.4e38, DTYPE_BF16)));
    assert_true(dtype_round(1 + 0x1p-24, DTYPE_F32) == 1);
    assert_true(dtype_round(0.1, DTYPE_F64) == 0.1);
}

static void test_columns(void **state)
{
    (void)state;
    for (size_t context = 1; context < 20; context++) {
        for (size_t chunk = 0; chunk < 25; chunk++) {
            struct chunks columns = chunks_of(context, chunk);
            size_t covered = 0;
            for (size_t i = 0; i < columns.count; i++) {
                struct span span = chunk_span(columns, i);
                assert_int_equal(span.start, covered);
                assert_true(span.count > 0);
                covered += span.count;
            }
            assert_int_equal(covered, context);
        }
    }
    assert_int_equal(chunks_of(10, 4).count, 3);
    assert_int_equal(chunks_of(10, 40).count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena_peak_by_category),
        cmocka_unit_test(test_sizes_beyond_addresses),
        cmocka_unit_test(test_control_characters_in_messages),
        cmocka_unit_test(test_sizes_in_words),
        cmocka_unit_test(test_arena_limits),
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_random_moments),
        cmocka_unit_test(test_normal_bits),
        cmocka_unit_test(test_normal_is_accurate),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
