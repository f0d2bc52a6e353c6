// Tests of RoPE's keys in config.json: their meaning in each family.
#define _GNU_SOURCE // nftw, mkdtemp
#include "tests/config_text.h"

// As transformers reads it, by whose keys left out the factor of queries and keys is YaRN's own; in OLMo 3 of the
// layers without a window alone, each fourth.
static void yarn_and_its_layers(void **state)
{
    struct scratch *scratch = *state;
#define YARN "{\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 512"
    struct config c = config_of(scratch, QWEN3 ", \"rope_scaling\": " YARN "}}");
    const struct rope_scaling *r = &c.kinds[0].rope_scaling;
    assert_true(r->factor == 4 && r->high_freq_factor == 32 && r->low_freq_factor == 1 &&
                r->original_context == 512);
    assert_true(fabs(r->attention_factor - 1.1386294361119891) < 1e-15 && rope_gain(&c.kinds[0]) > 1.13);
    expect_same_again(scratch, &c);
    c = config_of(scratch,
                  LLAMA ", \"rope_parameters\": " YARN ", \"rope_theta\": 7.0, \"beta_fast\": 16, "
                        "\"beta_slow\": 2, \"attention_factor\": 1.5, \"mscale\": 2, \"mscale_all_dim\": 1}}");
    assert_true(c.kinds[0].rope_theta == 7 && r->high_freq_factor == 16 && r->low_freq_factor == 2 &&
                r->attention_factor == 1.5);
    expect_same_again(scratch, &c);
    c = config_of(scratch, LLAMA ", \"rope_scaling\": " YARN ", \"mscale\": 1, \"mscale_all_dim\": 1}}");
    assert_true(r->attention_factor == 1);
    double scaled[4], plain[4];
    rope_frequencies(&c, &c.kinds[0], 0, scaled);
    c.kinds[0].rope_scaling = (struct rope_scaling){0};
    rope_frequencies(&c, &c.kinds[0], 0, plain);
    assert_true(scaled[0] == plain[0] && scaled[3] < plain[3] && scaled[3] >= plain[3] / 4);

    c = config_of(scratch, "{\"model_type\": \"olmo3\", " SIZES ", \"sliding_window\": 9, \"layer_types\": "
                           "[\"sliding_attention\", \"full_attention\"], \"rope_scaling\": " YARN "}}");
    assert_true(c.norms == NORMS_AFTER && c.whole_qk_norm && c.kinds[0].rope_theta == 5e5 &&
                c.kinds[1].rope_theta == 5e5);
    assert_true(config_kind(&c, 0)->window == 9 && config_kind(&c, 1)->window == 0);
    assert_true(rope_gain(&c.kinds[0]) == 1 && rope_gain(&c.kinds[1]) > 1.13);
    expect_same_again(scratch, &c);
    c = config_of(scratch, "{\"model_type\": \"olmo3\", " SIZES "}");
    assert_true(config_kind(&c, 1)->window == 4096); // each fourth has none
    c.layers = 3;
    expect_same_again(scratch, &c);
    c = config_of(scratch, "{\"model_type\": \"olmo3\", " SIZES
                           ", \"layer_types\": [\"full_attention\", \"sliding_attention\"]}");
    assert_true(config_kind(&c, 0)->window == 0 && config_kind(&c, 1)->window == 4096);
    expect_same_again(scratch, &c);
    c.kinds[0].rope_theta = 1e4; // which no key says
    struct status status = {0};
    assert_false(folder_write_config(scratch->folder, &c, DTYPE_F32, &status));
    assert_int_equal(status.code, STATUS_UNSUPPORTED);
}

static void rope_in_both_spellings(void **state)
{
    struct scratch *scratch = *state;
    struct config c = config_of(scratch, LLAMA ", \"rope_theta\": 7.0, \"rope_scaling\": " LLAMA3 "}}");
    assert_true(c.kinds[0].rope_theta == 7 && c.kinds[0].rope_scaling.factor == 8 &&
                c.kinds[0].rope_scaling.low_freq_factor == 1);
    assert_true(c.kinds[0].rope_scaling.high_freq_factor == 4 && c.kinds[0].rope_scaling.original_context == 8192);
    c = config_of(scratch, LLAMA ", \"rope_parameters\": " LLAMA3 ", \"rope_theta\": 9}}");
    assert_true(c.kinds[0].rope_theta == 9 && c.kinds[0].rope_scaling.factor == 8 &&
                c.kinds[0].rope_scaling.original_context == 8192);
    c = config_of(scratch, LLAMA ", \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 9.5}}");
    assert_true(c.kinds[0].rope_theta == 9.5 && c.kinds[0].rope_scaling.factor == 0);
    c = config_of(scratch,
                  LLAMA ", \"rope_scaling\": {\"type\": \"llama3\", \"factor\": 2, \"low_freq_factor\": 1, "
                        "\"high_freq_factor\": 2}}");
    assert_true(c.kinds[0].rope_scaling.original_context == 2048); // left out: max_position_embeddings
    c = config_of(scratch, LLAMA ", \"rope_scaling\": {\"type\": \"default\"}}");
    assert_true(c.kinds[0].rope_theta == 10000 && c.kinds[0].rope_scaling.factor == 0);
}

// Pairs are those of whole heads, and their frequencies, too; those beyond the share do not turn.
static void proportional_rope(void **state)
{
    struct scratch *scratch = *state;
    struct config c = config_of(scratch, LLAMA ", \"rope_scaling\": {\"rope_type\": \"proportional\", "
                                               "\"partial_rotary_factor\": 0.5, \"factor\": 2.0}}"),
                  plain = config_of(scratch, LLAMA "}");
    double frequencies[4], all[4];
    assert_true(c.kinds[0].rope == ROPE_PROPORTIONAL && c.kinds[0].rotary == 4 && rope_rotary(&c.kinds[0]) == 8);
    rope_frequencies(&c, &c.kinds[0], 0, frequencies);
    rope_frequencies(&plain, &plain.kinds[0], 0, all);
    assert_true(frequencies[0] == all[0] / 2 && frequencies[1] == all[1] / 2);
    assert_true(frequencies[2] == 0 && frequencies[3] == 0);
    assert_false(rope_is_same(&c.kinds[0], &plain.kinds[0]));
    expect_same_again(scratch, &c);
    c = config_of(scratch, LLAMA ", \"rope_scaling\": {\"rope_type\": \"proportional\"}}");
    assert_true(c.kinds[0].rope == ROPE_HALVES && c.kinds[0].rotary == 0);
}

// Factors divide the frequencies, by the longest document; what multiplies queries and keys follows of contexts.
static void longrope(void **state)
{
    struct scratch *scratch = *state;
#define FACTORS "\"short_factor\": [1, 1.5, 2, 2.5], \"long_factor\": [4, 5, 6, 7]"
    struct config c = config_of(scratch, PHI3 ", \"max_position_embeddings\": 16384, \"rope_scaling\": {\"type\": "
                                              "\"su\", " FACTORS ", \"original_max_position_embeddings\": 7}}"),
                  plain = config_of(scratch, PHI3 "}");
    const struct rope_scaling *r = &c.kinds[0].rope_scaling;
    double all[4], at[4], beyond[4];
    assert_true(r->longrope && r->original_context == 4096); // which a Phi-3 has at the root alone
    assert_true(fabs(rope_gain(&c.kinds[0]) - sqrt(1 + log(4) / log(4096))) < 1e-15);
    rope_frequencies(&plain, &plain.kinds[0], 0, all);
    rope_frequencies(&c, &c.kinds[0], 4096, at);
    rope_frequencies(&c, &c.kinds[0], 4097, beyond);
    for (size_t j = 0; j < 4; j++)
        assert_true(at[j] == all[j] / (1 + 0.5 * (double)j) && beyond[j] == all[j] / (4 + (double)j));
    c = config_of(scratch, LLAMA ", \"rope_scaling\": {\"rope_type\": \"longrope\", " FACTORS ", \"factor\": 8, "
                                 "\"original_max_position_embeddings\": 64}}");
    assert_true(r->original_context == 64 && fabs(r->attention_factor - sqrt(1 + log(8) / log(64))) < 1e-15);
    expect_same_again(scratch, &c);
    c = config_of(scratch, LLAMA ", \"original_max_position_embeddings\": 32, \"rope_scaling\": {\"rope_type\": "
                                 "\"longrope\", " FACTORS ", \"attention_factor\": 1.25}}");
    assert_true(r->original_context == 32 && r->attention_factor == 1.25);
}

// Theta grows with the longest document, from max_position_embeddings on.
static void dynamic_rope(void **state)
{
    struct scratch *scratch = *state;
    struct config c = config_of(scratch, INTERNLM3 ", \"max_position_embeddings\": 64, \"head_dim\": 8, "
                                                   "\"original_max_position_embeddings\": 16, \"rope_scaling\": "
                                                   "{\"rope_type\": \"dynamic\", \"factor\": 6}}"),
                  plain = config_of(scratch, INTERNLM3 ", \"head_dim\": 8}");
    const struct rope_scaling *r = &c.kinds[0].rope_scaling;
    double all[4], at[4], beyond[4];
    assert_true(r->dynamic && r->factor == 6 && r->original_context == 64 && c.max_context == 64);
    assert_true(rope_gain(&c.kinds[0]) == 1 && !rope_is_same(&c.kinds[0], &plain.kinds[0]));
    rope_frequencies(&plain, &plain.kinds[0], 0, all);
    rope_frequencies(&c, &c.kinds[0], 64, at);
    rope_frequencies(&c, &c.kinds[0], 128, beyond);
    assert_memory_equal(at, all, sizeof at);
    for (size_t j = 0; j < 4; j++) // 6 * 128 / 64 - 5 = 7
        assert_true(fabs(beyond[j] / all[j] * pow(7, (double)j / 3) - 1) < 1e-14);
    expect_same_again(scratch, &c);
}

// YaRN's blend begins and ends between frequencies; null means false to transformers.
static void yarn_untruncated(void **state)
{
    struct scratch *scratch = *state;
    struct config c = config_of(scratch, LLAMA ", \"rope_scaling\": " YARN ", \"truncate\": false}}"),
                  null = config_of(scratch, LLAMA ", \"rope_scaling\": " YARN ", \"truncate\": null}}"),
                  whole = config_of(scratch, LLAMA ", \"rope_scaling\": " YARN ", \"truncate\": true}}");
    double blended[4], truncated[4];
    assert_memory_equal(&c, &null, sizeof c);
    assert_true(c.kinds[0].rope_scaling.untruncated && !whole.kinds[0].rope_scaling.untruncated);
    rope_frequencies(&c, &c.kinds[0], 0, blended);
    rope_frequencies(&whole, &whole.kinds[0], 0, truncated);
    assert_true(blended[1] != truncated[1] && !rope_is_same(&c.kinds[0], &whole.kinds[0]));
    expect_same_again(scratch, &c);
}

static void queries_scaled_by_position(void **state)
{
    struct scratch *scratch = *state;
    struct config c = config_of(scratch, MINISTRAL3 "}"); // transformers' own RoPE
    const struct layer_kind *kind = &c.kinds[0];
    assert_true(kind->rope_theta == 1e6 && kind->rope_scaling.factor == 16 && rope_gain(kind) == 1);
    assert_true(kind->position_scale.length == 16384 && kind->position_scale.beta == 0.1);
    expect_same_again(scratch, &c);
    c = config_of(scratch, MINISTRAL3 ", \"rope_scaling\": {\"rope_type\": \"default\", \"llama_4_scaling_beta\": "
                                      "0.3, \"original_max_position_embeddings\": 128}}");
    assert_true(kind->position_scale.length == 128 && kind->position_scale.beta == 0.3);
    assert_true(kind->rope_theta == 1e4 && kind->rope_scaling.factor == 0);
    expect_same_again(scratch, &c);
    c = config_of(scratch, MINISTRAL3 ", \"rope_scaling\": {\"rope_type\": \"default\", \"llama_4_scaling_beta\": "
                                      "0, \"original_max_position_embeddings\": 128}}");
    assert_true(kind->position_scale.length == 0 && kind->position_scale.beta == 0);
    expect_same_again(scratch, &c);
    c = config_of(scratch, INTERNLM3 ", \"qkv_bias\": true, \"bias\": true}");
    assert_true(c.qkv_bias && c.o_bias && c.mlp_bias && kind->kv_heads == 2 && kind->head_dim == 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(yarn_and_its_layers, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(rope_in_both_spellings, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(proportional_rope, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(longrope, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(dynamic_rope, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(yarn_untruncated, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(queries_scaled_by_position, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
