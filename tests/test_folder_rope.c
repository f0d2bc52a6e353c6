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
    rope_frequencies(&c.kinds[0], scaled);
    c.kinds[0].rope_scaling = (struct rope_scaling){0};
    rope_frequencies(&c.kinds[0], plain);
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
    rope_frequencies(&c.kinds[0], frequencies);
    rope_frequencies(&plain.kinds[0], all);
    assert_true(frequencies[0] == all[0] / 2 && frequencies[1] == all[1] / 2);
    assert_true(frequencies[2] == 0 && frequencies[3] == 0);
    assert_false(rope_is_same(&c.kinds[0], &plain.kinds[0]));
    expect_same_again(scratch, &c);
    c = config_of(scratch, LLAMA ", \"rope_scaling\": {\"rope_type\": \"proportional\"}}");
    assert_true(c.kinds[0].rope == ROPE_HALVES && c.kinds[0].rotary == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(yarn_and_its_layers, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(rope_in_both_spellings, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(proportional_rope, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
