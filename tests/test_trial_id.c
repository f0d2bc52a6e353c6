// Tests of a trial's id: it depends on the trial's meaning alone, and does not change between versions. JSON is
// written with ' for ".
#include "methods/spaco_options.h"
#include "tests/trial_of.h"
#include <xxhash.h>

static void expect_same(const char *a, const char *b)
{
    struct trial trial = trial_of(a);
    expect_id(b, trial.id);
    trial_free(&trial);
}

// Committed results are found again by these ids: another id here makes every sweep start from nothing. A new key,
// or a new option of a method, changes none of them, for the id is a hash of what differs from the defaults.
static void ids_stay_what_they_were(void **state)
{
    (void)state;
    static const struct {
        const char *json, *differs;
    } trials[] = {
        {MINIMAL, "{'context':64,'method':{'name':'full'},'model':'tiny'}"},
        {WITH("'device': 'cuda'"), "{'context':64,'device':'cuda','method':{'name':'full'},'model':'tiny'}"},
        {WITH("'lora': {'rank': 4}, 'optimizer': {'name': 'adamw', 'decay': 0}"),
         "{'context':64,'lora':{'rank':4},'method':{'name':'full'},'model':'tiny',"
         "'optimizer':{'decay':0.0,'name':'adamw'}}"},
        {WITH("'measure': {'gemm': true}, 'limits': {'memory': 4096}"),
         "{'context':64,'limits':{'memory':4096},'measure':{'gemm':true},'method':{'name':'full'},'model':'tiny'}"},
        {METHOD("{'name': 'spaco', 'chunk': 8, 'budget': 2}"),
         "{'context':64,'method':{'budget':2,'chunk':8,'name':'spaco'},'model':'tiny'}"},
        // Options that came later than records did.
        {WITH("'objective': 'sequence-mean'"),
         "{'context':64,'method':{'name':'full'},'model':'tiny','objective':'sequence-mean'}"},
        {WITH("'objective': {'name': 'token-mean', 'smoothing': 0.5, 'z_loss': 0}"),
         "{'context':64,'method':{'name':'full'},'model':'tiny','objective':{'name':'token-mean','smoothing':0.5}"
         "}"},
    };
    for (size_t i = 0; i < COUNT(trials); i++) {
        struct trial trial = trial_of(trials[i].json);
        char *differs = quoted(trials[i].differs), id[33];
        XXH128_canonical_t hash;
        XXH128_canonicalFromHash(&hash, XXH3_128bits(differs, strlen(differs)));
        for (size_t j = 0; j < sizeof hash.digest; j++)
            snprintf(id + 2 * j, 3, "%02x", hash.digest[j]);
        if (strcmp(trial.id, id) != 0)
            fail_msg("%s: the id is not the hash of %s", trials[i].json, differs);
        free(differs);
        trial_free(&trial);
    }
    struct trial trial = trial_of(MINIMAL);
    char *canonical = quoted(
        "{'attention_queries':2048,'batch':1,'context':64,'data':'random','deterministic':false,'device':'"
        "cpu','documents':null,'"
        "dtype':'f32','framework':null,"
        "'gemm_algorithms':null,'gradient_dtype':'f32','group':1,'host':null,'interconnect':null,'kv_"
        "gradient_dtype':'f32','"
        "labels':null,'latent_block':4096,"
        "'limits':{'host_memory':null,'memory':null},'lora':null,"
        "'measure':{'bias':false,'categories':false,'gemm':false,'gradient':'full-f64','lost_updates':false,"
        "'max_seconds':60.0,'"
        "pair_sums':false,'routing':'none',"
        "'samples':5,'timeline':false,'warmup':1},'method':{'head_chunk':256,'keep':'lean','name':'full','"
        "offload':[]},"
        "'model':'tiny','objective':'token-mean','optimizer':null,'pad_gradient':false,'parallel':{'data':1,"
        "'exchange':'gather','experts':1,'"
        "node':1,'overlap':false,'sequence':1,'stage':"
        "1,'sum':'ordered','zero':0},"
        "'profile':null,'prompt':0,'"
        "reference':null,"
        "'router_aux_counts':'step','router_aux_form':'global','router_aux_loss':null,'router_bias_update':0.0,"
        "'router_z_loss':0.0,"
        "'seed':1,'tf32':false,'train':null,'unfused':false,'weights':null,'whole_attention':false,'whole_"
        "keys':false}");
    assert_string_equal(trial.canonical, canonical);
    free(canonical);
    trial_free(&trial);
}

static void a_default_may_be_said(void **state)
{
    (void)state;
    expect_same(
        MINIMAL,
        "{'method': {'keep': 'lean', 'name': 'full', 'head_chunk': 256}, 'limits': {'memory': null},"
        " 'context': 64, 'model': {'preset': 'tiny'}, 'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'seed': 1,"
        " 'data': 'random', 'labels': null, 'lora': null, 'optimizer': null, 'kv_gradient_dtype': 'f32',"
        " 'gradient_dtype': 'f32', 'measure': {'bias': false, 'timeline': false, 'gradient': 'full-f64',"
        " 'max_seconds': 60, 'samples': 5, 'warmup': 1}}");
    expect_same(MINIMAL, MODEL("{'layers': 4, 'width': 128, 'heads': 4, 'kv_heads': 2, 'ffn': 352, 'vocab': 256}"));
    expect_same(MINIMAL, WITH("'limits': {}, 'measure': {}"));
    expect_same(MINIMAL, WITH("'limits': {'host_memory': null}, 'host': null"));
    expect_same(MINIMAL, WITH("'deterministic': false"));
    expect_same(MINIMAL, WITH("'tf32': false"));
    expect_same(MINIMAL, WITH("'objective': 'token-mean'"));
    expect_same(MINIMAL, WITH("'objective': {'name': 'token-mean', 'z_loss': 0}"));
    expect_same(WITH("'objective': 'sequence-mean'"),
                WITH("'objective': {'smoothing': 0, 'name': 'sequence-mean'}"));
    expect_same(MINIMAL, WITH("'reference': 'random'")); // which nothing reads
    expect_same(WITH("'objective': 'grpo'"),
                WITH("'objective': {'name': 'grpo', 'beta': 0}, 'reference': 'adapter-off'"));
    expect_same(WITH("'batch': 2, 'objective': 'dpo'"),
                WITH("'batch': 2, 'objective': {'smoothing': 0, 'name': 'dpo'}, 'reference': 'random'"));
    expect_same(WITH("'batch': 2, 'objective': 'dpo', 'data': {'batch': 'a'}"),
                WITH("'batch': 2, 'objective': 'dpo', 'data': {'batch': 'a'}, 'reference': 'file'"));
    expect_same(
        WITH("'batch': 2, 'objective': 'dpo', 'data': {'text': 'a'}, 'lora': {}"),
        WITH("'batch': 2, 'objective': 'dpo', 'data': {'text': 'a'}, 'lora': {}, 'reference': 'adapter-off'"));
    expect_same(MINIMAL, WITH("'weights': null"));
    expect_same(MINIMAL, WITH("'parallel': {'stage': 1}"));
    expect_same(MINIMAL, WITH("'whole_attention': false"));
    expect_same(MINIMAL, WITH("'attention_queries': 2048"));
    expect_same(MINIMAL, WITH("'whole_keys': false"));
    expect_same(MINIMAL, WITH("'unfused': false"));
    expect_same(MINIMAL, WITH("'gemm_algorithms': null"));
    expect_same(MINIMAL, WITH("'pad_gradient': false"));
    expect_same(WITH("'lora': {}"), WITH("'lora': {'targets': ['v', 'q'], 'alpha': 16.0, 'rank': 8}"));
    expect_same(WITH("'optimizer': 'adamw'"), WITH("'optimizer': {'name': 'adamw', 'rate': 1e-4, 'decay': 0.01}"));
    expect_same(WITH("'limits': {'memory': '1.5 GB'}"), WITH("'limits': {'memory': 1500000000}"));
    expect_same(WITH("'limits': {'host_memory': '1.5 GB'}"), WITH("'limits': {'host_memory': 1500000000}"));
    expect_same(WITH("'limits': {'memory': '4KiB', 'host_memory': '2MiB'}"),
                WITH("'limits': {'host_memory': 2097152, 'memory': 4096}"));
    expect_same(WITH("'data': {'tokens': 'Makefile'}"), WITH("'data': {'text': 'Makefile'}"));
    expect_same(WITH("'measure': {'max_seconds': 0}"), WITH("'measure': {'max_seconds': -0.0}"));
    expect_same(WITH("'dtype': 'bf16'"),
                WITH("'dtype': 'bf16', 'kv_gradient_dtype': 'f32', 'gradient_dtype': 'f32'"));
    // A key that a trial cannot have does not change its id.
    expect_same(WITH("'device': 'plan', 'measure': {'gradient': 'none'}"), WITH("'device': 'plan'"));
    expect_same(WITH("'device': 'plan', 'measure': {'warmup': 3, 'samples': 9}"), WITH("'device': 'plan'"));
    expect_same(MINIMAL, WITH("'measure': {'bias': true}"));
    // A plan is like the device that the dtype is for.
    expect_same(WITH("'device': 'plan'"), WITH("'device': 'plan-cpu'"));
    expect_same(WITH("'device': 'plan', 'dtype': 'f64'"), WITH("'device': 'plan-cpu', 'dtype': 'f64'"));
    expect_same(WITH("'device': 'plan', 'dtype': 'bf16'"), WITH("'device': 'plan-cuda', 'dtype': 'bf16'"));
    expect_same(WITH("'device': 'cuda:0'"), WITH("'device': 'cuda'"));
    expect_same(MINIMAL, WITH("'profile': null"));
}

static void another_meaning_is_another_id(void **state)
{
    (void)state;
    static const char *const trials[] = {
        MINIMAL,
        WITH("'dtype': 'f64'"),
        WITH("'dtype': 'bf16'"),
        WITH("'dtype': 'bf16', 'kv_gradient_dtype': 'bf16'"),
        WITH("'dtype': 'bf16', 'gradient_dtype': 'bf16'"),
        WITH("'device': 'plan'"),
        WITH("'device': 'plan-cuda'"),
        WITH("'device': 'plan', 'profile': 'rtx-3090'"),
        WITH("'device': 'plan', 'profile': 'rtx-4090'"),
        WITH("'profile': 'rtx-3090'"),
        WITH("'device': 'cuda'"),
        WITH("'device': 'cuda:1'"),
        WITH("'device': 'cuda:2'"),
        WITH("'batch': 2"),
        WITH("'seed': 2"),
        WITH("'seed': 9007199254740992"),
        WITH("'data': {'text': 'a'}"),
        WITH("'data': {'tokens': 'a'}"),
        WITH("'data': {'tokens': 'a', 'dtype': 'u32'}"),
        WITH("'labels': 'a'"),
        WITH("'lora': {}, 'weights': 'nf4'"),
        WITH("'lora': {}, 'weights': 'int8'"),
        WITH("'objective': 'sequence-mean'"),
        WITH("'objective': 'dft'"),
        WITH("'objective': 'weighted-mean'"),
        WITH("'batch': 2, 'objective': 'dpo'"),
        WITH("'batch': 2, 'objective': {'name': 'dpo', 'beta': 0.2}"),
        WITH("'batch': 2, 'objective': {'name': 'dpo', 'kind': 'simpo'}"),
        WITH("'batch': 2, 'objective': 'dpo', 'lora': {}"),
        WITH("'batch': 2, 'objective': 'dpo', 'lora': {}, 'reference': 'adapter-off'"),
        WITH("'objective': 'grpo'"),
        WITH("'objective': {'name': 'grpo', 'beta': 0.04}"),
        WITH("'batch': 1, 'data': {'batch': 'a'}"),
        WITH("'batch': 1, 'data': {'batch': 'b'}"),
        WITH("'lora': {}"),
        WITH("'lora': {'targets': ['q']}"),
        WITH("'lora': {'alpha': 1}"),
        WITH("'optimizer': 'adamw'"),
        WITH("'optimizer': {'decay': 0}"),
        WITH("'limits': {'memory': 1}"),
        WITH("'limits': {'host_memory': 1}"),
        WITH("'host': {'folder': 'a'}"),
        WITH("'host': {'folder': 'b'}"),
        WITH("'parallel': {'stage': 2}"),
        WITH("'parallel': {'data': 2}"),
        WITH("'parallel': {'sequence': 2}"),
        WITH("'parallel': {'sequence': 2, 'exchange': 'ring'}"),
        WITH("'parallel': {'data': 2, 'sum': 'engine'}"),
        WITH("'parallel': {'data': 2, 'zero': 1}"),
        WITH("'parallel': {'data': 2, 'zero': 3}"),
        WITH("'deterministic': true"),
        WITH("'tf32': true"),
        WITH("'whole_attention': true"),
        WITH("'attention_queries': 8192"),
        WITH("'whole_keys': true"),
        WITH("'unfused': true"),
        WITH("'device': 'cuda', 'gemm_algorithms': 'a'"),
        WITH("'pad_gradient': true"),
        WITH("'measure': {'samples': 1}"),
        WITH("'measure': {'warmup': 0}"),
        WITH("'measure': {'timeline': true}"),
        WITH("'measure': {'categories': true}"),
        WITH("'measure': {'gradient': 'none'}"),
        "{'model': 'tiny', 'context': 65, 'method': 'full'}",
        METHOD("'checkpoint'"),
        METHOD("{'name': 'full', 'keep': 'all'}"),
        METHOD("{'name': 'full', 'head_chunk': 0}"),
        MODEL("'qwen3-4b'"),
        MODEL("{'preset': 'tiny', 'layers': 5}"),
        MODEL("{'preset': 'tiny', 'name': 'mine'}"),
        MODEL("{'preset': 'tiny', 'rope_scaling': {'factor': 8}}"),
    };
    struct trial decoded[COUNT(trials)];
    for (size_t i = 0; i < COUNT(trials); i++) {
        decoded[i] = trial_of(trials[i]);
        assert_int_equal(strspn(decoded[i].id, "0123456789abcdef"), 32);
        expect_id(decoded[i].canonical, decoded[i].id); // what a record holds decodes to the same trial
        for (size_t j = 0; j < i; j++)
            if (!strcmp(decoded[i].id, decoded[j].id))
                fail_msg("one id: %s and %s", trials[i], trials[j]);
    }
    for (size_t i = 0; i < COUNT(trials); i++)
        trial_free(&decoded[i]);
}

// Else a plan and what was measured are not one trial to `longbp compare --by device`.
static void a_plan_means_the_reference_that_is_measured_with(void **state)
{
    (void)state;
    static const char *const data[] = {"'random'", "{'text': 'a'}", "{'tokens': 'a'}", "{'batch': 'a'}"},
                             *const loras[] = {"null", "{}"},
                             *const objectives_read[] = {"'dpo'", "{'name': 'grpo', 'beta': 0.04}"};
    size_t measured = 0;
    for (size_t i = 0; i < COUNT(data) * COUNT(loras) * COUNT(objectives_read); i++) {
        char on_cpu[256], planned[256];
        const char *of_data = data[i / 4], *lora = loras[i % 2], *objective = objectives_read[i / 2 % 2];
        static const char form[] = "{'model': 'tiny', 'context': 64, 'method': 'full', 'batch': 2, 'data': %s, "
                                   "'lora': %s, 'objective': %s, 'device': '%s'}";
        snprintf(on_cpu, sizeof on_cpu, form, of_data, lora, objective, "cpu");
        snprintf(planned, sizeof planned, form, of_data, lora, objective, "plan");
        struct trial trial, plan = trial_of(planned);
        struct status status = {0};
        char *text = quoted(on_cpu);
        if (trial_decode(&trial, text, "c", &status)) { // else there is nothing that it could be measured with
            measured++;
            if (trial.reference.kind != plan.reference.kind)
                fail_msg("another reference:\n%s\n%s", trial.canonical, plan.canonical);
        }
        free(text);
        trial_free(&trial);
        trial_free(&plan);
    }
    assert_int_equal(measured, 10); // all but: of text and tokens, grpo, and dpo without an adapter
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_stay_what_they_were),
        cmocka_unit_test(a_default_may_be_said),
        cmocka_unit_test(another_meaning_is_another_id),
        cmocka_unit_test(a_plan_means_the_reference_that_is_measured_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
