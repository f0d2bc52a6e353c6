// Tests of harness/tensors/shards and weight_names: weights are found under all prefixes and suffixes of their
// names, and no other tensor is taken for one.
#define _GNU_SOURCE // nftw, mkdtemp
#include "tests/folder_bench.h"
#include <jansson.h>

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
        random_weights_values(p, 5, DTYPE_F64, 0, values, random);
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
                                          {"model.merger.mlp.0.linear_1.bias", DTYPE_F32, 1, {8}, zeros},
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
    random_weights_values(embedding, 5, DTYPE_F64, 0, count, values);
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
    struct trainer trainer;
    struct trainer_options options = {.kv_gradient_dtype = DTYPE_F64, .gradient_dtype = DTYPE_F64};
    trainer_open(&trainer, &model, &read, &options, bench.device);
    assert_true(folder_read_weights(bench.scratch.folder, &model, 0, DTYPE_F64, &status));
    double *found = malloc(count * sizeof *found);
    assert_non_null(found);
    tensor_read(bench.device, model.head->value, found);
    assert_memory_equal(found, values, count * sizeof *found);
    tensor_read(bench.device, model.embedding->value, found);
    values[count - 1] = found[count - 1];
    assert_memory_equal(found, values, count * sizeof *found);
    trainer_close(&trainer);
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
    rope_frequencies(&config, &config.kinds[0], 0, values);
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
    config.kinds[0].rope_theta *= 1.01;
    rope_frequencies(&config, &config.kinds[0], 0, values);
    const struct beside others[] = {{layer, DTYPE_F32, 1, {3}, values}, {0}};
    write_named(&bench, usual, NULL, others);
    expect_unread(&bench, "tensor model.layers.1.self_attn.rotary_emb.inv_freq: its frequencies");
    bench_close(&bench);
    // Positions were divided by a linear scaling's factor, not the frequencies that were saved.
    config = small;
    rope_frequencies(&config, &config.kinds[0], 0, values);
    for (double high = 0; high < 8; high += 4) {
        config.kinds[0].rope_scaling = (struct rope_scaling){.factor = 8,
                                                             .low_freq_factor = high / 4,
                                                             .high_freq_factor = high,
                                                             .original_context = high > 0 ? 32 : 0};
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

// Every weight in the dtype, zeros, of one byte each.
static void write_bytes(const struct bench *bench, const char *dtype)
{
    json_t *header = json_object();
    size_t end = 0;
    for (size_t i = 0; i < bench->model.parameter_count; i++) {
        const struct parameter *p = &bench->model.parameters[i];
        size_t begin = end;
        end += tensor_count(p->value);
        json_t *shape = p->vector ? json_pack("[I]", (json_int_t)p->value.cols)
                                  : json_pack("[I, I]", (json_int_t)p->value.rows, (json_int_t)p->value.cols);
        json_object_set_new(header, p->name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype, "shape", shape, "data_offsets",
                                      (json_int_t)begin, (json_int_t)end));
    }
    char *text = json_dumps(header, JSON_COMPACT);
    uint64_t length = strlen(text);
    char *bytes = calloc(sizeof length + length + end, 1);
    assert_non_null(bytes);
    memcpy(bytes, &length, sizeof length);
    memcpy(bytes + sizeof length, text, length);
    scratch_file(&bench->scratch, "model.safetensors", bytes, sizeof length + length + end);
    free(bytes);
    free(text);
    json_decref(header);
}

static void weights_of_one_byte_are_told_by_their_dtype(void **state)
{
    struct bench bench;
    bench_open(&bench, *state, small, (struct lora){0}, DTYPE_F64);
    write_bytes(&bench, "F8_E4M3");
    expect_unread(&bench,
                  "tensor model.embed_tokens.weight: expected F64, F32, BF16 or F16, found F8_E4M3; cast weights "
                  "in F8 without scales by .to(torch.bfloat16), or give the folder of the weights in bf16");
    write_bytes(&bench, "I8");
    expect_unread(&bench, "expected F64, F32, BF16 or F16, found I8; give the folder of the weights in bf16");
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_are_read_whatever_lies_around_them, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_head_of_its_own_is_not_dropped, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(frequencies_are_those_of_config_json, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(quantised_weights_are_told_by_their_names, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(weights_of_one_byte_are_told_by_their_dtype, scratch_setup,
                                        scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
