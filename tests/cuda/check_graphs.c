// Every graph of attention that the presets need, built by cuDNN for cards that are not here, from a description of
// their properties: the engine of cuDNN's first choice answers for each, within the workspace that the plan counts.
// And on the first two, of some presets, three forwards (each takes 0.3 s) and a backward compiled: by the card's
// own kernels. tests/cuda/driver.c stands in for the driver.
//
// Without $LONGBP_EXHAUSTIVE one card and way to divide queries is taken of each preset; each card and each way is
// among them.
#include "kernels/base/clock.h"
#include "kernels/cuda/plugin/attention_cudnn.h"
#include "kernels/cuda/plugin/attention_engines.h"
#include "kernels/cuda/workspace.h"
#include "kernels/model/config.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct card {
    const char *name;
    int version, shared_memory, multiprocessors;
};

static const struct card cards[] = {{"sm_80", 800, 166912, 108},   {"sm_90", 900, 232448, 132},
                                    {"sm_86", 860, 101376, 82},    {"sm_89", 890, 101376, 128},
                                    {"sm_100", 1000, 232448, 148}, {"sm_120", 1200, 101376, 170}};

// Calls of attention by schedules: a whole context, chunks with and without a prefix, a last shorter chunk, and
// keys that all queries see, as ranks of a ring pass them.
static const struct span {
    size_t queries, start, keys;
} spans[] = {{512, 0, 0},
             {512, 512, 0},
             {512, 3584, 0},
             {512, 4096, 0},
             {512, 131072 - 512, 0},
             {2048, 0, 0},
             {2048, 2048, 0},
             {2048, 4096, 0},
             {2048, 6144, 0},
             {2048, 131072 - 2048, 0},
             {4096, 0, 0},
             {8192, 0, 0},
             {131072, 0, 0},
             {300, 1000, 0},
             {513, 4095, 0},
             {1, 0, 0},
             {1, 1, 0},
             {1, 5000, 0},
             {2049, 131072, 0},
             {2050, 3, 0},
             {100, 20000, 0},
             {128, 32640, 0},
             {128, (1 << 20) - 128, 0},
             {100, 20000, 16385},
             {2048, 1 << 20, 0},
             {16384, 16384, 0},
             {512, 512, 512},
             {2048, 2048, 2048},
             {2048, 131072, 131072},
             {8192, 16384, 8192},
             {16384, 16384, 16384},
             {300, 5000, 4001},
             {6251, 6251, 6250},
             {2, 1000, 129}};

// Windows; documents of one length, packed, or continuing the first.
static const struct masked_span {
    struct span span;
    size_t window, document;
    bool prefix;
} masked_spans[] = {{{8192, 0, 0}, 1024, 0, false},    {{2048, 30720, 0}, 4096, 0, false},
                    {{513, 4095, 0}, 513, 0, false},   {{300, 5000, 0}, 128, 0, false},
                    {{16384, 0, 0}, 16384, 0, false},  {{8192, 0, 0}, 0, 1000, false},
                    {{2048, 4096, 0}, 0, 6001, false}, {{8192, 0, 0}, 512, 3000, false},
                    {{8192, 0, 0}, 0, 777, true},      {{2048, 6144, 0}, 0, 1024, true}};
enum { QUERIES_MAX = 16384, BATCH_MAX = 3 };

static const char *properties(const struct card *card, char *text, size_t size)
{
    snprintf(text, size,
             "{\"cudaDeviceId\":0,\"deviceName\":\"%s\",\"deviceVer\":%d,\"driverVer\":13000,\"isTccDriver\":0,"
             "\"l2CacheSize\":41943040,\"maxCtasPerSM\":32,\"maxRegistersPerSM\":65536,\"maxSharedMemoryPerBlock\":"
             "49152,"
             "\"maxSharedMemoryPerBlockOptin\":%d,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,"
             "\"memClockRateKHz\":2619000,\"multiProcessorCount\":%d,\"pciDeviceId\":0,\"regsPerBlock\":65536,"
             "\"reservedSharedMemoryPerBlock\":1024,\"smClockRateKHz\":1410000,\"supportCoopLaunch\":1,"
             "\"totalGlobalMem\":85899345920,\"warpSize\":32,\"maxGridSize\":[2147483647,65535,65535],"
             "\"maxBlockSize\":[1024,1024,64]}",
             card->name, card->version, card->shared_memory, card->multiprocessors);
    return text;
}

// Whether an earlier preset has the same heads.
static bool seen_before(const struct config *config)
{
    for (const struct config *c = config_presets; c != config; c++)
        if (c->kinds[0].heads == config->kinds[0].heads && c->kinds[0].kv_heads == config->kinds[0].kv_heads &&
            c->kinds[0].head_dim == config->kinds[0].head_dim)
            return true;
    return false;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static struct attention_mask mask_of(const struct masked_span *masked, size_t batch)
{
    static int32_t starts[BATCH_MAX * QUERIES_MAX], prefixes[BATCH_MAX];
    struct attention_mask mask = {.window = masked->window};
    for (size_t row = 0; masked->document > 0 && row < masked->span.queries * batch; row++) {
        size_t token = masked->span.start + row / batch;
        starts[row] = (int32_t)(token / masked->document * masked->document);
        prefixes[row % batch] = (int32_t)masked->document;
        mask.documents.starts = starts;
        mask.documents.prefixes = masked->prefix ? prefixes : NULL;
    }
    return mask;
}

static bool check(const struct card *card, const struct config *config, size_t batch, size_t queries,
                  bool deterministic, bool unfused, double cap, size_t *graphs)
{
    char text[2048];
    struct status status = {0};
    struct attention_engines *engines =
        attention_engines_described(properties(card, text, sizeof text), false, &status);
    if (!engines) {
        printf("%s: %s\n", card->name, status.message);
        return false;
    }
    const struct device_ops ops = {.dtype = DTYPE_BF16};
    const struct device device = {.ops = &ops,
                                  .compute_capability = (size_t)card->version / 10,
                                  .multiprocessors = (size_t)card->multiprocessors,
                                  .whole_attention = queries == CUDA_ATTENTION_WHOLE,
                                  .attention_queries = queries,
                                  .deterministic = deterministic,
                                  .unfused = unfused};
    size_t allowed = 0, max = cuda_attention_block_queries(&device);
    char blocks[64] = ", whole";
    if (queries != CUDA_ATTENTION_WHOLE) {
        snprintf(blocks, sizeof blocks, ", %s%sblocks of %zu", deterministic ? "deterministic, " : "",
                 unfused ? "unfused, " : "", max);
    }
    const size_t count = sizeof spans / sizeof *spans, masked_count = sizeof masked_spans / sizeof *masked_spans;
    for (size_t i = 0; i < count + masked_count && status.code == STATUS_OK; i++) {
        const struct masked_span *masked = i < count ? NULL : &masked_spans[i - count];
        struct span span = masked ? masked->span : spans[i];
        const struct layer_kind *kind = &config->kinds[0];
        struct attention_shape shape = {span.queries,   span.start, batch, kind->heads, kind->kv_heads,
                                        kind->head_dim, span.keys,  {0},   cap,         0};
        shape.mask = masked ? mask_of(masked, batch) : shape.mask;
        if (cuda_attention_backward_by_cudnn(&device, shape)) {
            struct cuda_attention_workspace w = cuda_attention_layout(&device, shape);
            allowed = larger(allowed, larger(w.masked.engine_bytes, w.rectangle.engine_bytes));
        }
        attention_cudnn_build(engines, &device, shape, &status);
    }
    if (status.code == STATUS_OK) {
        *graphs += engines->graph_count;
        printf("%s %-14s batch %zu%s%s: %3zu forward, %3zu backward; engines take up to %.1f MiB, allowed %.1f\n",
               card->name, config->name, batch, blocks, cap > 0 ? ", capped" : "",
               engines->graph_count - engines->backward_graphs, engines->backward_graphs,
               (double)engines->engine_bytes / 0x1p20, (double)allowed / 0x1p20);
        if (engines->second_choices) {
            status_set(&status, STATUS_FAILED, "%zu graphs have not the engine that cuDNN would choose first",
                       engines->second_choices);
        }
    }
    if (status.code != STATUS_OK)
        printf("%s %s batch %zu%s: %s\n", card->name, config->name, batch, blocks, status.message);
    attention_engines_free(engines);
    return status.code == STATUS_OK;
}

// masks: 0 none, 1 causal, 2 causal with a left bound.
static bool check_kernels(const struct card *card, const struct config *config, int masks, const char *kind)
{
    char text[2048];
    struct status status = {0};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    const char *(*last)(void) = driver ? (const char *(*)(void))dlsym(driver, "driver_last_kernel") : NULL;
    if (!last) {
        printf("libcuda.so.1 is not tests/cuda/driver.c's\n");
        return false;
    }
    struct attention_engines *engines =
        attention_engines_described(properties(card, text, sizeof text), true, &status);
    if (!engines) {
        printf("%s: %s\n", card->name, status.message);
        return false;
    }
    bool good = true;
    size_t forwards = 0, others = 0;
    double start_s = clock_s();
    struct attention_graph_shape shape = {.causal = masks > 0,
                                          .windowed = masks == 2,
                                          .queries = 512,
                                          .batch = 1,
                                          .heads = (int64_t)config->kinds[0].heads,
                                          .kv_heads = (int64_t)config->kinds[0].kv_heads,
                                          .head_dim = (int64_t)config->kinds[0].head_dim,
                                          .q_stride = 1,
                                          .o_stride = 1,
                                          .k_stride = 1};
    for (shape.keys = 512; shape.keys <= 16384 && good; shape.keys *= 4) {
        good = attention_engines_graph(engines, shape, CUDA_ATTENTION_FORWARD_BYTES, &status);
        others += good && !(strstr(last(), kind) && strstr(last(), "fprop"));
        forwards++;
    }
    double took_s = clock_s() - start_s;
    shape.backward = shape.every_head = true;
    shape.keys = 512;
    good = good && attention_engines_graph(engines, shape, SIZE_MAX / 2, &status) && others == 0;
    printf("%s %s%s: %zu forwards ready in %.2f s, %zu of another kind; backward: %s%s\n", card->name, config->name,
           masks == 2 ? ", windowed"
           : masks    ? ", causal"
                      : "",
           forwards, took_s, others, last(), status.message);
    good = good && strstr(last(), kind) && strstr(last(), "bprop");
    attention_engines_free(engines);
    return good;
}

// How a device divides queries; a deterministic backward is sm_90's alone.
static const struct division {
    size_t batch, queries;
    bool deterministic;
} divisions[] = {
    {1, 0, false}, {3, 0, false}, {1, CUDA_ATTENTION_QUERIES_MAX, false}, {1, CUDA_ATTENTION_WHOLE, false},
    {1, 0, true},  {3, 0, true}};
enum { CARDS = sizeof cards / sizeof *cards, DIVISIONS = sizeof divisions / sizeof *divisions };

static bool is_taken(size_t number, size_t every)
{
    return getenv("LONGBP_EXHAUSTIVE") || number % every == 0;
}

static size_t check_preset(size_t card, const struct config *config, size_t number, size_t *graphs)
{
    size_t failed = 0;
    for (size_t i = 0; i < DIVISIONS && is_taken(card + number, CARDS); i++) {
        const struct division *division = &divisions[i];
        bool taken = division->deterministic ? is_taken(number / CARDS + i, 2) : is_taken(number + i, 4);
        if (taken && (!division->deterministic || cards[card].version == 900))
            failed += !check(&cards[card], config, division->batch, division->queries, division->deterministic,
                             false, 0, graphs);
    }
    return failed;
}

// One key head per query head is no preset's, but anyone's; so are heads of 192.
static const struct config equal_heads = {.name = "equal heads",
                                          .kinds = {{.heads = 16, .kv_heads = 16, .head_dim = 128}}};
static const struct config long_heads = {.name = "long heads",
                                         .kinds = {{.heads = 16, .kv_heads = 4, .head_dim = 192}}};

static size_t check_others(size_t card, size_t *graphs)
{
    const struct {
        const struct config *config;
        size_t batch;
        bool deterministic, unfused;
        double cap;
    } others[] = {{&equal_heads, 1, false, false, 0},
                  {&long_heads, 1, false, false, 0},
                  {config_preset("llama-3-8b"), 1, false, true, 0},
                  {config_preset("llama-3-8b"), 1, cards[card].version == 900, false, 50},
                  {config_preset("gemma-3-4b"), 3, false, false, 50}};
    size_t failed = 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (is_taken(card + i + 2, 3)) // that of sm_90's alone is among them
            failed += !check(&cards[card], others[i].config, others[i].batch, 0, others[i].deterministic,
                             others[i].unfused, others[i].cap, graphs);
    return failed;
}

int main(void)
{
    size_t graphs = 0, failed = 0;
    for (size_t i = 0; i < CARDS; i++) {
        size_t number = 0;
        for (const struct config *config = config_presets; config->name[0]; config++)
            if (!seen_before(config))
                failed += check_preset(i, config, number++, &graphs);
        failed += check_others(i, &graphs);
    }
    for (int masks = 0; masks <= 2; masks++) {
        failed += !check_kernels(&cards[0], config_preset("llama-3-8b"), masks, "sm80_flash");
        failed += !check_kernels(&cards[1], config_preset("llama-3-8b"), masks, "sm90_flash");
        if (is_taken((size_t)masks + 2, 3)) // causal
            failed += !check_kernels(&cards[1], config_preset("gemma-3-4b"), masks, "sm90_flash");
    }
    printf("attention's graphs: %zu checked without a GPU, %zu failed\n", graphs, failed);
    return failed > 0 || graphs == 0;
}
