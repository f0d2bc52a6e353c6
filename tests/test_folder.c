// Tests of harness/folder, its weights: what is written is read back, from one file, shards or an adapter; what
// does not fit the configuration is refused.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/files/folder.h"
#include "harness/files/safetensors.h"
#include "tests/scratch.h"
#include "tests/small_config.h"
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

// A model on the CPU in f64, beside the folder it comes from.
struct bench {
    struct scratch scratch;
    struct config config;
    struct device *device;
    struct model model;
};

static void bench_open(struct bench *bench, struct scratch *scratch, struct config config, struct lora lora,
                       enum dtype dtype)
{
    struct status status = {0};
    struct model_options options = {.lora = lora, .kv_gradient_dtype = DTYPE_F64, .gradient_dtype = DTYPE_F64};
    bench->scratch = scratch_within(scratch->folder);
    bench->config = config;
    bench->device = device_open("cpu", DTYPE_F64, 0, &status);
    if (!bench->device || !folder_write(bench->scratch.folder, &config, 5, dtype, NULL, &status)) {
        fail_msg("%s", status.message);
    }
    model_open(&bench->model, &config, &options, bench->device);
}

static void bench_close(struct bench *bench)
{
    model_close(&bench->model);
    device_close(bench->device);
}

static struct scratch_path bench_path(const struct bench *bench, const char *name)
{
    return scratch_path(&bench->scratch, name);
}

static void bench_file(const struct bench *bench, const char *name, const char *text)
{
    scratch_file(&bench->scratch, name, text, strlen(text));
}

static void read_weights(struct bench *bench, enum dtype rounding)
{
    struct status status = {0};
    for (size_t i = 0; i < bench->model.parameter_count; i++) {
        double *poison = malloc(tensor_count(bench->model.parameters[i].value) * sizeof *poison);
        for (size_t j = 0; j < tensor_count(bench->model.parameters[i].value); j++) {
            poison[j] = 1e30;
        }
        tensor_write(bench->device, bench->model.parameters[i].value, poison);
        free(poison);
    }
    if (!folder_read_weights(bench->scratch.folder, &bench->model, 0, rounding, &status)) {
        fail_msg("%s", status.message);
    }
}

static void expect_unread(struct bench *bench, const char *reason)
{
    struct status status = {0};
    bool ok = folder_read_weights(bench->scratch.folder, &bench->model, 0, DTYPE_F64, &status);
    if (ok || status.code == STATUS_OK || !strstr(status.message, reason)) {
        fail_msg("expected \"%s\", got %s: %s", reason, status_name(status.code), status.message);
    }
}

// The parameter holds what the seed and its name give, rounded to `first` by the file and to `then` by the reader.
static void expect_random(struct bench *bench, const struct parameter *p, uint64_t seed, enum dtype first,
                          enum dtype then)
{
    size_t count = tensor_count(p->value);
    double *found = malloc(count * sizeof *found), *expected = malloc(count * sizeof *expected);
    tensor_read(bench->device, p->value, found);
    model_random_values(p, seed, first, 0, count / 3, expected); // in parts as at once
    model_random_values(p, seed, first, count / 3, count - count / 3, expected + count / 3);
    for (size_t i = 0; i < count; i++) {
        if (found[i] != dtype_round(expected[i], then)) {
            fail_msg("%s[%zu]: expected %.17g, found %.17g", p->name, i, dtype_round(expected[i], then), found[i]);
        }
    }
    free(found);
    free(expected);
}

static void expect_config(const struct config *a, const struct config *b)
{
    assert_true(a->layers == b->layers && a->width == b->width && a->heads == b->heads &&
                a->kv_heads == b->kv_heads);
    assert_true(a->head_dim == b->head_dim && a->ffn == b->ffn && a->vocab == b->vocab);
    assert_true(a->rope_theta == b->rope_theta && a->norm_epsilon == b->norm_epsilon && a->tied == b->tied);
    assert_true(a->qkv_bias == b->qkv_bias && a->qk_norm == b->qk_norm && a->max_context == b->max_context);
    const struct rope_scaling *r = &a->rope_scaling, *s = &b->rope_scaling;
    assert_true(a->norms == b->norms && a->whole_qk_norm == b->whole_qk_norm && a->unit_offset == b->unit_offset);
    assert_true(a->activation == b->activation && a->embedding_scale == b->embedding_scale);
    assert_true(a->local_rope_theta == b->local_rope_theta && a->sliding_window == b->sliding_window);
    assert_true(r->factor == s->factor && r->low_freq_factor == s->low_freq_factor);
    assert_true(r->high_freq_factor == s->high_freq_factor && r->original_context == s->original_context);
}

static void folders_are_read_as_written(void **state)
{
    struct config configs[8] = {small, small, small, small, small, small, small, small};
    configs[1].tied = true;
    configs[2].qkv_bias = true;
    configs[3].qk_norm = true;
    configs[4].rope_scaling = (struct rope_scaling){8, 1, 4, 32, 0};
    configs[5].vocab = 100000; // read in several blocks, the last of them shorter
    configs[6].norms = NORMS_AFTER;
    configs[6].qk_norm = configs[6].whole_qk_norm = true;
    configs[7].norms = NORMS_AROUND;
    configs[7].qk_norm = configs[7].unit_offset = configs[7].tied = true;
    configs[7].activation = ACTIVATION_GELU_TANH;
    configs[7].embedding_scale = 4;
    configs[7].local_rope_theta = 100;
    configs[7].sliding_window = 5;
    const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    for (int i = 0; i < 8; i++) {
        for (int d = 0; d < 3; d++) {
            struct bench bench;
            struct status status = {0};
            bench_open(&bench, *state, configs[i], (struct lora){0}, dtypes[d]);
            struct config config;
            if (!folder_read_config(bench.scratch.folder, &config, &status)) {
                fail_msg("%s", status.message);
            }
            expect_config(&config, &configs[i]);
            for (int r = 0; r < 3; r++) {
                read_weights(&bench, dtypes[r]);
                for (size_t j = 0; j < bench.model.parameter_count; j++) {
                    expect_random(&bench, &bench.model.parameters[j], 5, dtypes[d], dtypes[r]);
                }
            }
            bench_close(&bench);
        }
    }
}

// What is read quantised is what is drawn quantised, codes and scales; and what they stand for, where they are kept
// so.
static void weights_are_quantised_as_they_are_read(void **state)
{
    struct config config = small;
    config.vocab = 50000, config.ffn = 50001; // in several blocks of the reader's, the last of 64 not whole
    for (enum quantisation q = QUANTISATION_NF4; q < QUANTISATION_COUNT; q++) {
        struct bench bench;
        struct status status = {0};
        struct model drawn, plain;
        struct lora lora = {.rank = 1, .alpha = 1, .targets = LORA_V};
        struct model_options options = {
            .lora = lora, .kv_gradient_dtype = DTYPE_F64, .gradient_dtype = DTYPE_F64, .quantisation = q};
        bench_open(&bench, *state, config, (struct lora){0}, DTYPE_BF16);
        model_close(&bench.model);
        model_open(&bench.model, &config, &options, bench.device);
        model_open(&drawn, &config, &options, bench.device);
        options.dequantised = true;
        model_open(&plain, &config, &options, bench.device);
        model_randomize(&drawn, 5, DTYPE_BF16);
        if (!folder_read_weights(bench.scratch.folder, &bench.model, 5, DTYPE_BF16, &status) ||
            !folder_read_weights(bench.scratch.folder, &plain, 5, DTYPE_F64, &status)) {
            fail_msg("%s", status.message);
        }
        for (size_t i = 0; i < drawn.parameter_count; i++) {
            const struct parameter *read = &bench.model.parameters[i], *other = &drawn.parameters[i];
            for (size_t part = 0; part < PARAMETER_PARTS && read->kept[part].data; part++) {
                assert_memory_equal(read->kept[part].data, other->kept[part].data, tensor_bytes(read->kept[part]));
            }
            bool quantised = strstr(read->name, "_proj.weight");
            assert_int_equal(read->kept[0].data != NULL, quantised);
            if (quantised) {
                size_t n = tensor_count(plain.parameters[i].value);
                double *stood_for = malloc(n * sizeof *stood_for);
                dequantise(q, read->kept[0].data, read->kept[1].data, n, DTYPE_F64, stood_for);
                assert_memory_equal(plain.parameters[i].value.data, stood_for, n * sizeof *stood_for);
                free(stood_for);
            }
        }
        model_close(&plain);
        model_close(&drawn);
        bench_close(&bench);
    }
}

// Writes a file of the model's parameters [first, last), zeros, with one more tensor unless `extra` is NULL.
static void write_some(const struct bench *bench, const char *name, size_t first, size_t last, const char *extra)
{
    struct safetensors_item items[64];
    size_t count = 0, values = 0;
    for (size_t i = first; i < last; i++) {
        const struct parameter *p = &bench->model.parameters[i];
        items[count] = (struct safetensors_item){.name = p->name, .dtype = DTYPE_F32, .rank = p->vector ? 1 : 2};
        items[count].shape[0] = p->vector ? p->value.cols : p->value.rows;
        items[count++].shape[1] = p->value.cols;
        values += tensor_count(p->value);
    }
    if (extra) {
        items[count++] = (struct safetensors_item){.name = extra, .dtype = DTYPE_F32, .rank = 1, .shape = {2}};
        values += 2;
    }
    struct status status = {0};
    struct safetensors_writer writer;
    double *zeros = calloc(values + 1, sizeof *zeros);
    if (!safetensors_create(&writer, bench_path(bench, name).text, items, count, &status) ||
        !safetensors_append(&writer, zeros, values, &status) || !safetensors_commit(&writer, &status)) {
        fail_msg("%s", status.message);
    }
    free(zeros);
}

static void tensors_must_be_those_expected(void **state)
{
    struct bench bench;
    bench_open(&bench, *state, small, (struct lora){0}, DTYPE_F64);
    size_t count = bench.model.parameter_count;
    const char *file = "model.safetensors";

    write_some(&bench, file, 0, count - 1, NULL);
    expect_unread(&bench,
                  "missing 1: lm_head.weight (a head that is the embedding needs \"tie_word_embeddings\": true)");
    write_some(&bench, file, 4, count, "model.layers.2.mlp.gate_proj.weight");
    expect_unread(&bench, "missing 4: model.embed_tokens.weight, model.layers.0.input_layernorm.weight, "
                          "model.layers.0.self_attn.q_proj.weight, ..., unexpected 1: "
                          "model.layers.2.mlp.gate_proj.weight");
    write_some(&bench, file, 0, count, "model.layers.0.self_attn.q_proj.bias");
    expect_unread(&bench, "missing 0, unexpected 1: model.layers.0.self_attn.q_proj.bias, twice 0");

    // The same weights under a configuration with a wider vocabulary.
    bench.model.parameters[0].value.rows--;
    write_some(&bench, file, 0, count, NULL);
    bench.model.parameters[0].value.rows++;
    expect_unread(&bench, "tensor model.embed_tokens.weight: expected the shape [24, 16], found [23, 16]");
    bench.model.parameters[1].vector = false;
    write_some(&bench, file, 0, count, NULL);
    bench.model.parameters[1].vector = true;
    expect_unread(&bench, "layers.0.input_layernorm.weight: expected the shape [16], found [1, 16]");
    struct tensor gain = bench.model.parameters[1].value; // [16, 1] has the right count and begins as it should
    bench.model.parameters[1].value = tensor_reshape(gain, 16, 1);
    bench.model.parameters[1].vector = false;
    write_some(&bench, file, 0, count, NULL);
    bench.model.parameters[1].value = gain;
    bench.model.parameters[1].vector = true;
    expect_unread(&bench, "layers.0.input_layernorm.weight: expected the shape [16], found [16, 1]");

    unlink(bench_path(&bench, file).text);
    expect_unread(&bench, "has neither model.safetensors nor model.safetensors.index.json");
    bench_file(&bench, "pytorch_model.bin", "");
    expect_unread(&bench, "(pytorch_model.bin must be converted first)");
    bench_close(&bench);
}

// Names as a file has them: what stands in the place of "model.", before the head, and before "self_attn".
struct naming {
    const char *model, *head, *inner;
};

// A tensor that is written beside the model's.
struct beside {
    const char *name;
    enum dtype dtype;
    size_t rank, shape[2];
    const double *values;
};

// Writes the model's weights, drawn from the seed 5, under other names, with others beside them up to one without a
// name. skipped: one of the model's that is left out; NULL: none.
static void write_named(const struct bench *bench, struct naming naming, const char *skipped,
                        const struct beside *beside)
{
    struct safetensors_item items[64] = {{0}};
    struct safetensors_writer writer;
    struct status status = {0};
    char names[64][160];
    size_t count = 0;
    for (size_t i = 0; i < bench->model.parameter_count; i++) {
        const struct parameter *p = &bench->model.parameters[i];
        bool inner = strncmp(p->name, "model.", 6) == 0;
        const char *at = strstr(p->name, "self_attn"), *rest = inner ? p->name + 6 : p->name;
        if (skipped && strcmp(p->name, skipped) == 0)
            continue;
        snprintf(names[count], sizeof *names, "%s%.*s%s%s", inner ? naming.model : naming.head,
                 at ? (int)(at - rest) : 0, rest, at ? naming.inner : "", at ? at : rest);
        items[count] = (struct safetensors_item){
            names[count], DTYPE_F64, p->vector ? 1 : 2, {p->vector ? p->value.cols : p->value.rows, p->value.cols}};
        count++;
    }
    for (size_t i = 0; beside && beside[i].name; i++)
        items[count++] = (struct safetensors_item){
            beside[i].name, beside[i].dtype, beside[i].rank, {beside[i].shape[0], beside[i].shape[1]}};
    bool fine = safetensors_create(&writer, bench_path(bench, "model.safetensors").text, items, count, &status);
    for (size_t i = 0; fine && i < bench->model.parameter_count; i++) {
        const struct parameter *p = &bench->model.parameters[i];
        size_t values = tensor_count(p->value);
        double *random = malloc(values * sizeof *random);
        assert_non_null(random);
        model_random_values(p, 5, DTYPE_F64, 0, values, random);
        if (!skipped || strcmp(p->name, skipped) != 0)
            fine = safetensors_append(&writer, random, values, &status);
        free(random);
    }
    for (size_t i = 0; fine && beside && beside[i].name; i++) {
        size_t values = beside[i].shape[0] * (beside[i].rank > 1 ? beside[i].shape[1] : 1);
        fine = safetensors_append(&writer, beside[i].values, values, &status);
    }
    if (!fine || !safetensors_commit(&writer, &status))
        fail_msg("%s", status.message);
}

static void expect_read(struct bench *bench)
{
    read_weights(bench, DTYPE_F64);
    for (size_t i = 0; i < bench->model.parameter_count; i++)
        expect_random(bench, &bench->model.parameters[i], 5, DTYPE_F64, DTYPE_F64);
}

static const struct naming usual = {"model.", "", ""};

// As AutoModel, models of images, torch.compile, DDP, FSDP and activation checkpoints name them.
static void names_are_read_whatever_lies_around_them(void **state)
{
    static const struct naming namings[] = {
        {"", "", ""},
        {"language_model.model.", "language_model.", ""},
        {"model.language_model.", "", ""},
        {"model.text_model.", "", ""},
        {"module.model.", "module.", ""},
        {"_orig_mod.module.model.", "_orig_mod.module.", ""},
        {"model.", "", "_orig_mod."},
        {"_fsdp_wrapped_module.language_model.model.", "_fsdp_wrapped_module.language_model.",
         "_fsdp_wrapped_module._checkpoint_wrapped_module."},
    };
    static const double zeros[8] = {0};
    static const struct beside parts[] = {{"vision_tower.encoder.layers.0.weight", DTYPE_F32, 1, {8}, zeros},
                                          {"model.visual.norm.weight", DTYPE_F32, 1, {8}, zeros},
                                          {"model.multi_modal_projector.linear_1.bias", DTYPE_F32, 1, {8}, zeros},
                                          {"image_newline", DTYPE_F32, 1, {8}, zeros},
                                          {0}};
    struct bench bench;
    bench_open(&bench, *state, small, (struct lora){0}, DTYPE_F64);
    for (size_t i = 0; i < sizeof namings / sizeof *namings; i++) {
        write_named(&bench, namings[i], NULL, parts);
        expect_read(&bench);
    }
    // Nothing is taken for what it is not, nor drawn at random.
    static const struct beside twice[] = {{"norm.weight", DTYPE_F64, 1, {8}, zeros}, {0}};
    static const struct beside other[] = {{"model.talker.layers.0.weight", DTYPE_F32, 1, {8}, zeros}, {0}};
    write_named(&bench, usual, NULL, twice);
    expect_unread(&bench, "twice 1: model.norm.weight");
    write_named(&bench, usual, NULL, other);
    expect_unread(&bench, "unexpected 1: model.talker.layers.0.weight");
    write_named(&bench, namings[0], "lm_head.weight", NULL);
    expect_unread(&bench, "missing 1: lm_head.weight");
    write_named(&bench, (struct naming){"talker.model.", "talker.", ""}, NULL, NULL);
    expect_unread(&bench, "missing 21");
    bench_close(&bench);
}

// As transformers 5 does: a head that is not the embedding is not tied to it, and a head alone is the embedding.
static void a_head_of_its_own_is_not_dropped(void **state)
{
    struct config tied = small, read;
    struct status status = {0};
    struct bench bench;
    tied.tied = true;
    bench_open(&bench, *state, tied, (struct lora){0}, DTYPE_F64);
    const struct parameter *embedding = bench.model.embedding;
    size_t count = tensor_count(embedding->value);
    double *values = malloc(count * sizeof *values);
    assert_non_null(values);
    model_random_values(embedding, 5, DTYPE_F64, 0, count, values);
    const struct beside head[] = {{"lm_head.weight", DTYPE_F64, 2, {tied.vocab, tied.width}, values}, {0}};
    assert_true(folder_read_config(bench.scratch.folder, &read, &status) && read.tied);

    write_named(&bench, usual, NULL, head);
    assert_true(folder_read_config(bench.scratch.folder, &read, &status) && read.tied);
    expect_read(&bench);
    write_named(&bench, usual, "model.embed_tokens.weight", head);
    assert_true(folder_read_config(bench.scratch.folder, &read, &status) && read.tied);
    expect_read(&bench);

    values[count - 1] += 1e-9;
    write_named(&bench, (struct naming){"language_model.model.", "", ""}, NULL, head);
    assert_true(folder_read_config(bench.scratch.folder, &read, &status));
    assert_false(read.tied);
    struct model model;
    struct model_options options = {.kv_gradient_dtype = DTYPE_F64, .gradient_dtype = DTYPE_F64};
    model_open(&model, &read, &options, bench.device);
    assert_true(folder_read_weights(bench.scratch.folder, &model, 0, DTYPE_F64, &status));
    double *found = malloc(count * sizeof *found);
    assert_non_null(found);
    tensor_read(bench.device, model.head->value, found);
    assert_memory_equal(found, values, count * sizeof *found);
    tensor_read(bench.device, model.embedding->value, found);
    values[count - 1] = found[count - 1];
    assert_memory_equal(found, values, count * sizeof *found);
    model_close(&model);
    free(found);
    free(values);
    bench_close(&bench);
}

// Buffers that old versions of transformers saved. Its new ones leave them aside, whatever they hold.
static void frequencies_are_those_of_config_json(void **state)
{
    static const char *const layer = "model.layers.1.self_attn.rotary_emb.inv_freq";
    static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    double values[3];
    struct config config = small;
    struct bench bench;
    bench_open(&bench, *state, config, (struct lora){0}, DTYPE_F64);
    config_rope_frequencies(&config, false, values);
    for (size_t d = 0; d < 3; d++) {
        const struct beside own[] = {{layer, dtypes[d], 1, {3}, values}, {0}};
        write_named(&bench, usual, NULL, own);
        expect_read(&bench);
    }
    const struct beside whole[] = {{"rotary_emb.inv_freq", DTYPE_F32, 1, {3}, values}, {0}};
    write_named(&bench, (struct naming){"", "", ""}, NULL, whole);
    expect_read(&bench);
    const struct beside shorter[] = {{layer, DTYPE_F32, 1, {2}, values}, {0}};
    write_named(&bench, usual, NULL, shorter);
    expect_unread(&bench, "tensor model.layers.1.self_attn.rotary_emb.inv_freq: its frequencies");
    config.rope_theta *= 1.01;
    config_rope_frequencies(&config, false, values);
    const struct beside others[] = {{layer, DTYPE_F32, 1, {3}, values}, {0}};
    write_named(&bench, usual, NULL, others);
    expect_unread(&bench, "tensor model.layers.1.self_attn.rotary_emb.inv_freq: its frequencies");
    bench_close(&bench);
    // Positions were divided by a linear scaling's factor, not the frequencies that were saved.
    config = small;
    config_rope_frequencies(&config, false, values);
    for (double high = 0; high < 8; high += 4) {
        config.rope_scaling = (struct rope_scaling){8, high / 4, high, high > 0 ? 32 : 0, 0};
        bench_open(&bench, *state, config, (struct lora){0}, DTYPE_F64);
        const struct beside own[] = {{layer, DTYPE_F32, 1, {3}, values}, {0}};
        write_named(&bench, usual, NULL, own);
        if (high > 0)
            expect_unread(&bench, "its frequencies");
        else
            expect_read(&bench);
        bench_close(&bench);
    }
}

// Tensors whose names tell what was given.
static void quantised_weights_are_told_by_their_names(void **state)
{
    static const struct {
        const char *name, *cause;
    } cases[] = {
        {"layers.0.attention.wq.weight", "Meta's and Mistral's own format"},
        {"model.layers.0.self_attn.q_proj.scales", "MLX"},
        {"model.layers.0.self_attn.q_proj.qweight", "GPTQ or AWQ"},
        {"model.layers.0.self_attn.q_proj.weight_scale_inv", "F8"},
        {"model.layers.0.mlp.experts.gate_up_proj_blocks", "MXFP4"},
        {"base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight", "merge_and_unload"},
    };
    static const double zeros[8] = {0};
    struct bench bench;
    bench_open(&bench, *state, small, (struct lora){0}, DTYPE_F64);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct beside one[] = {{cases[i].name, DTYPE_F32, 1, {8}, zeros}, {0}};
        write_named(&bench, usual, NULL, one);
        expect_unread(&bench, cases[i].cause);
    }
    bench_close(&bench);
}

// Writes the model's weights as Phi-3's files have them: one tensor of q, k and v, one below the other, which is
// their order in the model, and one of gate and up. Of the last one so many rows are taken to be there.
static void write_fused(const struct bench *bench, size_t rows_missing)
{
    static const char *const names[][2] = {{"q_proj", "qkv_proj"}, {"gate_proj", "gate_up_proj"}};
    struct safetensors_item items[64] = {{0}};
    struct safetensors_writer writer;
    struct status status = {0};
    size_t count = 0;
    char fused[64][160];
    for (size_t i = 0; i < bench->model.parameter_count; i++) {
        const struct parameter *p = &bench->model.parameters[i];
        if (strstr(p->name, "k_proj") || strstr(p->name, "v_proj") || strstr(p->name, "up_proj")) {
            items[count - 1].shape[0] += p->value.rows;
            continue;
        }
        snprintf(fused[count], sizeof *fused, "%s", p->name);
        for (size_t n = 0; n < 2; n++) {
            const char *at = strstr(p->name, names[n][0]);
            if (at)
                snprintf(fused[count], sizeof *fused, "%.*s%s.weight", (int)(at - p->name), p->name, names[n][1]);
        }
        items[count] = (struct safetensors_item){
            fused[count], DTYPE_F64, p->vector ? 1 : 2, {p->vector ? p->value.cols : p->value.rows, p->value.cols}};
        count++;
    }
    for (size_t i = 0; i < count; i++)
        items[i].shape[0] -= strstr(fused[i], "layers.1.mlp.gate_up_proj") ? rows_missing : 0;
    bool fine = safetensors_create(&writer, bench_path(bench, "model.safetensors").text, items, count, &status);
    for (size_t i = 0; fine && i < bench->model.parameter_count; i++) {
        const struct parameter *p = &bench->model.parameters[i];
        size_t values = tensor_count(p->value);
        double *random = malloc(values * sizeof *random);
        assert_non_null(random);
        model_random_values(p, 5, DTYPE_F64, 0, values, random);
        bool last = strstr(p->name, "layers.1.mlp.up_proj");
        fine = safetensors_append(&writer, random, values - (last ? rows_missing * p->value.cols : 0), &status);
        free(random);
    }
    if (!fine || !safetensors_commit(&writer, &status))
        fail_msg("%s", status.message);
}

static void fused_weights_are_taken_apart(void **state)
{
    struct bench bench;
    bench_open(&bench, *state, small, (struct lora){0}, DTYPE_F64);
    write_fused(&bench, 0);
    read_weights(&bench, DTYPE_F64);
    for (size_t i = 0; i < bench.model.parameter_count; i++)
        expect_random(&bench, &bench.model.parameters[i], 5, DTYPE_F64, DTYPE_F64);
    write_fused(&bench, 1);
    expect_unread(&bench, "tensor model.layers.1.mlp.gate_up_proj.weight: expected a matrix of 40 rows");
    bench_close(&bench);
    // Of a layer that the model does not have.
    struct config one = small;
    one.layers = 1;
    bench_open(&bench, *state, one, (struct lora){0}, DTYPE_F64);
    write_some(&bench, "model.safetensors", 0, bench.model.parameter_count,
               "model.layers.1.self_attn.qkv_proj.weight");
    expect_unread(&bench, "unexpected 1: model.layers.1.self_attn.qkv_proj.weight");
    bench_close(&bench);
}

static void integers_are_no_weights(void **state)
{
    struct bench bench;
    bench_open(&bench, *state, small, (struct lora){0}, DTYPE_F32);
    // The dtype of the first tensor, in place: the same size under another name.
    FILE *file = fopen(bench_path(&bench, "model.safetensors").text, "r+b");
    char header[4096] = "";
    assert_int_equal(fread(header, 1, sizeof header - 1, file), sizeof header - 1);
    char *dtype = memmem(header, sizeof header, "\"F32\"", 5);
    assert_non_null(dtype);
    assert_int_equal(fseek(file, dtype - header, SEEK_SET), 0);
    assert_int_equal(fwrite("\"I32\"", 1, 5, file), 5);
    fclose(file);
    expect_unread(&bench, "tensor model.embed_tokens.weight: expected F64, F32, BF16 or F16, found I32");
    bench_close(&bench);
}

static void shards_are_read_through_their_index(void **state)
{
    struct bench bench;
    bench_open(&bench, *state, small, (struct lora){0}, DTYPE_F64);
    struct model *model = &bench.model;
    size_t count = model->parameter_count, cut = 7;
    const char *index = "model.safetensors.index.json";
    char text[8192];
    int used = snprintf(text, sizeof text, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (size_t i = 0; i < count; i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, "%s\n\"%s\": \"%s\"", i ? "," : "",
                         model->parameters[i].name, i < cut ? "a.safetensors" : "b.safetensors");
    }
    snprintf(text + used, sizeof text - (size_t)used, "}}");
    unlink(bench_path(&bench, "model.safetensors").text);
    bench_file(&bench, index, text);
    expect_unread(&bench, "a.safetensors: No such file");
    write_some(&bench, "a.safetensors", 0, cut, NULL);
    write_some(&bench, "b.safetensors", cut, count, NULL);
    read_weights(&bench, DTYPE_F64);
    for (size_t i = 0; i < count; i += count - 1) { // one of either file; all was poisoned before
        double row[16];
        tensor_read(bench.device, tensor_rows(model->parameters[i].value, 0, 1), row);
        for (int j = 0; j < 16; j++) {
            assert_true(row[j] == 0);
        }
    }
    write_some(&bench, "b.safetensors", cut + 1, count, NULL);
    expect_unread(&bench, "that file has no such tensor");
    write_some(&bench, "b.safetensors", cut - 1, count, NULL);
    expect_unread(&bench, "twice 1: ");
    write_some(&bench, "b.safetensors", cut, count, "extra");
    expect_unread(&bench, "unexpected 1: extra");

    const struct {
        const char *index, *reason;
    } wrong[] = {
        {"{", "index.json:1:"},
        {"[]", "expected an object of tensor names and file names"},
        {"{\"weight_map\": []}", "expected an object of tensor names and file names, found a"},
        {"{\"weight_map\": {}}", "missing 21: "},
        {"{\"weight_map\": {\"x\": 1}}", "expected the name of a file in the same folder, found 1"},
        {"{\"weight_map\": {\"x\": \"\"}}", "expected the name of a file in the same folder"},
        {"{\"weight_map\": {\"x\": \"..\"}}", "expected the name of a file in the same folder"},
        {"{\"weight_map\": {\"x\": \"../model/a.safetensors\"}}", "expected the name of a file in the same folder"},
        {"{\"weight_map\": {\"x\": \"/etc/passwd\"}}", "expected the name of a file in the same folder"},
        {"{\"weight_map\": {\"x\": \".\"}}", "a folder, not a file"},
        {"{\"weight_map\": {\"x\": \"model.safetensors.index.json\"}}", "a header of"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bench_file(&bench, index, wrong[i].index);
        expect_unread(&bench, wrong[i].reason);
    }
    bench_close(&bench);
}

static void lora_factors_come_from_the_adapter(void **state)
{
    struct lora lora = {.rank = 2, .alpha = 4, .targets = LORA_Q | LORA_DOWN};
    struct bench bench;
    bench_open(&bench, *state, small, lora, DTYPE_F64);
    read_weights(&bench, DTYPE_F32);
    size_t factors = 0;
    for (size_t i = 0; i < bench.model.parameter_count; i++) {
        const struct parameter *p = &bench.model.parameters[i];
        factors += strstr(p->name, ".lora_") != NULL;
        expect_random(&bench, p, strstr(p->name, ".lora_") ? 0 : 5, DTYPE_F32, DTYPE_F32);
    }
    assert_int_equal(factors, 2 * 2 * 2);

    // An adapter as PEFT names it.
    struct safetensors_item items[8];
    size_t count = 0, values = 0;
    for (size_t l = 0; l < 2; l++) {
        const struct projection *projections[] = {&bench.model.layers[l].q, &bench.model.layers[l].down};
        for (int i = 0; i < 4; i++) {
            const struct parameter *p = i % 2 ? projections[i / 2]->lora_b : projections[i / 2]->lora_a;
            items[count++] = (struct safetensors_item){p->name, DTYPE_F64, 2, {p->value.rows, p->value.cols}};
            values += tensor_count(p->value);
        }
    }
    assert_string_equal(items[0].name, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
    double *ones = malloc(values * sizeof *ones);
    for (size_t i = 0; i < values; i++) {
        ones[i] = (double)i + 0.5;
    }
    struct scratch_path path = bench_path(&bench, FOLDER_ADAPTER);
    struct status status = {0};
    struct safetensors_writer writer;
    assert_true(safetensors_create(&writer, path.text, items, 8, &status));
    assert_true(safetensors_append(&writer, ones, values, &status));
    assert_true(safetensors_commit(&writer, &status));
    free(ones);
    assert_true(folder_check_adapter(bench.scratch.folder, &bench.config, &lora, &status));
    assert_true(folder_read_adapter(bench.scratch.folder, &bench.model, DTYPE_F64, &status));
    double a[32];
    tensor_read(bench.device, bench.model.layers[0].q.lora_a->value, a);
    for (int i = 0; i < 32; i++) {
        assert_true(a[i] == i + 0.5);
    }
    read_weights(&bench, DTYPE_F32); // which leaves the adapter aside
    expect_random(&bench, bench.model.layers[0].q.lora_a, 0, DTYPE_F32, DTYPE_F32);

    items[7].name = "base_model.model.model.layers.1.mlp.down_proj.lora_C.weight";
    assert_true(safetensors_create(&writer, path.text, items, 8, &status));
    ones = calloc(values, sizeof *ones);
    assert_true(safetensors_append(&writer, ones, values, &status));
    assert_true(safetensors_commit(&writer, &status));
    free(ones);
    assert_false(folder_check_adapter(bench.scratch.folder, &bench.config, &lora, &status));
    assert_non_null(strstr(status.message,
                           "missing 1: base_model.model.model.layers.1.mlp.down_proj.lora_B.weight (each "
                           "projection has factors in every layer or in none), unexpected 1: "));
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(folders_are_read_as_written, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(weights_are_quantised_as_they_are_read, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(tensors_must_be_those_expected, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(names_are_read_whatever_lies_around_them, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_head_of_its_own_is_not_dropped, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(frequencies_are_those_of_config_json, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(quantised_weights_are_told_by_their_names, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(fused_weights_are_taken_apart, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(integers_are_no_weights, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(shards_are_read_through_their_index, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(lora_factors_come_from_the_adapter, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
