// Plans of other frameworks' runs against PyTorch: peaks of transformers' models whose storages were counted
// without data (torch 2.15, transformers 5.24, peft 0.21), and peaks that papers and a card measured.
#include "kernels/framework/framework_run.h"
#include "tests/fixture.h"
#include "tests/sanitized.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// Bytes beside the counted storages: a workspace of cuBLAS in each of two threads.
#define CUBLAS (2 * (size_t)8519680)

struct setting {
    const char *model;
    size_t context, peak_bytes;
    size_t batch, rank;
    bool checkpoint, all_linear, adamw;
    enum framework_reentrant reentrant;
    enum framework_gradients gradients;
    enum framework_outputs outputs;
    enum framework_loss loss;
    enum framework_adapters adapters;
};

static const struct setting settings[] = {
    {.model = "llama-3-8b", .context = 8192, .peak_bytes = 81590429696},
    {.model = "llama-3-8b", .context = 8192, .peak_bytes = 33005243392, .checkpoint = true},
    {.model = "llama-3-8b",
     .context = 8192,
     .peak_bytes = 49250813952,
     .checkpoint = true,
     .gradients = GRADIENTS_HELD,
     .outputs = OUTPUTS_KEPT},
    {.model = "llama-3-8b", .context = 8192, .peak_bytes = 73836178432, .rank = 8},
    {.model = "llama-3-8b",
     .context = 8192,
     .peak_bytes = 31036517376,
     .checkpoint = true,
     .rank = 16,
     .adamw = true},
    {.model = "llama-3-8b", .context = 131072, .peak_bytes = 1064538515456},
    {.model = "llama-3-8b", .context = 131072, .peak_bytes = 256515254272, .checkpoint = true},
    {.model = "llama-3-8b",
     .context = 131072,
     .peak_bytes = 306197317632,
     .checkpoint = true,
     .gradients = GRADIENTS_HELD,
     .outputs = OUTPUTS_KEPT},
    {.model = "llama-3-8b", .context = 131072, .peak_bytes = 940266007552, .rank = 8},
    {.model = "llama-3-8b",
     .context = 131072,
     .peak_bytes = 254449560576,
     .checkpoint = true,
     .rank = 16,
     .adamw = true},
    {.model = "qwen3-8b", .context = 4096, .peak_bytes = 55738468352},
    {.model = "qwen3-8b", .context = 4096, .peak_bytes = 32796600320, .checkpoint = true},
    {.model = "qwen3-8b",
     .context = 4096,
     .peak_bytes = 42819987456,
     .checkpoint = true,
     .gradients = GRADIENTS_HELD,
     .outputs = OUTPUTS_KEPT},
    {.model = "qwen3-8b", .context = 4096, .peak_bytes = 50478271488, .rank = 8},
    {.model = "qwen3-8b",
     .context = 4096,
     .peak_bytes = 25218743296,
     .checkpoint = true,
     .rank = 16,
     .adamw = true},
    {.model = "qwen2.5-7b", .context = 4096, .peak_bytes = 48675808256},
    {.model = "qwen2.5-7b", .context = 4096, .peak_bytes = 30491893760, .checkpoint = true},
    {.model = "qwen2.5-7b",
     .context = 4096,
     .peak_bytes = 40124162048,
     .checkpoint = true,
     .gradients = GRADIENTS_HELD,
     .outputs = OUTPUTS_KEPT},
    {.model = "qwen2.5-7b", .context = 4096, .peak_bytes = 44230486016, .rank = 8},
    {.model = "qwen2.5-7b",
     .context = 4096,
     .peak_bytes = 23649056768,
     .checkpoint = true,
     .rank = 16,
     .adamw = true},
    {.model = "qwen3-4b", .context = 16384, .peak_bytes = 138696317952},
    {.model = "qwen3-4b", .context = 16384, .peak_bytes = 41281080320, .checkpoint = true},
    {.model = "qwen3-4b",
     .context = 16384,
     .peak_bytes = 54304673792,
     .checkpoint = true,
     .gradients = GRADIENTS_HELD,
     .outputs = OUTPUTS_KEPT},
    {.model = "qwen3-4b", .context = 16384, .peak_bytes = 120827207680, .rank = 8},
    {.model = "qwen3-4b",
     .context = 16384,
     .peak_bytes = 41184088064,
     .checkpoint = true,
     .rank = 16,
     .adamw = true},
    {.model = "llama-2-7b", .context = 4096, .peak_bytes = 39631579136},
    {.model = "llama-2-7b", .context = 4096, .peak_bytes = 27390512128, .checkpoint = true},
    {.model = "llama-2-7b",
     .context = 4096,
     .peak_bytes = 29998843904,
     .checkpoint = true,
     .gradients = GRADIENTS_HELD,
     .outputs = OUTPUTS_KEPT},
    {.model = "llama-2-7b", .context = 4096, .peak_bytes = 36636830720, .rank = 8},
    {.model = "llama-2-7b",
     .context = 4096,
     .peak_bytes = 16293424128,
     .checkpoint = true,
     .rank = 16,
     .adamw = true},
    {.model = "llama-3-8b",
     .context = 8192,
     .peak_bytes = 38794414080,
     .checkpoint = true,
     .gradients = GRADIENTS_HELD,
     .loss = LOSS_CHUNKED},
    {.model = "llama-3-8b",
     .context = 8192,
     .peak_bytes = 36775543808,
     .checkpoint = true,
     .gradients = GRADIENTS_HELD,
     .loss = LOSS_LIGER},
    {.model = "llama-3-8b", .context = 8192, .peak_bytes = 33005243392, .checkpoint = true, .loss = LOSS_CHUNKED},
    {.model = "llama-3-8b",
     .context = 8192,
     .peak_bytes = 89295898624,
     .gradients = GRADIENTS_HELD,
     .loss = LOSS_CHUNKED},
    {.model = "llama-3-8b",
     .context = 8192,
     .peak_bytes = 21629742080,
     .checkpoint = true,
     .loss = LOSS_CHUNKED,
     .rank = 8},
    {.model = "llama-3-8b",
     .context = 8192,
     .peak_bytes = 47149467648,
     .checkpoint = true,
     .reentrant = REENTRANT_YES,
     .gradients = GRADIENTS_HELD},
    {.model = "llama-3-8b",
     .context = 8192,
     .peak_bytes = 20475817984,
     .checkpoint = true,
     .reentrant = REENTRANT_YES,
     .loss = LOSS_LIGER,
     .rank = 8},
    {.model = "llama-3-8b",
     .context = 8192,
     .peak_bytes = 31122500608,
     .checkpoint = true,
     .rank = 16,
     .all_linear = true},
    {.model = "llama-3-8b", .context = 8192, .peak_bytes = 106303237120, .rank = 16, .all_linear = true},
    {.model = "llama-3-8b",
     .context = 8192,
     .peak_bytes = 77169601536,
     .rank = 16,
     .all_linear = true,
     .adapters = ADAPTERS_BF16},
    {.model = "llama-3-8b",
     .context = 8192,
     .peak_bytes = 21783882752,
     .checkpoint = true,
     .loss = LOSS_CHUNKED,
     .rank = 16,
     .all_linear = true},
    {.model = "llama-3-8b",
     .context = 2048,
     .peak_bytes = 47146272768,
     .batch = 4,
     .checkpoint = true,
     .gradients = GRADIENTS_HELD},
    {.model = "llama-3-8b", .context = 2048, .peak_bytes = 97647806464, .batch = 4, .gradients = GRADIENTS_HELD},
    {.model = "qwen3-8b",
     .context = 65536,
     .peak_bytes = 69995817984,
     .checkpoint = true,
     .gradients = GRADIENTS_HELD,
     .loss = LOSS_CHUNKED},
    {.model = "qwen3-8b",
     .context = 65536,
     .peak_bytes = 69995817984,
     .checkpoint = true,
     .gradients = GRADIENTS_HELD,
     .loss = LOSS_LIGER},
    {.model = "qwen3-8b", .context = 65536, .peak_bytes = 54959660032, .checkpoint = true, .loss = LOSS_CHUNKED},
    {.model = "qwen3-8b",
     .context = 65536,
     .peak_bytes = 548485462016,
     .gradients = GRADIENTS_HELD,
     .loss = LOSS_CHUNKED},
    {.model = "qwen3-8b",
     .context = 65536,
     .peak_bytes = 52962770944,
     .checkpoint = true,
     .loss = LOSS_CHUNKED,
     .rank = 8},
    {.model = "qwen3-8b",
     .context = 65536,
     .peak_bytes = 173760538624,
     .checkpoint = true,
     .reentrant = REENTRANT_YES,
     .gradients = GRADIENTS_HELD},
    {.model = "qwen3-8b",
     .context = 65536,
     .peak_bytes = 53499641856,
     .checkpoint = true,
     .reentrant = REENTRANT_YES,
     .loss = LOSS_LIGER,
     .rank = 8},
    {.model = "qwen3-8b",
     .context = 65536,
     .peak_bytes = 156479896576,
     .checkpoint = true,
     .rank = 16,
     .all_linear = true},
    {.model = "qwen3-8b", .context = 65536, .peak_bytes = 833618070528, .rank = 16, .all_linear = true},
    {.model = "qwen3-8b",
     .context = 65536,
     .peak_bytes = 581746707456,
     .rank = 16,
     .all_linear = true,
     .adapters = ADAPTERS_BF16},
    {.model = "qwen3-8b",
     .context = 65536,
     .peak_bytes = 61732929536,
     .checkpoint = true,
     .loss = LOSS_CHUNKED,
     .rank = 16,
     .all_linear = true},
    {.model = "qwen3-8b",
     .context = 16384,
     .peak_bytes = 173734979584,
     .batch = 4,
     .checkpoint = true,
     .gradients = GRADIENTS_HELD},
    {.model = "qwen3-8b", .context = 16384, .peak_bytes = 662448896000, .batch = 4, .gradients = GRADIENTS_HELD},
};

static struct config config_of(const char *name)
{
    const struct config *preset = config_preset(name);
    struct config config;
    if (preset)
        return *preset;
    config = *config_preset("llama-3-8b"); // Llama 2 7B: no grouped heads, a smaller vocabulary and MLP
    assert_string_equal(name, "llama-2-7b");
    config.kinds[0].kv_heads = 32;
    config.ffn = 11008;
    config.vocab = 32000;
    return config;
}

static size_t planned_peak(const struct setting *setting)
{
    struct status status = {0};
    struct config config = config_of(setting->model);
    struct lora lora = {.rank = setting->rank,
                        .alpha = 16,
                        .targets = setting->all_linear ? (1u << LORA_PROJECTIONS) - 1 : LORA_Q | LORA_V};
    struct framework_run_options options = {.walk = setting->checkpoint ? WALK_CHECKPOINT : WALK_FULL,
                                            .context = setting->context,
                                            .batch = setting->batch ? setting->batch : 1,
                                            .states = setting->adamw ? 2 : 0};
    options.framework = (struct framework){.loss = setting->loss ? setting->loss : LOSS_WHOLE,
                                           .outputs = setting->outputs ? setting->outputs : OUTPUTS_RELEASED,
                                           .reentrant = setting->reentrant ? setting->reentrant : REENTRANT_NO,
                                           .gradients = setting->gradients,
                                           .adapters = setting->adapters,
                                           .loss_rows = 2048};
    struct device *device = device_open("plan-transformers", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    struct model model;
    struct framework_run run;
    model_list(&model, &config, &lora);
    model.device = device;
    framework_run_open(&run, &model, &options);
    framework_run_step(&run);
    size_t peak = device->arena.peak_bytes;
    assert_int_equal(device->status.code, STATUS_OK);
    framework_run_close(&run);
    model_close(&model);
    device_close(device);
    return peak;
}

static void peaks_are_transformers(void **state)
{
    (void)state;
    size_t wrong = 0;
    for (size_t i = 0; i < COUNT(settings); i++) {
        const struct setting *setting = &settings[i];
        size_t planned = planned_peak(setting), expected = setting->peak_bytes + CUBLAS;
        wrong += planned != expected;
        if (planned != expected)
            print_message("setting %zu, %s at %zu: planned %zu bytes, transformers %zu, %+.0f\n", i, setting->model,
                          setting->context, planned, expected, (double)planned - (double)expected);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(peaks_are_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
