// Tests of harness/folder, its weights: written weights are read back, from one file, shards or an adapter;
// tensors that do not match the configuration are refused.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/tensors/gradients.h"
#include "tests/chosen_tests.h"
#include "tests/folder_bench.h"

static void expect_config(const struct config *a, const struct config *b)
{
    assert_true(a->layers == b->layers && a->width == b->width && a->ffn == b->ffn && a->vocab == b->vocab);
    assert_true(a->norm_epsilon == b->norm_epsilon && a->tied == b->tied);
    assert_true(a->qkv_bias == b->qkv_bias && a->qk_norm == b->qk_norm && a->max_context == b->max_context);
    assert_true(a->norms == b->norms && a->whole_qk_norm == b->whole_qk_norm && a->unit_offset == b->unit_offset);
    assert_true(a->activation == b->activation && a->embedding_scale == b->embedding_scale);
    for (size_t l = 0; l < a->layers; l++) {
        const struct layer_kind *of_a = config_kind(a, l), *of_b = config_kind(b, l);
        assert_true(of_a->heads == of_b->heads && of_a->kv_heads == of_b->kv_heads);
        assert_true(of_a->window == of_b->window && of_a->cap == of_b->cap && rope_is_same(of_a, of_b));
        assert_true(of_a->mixer == of_b->mixer && of_a->value_dim == of_b->value_dim && of_a->rope == of_b->rope);
    }
}

static struct config olmo_hybrid(void)
{
    struct config c = small;
    c.norms = NORMS_AFTER;
    c.qk_norm = c.whole_qk_norm = true;
    c.kinds[0].rope = ROPE_NONE;
    c.kind_of[0] = CONFIG_DELTA;
    c.kinds[CONFIG_DELTA] = (struct layer_kind){.mixer = MIXER_DELTA_SPLIT,
                                                .heads = 4,
                                                .kv_heads = 2,
                                                .head_dim = 6,
                                                .value_dim = 10,
                                                .beta_scale = 2,
                                                .gate_epsilon = 1e-5,
                                                .norms_before = true};
    return c;
}

static void folders_are_read_as_written(void **state)
{
    struct config configs[11];
    for (int i = 0; i < 11; i++)
        configs[i] = small;
    configs[1].tied = true;
    configs[2].qkv_bias = true;
    configs[3].qk_norm = true;
    configs[4].kinds[0].rope_scaling =
        (struct rope_scaling){.factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_context = 32};
    configs[5].vocab = 100000; // read in several blocks, the last of them shorter
    configs[6].norms = NORMS_AFTER;
    configs[6].qk_norm = configs[6].whole_qk_norm = true;
    configs[7].norms = NORMS_AROUND;
    configs[7].qk_norm = configs[7].unit_offset = configs[7].tied = true;
    configs[7].activation = ACTIVATION_GELU_TANH;
    configs[7].embedding_scale = 4;
    config_add_window(&configs[7], 5, (struct local_layers){.rope_theta = 100});
    configs[8].centred = configs[8].parallel = configs[8].tied = true;
    configs[8].kinds[0].rope = ROPE_INTERLEAVED;
    configs[9].norms = NORMS_AROUND;
    configs[9].qk_norm = configs[9].tied = configs[9].layer_scalars = true;
    configs[9].kinds[0].v_norm = configs[9].kinds[0].k_is_v = true;
    configs[9].kinds[0].query_scale = sqrt((double)configs[9].kinds[0].head_dim);
    configs[9].activation = ACTIVATION_GELU_TANH;
    configs[9].embedding_scale = 4;
    configs[9].kind_of[configs[9].layers - 1] = 1;
    config_add_window(&configs[9], 5, (struct local_layers){.rope_theta = 100, .kv_heads = 4, .head_dim = 10});
    configs[10] = olmo_hybrid();
    const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    for (int i = 0; i < 11; i++) {
        for (int d = 0; d < 3; d++) {
            struct bench bench;
            struct status status = {0};
            bench_open(&bench, *state, configs[i], (struct lora){0}, dtypes[d]);
            struct config config;
            if (!folder_read_config(bench.scratch.folder, &config, &status))
                fail_msg("%s", status.message);
            expect_config(&config, &configs[i]);
            for (int r = 0; r < 3; r++) {
                if (!is_chosen(i == 0 ? 0 : (size_t)(i + d + r), 3)) // the first configuration between all dtypes
                    continue;
                read_weights(&bench, dtypes[r]);
                for (size_t j = 0; j < bench.model.parameter_count; j++)
                    expect_random(&bench, &bench.model.parameters[j], 5, dtypes[d], dtypes[r]);
            }
            bench_close(&bench);
        }
    }
}

#define MOE(rest)                                                                                                  \
    "{\"hidden_size\": 16, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 2, "     \
    "\"intermediate_size\": 12, \"vocab_size\": 19, \"pad_token_id\": null, \"num_experts_per_tok\": 2, "          \
    "\"n_group\": 1, \"topk_group\": 1, \"moe_intermediate_size\": 6, " rest "}"
#define LATENTS                                                                                                    \
    ", \"first_k_dense_replace\": 1, \"q_lora_rank\": null, \"kv_lora_rank\": 6, \"qk_nope_head_dim\": 4, "        \
    "\"qk_rope_head_dim\": 4, \"v_head_dim\": 5"

// A folder of each way to name experts' tensors has the names of transformers, and is read as written.
static void experts_are_named_as_by_transformers(void **state)
{
    static const struct {
        const char *config, *names[4]; // within layer 1
        size_t tensors;
    } cases[] = {
        {MOE("\"model_type\": \"mixtral\", \"num_local_experts\": 3"),
         {"block_sparse_moe.gate.weight", "block_sparse_moe.experts.2.w1.weight",
          "block_sparse_moe.experts.0.w3.weight", "block_sparse_moe.experts.1.w2.weight"},
         3 + 2 * (7 + 9)},
        {MOE("\"model_type\": \"qwen2_moe\", \"num_experts\": 3, \"shared_expert_intermediate_size\": 5, "
             "\"mlp_only_layers\": [0]"),
         {"mlp.gate.weight", "mlp.experts.2.gate_proj.weight", "mlp.shared_expert.down_proj.weight",
          "mlp.shared_expert_gate.weight"},
         3 + 12 + 10 + 13},
        {MOE("\"model_type\": \"deepseek_v3\", \"n_routed_experts\": 4" LATENTS),
         {"mlp.gate.weight", "mlp.experts.3.up_proj.weight", "mlp.shared_experts.down_proj.weight",
          "mlp.gate.e_score_correction_bias"},
         3 + 2 * 7 + 3 + 17},
        {MOE("\"model_type\": \"minimax_m2\", \"num_local_experts\": 3"),
         {"block_sparse_moe.gate.weight", "block_sparse_moe.e_score_correction_bias",
          "block_sparse_moe.experts.0.w3.weight", "block_sparse_moe.experts.1.w2.weight"},
         3 + 2 * (8 + 11)},
        {MOE("\"model_type\": \"granitemoe\", \"num_local_experts\": 3, \"attention_multiplier\": 0.4"),
         {"block_sparse_moe.router.layer.weight", "block_sparse_moe.input_linear.weight",
          "block_sparse_moe.output_linear.weight", "input_layernorm.weight"},
         3 + 2 * 9},
        {MOE("\"model_type\": \"gpt_oss\", \"num_local_experts\": 3, \"head_dim\": 8"),
         {"mlp.router.weight", "mlp.router.bias", "mlp.experts.gate_up_proj_bias", "mlp.experts.down_proj"},
         3 + 2 * 17},
        {MOE("\"model_type\": \"ernie4_5_moe\", \"moe_num_experts\": 3, \"moe_k\": 2"),
         {"mlp.gate.weight", "mlp.experts.2.gate_proj.weight", "mlp.shared_experts.down_proj.weight",
          "mlp.moe_statics.e_score_correction_bias"},
         2 + 9 + 6 + 14},
        {MOE("\"model_type\": \"kimi_linear\", \"num_experts\": 4, \"layer_types\": [\"full_attention\", "
             "\"full_attention\"]" LATENTS),
         {"block_sparse_moe.gate.weight", "block_sparse_moe.experts.3.w3.weight",
          "block_sparse_moe.shared_experts.down_proj.weight", "block_sparse_moe.gate.e_score_correction_bias"},
         3 + 2 * 7 + 3 + 17},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench bench;
        struct config config, again;
        struct status status = {0};
        struct safetensors file;
        struct scratch *scratch = *state;
        scratch_file(scratch, "config.json", cases[i].config, strlen(cases[i].config));
        if (!folder_read_config(scratch->folder, &config, &status))
            fail_msg("%s", status.message);
        bench_open(&bench, scratch, config, (struct lora){0}, i % 2 ? DTYPE_F64 : DTYPE_BF16);
        if (!folder_read_config(bench.scratch.folder, &again, &status) ||
            !safetensors_open(&file, bench_path(&bench, "model.safetensors").text, &status))
            fail_msg("%s", status.message);
        memcpy(again.name, config.name, sizeof config.name);
        assert_memory_equal(&again, &config, sizeof config);
        for (size_t n = 0; n < 4; n++) {
            char name[96];
            snprintf(name, sizeof name, "model.layers.1.%s", cases[i].names[n]);
            if (!safetensors_find(&file, name))
                fail_msg("there is no %s", name);
        }
        assert_int_equal(file.count, cases[i].tensors);
        safetensors_close(&file);
        read_weights(&bench, DTYPE_F64);
        for (size_t j = 0; j < bench.model.parameter_count; j++)
            expect_random(&bench, &bench.model.parameters[j], 5, i % 2 ? DTYPE_F64 : DTYPE_BF16, DTYPE_F64);
        bench_close(&bench);
    }
}

static void append_tensor(char **header, unsigned char **data, size_t *bytes, const char *name, const char *dtype,
                          const char *shape, const void *values, size_t count)
{
    char *longer = NULL;
    assert_true(asprintf(&longer, "%s%s\"%s\": {\"dtype\": \"%s\", \"shape\": %s, \"data_offsets\": [%zu, %zu]}",
                         *header, *bytes ? ", " : "", name, dtype, shape, *bytes, *bytes + count) > 0);
    free(*header);
    *header = longer;
    *data = realloc(*data, *bytes + count);
    memcpy(*data + *bytes, values, count);
    *bytes += count;
}

static unsigned char code_at(size_t i)
{
    return (unsigned char)(i * 37 + i / 251 + 11);
}

// Writes the folder's file again, each tensor as `change` appends it.
struct rewriting {
    char *header;
    unsigned char *data;
    size_t bytes;
    const char *name, *other;
    const struct safetensors_tensor *held;
};
static void rewrite(struct bench *bench, struct rewriting *r,
                    void (*change)(struct rewriting *r, const struct safetensors_tensor *t))
{
    struct safetensors file;
    struct status status = {0};
    if (!safetensors_open(&file, bench_path(bench, "model.safetensors").text, &status))
        fail_msg("%s", status.message);
    r->header = strdup("{");
    for (size_t i = 0; i < file.count; i++)
        change(r, &file.tensors[i]);
    safetensors_close(&file);
    uint64_t length = strlen(r->header) + 1;
    unsigned char *whole = malloc(sizeof length + length + r->bytes);
    memcpy(whole, &length, sizeof length);
    memcpy(whole + sizeof length, r->header, length - 1);
    whole[sizeof length + length - 1] = '}';
    if (r->bytes > 0)
        memcpy(whole + sizeof length + length, r->data, r->bytes);
    scratch_file(&bench->scratch, "model.safetensors", (const char *)whole, sizeof length + length + r->bytes);
    free(whole);
    free(r->data);
    free(r->header);
}

static void append(struct rewriting *r, const char *name, const struct safetensors_tensor *t)
{
    char shape[200];
    safetensors_shape_text(t->rank, t->shape, shape, sizeof shape);
    append_tensor(&r->header, &r->data, &r->bytes, name, t->dtype_name, shape, t->data, t->bytes);
}

// Experts' matrices of 32 columns in MXFP4: code_at(i) is byte i of the blocks of each. `name` is left out.
static void in_mxfp4(struct rewriting *r, const struct safetensors_tensor *t)
{
    char shape[100], name[120];
    size_t rows = t->shape[0] * t->shape[2];
    if (t->rank != 3) {
        append(r, t->name, t);
        return;
    }
    unsigned char *codes = malloc(17 * rows);
    for (size_t j = 0; j < 17 * rows; j++)
        codes[j] = j < 16 * rows ? code_at(j) : (unsigned char)(120 + (j - 16 * rows) % 13);
    snprintf(shape, sizeof shape, "[%zu, %zu, 1, 16]", t->shape[0], t->shape[2]);
    snprintf(name, sizeof name, "%s_blocks", t->name);
    if (!r->name || !strstr(name, r->name))
        append_tensor(&r->header, &r->data, &r->bytes, name, "U8", shape, codes, 16 * rows);
    snprintf(shape, sizeof shape, "[%zu, %zu, 1]", t->shape[0], t->shape[2]);
    snprintf(name, sizeof name, "%s_scales", t->name);
    append_tensor(&r->header, &r->data, &r->bytes, name, "U8", shape, codes + 16 * rows, rows);
    free(codes);
}

static void under_another_name(struct rewriting *r, const struct safetensors_tensor *t)
{
    char name[120];
    snprintf(name, sizeof name, "model.layers.1.block_sparse_moe.experts.%s", r->name);
    bool renamed = strcmp(t->name, name) == 0;
    snprintf(name, sizeof name, "model.layers.1.block_sparse_moe.experts.%s", r->other);
    if (renamed || strcmp(t->name, name) != 0)
        append(r, renamed ? name : t->name, t);
}

static void mxfp4_is_expanded(void **state)
{
    static const double levels[16] = {0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6};
    static const char json[] = "{\"model_type\": \"gpt_oss\", \"hidden_size\": 32, \"num_hidden_layers\": 1, "
                               "\"num_attention_heads\": 2, \"num_key_value_heads\": 2, \"intermediate_size\": 32, "
                               "\"vocab_size\": 19, \"num_local_experts\": 2, \"num_experts_per_tok\": 2, "
                               "\"quantization_config\": {\"quant_method\": \"mxfp4\"}}";
    struct bench bench;
    struct config config;
    struct status status = {0};
    struct scratch *scratch = *state;
    scratch_file(scratch, "config.json", json, strlen(json));
    if (!folder_read_config(scratch->folder, &config, &status))
        fail_msg("%s", status.message);
    bench_open(&bench, scratch, config, (struct lora){0}, DTYPE_F64);
    rewrite(&bench, &(struct rewriting){0}, in_mxfp4);
    read_weights(&bench, DTYPE_F64);
    for (size_t i = 0; i < bench.model.parameter_count; i++) {
        const struct parameter *p = &bench.model.parameters[i];
        size_t rows = p->experts ? p->value.rows / p->experts : 0;
        double *found = malloc(tensor_count(p->value) * sizeof *found);
        tensor_read(bench.device, p->value, found);
        for (size_t j = 0; p->experts && j < tensor_count(p->value); j++) {
            size_t row = j / 32 % rows, expert = j / 32 / rows;
            // Gate's and up's rows lie in turn, of 64 in all.
            size_t at = expert * rows + (rows == 64 ? row % 32 * 2 + row / 32 : row);
            unsigned char pair = code_at(at * 16 + j % 32 / 2);
            double expected = levels[j % 2 ? pair >> 4 : pair & 15] * pow(2, 120 + (double)(at % 13) - 127);
            if (found[j] != expected)
                fail_msg("%s[%zu]: expected %g, found %g", p->name, j, expected, found[j]);
        }
        free(found);
    }
    bench_close(&bench);
    bench_open(&bench, scratch, config, (struct lora){0}, DTYPE_F64);
    rewrite(&bench, &(struct rewriting){.name = "down_proj"}, in_mxfp4);
    expect_unread(&bench, "missing 1: model.layers.0.mlp.experts.down_proj_blocks, unexpected 0");
    bench_close(&bench);
}

// Layers of Gated DeltaNet with one head of keys have their projections in two tensors, as Qwen3-Next's.
static void in_two(struct rewriting *r, const struct safetensors_tensor *t)
{
    const char *end = strstr(t->name, ".in_proj_");
    bool states = end && strcmp(end, ".in_proj_z.weight") == 0;
    if (!end) {
        append(r, t->name, t);
    } else if (!states && strcmp(end, ".in_proj_b.weight") != 0) {
        r->held = t; // .in_proj_a, or .in_proj_qkv
    } else {
        const struct safetensors_tensor *upper = states ? r->held : t, *lower = states ? t : r->held;
        struct safetensors_tensor whole = *upper;
        unsigned char *data = malloc(upper->bytes + lower->bytes);
        char name[120];
        memcpy(data, upper->data, upper->bytes);
        memcpy(data + upper->bytes, lower->data, lower->bytes);
        whole.shape[0] += lower->shape[0];
        whole.bytes += lower->bytes;
        whole.data = data;
        snprintf(name, sizeof name, "%.*s.in_proj_%s.weight", (int)(end - t->name), t->name,
                 states ? "qkvz" : "ba");
        append(r, name, &whole);
        free(data);
    }
}

// A Qwen3-Next whose layers are all dense has joined projections, too.
static void projections_of_a_dense_next_are_taken_apart(void **state)
{
    static const char json[] =
        MOE("\"model_type\": \"qwen3_next\", \"num_experts\": 4, \"mlp_only_layers\": [0, 1], \"head_dim\": 8, "
            "\"linear_num_key_heads\": 1, \"linear_num_value_heads\": 2, \"linear_key_head_dim\": 4, "
            "\"linear_value_head_dim\": 5, \"layer_types\": [\"linear_attention\", \"full_attention\"]");
    struct bench bench;
    struct config config;
    struct status status = {0};
    struct scratch *scratch = *state;
    scratch_file(scratch, "config.json", json, strlen(json));
    if (!folder_read_config(scratch->folder, &config, &status))
        fail_msg("%s", status.message);
    bench_open(&bench, scratch, config, (struct lora){0}, DTYPE_F64);
    rewrite(&bench, &(struct rewriting){0}, in_two);
    read_weights(&bench, DTYPE_F64);
    for (size_t i = 0; i < bench.model.parameter_count; i++)
        expect_random(&bench, &bench.model.parameters[i], 5, DTYPE_F64, DTYPE_F64);
    bench_close(&bench);
}

// An expert's tensor that is missing, of another shape or not of the model is named.
static void experts_must_be_those_expected(void **state)
{
    static const char json[] = MOE("\"model_type\": \"mixtral\", \"num_local_experts\": 3");
    static const struct {
        const char *name, *other; // within the experts of layer 1; it gets the other name
        const char *reason;
    } cases[] = {
        {"2.w3.weight", "3.w3.weight",
         "missing 1: model.layers.1.block_sparse_moe.experts.2.w3.weight, unexpected 1: "
         "model.layers.1.block_sparse_moe.experts.3.w3.weight"},
        {"0.w1.weight", "1.w2.weight",
         "model.layers.1.block_sparse_moe.experts.1.w2.weight: expected the shape [16, 12], "
         "found [12, 16]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bench bench;
        struct config config;
        struct status status = {0};
        struct scratch *scratch = *state;
        scratch_file(scratch, "config.json", json, strlen(json));
        if (!folder_read_config(scratch->folder, &config, &status))
            fail_msg("%s", status.message);
        bench_open(&bench, scratch, config, (struct lora){0}, DTYPE_F64);
        rewrite(&bench, &(struct rewriting){.name = cases[i].name, .other = cases[i].other}, under_another_name);
        expect_unread(&bench, cases[i].reason);
        bench_close(&bench);
    }
}

// Quantised weights of a folder have the codes and scales of drawn ones, and the same dequantised values if they
// are stored so.
static void weights_are_quantised_as_they_are_read(void **state)
{
    struct config config = small;
    config.vocab = 50000, config.ffn = 50001; // in several blocks of the reader's, the last of 64 not whole
    for (enum quantisation q = QUANTISATION_NF4; q < QUANTISATION_COUNT; q++) {
        struct bench bench;
        struct status status = {0};
        struct model drawn, plain;
        struct trainer drawn_trainer, plain_trainer;
        struct lora lora = {.rank = 1, .alpha = 1, .targets = LORA_V};
        struct trainer_options options = {
            .lora = lora, .kv_gradient_dtype = DTYPE_F64, .gradient_dtype = DTYPE_F64, .quantisation = q};
        bench_open(&bench, *state, config, (struct lora){0}, DTYPE_BF16);
        trainer_close(&bench.trainer);
        trainer_open(&bench.trainer, &bench.model, &config, &options, bench.device);
        trainer_open(&drawn_trainer, &drawn, &config, &options, bench.device);
        options.dequantised = true;
        trainer_open(&plain_trainer, &plain, &config, &options, bench.device);
        random_weights_set(&drawn, 5, DTYPE_BF16);
        if (!folder_read_weights(bench.scratch.folder, &bench.model, 5, DTYPE_BF16, &status) ||
            !folder_read_weights(bench.scratch.folder, &plain, 5, DTYPE_F64, &status))
            fail_msg("%s", status.message);
        for (size_t i = 0; i < drawn.parameter_count; i++) {
            const struct parameter *read = &bench.model.parameters[i], *other = &drawn.parameters[i];
            for (size_t part = 0; part < PARAMETER_PARTS && read->kept[part].data; part++)
                assert_memory_equal(read->kept[part].data, other->kept[part].data, tensor_bytes(read->kept[part]));
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
        trainer_close(&plain_trainer);
        trainer_close(&drawn_trainer);
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
        !safetensors_append(&writer, zeros, values, &status) || !safetensors_commit(&writer, &status))
        fail_msg("%s", status.message);
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
    expect_unread(&bench, "it holds pytorch_model.bin, weights as pickles");
    bench_close(&bench);
}

// Writes the model's weights in Phi-3's layout: one tensor of q, k and v, in this order, and one of gate and up;
// the last tensor lacks `rows_missing` rows.
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
        random_weights_values(p, 5, DTYPE_F64, 0, values, random);
        bool last = strstr(p->name, "layers.1.mlp.up_proj");
        fine = safetensors_append(&writer, random, values - (last ? rows_missing * p->value.cols : 0), &status);
        free(random);
    }
    if (!fine || !safetensors_commit(&writer, &status))
        fail_msg("%s", status.message);
}

// Writes OLMo Hybrid's weights as they are published: norms under other names, and a filter each of q, k and v, of
// which k's lacks `rows_missing` rows.
static void write_published(const struct bench *bench, size_t rows_missing)
{
    static const char *const names[][2] = {{"layers.0.input_layernorm", "layers.0.attention_layer_norm"},
                                           {"post_attention_layernorm", "feedforward_layer_norm"}};
    struct safetensors_item items[64] = {{0}};
    struct safetensors_writer writer;
    struct status status = {0};
    size_t count = 0, keys = 12;
    char published[64][160];
    for (size_t i = 0; i < bench->model.parameter_count; i++) {
        const struct parameter *p = &bench->model.parameters[i];
        for (size_t part = 0; part < (p->filter ? 3 : 1); part++, count++) {
            size_t rows = !p->filter ? p->value.rows : part < 2 ? keys : p->value.rows - 2 * keys;
            snprintf(published[count], sizeof *published, "%s", p->name);
            if (p->filter)
                snprintf(published[count], sizeof *published, "model.layers.0.linear_attn.%c_conv1d.weight",
                         "qkv"[part]);
            for (size_t n = 0; n < 2; n++) {
                const char *at = strstr(p->name, names[n][0]);
                if (at)
                    snprintf(published[count], sizeof *published, "%.*s%s.weight", (int)(at - p->name), p->name,
                             names[n][1]);
            }
            rows -= p->filter && part == 1 ? rows_missing : 0;
            items[count] = safetensors_item(published[count], rows, p->value.cols, parameter_form(p), DTYPE_F64);
        }
    }
    bool fine = safetensors_create(&writer, bench_path(bench, "model.safetensors").text, items, count, &status);
    for (size_t i = 0; fine && i < bench->model.parameter_count; i++) {
        const struct parameter *p = &bench->model.parameters[i];
        size_t values = tensor_count(p->value);
        double *random = malloc(values * sizeof *random);
        assert_non_null(random);
        random_weights_values(p, 5, DTYPE_F64, 0, values, random);
        fine =
            safetensors_append(&writer, random, values - (p->filter ? rows_missing * p->value.cols : 0), &status);
        free(random);
    }
    if (!fine || !safetensors_commit(&writer, &status))
        fail_msg("%s", status.message);
}

static void published_filters_are_joined(void **state)
{
    struct bench bench;
    bench_open(&bench, *state, olmo_hybrid(), (struct lora){0}, DTYPE_F64);
    write_published(&bench, 0);
    read_weights(&bench, DTYPE_F64);
    for (size_t i = 0; i < bench.model.parameter_count; i++)
        expect_random(&bench, &bench.model.parameters[i], 5, DTYPE_F64, DTYPE_F64);
    write_published(&bench, 1);
    expect_unread(&bench, "q_conv1d.weight and those of k and v: expected 64 rows, found 63");
    bench_close(&bench);
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
    // A tensor of a layer that the model does not have.
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
        for (int j = 0; j < 16; j++)
            assert_true(row[j] == 0);
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
        {"{\"weight_map\": {\"x\": \"model.safetensors.index.json\"}}", "is JSON"},
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
        const struct projection *projections[] = {bench.model.layers[l].mixer.parameters,
                                                  bench.model.layers[l].mlp.out}; // q, down
        for (int i = 0; i < 4; i++) {
            const struct parameter *p = i % 2 ? projections[i / 2]->lora_b : projections[i / 2]->lora_a;
            items[count++] = (struct safetensors_item){p->name, DTYPE_F64, 2, {p->value.rows, p->value.cols}};
            values += tensor_count(p->value);
        }
    }
    assert_string_equal(items[0].name, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
    double *ones = malloc(values * sizeof *ones);
    for (size_t i = 0; i < values; i++)
        ones[i] = (double)i + 0.5;
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
    tensor_read(bench.device, model_parameter(&bench.model, items[0].name)->value, a);
    for (int i = 0; i < 32; i++)
        assert_true(a[i] == i + 0.5);
    read_weights(&bench, DTYPE_F32); // which leaves the adapter aside
    expect_random(&bench, model_parameter(&bench.model, items[0].name), 0, DTYPE_F32, DTYPE_F32);

    items[7].name = "base_model.model.model.layers.1.mlp.down_proj.lora_C.weight";
    assert_true(safetensors_create(&writer, path.text, items, 8, &status));
    ones = calloc(values, sizeof *ones);
    assert_true(safetensors_append(&writer, ones, values, &status));
    assert_true(safetensors_commit(&writer, &status));
    free(ones);
    assert_false(folder_check_adapter(bench.scratch.folder, &bench.config, &lora, &status));
    assert_non_null(
        strstr(status.message, "tensor base_model.model.model.layers.1.mlp.down_proj.lora_B.weight is missing"));
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(folders_are_read_as_written, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(experts_are_named_as_by_transformers, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(mxfp4_is_expanded, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(projections_of_a_dense_next_are_taken_apart, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(experts_must_be_those_expected, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(weights_are_quantised_as_they_are_read, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(tensors_must_be_those_expected, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(published_filters_are_joined, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(fused_weights_are_taken_apart, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(integers_are_no_weights, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(shards_are_read_through_their_index, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(lora_factors_come_from_the_adapter, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
