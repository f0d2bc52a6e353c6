// Lower bounds: the bytes per token that each method keeps at least are those of methods/README.md, to the byte:
// of Llama-3-8B with LoRA in bf16, whose dK and dV are wider than K and V.
#include "methods/method.h"
#include "tests/fixture.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum {
    TOKENS = 8192,
    ROWS = 32,
    INPUT = 4096 * 2,                                            // d e
    KV = 2 * 8 * 128 * 2,                                        // 2 G D e
    GRADIENTS = 2 * 8 * 128 * 4,                                 // 2 G D a
    ATTENTION = 32 * 128 * 2 + 32 * 4,                           // H D e, and a statistic for each head
    CELL = (4096 + 2 * 32 * 128 + 2 * 14336) * 2 + (32 + 2) * 4, // (d + 2 H D + 2 f) e, and statistics
};

// In four stages of 10, 8, 7 and 7 rows no more than 9 inputs are kept at once, for the embedding is looked up
// again.
static const struct stated {
    const char *method, *options;
    double bytes;
} cases[] =
    {
        {"full", "", ROWS *(INPUT + KV + CELL)},
        {"forward", "", INPUT + KV},
        {"checkpoint", "", (ROWS + 1) * INPUT + KV + CELL},
        {"checkpoint", "segments=4", (9 + 1) * INPUT + KV + CELL},
        {"checkpoint", "attention=kept", (ROWS + 1) * INPUT + ROWS *ATTENTION + KV + CELL - ATTENTION},
        {"checkpoint", "offload=inputs", 3 * INPUT + KV + CELL},
        {"checkpoint", "offload=inputs attention=kept", 3 * INPUT + 2 * ATTENTION + KV + CELL - ATTENTION},
        {"checkpoint", "segments=4 offload=inputs attention=kept", 3 * INPUT + ATTENTION + KV + CELL - ATTENTION},
        {"streambp", "", (ROWS + 1) * INPUT + KV + GRADIENTS},
        {"streambp", "segments=4", (9 + 1) * INPUT + KV + GRADIENTS},
        {"streambp", "attention=kept", (ROWS + 1) * INPUT + ROWS *ATTENTION + KV + GRADIENTS},
        {"streambp", "offload=inputs", INPUT + KV + GRADIENTS},
        {"streambp", "offload=inputs,input_gradients", KV + GRADIENTS},
        {"seco", "chunk=128", ROWS *(KV + GRADIENTS)},
        {"seco", "chunk=128 segments=4", 3 * INPUT + 8 * (KV + GRADIENTS)},
        {"seco", "chunk=128 offload=kv", 2 * (KV + GRADIENTS)},
        {"spaco", "chunk=128 budget=64", ROWS *(KV + GRADIENTS)},
        // 64 chunks: the last, the 64th, and the 32nd.
        {"spaco", "chunk=128 sampler=fixed drawn_chunks=0,63", ROWS *(KV + GRADIENTS / 32)},
        {"spaco", "chunk=128 sampler=fixed drawn_chunks=0,31", ROWS *(KV / 2 + GRADIENTS / 32)},
        {"spaco", "chunk=128 sampler=fixed drawn_chunks=0,31 loss=all", ROWS *(KV + GRADIENTS / 32)},
        {"spaco", "chunk=128 sampler=fixed drawn_chunks=0,31 segments=4",
         3 * INPUT / 2 + 7 * (KV / 2 + GRADIENTS / 32)},
        {"spaco", "chunk=128 sampler=fixed drawn_chunks=0,63 offload=kv", 2 * KV + ROWS *GRADIENTS / 32},
        // Gradients of the first chunk and the last, none of those at once.
        {"deferred", "chunk=128 draw=fixed later_chunks=0", ROWS *(KV + GRADIENTS / 32)},
        {"deferred", "chunk=128 draw=fixed later_chunks=0 offload=kv", 2 * KV + ROWS *GRADIENTS / 32},
        {"deferred", "chunk=128 deferral=1", ROWS *(KV + GRADIENTS)},
},
  // As wide, with a window of half the tokens in each layer.
    windowed[] = {
        {"checkpoint", "", (ROWS + 1) * INPUT + KV + CELL},
        {"streambp", "", (ROWS + 1) * INPUT + KV + GRADIENTS / 2},
        {"seco", "chunk=128", ROWS *(KV + GRADIENTS / 2)},
        {"seco", "chunk=128 segments=4", 3 * INPUT + 8 * (KV + GRADIENTS / 2)},
        {"seco", "chunk=128 offload=kv", 2 * (KV + GRADIENTS / 2)},
        {"spaco", "chunk=128 sampler=fixed drawn_chunks=0,63", ROWS *(KV + GRADIENTS / 32)},
};

static void check(const char *preset, const struct stated *stated, size_t count)
{
    const struct trainer_options model_options = {.lora = {.rank = 8, .alpha = 16, .targets = LORA_Q | LORA_V},
                                                  .kv_gradient_dtype = DTYPE_F32,
                                                  .gradient_dtype = DTYPE_F32};
    struct status status = {0};
    struct device *device = device_open("plan-cpu", DTYPE_BF16, 0, &status);
    assert_non_null(device);
    struct model model;
    struct trainer trainer;
    trainer_open(&trainer, &model, config_preset(preset), &model_options, device);
    for (size_t i = 0; i < count; i++) {
        const struct method *method = method_find(stated[i].method);
        void *options = fixture_options(method, "%s", stated[i].options);
        double bytes = method->lower_bound_bytes_per_token(&model, options, TOKENS);
        if (bytes != stated[i].bytes)
            fail_msg("%s, %s %s: %.17g, not %.17g", preset, stated[i].method, stated[i].options, bytes,
                     stated[i].bytes);
        options_free(&method->options, options);
    }
    trainer_close(&trainer);
    device_close(device);
}

static void lower_bounds_are_what_is_stated(void **state)
{
    (void)state;
    check("llama-3-8b", cases, sizeof cases / sizeof *cases);
    check("mistral-7b", windowed, sizeof windowed / sizeof *windowed);
}

// Layers whose norms stand before their blocks keep as much whatever the norms of others.
static void norms_of_layers_are_their_own(void **state)
{
    (void)state;
    double bytes[2];
    for (int i = 0; i < 2; i++) {
        struct fixture f = fixture_default();
        f.device_name = "plan-cpu";
        fixture_set_delta(&f.config, 7);
        f.config.norms = i ? NORMS_AFTER : NORMS_BEFORE;
        f.config.kinds[CONFIG_DELTA].norms_before = i;
        fixture_open(&f);
        const struct method *full = method_find("full");
        void *options = fixture_options(full, "%s", "");
        bytes[i] = full->lower_bound_bytes_per_token(&f.model, options, TOKENS);
        options_free(&full->options, options);
        fixture_close(&f);
    }
    assert_true(bytes[0] == bytes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lower_bounds_are_what_is_stated),
                                       cmocka_unit_test(norms_of_layers_are_their_own)};
    return cmocka_run_group_tests_name("floors", tests, NULL, NULL);
}
