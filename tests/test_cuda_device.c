// Device cuda on machines without a plug-in or a GPU: a status with a reason, never a crash. And the workspaces
// that the plan device must know.
#include "kernels/cuda/workspace.h"
#include "kernels/device/ops.h"
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// Opening must fail as unsupported, for a reason that says `part`.
static void refused(enum dtype dtype, const char *part)
{
    struct status status = {0};
    assert_null(device_open("cuda", dtype, 0, &status));
    assert_int_equal(status.code, STATUS_UNSUPPORTED);
    if (!strstr(status.message, part))
        fail_msg("\"%s\" does not say \"%s\"", status.message, part);
}

static void test_no_plugin(void **state)
{
    (void)state;
    unsetenv("LONGBP_CUDA"); // and none lies beside this test
    refused(DTYPE_BF16, "make cuda");
    setenv("LONGBP_CUDA", "/there/is/no/such.so", 1);
    refused(DTYPE_F32, "/there/is/no/such.so");
}

static void test_plugin(void **state)
{
    (void)state;
    char path[PATH_MAX + 32];
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    assert_true(length > 0);
    path[length] = 0;
    *strstr(path, "/tests/") = 0;
    strcat(path, "/longbp-cuda.so");
    if (access(path, F_OK) != 0)
        skip(); // it was not built
    setenv("LONGBP_CUDA", path, 1);
    const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_F32, DTYPE_F64};
    for (size_t i = 0; i < 3; i++) {
        struct status status = {0};
        struct device *device = device_open("cuda", dtypes[i], 0, &status);
        if (device) {
            assert_int_equal(device->arena.live_bytes, CUDA_WORKSPACE_BYTES);
            assert_true(device->arena.limit_bytes > 0);
            device_close(device);
        } else {
            assert_int_equal(status.code, STATUS_UNSUPPORTED);
            assert_true(strstr(status.message, "needs an NVIDIA GPU") ||
                        strstr(status.message, "could not be loaded") ||
                        strstr(status.message, "built from other sources")); // before it was changed
        }
    }
}

static void test_devices_without_hooks(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open("cpu", DTYPE_F64, 0, &status);
    assert_non_null(device);
    assert_null(device->backend);
    assert_null(device->ops->mark);
    assert_int_equal(device->arena.live_bytes, 0);
    device_close(device);
    device = device_open("plan-cuda", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    assert_int_equal(device->arena.live_by_category[CATEGORY_WORKSPACE], CUDA_WORKSPACE_BYTES);
    device_close(device);
    assert_null(device_open("plan-cuda", DTYPE_BF16, 1 << 20, &status)); // no room for the workspace
    assert_int_equal(status.code, STATUS_OOM);
}

// queries: of a block, as the device is asked for; CUDA_ATTENTION_WHOLE: all at once.
static size_t workspace_bytes(struct attention_shape shape, enum dtype dtype, size_t queries, bool deterministic)
{
    struct status status = {0};
    struct device *device = device_open("plan-cuda", dtype, 0, &status);
    assert_non_null(device);
    device->whole_attention = queries == CUDA_ATTENTION_WHOLE;
    device->attention_queries = device->whole_attention ? 0 : queries;
    device->deterministic = deterministic;
    size_t bytes = device->ops->rules->attention_backward_workspace(device, shape, NULL, 0);
    device_close(device);
    return bytes;
}

// Long heads' forward is cuDNN's on every card, their backward on sm_90 alone.
static void test_long_heads(void **state)
{
    (void)state;
    static const struct {
        size_t compute_capability, head_dim;
        bool forward, backward;
    } cases[] = {{0, 128, true, true},    {80, 128, true, true},   {0, 136, true, false},  {80, 136, true, false},
                 {89, 256, true, false},  {90, 136, true, true},   {90, 256, true, true},  {90, 264, false, false},
                 {90, 132, false, false}, {100, 256, true, false}, {120, 192, true, false}};
    struct status status = {0};
    struct device *device = device_open("plan-cuda", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct attention_shape s = {.queries = 512, .batch = 1, .heads = 2, .kv_heads = 1};
        s.head_dim = cases[i].head_dim;
        device->compute_capability = cases[i].compute_capability;
        assert_true(cuda_attention_forward_by_cudnn(device, s) == cases[i].forward);
        assert_true(cuda_attention_backward_by_cudnn(device, s) == cases[i].backward);
        assert_true((device->ops->rules->attention_backward_workspace(device, s, NULL, 0) > 0) ==
                    cases[i].backward);
    }
    device_close(device);
}

static const size_t block_queries[] = {128, 129, 300, 2047, 2048, 2049, 2050, 4096, 4097, 5000, 16385};
static const size_t max[] = {128, CUDA_ATTENTION_QUERIES, CUDA_ATTENTION_QUERIES_MAX, CUDA_ATTENTION_WHOLE};

// Pairs of a query and a key that the blocks' queries see. Rows fill tiles, unless they are the own kernels'; and
// each block of queries ends once.
static size_t pairs_of_blocks(struct attention_shape s, size_t max)
{
    size_t pairs = 0, ends = 0;
    for (struct cuda_attention_block b = {0}; cuda_attention_next_block(s, max, &b);) {
        bool triangle = b.kind == ATTENTION_CAUSAL || b.kind == ATTENTION_WINDOW;
        triangle |= b.kind == ATTENTION_UNTILED && attention_is_causal(s) && !b.prefix;
        assert_true(b.row <= b.query && b.query + b.queries <= b.row + b.rows && b.row + b.rows <= s.queries);
        assert_true(max == CUDA_ATTENTION_WHOLE || (b.queries <= max && b.keys <= 2 * CUDA_ATTENTION_KEYS));
        assert_true(b.keys > 0 && (b.kind != ATTENTION_RECTANGLE || b.keys % CUDA_ATTENTION_TILE == 0));
        assert_true(b.kind == ATTENTION_UNTILED || b.rows % CUDA_ATTENTION_TILE == 0);
        assert_true(b.kind != ATTENTION_UNTILED || b.keys < CUDA_ATTENTION_TILE);
        pairs += b.queries * b.taken_keys - (triangle ? b.queries * (b.queries - 1) / 2 : 0);
        ends += b.last ? b.queries : 0;
    }
    assert_int_equal(ends, s.queries);
    return pairs;
}

// Blocks cover each pair of a query and a key that it sees once.
static void test_attention_blocks(void **state)
{
    (void)state;
    static const size_t starts[] = {0, 1, 300, 40000};
    for (size_t i = 0; i < COUNT(block_queries) * COUNT(starts); i++) {
        struct attention_shape s = {
            .queries = block_queries[i / COUNT(starts)], .start = starts[i % COUNT(starts)], .batch = 1};
        s.heads = s.kv_heads = 1, s.head_dim = 8;
        size_t seen = 0;
        for (size_t query = 0; query < s.queries; query++)
            seen += s.start + query + 1;
        for (size_t k = 0; k < COUNT(max); k++)
            assert_int_equal(pairs_of_blocks(s, max[k]), seen);
    }
}

// If all queries see all keys, the incomplete tile comes last.
static void test_attention_blocks_of_keys(void **state)
{
    (void)state;
    static const size_t keys[] = {128, 129, 300, 2048, 16384, 40000};
    for (size_t i = 0; i < COUNT(block_queries) * COUNT(keys); i++) {
        struct attention_shape s = {.queries = block_queries[i / COUNT(keys)], .start = 50000, .batch = 1};
        s.heads = s.kv_heads = 1, s.head_dim = 8, s.keys = keys[i % COUNT(keys)];
        for (size_t k = 0; k < COUNT(max); k++)
            assert_int_equal(pairs_of_blocks(s, max[k]), s.queries * s.keys);
    }
}

// ---- masks

static double pairs_seen(struct attention_shape s)
{
    double pairs = 0;
    for (size_t row = 0; row < s.queries * s.batch; row++) {
        struct seen_keys seen = attention_seen_keys(&s, row / s.batch, row % s.batch);
        pairs += (double)(s.start + row / s.batch + 1 - seen.own);
        pairs += seen.end > seen.first ? (double)(seen.end - seen.first) : 0;
    }
    return pairs;
}

// Pairs that are run of each that is seen; and each query's results are taken once per key.
static double pairs_run(struct attention_shape s)
{
    double run = 0, taken = 0;
    for (struct cuda_attention_block b = {0}; cuda_attention_next_block(s, CUDA_ATTENTION_QUERIES, &b);) {
        double queries = (double)b.queries, keys = (double)b.taken_keys;
        double above = queries * (queries - 1) / 2; // the diagonal
        size_t bound = b.kind == ATTENTION_WINDOW ? cuda_attention_left_bound(s, &b) : 0;
        size_t hidden = bound > 0 ? b.query - b.row + 1 - bound : 0; // keys of the first query
        taken += queries * keys - (b.kind == ATTENTION_RECTANGLE ? 0 : above);
        taken -= bound > 0 ? queries * (double)hidden + above : 0;
        run += cuda_attention_block_pairs(&b);
        assert_true(b.row + b.rows <= s.queries);
    }
    assert_true(taken == pairs_seen(s));
    return run / taken;
}

static struct attention_shape masked_shape(size_t queries, size_t start, size_t window, const int32_t *starts,
                                           const int32_t *prefixes)
{
    struct attention_shape s = {queries, start, 1, 8, 2, 128, 0, {.window = window}, 0, 0};
    s.mask.documents.starts = starts;
    s.mask.documents.prefixes = prefixes;
    return s;
}

// No mask costs more than 1.3 of the pairs that it leaves, though an engine that saw no left bound would compute
// all that is before the diagonal: windows of 256 tokens or more in calls of at least 4,096 queries, ...
static void test_windows_cost(void **state)
{
    (void)state;
    static const size_t starts[] = {0, 1000, 32768};
    for (size_t i = 0; i < COUNT(starts); i++) {
        for (size_t window = 256; window < 8192; window += window < 1200 ? 37 : 411) {
            double cost = pairs_run(masked_shape(4096, starts[i], window, NULL, NULL));
            if (cost > 1.3)
                fail_msg("start %zu, window %zu: %.3f", starts[i], window, cost);
        }
    }
}

// ... documents of 800 tokens or more, and mixes of 512 and more (of 256 tokens and one, two tiles and a row of a
// third, 1.8), ...
static void test_documents_cost(void **state)
{
    (void)state;
    static int32_t starts[16384];
    struct random random = random_named(1, "documents");
    for (size_t trial = 0; trial < 60; trial++) {
        size_t at = 0, smallest = trial < 30 ? 0 : 512;
        for (size_t i = 0; at < COUNT(starts); i++) {
            double draw = fabs(random_normal(&random, trial * 1000 + i));
            size_t length = smallest ? smallest + (size_t)(draw * 1500) : 800 + 61 * trial;
            for (size_t end = at + length, first = at; at < end && at < COUNT(starts); at++)
                starts[at] = (int32_t)first;
        }
        double cost = pairs_run(masked_shape(COUNT(starts), 0, 0, starts, NULL));
        if (cost > 1.3)
            fail_msg("trial %zu: %.3f", trial, cost);
    }
}

// ... and groups of responses of 256 tokens or more to a prompt of 1,024 or more. With a prompt of 512 it is 1.31.
static void test_groups_cost(void **state)
{
    (void)state;
    static int32_t starts[32768];
    for (size_t prompt = 1024; prompt <= 8192; prompt = prompt * 3 / 2) {
        for (size_t response = 256; response <= 1500; response = response * 5 / 4) {
            for (size_t group = 1; group <= 16; group *= 4) {
                const int32_t prefix = (int32_t)(prompt / CUDA_ATTENTION_TILE * CUDA_ATTENTION_TILE);
                size_t count = (size_t)prefix + group * response;
                for (size_t i = 0; i < count; i++) {
                    size_t before = (size_t)prefix;
                    starts[i] = (int32_t)(i < before ? 0 : before + (i - before) / response * response);
                }
                double cost = pairs_run(masked_shape(count, 0, 0, starts, &prefix));
                if (cost > 1.3)
                    fail_msg("prompt %zu, %zu responses of %zu: %.3f", prompt, group, response, cost);
            }
        }
    }
}

// Shapes of blocks, which cuDNN compiles one by one, are few whatever the documents: whole tiles of queries times
// powers of two of tiles of keys, square causal blocks, and one tile of queries that begins within a tile.
static void test_few_shapes(void **state)
{
    (void)state;
    enum { TILES = CUDA_ATTENTION_QUERIES / CUDA_ATTENTION_TILE };
    static int32_t starts[8192];
    struct random random = random_named(1, "few");
    for (size_t trial = 0; trial < 200; trial++) {
        size_t begin = trial * 37 % 5000, at = 0;
        for (size_t i = 0; at < COUNT(starts); i++) {
            size_t end = at + 1 + (size_t)(fabs(random_normal(&random, trial * 10000 + i)) * 900);
            for (size_t first = i ? begin + at : 0; at < end && at < COUNT(starts); at++)
                starts[at] = (int32_t)first;
        }
        struct attention_shape s = masked_shape(COUNT(starts), begin, 0, starts, NULL);
        for (struct cuda_attention_block b = {0}; cuda_attention_next_block(s, CUDA_ATTENTION_QUERIES, &b);) {
            size_t tiles = b.rows / CUDA_ATTENTION_TILE, key_tiles = b.keys / CUDA_ATTENTION_TILE;
            assert_true(b.kind == ATTENTION_UNTILED || (tiles >= 1 && tiles <= TILES));
            assert_true(b.kind != ATTENTION_RECTANGLE || (key_tiles & (key_tiles - 1)) == 0);
            assert_true(b.kind != ATTENTION_CAUSAL || b.keys == b.rows || tiles == 1);
        }
    }
}

// Own kernels take what cuDNN cannot, and all masks where the environment or the device says so.
static void test_masks_by_own_kernels(void **state)
{
    (void)state;
    struct status status = {0};
    struct device *device = device_open("plan-cuda", DTYPE_BF16, 0, &status);
    static int32_t starts[4096], prefix = 1000;
    assert_non_null(device);
    for (size_t i = 1000; i < COUNT(starts); i++)
        starts[i] = (int32_t)(1000 + (i - 1000) / 600 * 600);
    struct attention_shape window = masked_shape(4096, 4096, 1024, NULL, NULL);
    struct attention_shape wide = masked_shape(65536, 0, 32768, NULL, NULL);
    struct attention_shape few = masked_shape(CUDA_ATTENTION_TILE - 1, 4096, 1024, NULL, NULL);
    struct attention_shape group = masked_shape(COUNT(starts), 0, 0, starts, &prefix);
    assert_true(cuda_attention_forward_by_cudnn(device, window) &&
                cuda_attention_backward_by_cudnn(device, window));
    assert_true(cuda_attention_forward_by_cudnn(device, group) && cuda_attention_backward_by_cudnn(device, group));
    assert_false(cuda_attention_forward_by_cudnn(device, wide) || cuda_attention_forward_by_cudnn(device, few));
    group.mask.window = 1600; // as long as a response and its prompt: takes nothing
    assert_true(cuda_attention_forward_by_cudnn(device, group));
    group.mask.window = 1599;
    assert_false(cuda_attention_forward_by_cudnn(device, group));
    setenv("LONGBP_MASKED_ATTENTION", "own", 1);
    assert_false(cuda_attention_forward_by_cudnn(device, window) ||
                 cuda_attention_backward_by_cudnn(device, window));
    window.mask.window = 0;
    assert_true(cuda_attention_forward_by_cudnn(device, window));
    unsetenv("LONGBP_MASKED_ATTENTION");
    window.mask.window = 1024;
    device->own_masked_attention = true;
    assert_false(cuda_attention_forward_by_cudnn(device, window));
    device_close(device);
}

static int compare_graphs(const void *a, const void *b)
{
    return memcmp(a, b, 3 * sizeof(size_t));
}

// How many graphs cuDNN compiles for the forward of chunks of a context, of Llama-3-8B's heads.
static size_t forward_graphs(const struct device *device, size_t chunk, size_t context)
{
    enum { MAX = 1 << 19 };
    size_t(*graphs)[3] = calloc(MAX, sizeof *graphs), count = 0, distinct = 0;
    assert_non_null(graphs);
    for (size_t start = 0; start < context; start += chunk) {
        struct attention_shape s = {.start = start, .batch = 1, .heads = 32, .kv_heads = 8, .head_dim = 128};
        s.queries = chunk < context - start ? chunk : context - start;
        for (struct cuda_attention_block b = {0}; cuda_attention_next_forward(device, s, &b);) {
            assert_true(count < MAX && (b.kind != ATTENTION_RECTANGLE || (b.keys & (b.keys - 1)) == 0));
            graphs[count][0] = b.kind, graphs[count][1] = b.keys, graphs[count++][2] = b.parts;
        }
    }
    qsort(graphs, count, sizeof *graphs, compare_graphs);
    for (size_t i = 0; i < count; i++)
        distinct += i == 0 || compare_graphs(graphs[i], graphs[i - 1]) != 0;
    free(graphs);
    return distinct;
}

// Their number does not grow with the context, but for the longest ranges.
static void test_few_forward_graphs(void **state)
{
    (void)state;
    static const struct {
        size_t chunk, graphs, whole;
    } cases[] = {{128, 41, 8192}, {256, 24, 4096}, {300, 119, 3496},
                 {512, 71, 2048}, {2048, 69, 512}, {8192, 75, 128}};
    struct status status = {0};
    struct device *device = device_open("plan-cuda", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    device->multiprocessors = 132;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(forward_graphs(device, cases[i].chunk, (size_t)1 << 20), cases[i].graphs);
        assert_true(forward_graphs(device, cases[i].chunk, (size_t)4 << 20) <= cases[i].graphs + 4);
        device->whole_keys = true;
        assert_int_equal(forward_graphs(device, cases[i].chunk, (size_t)1 << 20), cases[i].whole);
        device->whole_keys = false;
    }
    device_close(device);
}

// Attention's workspace is bounded in queries and context, is in order and holds what each part needs; the causal
// block's part lies over the rectangles'.
static void test_attention_workspace(void **state)
{
    (void)state;
    struct attention_shape shape = {.queries = 2048, .start = 16384, .batch = 1, .heads = 32, .kv_heads = 8};
    shape.head_dim = 128;
    size_t bytes = workspace_bytes(shape, DTYPE_BF16, 0, false);
    struct device device = {0}, unfused = {.unfused = true};
    struct cuda_attention_workspace w = cuda_attention_layout(&device, shape);
    struct cuda_attention_workspace sums = cuda_attention_layout(&unfused, shape);
    size_t q = (size_t)2048 * 32 * 128 * 2, k = (size_t)8 * 128 * 2; // bf16
    assert_true(w.grad_q - w.grad_q_sum >= 2 * q && w.logsumexp - w.grad_q >= q);
    assert_true(w.delta - w.logsumexp >= (size_t)2048 * 32 * 4 && w.accumulator - w.delta >= (size_t)2048 * 32 * 4);
    assert_true(w.q - w.accumulator >= 2 * q && w.o - w.q >= q && w.grad_o - w.o >= q);
    assert_true(w.rectangle.grad_k - w.grad_o >= q);
    assert_true(w.rectangle.grad_v - w.rectangle.grad_k >= 16384 * k);
    assert_true(w.rectangle.engine - w.rectangle.grad_v >= 16384 * k);
    assert_int_equal(w.masked.grad_k, w.q);
    assert_true(w.masked.grad_v - w.masked.grad_k >= q && w.masked.engine - w.masked.grad_v >= q);
    assert_true(w.bytes >= w.masked.engine + w.masked.engine_bytes);
    assert_true(w.bytes >= w.rectangle.engine + w.rectangle.engine_bytes && bytes == w.bytes);
    // dK and dV of every query head are results, or an engine keeps them and sums them; a rectangle's has none.
    assert_true(w.rectangle.engine_bytes <= 2 * q + 4096 && w.masked.engine_bytes <= 2 * q + 4096);
    assert_true(sums.masked.engine_bytes >= 4 * q);
    assert_true(sums.masked.grad_v - sums.masked.grad_k >= 2048 * k && sums.bytes >= w.bytes);
    shape.queries = shape.start = (size_t)1 << 20;
    assert_int_equal(workspace_bytes(shape, DTYPE_BF16, 0, false), bytes);
    assert_int_equal(workspace_bytes(shape, DTYPE_F32, 0, false), 0);
    assert_int_equal(workspace_bytes(shape, DTYPE_BF16, 0, true), 0); // own kernels
    shape.keys = shape.start; // all of them seen by all queries: the causal block's part lies over the rectangles'
    assert_int_equal(workspace_bytes(shape, DTYPE_BF16, 0, false), bytes);
    shape.keys = CUDA_ATTENTION_TILE - 1; // no whole tile
    assert_int_equal(workspace_bytes(shape, DTYPE_BF16, 0, false), 0);
    shape.keys = 0;
    shape.head_dim = 6; // not cuDNN's
    assert_int_equal(workspace_bytes(shape, DTYPE_BF16, 0, false), 0);
}

// Deterministic: where cuDNN has it, on sm_90, its engines keep dS of a block in bf16, which grows with neither
// queries nor context, whole or not; elsewhere own kernels need nothing. Blocks are square, and see what those of
// others do.
static void test_deterministic_attention(void **state)
{
    (void)state;
    struct attention_shape shape = {.queries = 2048, .start = 16384, .batch = 1, .heads = 32, .kv_heads = 8};
    shape.head_dim = 128;
    const size_t scores = (size_t)32 * 2048 * 2048 * 2, q = (size_t)2048 * 32 * 128 * 2;
    struct status status = {0};
    struct device *device = device_open("plan-cuda", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    device->deterministic = true;
    static const size_t without[] = {0, 80, 86, 89, 100, 120};
    for (size_t i = 0; i < COUNT(without); i++) {
        device->compute_capability = without[i];
        assert_false(cuda_attention_backward_by_cudnn(device, shape));
        assert_int_equal(device->ops->rules->attention_backward_workspace(device, shape, NULL, 0), 0);
    }
    device->compute_capability = 90;
    device->attention_queries = CUDA_ATTENTION_QUERIES_MAX;
    struct cuda_attention_workspace w = cuda_attention_layout(device, shape);
    assert_int_equal(w.rectangle.engine_bytes, scores + 4096);
    assert_true(w.masked.engine_bytes >= scores && w.masked.engine_bytes < scores + scores / 8 + q);
    assert_true(w.masked.engine - w.masked.grad_k >= 2 * q);
    assert_int_equal(w.accumulator, w.q);
    for (size_t whole = 0; whole < 2; whole++) {
        for (size_t start = 16384; start <= (size_t)1 << 20; start *= 64) {
            device->whole_attention = whole;
            shape.start = shape.queries = start;
            assert_true(cuda_attention_backward_by_cudnn(device, shape));
            assert_int_equal(device->ops->rules->attention_backward_workspace(device, shape, NULL, 0), w.bytes);
        }
    }
    device->no_deterministic_attention = true;
    assert_false(cuda_attention_backward_by_cudnn(device, shape));
    device->deterministic = false;
    assert_true(cuda_attention_backward_by_cudnn(device, shape));
    shape.queries = 5000;
    for (size_t before = 0; before < 10000; before += 1234) {
        size_t pairs = 0;
        shape.start = before;
        for (struct cuda_attention_block b = {.deterministic = true};
             cuda_attention_next_block(shape, CUDA_ATTENTION_QUERIES, &b);) {
            assert_true(b.deterministic && b.queries <= CUDA_ATTENTION_QUERIES);
            assert_true(b.keys <=
                        CUDA_ATTENTION_QUERIES + (b.kind == ATTENTION_CAUSAL ? CUDA_ATTENTION_TILE - 1 : 0));
            pairs += b.queries * b.taken_keys - (b.kind == ATTENTION_CAUSAL ? b.queries * (b.queries - 1) / 2 : 0);
        }
        assert_int_equal(pairs, shape.queries * before + shape.queries * (shape.queries + 1) / 2);
    }
    device_close(device);
}

// Bytes of `n` rectangles of the longest kind and `rest` keys besides, for `m` of the longest blocks of queries and
// `more` besides.
static double glue_bytes(const struct device *device, bool causal, size_t n, size_t rest, size_t m, size_t more)
{
    size_t keys = n * CUDA_ATTENTION_KEYS + rest, queries = m * CUDA_ATTENTION_QUERIES + more;
    struct attention_shape s = {.queries = queries, .batch = 1, .heads = 2, .kv_heads = 1, .head_dim = 8};
    s.start = causal ? keys : keys + queries;
    s.keys = causal ? 0 : keys;
    struct tensor grad = {.dtype = DTYPE_F32, .rows = attention_keys(s), .cols = s.head_dim};
    const struct key_segment all = {0, attention_keys(s), grad, grad, {0}};
    return device->ops->rules->attention_backward_glue(device, s, &all, 1);
}

// Each further block costs the same, which is found without asking for every one: of the longest here there are
// 10^10. Numbers are multiples of a large power of two, so sums of them are exact.
static void test_glue_of_many_blocks(void **state)
{
    (void)state;
    static const size_t counts[] = {3, 4, 5, 63, 100000}, rests[] = {0, 100, 128, 16000}, more[] = {0, 1, 2, 700};
    struct status status = {0};
    struct device *device = device_open("plan-cuda", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    for (size_t i = 0; i < COUNT(counts) * COUNT(rests) * COUNT(more); i++) {
        size_t n = counts[i % 5], rest = rests[i / 5 % 4], m = more[i / 20];
        double two = glue_bytes(device, true, 2, rest, 1, 0), three = glue_bytes(device, true, 3, rest, 1, 0);
        assert_true(glue_bytes(device, true, n, rest, 1, 0) == two + (double)(n - 2) * (three - two));
        two = glue_bytes(device, false, 2, rest, 1, m), three = glue_bytes(device, false, 3, rest, 1, m);
        assert_true(glue_bytes(device, false, n, rest, 1, m) == two + (double)(n - 2) * (three - two));
        double one = glue_bytes(device, false, n, rest, 1, m);
        two = glue_bytes(device, false, n, rest, 2, m);
        assert_true(glue_bytes(device, false, n, rest, n, m) == one + (double)(n - 1) * (two - one));
    }
    device_close(device);
}

// At once: dK and dV of every query head and two accumulators of dQ, of the whole square; and in blocks all the
// same where a tensor of it would have 2^31 elements.
static void test_whole_attention(void **state)
{
    (void)state;
    struct attention_shape shape = {.queries = 131072, .batch = 1, .heads = 32, .kv_heads = 8, .head_dim = 128};
    size_t q = (size_t)131072 * 32 * 128 * 2,
           bytes = workspace_bytes(shape, DTYPE_BF16, CUDA_ATTENTION_WHOLE, false);
    assert_true(bytes > 7 * q && bytes < 7 * q + q / 2);
    shape.queries = 524288;
    assert_int_equal(workspace_bytes(shape, DTYPE_BF16, CUDA_ATTENTION_WHOLE, false),
                     workspace_bytes(shape, DTYPE_BF16, 0, false));
}

// Blocks of more queries take more workspace, still none that grows with the context, and move less; they are never
// longer than half of those of keys.
static void test_longer_blocks(void **state)
{
    (void)state;
    struct attention_shape shape = {.queries = 32768, .batch = 1, .heads = 32, .kv_heads = 8, .head_dim = 128};
    struct status status = {0};
    struct device *device = device_open("plan-cuda", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    double glue_bytes[4];
    for (size_t i = 0; i < 4; i++) {
        device->attention_queries = (size_t)2048 << i; // the last too many
        glue_bytes[i] = device->ops->rules->attention_backward_glue(device, shape, NULL, 0);
    }
    device_close(device);
    if (!(glue_bytes[1] < 0.9 * glue_bytes[0] && glue_bytes[2] < 0.9 * glue_bytes[1] &&
          glue_bytes[3] == glue_bytes[2]))
        fail_msg("%.0f, %.0f, %.0f, %.0f bytes", glue_bytes[0], glue_bytes[1], glue_bytes[2], glue_bytes[3]);
    size_t bytes = workspace_bytes(shape, DTYPE_BF16, 8192, false);
    assert_true(bytes > 3 * workspace_bytes(shape, DTYPE_BF16, 2048, false));
    assert_int_equal(workspace_bytes(shape, DTYPE_BF16, 2048, false), workspace_bytes(shape, DTYPE_BF16, 0, false));
    assert_int_equal(workspace_bytes(shape, DTYPE_BF16, 20000, false), bytes);
    shape.queries = shape.start = (size_t)1 << 20;
    assert_int_equal(workspace_bytes(shape, DTYPE_BF16, 8192, false), bytes);
}

// Blocks are longer where a wide GEMM's last wave of tiles would leave much of the card idle, and longer ones less.
static void test_block_rows(void **state)
{
    (void)state;
    static const struct {
        size_t multiprocessors, cols, rows;
    } cases[] = {{132, 14336, 2048}, // 448 tiles in 4 waves, 85 % full; 896 in 7, 97 %
                 {108, 14336, 2048}, // 83 %; 92 %
                 {82, 14336, 1024},  // 91 %
                 {108, 12288, 1024}, // 89 %, and no better
                 {132, 28672, 1024}, // 97 %
                 {1, 14336, 1024},   {132, 64, 2048}, {132, 1, 2048}, {0, 14336, 1024}};
    struct status status = {0};
    struct device *device = device_open("plan-cuda", DTYPE_BF16, 0, &status);
    struct device *cpu = device_open("plan-cpu", DTYPE_F32, 0, &status);
    assert_true(device && cpu);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        device->multiprocessors = cpu->multiprocessors = cases[i].multiprocessors;
        assert_int_equal(device->ops->rules->block_rows(device, cases[i].cols), cases[i].rows);
        assert_int_equal(cpu->ops->rules->block_rows(cpu, cases[i].cols), 1024);
    }
    device_close(device);
    device_close(cpu);
}

// LoRA's products are one operation of a card's in bf16, up to a rank, and where partial sums find room.
static void test_low_rank(void **state)
{
    (void)state;
    static const struct {
        const char *device;
        enum dtype dtype;
        size_t cols, rank, launches;
        bool unfused, reverse_sums;
    } cases[] = {{"plan-cuda", DTYPE_BF16, 4096, 8, 1, false, false},
                 {"plan-cuda", DTYPE_BF16, 128256, 32, 1, false, false},
                 {"plan-cuda", DTYPE_BF16, 256000, 32, 2, false, false},
                 {"plan-cuda", DTYPE_BF16, 4096, 33, 2, false, false},
                 {"plan-cuda", DTYPE_BF16, 4096, 8, 2, true, false},
                 {"plan-cuda", DTYPE_BF16, 4096, 8, 2, false, true},
                 {"plan-cuda", DTYPE_F32, 4096, 8, 2, false, false},
                 {"plan-cpu", DTYPE_BF16, 4096, 8, 2, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct status status = {0};
        enum dtype dtype = cases[i].dtype;
        size_t cols = cases[i].cols, rank = cases[i].rank;
        struct device *device = device_open(cases[i].device, dtype, 0, &status);
        assert_non_null(device);
        device->unfused = cases[i].unfused;
        device->reverse_sums = cases[i].reverse_sums;
        device->roofline = (struct roofline){.flops_per_s = 1e30, .bytes_per_s = 1e30, .launch_s = 1};
        struct tensor x = tensor_new(device, 70, cols, dtype, CATEGORY_WORKSPACE),
                      a = tensor_new(device, rank, cols, dtype, CATEGORY_WORKSPACE),
                      u = tensor_new(device, 70, rank, dtype, CATEGORY_WORKSPACE);
        op_low_rank(device, u, a, x, a, TRANSPOSE, u, 1);
        assert_int_equal(device->counters.launches, cases[i].launches);
        assert_true(fabs(device->counters.estimate_s - 2) < 1e-6); // two kernels, or two products
        assert_true(device->counters.flops == 4.0 * 70 * (double)(cols * rank));
        tensor_free(device, &u);
        tensor_free(device, &a);
        tensor_free(device, &x);
        device_close(device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_plugin),
        cmocka_unit_test(test_devices_without_hooks),
        cmocka_unit_test(test_attention_blocks),
        cmocka_unit_test(test_attention_blocks_of_keys),
        cmocka_unit_test(test_windows_cost),
        cmocka_unit_test(test_documents_cost),
        cmocka_unit_test(test_groups_cost),
        cmocka_unit_test(test_few_shapes),
        cmocka_unit_test(test_masks_by_own_kernels),
        cmocka_unit_test(test_attention_workspace),
        cmocka_unit_test(test_deterministic_attention),
        cmocka_unit_test(test_glue_of_many_blocks),
        cmocka_unit_test(test_few_forward_graphs),
        cmocka_unit_test(test_whole_attention),
        cmocka_unit_test(test_longer_blocks),
        cmocka_unit_test(test_long_heads),
        cmocka_unit_test(test_block_rows),
        cmocka_unit_test(test_low_rank),
        cmocka_unit_test(test_plugin), // last: what is loaded stays
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
