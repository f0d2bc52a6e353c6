// Plans of transformers' step by the program: what a record says, searches that agree with plans, and what is
// refused.
#define _GNU_SOURCE // asprintf, nftw
#include "tests/asked.h"
#include "tests/golden.h"
#include "tests/program.h"
#include "tests/sanitized.h"
#include <string.h>

#define PLAN "plan --model llama-3-8b --dtype bf16 --like transformers --context 8192 --method checkpoint "

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "null";
}

static void a_record_says_whose_step_it_is(void **state)
{
    (void)state;
    json_t *record = longbp_json(PLAN "--lora r=8 --profile rtx-3090 --json");
    json_t *framework = json_object_get(record, "framework");
    static const char *const unknown[] = {"estimate_ms", "bytes_moved",       "launches",
                                          "loss",        "lower_bound_bytes", "peak_over_bound"};
    // 28.86 GiB: what transformers' tensors and cuBLAS's workspaces are (tests/test_frameworks.c).
    assert_true(number(record, "peak_bytes") == 30985398272.0);
    assert_true(number(record, "flops") > number(record, "model_flops"));
    for (size_t i = 0; i < COUNT(unknown); i++)
        assert_true(json_is_null(json_object_get(record, unknown[i])));
    assert_string_equal(text_at(framework, "name"), "transformers");
    assert_string_equal(text_at(framework, "version"), "5.24.0");
    assert_string_equal(text_at(framework, "unchecked"), "null");
    assert_string_equal(text_at(framework, "peak_moment"), "backward");
    assert_string_equal(text_at(framework, "peak_operation"), "log_softmax_backward");
    assert_string_equal(text_at(json_object_get(json_object_get(record, "trial"), "framework"), "reentrant"), "no");
    json_decref(record);
    record = longbp_json(PLAN "--framework version=4.51 --json");
    framework = json_object_get(record, "framework");
    assert_string_equal(text_at(framework, "version"), "4.51.3");
    assert_string_equal(text_at(json_object_get(json_object_get(record, "trial"), "framework"), "reentrant"),
                        "yes");
    json_decref(record);
}

// The texts, with "; " between them; "null": none.
static char *joined(const json_t *texts)
{
    char *all = strdup(json_is_null(texts) ? "null" : "");
    for (size_t i = 0; i < json_array_size(texts); i++) {
        char *before = all;
        assert_true(asprintf(&all, "%s%s%s", before, i ? "; " : "", json_string_value(json_array_get(texts, i))) >=
                    0);
        free(before);
    }
    return all;
}

static void what_was_not_checked_is_named(void **state)
{
    (void)state;
    static const char *const unchecked[][2] = {
        {"version=4.56", "version 4.56"},
        {"trainer=trl", "a fused head, which is modelled after its source"},
        {"loss=liger", "a fused head, which is modelled after its source"},
        {"attention=efficient,version=4.51", "efficient attention without a mask but with version 5.24"},
        {"attention=efficient,mask=padded", "null"},
        {"attention=efficient,mask=padded,version=4.46", "a padded mask with version 4.46"},
        {"attention=eager", "null"},
        {"attention=eager,version=4.51", "eager attention but with version 5.24"},
        {"attention=efficient,mask=padded,version=4.51", "null"},
        {"loss=chunked,reentrant=yes,gradients=held", "null"},
        {"version=4.56,loss=liger", "version 4.56; a fused head, which is modelled after its source"},
        {"head=f32", "null"},
        {"mixed_precision=bf16", "null"},
        {"optim=adafactor --optimizer adamw", "null"},
        {"offload=inputs", "null"},
        {"quantised=nf4 --lora r=8",
         "quantised weights, which are modelled after bitsandbytes' and PEFT's sources"},
        {"offload=inputs,version=4.51", "inputs on the host before version 5.24, as Unsloth's checkpoints have it"},
        {"optim=paged_adamw_8bit --optimizer adamw",
         "how many of the optimizer's pages are on the card: none are counted there"},
        {"mixed_precision=bf16,version=4.51", "autocast before version 5.24"},
        {"ranks=1", "null"},
        {"ranks=2", "a step that cards share, which is divided and was not checked"},
        {"ranks=2,shards=gradients", "a step that cards share, which is divided and was not checked"},
        {"ranks=2,shards=states --optimizer adamw",
         "a step that cards share, which is divided and was not checked; an optimizer without f32 copies of the "
         "weights, which DeepSpeed keeps for bf16"},
        {"ranks=2,shards=all",
         "a step that cards share, which is divided and was not checked; weights gathered one layer at a time: "
         "nothing is prefetched"},
        {"head=f32,inferred=head", "the head's dtype, inferred from published peaks"},
        {"inferred=head,adapters,head=f32,adapters=bf16",
         "the head's dtype, inferred from published peaks; the adapters' dtype, inferred from published peaks"},
    };
    for (size_t i = 0; i < COUNT(unchecked); i++) {
        json_t *record = longbp_json(PLAN "--framework %s --json", unchecked[i][0]);
        char *said = joined(json_object_get(json_object_get(record, "framework"), "unchecked"));
        assert_string_equal(said, unchecked[i][1]);
        free(said);
        json_decref(record);
    }
}

// Each option of the framework makes another trial.
static void options_are_part_of_the_id(void **state)
{
    (void)state;
    static const char *const options[] = {
        "version=4.51",  "trainer=trl",          "loss=chunked",   "outputs=kept", "reentrant=yes",
        "adapters=bf16", "gradients=held",       "loss_rows=100",  "trainer=hf",   "head=f32",
        "inferred=head", "mixed_precision=bf16", "offload=inputs", "ranks=2",      "ranks=2,shards=all"};
    json_t *ids = json_object();
    for (size_t i = 0; i < COUNT(options); i++) {
        json_t *record = longbp_json(PLAN "--framework %s --json", options[i]);
        json_object_set_new(ids, text_at(record, "id"), json_true());
        json_decref(record);
    }
    assert_int_equal(json_object_size(ids), COUNT(options));
    json_t *record = longbp_json(PLAN "--json");
    assert_non_null(json_object_get(ids, text_at(record, "id"))); // the trainer's default said
    json_decref(record);
    json_decref(ids);
}

// The longest context and the largest batch fit by `plan`, and one more does not.
static void searches_and_plans_agree(void **state)
{
    (void)state;
    static const char *const searches[][2] = {
        {"max-context --model llama-3-8b --lora r=8 --profile rtx-3090", "context"},
        {"max-batch --model qwen3-4b --context 3000 --memory-limit 80GiB --framework loss=chunked", "batch"}};
    for (size_t s = 0; s < COUNT(searches); s++) {
        json_t *rows = longbp_records(0, "%s --dtype bf16 --like transformers --json", searches[s][0]), *row;
        size_t i;
        assert_int_equal(json_array_size(rows), 2); // full, checkpoint
        json_array_foreach(rows, i, row)
        {
            const json_t *trial = json_object_get(row, "trial");
            size_t found = (size_t)number(trial, searches[s][1]);
            const char *rest = strchr(searches[s][0], ' ');
            for (size_t more = 0; more < 2; more++) {
                json_t *plan =
                    longbp_json("plan %s --dtype bf16 --like transformers --json --method %s --%s %zu", rest,
                                text_at(json_object_get(trial, "method"), "name"), searches[s][1], found + more);
                assert_true(json_is_true(json_object_get(plan, "fits")) == (more == 0));
                json_decref(plan);
            }
        }
        json_decref(rows);
    }
}

// The most live bytes of the time line are the peak.
static void a_time_line_has_the_peak(void **state)
{
    (void)state;
    json_t *record = record_of("{'model': 'llama-3-8b', 'dtype': 'bf16', 'device': 'plan-transformers', 'context': "
                               "1024, 'method': 'full', 'measure': {'timeline': true}}");
    json_t *events = json_object_get(json_object_get(record, "timeline"), "events"), *event;
    double most = 0;
    size_t i, c;
    json_array_foreach(events, i, event)
    {
        double live = 0;
        for (c = 2; c < json_array_size(event); c++)
            live += json_number_value(json_array_get(event, c));
        most = fmax(most, live);
    }
    assert_true(most == number(record, "peak_bytes"));
    json_decref(record);
}

static void answer(FILE *out, const char *input)
{
    char *said;
    int code = longbp(&said, input);
    said[strcspn(said, "\n")] = 0;
    fprintf(out, "%s\n(exit code %d)", said, code);
    free(said);
}

static void what_is_not_known_is_refused(void **state)
{
    (void)state;
    golden_hold(answer);
}

// A QLoRA script of TRL's, or one around Trainer, takes what the flags it stands for take.
static void quantised_runs_are_planned(void **state)
{
    const struct scratch *scratch = *state;
    static const struct {
        const char *file, *flags;
    } runs[] = {
        {"max_length: 512\ndtype: bfloat16\nload_in_4bit: true\nuse_bnb_nested_quant: true\nuse_peft: true\n",
         "--dtype bf16 --method checkpoint --lora r=16,alpha=32 --framework "
         "trainer=trl,quantised=nf4_double,adapters=bf16"},
        {"optim: adamw_torch_fused\nbf16: true\nr: 16\nlora_alpha: 32\ntarget_modules: [q_proj, v_proj]\n"
         "quantization_config: {load_in_4bit: true, bnb_4bit_quant_type: nf4, bnb_4bit_compute_dtype: bfloat16}\n",
         "--dtype f32 --method full --lora r=16,alpha=32,targets=q,v --framework quantised=nf4"}};
    struct scratch_path path = scratch_path(scratch, "run.yaml");
    for (size_t i = 0; i < COUNT(runs); i++) {
        scratch_text(scratch, "run.yaml", runs[i].file);
        json_t *run = longbp_json("plan --from %s --model llama-3-8b --context 512 --batch 1 --json", path.text);
        json_t *plan =
            longbp_json("plan --like transformers --model llama-3-8b --context 512 --batch 1 --optimizer "
                        "adamw %s,mixed_precision=bf16,optimizer_form=fused,reentrant=no --json",
                        runs[i].flags);
        assert_string_equal(text_at(run, "id"), text_at(plan, "id"));
        assert_true(number(run, "peak_bytes") == number(plan, "peak_bytes"));
        json_decref(run);
        json_decref(plan);
        // Here frozen weights are quantised, too, and all lines are of steps that are planned.
        assert_int_equal(
            finish(start(scratch, "$L advise --from run.yaml --model llama-3-8b --context 512 --batch 1 --profile "
                                  "rtx-3090 >said && grep -q '^llama-3-8b.*weights in nf4' said && "
                                  "grep -q '^their run  *[0-9]' said")),
            0);
    }
}

// A tower of images has weights of its own, which a plan of the decoder alone would leave out without a word.
static void a_decoder_beside_a_tower_is_refused(void **state)
{
    const struct scratch *scratch = *state;
    scratch_text(scratch, "config.json",
                 "{\"model_type\": \"qwen3_vl\", \"text_config\": {\"model_type\": \"qwen3_vl_text\", "
                 "\"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
                 "\"num_key_value_heads\": 2, \"head_dim\": 16, \"intermediate_size\": 96, \"vocab_size\": 256, "
                 "\"rms_norm_eps\": 1e-6, \"max_position_embeddings\": 1024, \"rope_parameters\": "
                 "{\"rope_type\": \"default\", \"rope_theta\": 10000.0, \"mrope_section\": [2, 3, 3]}}}");
    const char *plan = "$L plan --model . --dtype bf16 --method full --context 64 ";
    char command[400];
    snprintf(command, sizeof command,
             "%s --like cuda && ! %s --like transformers 2>why && grep -q 'key \"model\".*images or sound' why",
             plan, plan);
    assert_int_equal(finish(start(scratch, command)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_says_whose_step_it_is),
        cmocka_unit_test(what_was_not_checked_is_named),
        cmocka_unit_test(options_are_part_of_the_id),
        cmocka_unit_test(searches_and_plans_agree),
        cmocka_unit_test(a_time_line_has_the_peak),
        cmocka_unit_test(what_is_not_known_is_refused),
        cmocka_unit_test_setup_teardown(quantised_runs_are_planned, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_decoder_beside_a_tower_is_refused, scratch_setup, scratch_teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
