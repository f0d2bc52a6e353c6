// Tests of trial_decode: defaults, and every wrong value refused at its place.
// JSON and messages are written with ' for ".
#define _GNU_SOURCE // nftw, mkdtemp
#include "methods/spaco_options.h"
#include "tests/scratch.h"
#include "tests/trial_of.h"

static void expect_bad(const char *json, const char *origin, const char *message)
{
    struct trial trial;
    struct status status = {0};
    char *text = quoted(json), *expected = quoted(message);
    if (trial_decode(&trial, text, origin, &status))
        fail_msg("accepted: %s", text);
    if (status.code == STATUS_OK || !strstr(status.message, expected))
        fail_msg("expected %s\n   found %s\n   in %s", expected, status.message, text);
    trial_free(&trial);
    free(expected);
    free(text);
}

struct bad {
    const char *json, *message;
};
static void expect_all_bad(const struct bad *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect_bad(cases[i].json, "c", cases[i].message);
}

static void a_trial_has_its_defaults(void **state)
{
    (void)state;
    struct trial trial = trial_of(MINIMAL);
    assert_string_equal(trial.config.name, "tiny");
    assert_null(trial.model_folder);
    assert_string_equal(trial.method->name, "full");
    assert_string_equal(trial.device, "cpu");
    assert_int_equal(trial.dtype, DTYPE_F32);
    assert_int_equal(trial.kv_gradient_dtype, DTYPE_F32);
    assert_int_equal(trial.gradient_dtype, DTYPE_F32);
    assert_int_equal(trial.context, 64);
    assert_int_equal(trial.batch, 1);
    assert_int_equal(trial.seed, 1);
    assert_int_equal(trial.data.kind, DATA_RANDOM);
    assert_null(trial.labels);
    assert_int_equal(trial.lora.rank, 0);
    assert_null(trial.optimizer);
    assert_int_equal(trial.measure.warmup, 1);
    assert_int_equal(trial.measure.samples, 5);
    assert_true(trial.measure.max_seconds == 60);
    assert_int_equal(trial.measure.gradient, GRADIENT_FULL_F64);
    assert_int_equal(trial.memory_limit_bytes, 0);
    assert_int_equal(trial.host_memory_limit_bytes, 0);
    assert_null(trial.host_folder);
    trial_free(&trial);
}

static void a_model_may_be_a_shape(void **state)
{
    (void)state;
    struct trial trial =
        trial_of(MODEL("{'layers': 2, 'width': 48, 'heads': 6, 'ffn': 64, 'vocab': 300, 'tied': true,"
                       "'qkv_bias': true, 'rope_theta': 500000, 'rope_scaling': {'type': 'llama3',"
                       "'factor': 4}}"));
    assert_string_equal(trial.config.name, "custom");
    assert_int_equal(trial.config.kv_heads, 6);
    assert_int_equal(trial.config.head_dim, 8);
    assert_true(trial.config.rope_theta == 500000);
    assert_true(trial.config.tied && trial.config.qkv_bias && !trial.config.qk_norm);
    assert_true(trial.config.rope_scaling.factor == 4 && trial.config.rope_scaling.high_freq_factor == 4);
    assert_int_equal(trial.config.rope_scaling.original_context, 8192);
    trial_free(&trial);
    trial = trial_of(MODEL("{'preset': 'llama-3.2-1b', 'layers': 2, 'rope_scaling': null}"));
    assert_string_equal(trial.config.name, "llama-3.2-1b-custom");
    assert_int_equal(trial.config.width, 2048);
    assert_true(trial.config.tied && trial.config.rope_scaling.factor == 0);
    assert_null(strstr(trial.canonical, "norms")); // what others have is in no shape of Llama's
    trial_free(&trial);
    trial = trial_of(MODEL("{'preset': 'gemma-3-4b', 'ffn': 64, 'activation': 'silu'}"));
    assert_true(trial.config.norms == NORMS_AROUND && trial.config.activation == ACTIVATION_SILU);
    struct trial again = trial_of(trial.canonical); // whole, and no other
    assert_string_equal(again.id, trial.id);
    assert_memory_equal(&again.config, &trial.config, sizeof trial.config);
    trial_free(&again);
    trial_free(&trial);
    trial = trial_of(MODEL("{'preset': 'tiny', 'norms': 'after', 'qk_norm': true, 'whole_qk_norm': true, "
                           "'query_scale': 0.5, 'rope_scaling': {'type': 'linear', 'factor': 3}}"));
    again = trial_of(trial.canonical);
    assert_true(again.config.norms == NORMS_AFTER && again.config.whole_qk_norm && again.config.query_scale == 0.5);
    assert_true(again.config.rope_scaling.factor == 3 && again.config.rope_scaling.high_freq_factor == 0);
    trial_free(&again);
    trial_free(&trial);
    trial =
        trial_of(MODEL("{'preset': 'qwen3-8b', 'rope_scaling': {'type': 'yarn', 'factor': 4, 'original_context': "
                       "32768}}"));
    again = trial_of(trial.canonical);
    const struct rope_scaling *yarn = &again.config.rope_scaling;
    assert_memory_equal(yarn, &trial.config.rope_scaling, sizeof *yarn);
    assert_true(yarn->factor == 4 && yarn->high_freq_factor == 32 && yarn->low_freq_factor == 1);
    assert_true(yarn->original_context == 32768 && fabs(yarn->attention_factor - 1.1386294361119891) < 1e-15);
    trial_free(&again);
    trial_free(&trial);
}

static void a_model_may_be_a_folder(void **state)
{
    (void)state;
    struct scratch scratch = scratch_open();
    char json[600];
    snprintf(json, sizeof json, MODEL("'%s/'"), scratch.folder);
    expect_bad(json, "c", "c:2:1: key 'model': ");
    char *config = quoted("{'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'num_hidden_layers': 3,"
                          "'hidden_size': 64, 'num_attention_heads': 4, 'num_key_value_heads': 2,"
                          "'intermediate_size': 96, 'vocab_size': 512, 'rms_norm_eps': 1e-5, 'rope_theta': 10000.0,"
                          "'tie_word_embeddings': false, 'max_position_embeddings': 128, 'hidden_act': 'silu'}");
    scratch_file(&scratch, "config.json", config, strlen(config));
    struct trial trial = trial_of(json);
    assert_string_equal(trial.model_folder, scratch.folder); // without the slash
    assert_int_equal(trial.config.layers, 3);
    assert_int_equal(trial.config.vocab, 512);
    trial_free(&trial);
    free(config);
    scratch_close(&scratch);
}

static void options_reach_the_method(void **state)
{
    (void)state;
    struct trial trial = trial_of(
        "{'model': 'tiny', 'context': 1000, 'method': {'name': 'spaco', 'chunk': 100, 'budget': 3, 'cap': 1.5,"
        " 'sampler': 'fixed', 'drawn_chunks': [0, 4, 9], 'compensation': 'capped', 'loss': 'all'},"
        " 'measure': {'bias': true}}");
    const struct spaco_options *options = trial.options;
    assert_int_equal(options->common.chunk, 100);
    assert_int_equal(options->budget, 3);
    assert_int_equal(options->sampler, SAMPLER_FIXED);
    assert_int_equal(options->compensation, COMPENSATION_CAPPED);
    assert_int_equal(options->loss, LOSS_ALL);
    assert_true(options->cap == 1.5);
    assert_int_equal(options->drawn_chunks.count, 3);
    assert_memory_equal(options->drawn_chunks.items, ((uint32_t[]){0, 4, 9}), 3 * sizeof(uint32_t));
    assert_true(trial.measure.bias);
    expect_id(trial.canonical, trial.id);
    trial_free(&trial);
    trial = trial_of(METHOD("{'name': 'spaco', 'chunk': 16, 'budget': 2, 'sampler': 'sequential', 'minimum': 0.25,"
                            " 'sampler_seed': 7}"));
    assert_int_equal(((const struct spaco_options *)trial.options)->sampler_seed, 7);
    assert_true(((const struct spaco_options *)trial.options)->minimum == 0.25);
    trial_free(&trial);
    trial = trial_of(METHOD("{'name': 'seco', 'inner': 'checkpoint'}"));
    assert_int_equal(((const struct chunk_options *)trial.options)->inner, INNER_CHECKPOINT);
    trial_free(&trial);
}

static void bad_keys_are_refused_with_the_place(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {"[]", "c:1:1: expected an object with the keys: model, dtype"},
        {"{}", "c:1:1: key 'method': missing; methods: full, checkpoint"},
        {"{'method': 'full'}", "c:1:1: key 'model': missing"},
        {"{'model': 'tiny', 'method': 'full'}", "c:1:1: key 'context': missing; expected a whole number of tokens"},
        {"{'model': 'tiny', 'context': 0, 'method': 'full'}",
         "c:1:30: key 'context': expected a whole number of tokens >= 1, found 0"},
        {"{'model': 'tiny', 'context': 2147483648, 'method': 'full'}",
         "expected a whole number of tokens from 1 to 2147483647, found 2147483648"},
        {"{'model': 'tiny', 'context': '64', 'method': 'full'}", "found '64'"},
        {WITH("'bacth': 2"), "c:2:1: key 'bacth': unknown key; did you mean 'batch'? known keys: model"},
        {WITH("'\\u001b[2J': 2"), "c:2:1: key '\\u001B[2J': unknown key"}, // never to the terminal
        {WITH("'batch': 0"), "c:2:10: key 'batch': expected a whole number of sequences >= 1, found 0"},
        {WITH("'batch': true"), "expected a whole number of sequences >= 1, found true"},
        {WITH("'batch': [1, 2]"), "found a list of 2"},
        {WITH("'batch': 1.0"), "found 1.0"},
        {WITH("'batch': 1048577"), "a whole number of sequences from 1 to 1048576, found 1048577"},
        {WITH("'batch': 1, 'batch': 2"), "c:2:13: the key is given twice; keep one"},
        {WITH("'seed': -1"), "expected a whole number >= 0, found -1"},
        {WITH("'seed': 9007199254740993"), "up to 2^53 = 9007199254740992, found 9007199254740993"},
        {WITH("'seed': 99999999999999999999"), "c:2:9: the number is too large"},
        {WITH("'measure': {'max_seconds': 1e400}"), "the number is too large"},
        {WITH("'measure': {'max_seconds': NaN}"), "not a number of JSON"},
        {WITH("'measure': {'max_seconds': 9007199254740993}"), "expected a number from 0 to 1000000000"},
        {WITH("'measure': {'samples': 0}"), "key 'samples': expected a whole number of steps >= 1, found 0"},
        {WITH("'measure': {'sample': 1}"), "key 'sample': unknown key of 'measure'; did you mean 'samples'?"},
        {WITH("'measure': {'gradient': 'full_f64'}"),
         "unknown gradient check 'full_f64'; did you mean 'full-f64'?"},
        {WITH("'measure': {'timeline': 1}"), "expected true or false, found 1"},
        {WITH("'measure': {'categories': 1}"), "expected true or false, found 1"},
        {WITH("'measure': null"), "key 'measure': expected an object with the keys: warmup"},
        {WITH("'dtype': 'bff16'"),
         "key 'dtype': unknown dtype 'bff16'; did you mean 'bf16'? known names: f64, f32, bf16"},
        {WITH("'dtype': 32"), "expected one of: f64, f32, bf16; found 32"},
        {WITH("'dtype': null"), "expected one of: f64, f32, bf16; found null"},
        {WITH("'device': 'gpu'"), "unknown device 'gpu'; did you mean 'cuda'? known names: cpu, cuda, plan"},
        {WITH("'device': 'NVIDIA'"), "unknown device 'NVIDIA'; did you mean 'cuda'?"},
        {WITH("'device': 'cpi'"), "unknown device 'cpi'; did you mean 'cpu'?"},
        {WITH("'device': 'gpu:1'"), "this program has no device 'gpu'; it has cpu, cuda (a GPU), plan"},
        {WITH("'device': 'cpu:1'"), "device cpu has no cards to number: 'cpu:1'"},
        {WITH("'device': 'plan-cuda:0'"), "device plan-cuda has no cards to number"},
        {WITH("'device': 'cuda:'"), "'cuda:' numbers no card: the first is cuda:0, the next cuda:1"},
        {WITH("'device': 'cuda:-1'"), "'cuda:-1' numbers no card"},
        {WITH("'device': 'cuda:01'"), "'cuda:01' numbers no card"},
        {WITH("'device': 'cuda:1.5'"), "'cuda:1.5' numbers no card"},
        {WITH("'device': 'cuda:4294967297'"), "'cuda:4294967297' numbers no card"},
        {WITH("'profile': 'rxt-3090'"), "key 'profile': no profile 'rxt-3090' in experiments/devices; did you mean "
                                        "'rtx-3090'? known profiles (another card:"},
        {WITH("'profile': 'no/such.json'"), "key 'profile': no/such.json: "},
        {WITH("'profile': 3"), "expected null, or the name or path of a device profile, found 3"},
        {WITH("'kv_gradient_dtype': 'bf16'"), "unknown accumulator of a model in f32: 'bf16'; known names: f32"},
        {WITH("'gradient_dtype': 'f64'"), "accumulator of a model in f32: 'f64'"},
        {WITH("'kv_gradient_dtype': 'bf16-stochastic'"), "in f32: 'bf16-stochastic'; known names: f32"},
        {WITH("'dtype': 'bf16', 'kv_gradient_dtype': 'f16'"), "'f16'; known names: f32, bf16, bf16-stochastic"},
        {WITH("'dtype': 'bf16', 'gradient_dtype': 'bf16-stochastic'"), "'bf16-stochastic'; known names: f32, bf16"},
        {WITH("'dtype': 'bf16', 'kv_gradient_dtype': 'bf16-stochastic', 'parallel': {'sequence': 2}"),
         "key 'kv_gradient_dtype': 'bf16-stochastic' needs 'sequence' 1"},
        {WITH("'data': 'ramdom'"), "expected 'random', {'text': PATH}"},
        {WITH("'data': {}"), "expected one of {'text': PATH}, {'tokens': PATH"},
        {WITH("'data': {'text': 'a', 'tokens': 'b'}"), "expected one of"},
        {WITH("'data': {'text': 'a', 'dtype': 'u16'}"), "expected one of"},
        {WITH("'data': {'text': ''}"), "expected the path of a text file, found ''"},
        {WITH("'data': {'tokens': 'a', 'dtype': 'i16'}"), "unknown dtype of tokens 'i16'; did you mean 'u16'?"},
        {WITH("'data': {'batch': 'a', 'dtype': 'u16'}"), "expected one of"},
        {WITH("'data': {'batch': 'a', 'text': 'b'}"), "expected one of"},
        {WITH("'data': {'batch': 3}"), "expected the path of a batch file, found 3"},
        {WITH("'batch': 2, 'data': {'batch': 'a'}, 'labels': 'b'"), "key 'labels': a has its own labels"},
        {WITH("'data': {'batch': 'no/such'}"), "c:2:19: key 'batch': no/such: No such file or directory"},
        {"{'model': 'tiny', 'method': 'full', 'batch': 2,\n'data': {'batch': 'no/such'}}",
         "c:2:19: key 'batch': no/such: No such file or directory"},
        {WITH("'data': {'txt': 'a'}"), "unknown key of 'data'; did you mean 'text'?"},
        {WITH("'labels': 3"), "expected null or the path of a file of labels, found 3"},
        {WITH("'lora': {'rank': 0}"), "key 'rank': expected a whole number >= 1, found 0"},
        {WITH("'lora': {'rank': 129}"), "key 'rank': expected a whole number from 1 to 128, found 129"},
        {WITH("'lora': {'alpha': 0}"), "key 'alpha': expected a number from 1e-06"},
        {WITH("'lora': {'targets': []}"), "key 'targets': expected a list of projections"},
        {WITH("'lora': {'targets': ['q', 'q']}"), "c:2:27: key 'targets[1]': 'q' is given twice"},
        {WITH("'lora': {'targets': ['gaet']}"), "unknown projection 'gaet'; did you mean 'gate'?"},
        {WITH("'lora': 8"), "or a rank as rank=8, in a spec {'rank': 8}, found 8"},
        {WITH("'lora': {'r': 4, 'rank': 4}"), "key 'r': is another name of 'rank'; leave one of the two out"},
        {WITH("'lora': {'targets': 'query_proj'}"), "unknown projection 'query_proj'; known names: q, k, v, o, "
                                                    "gate, up, down, qkv, gate_up, embed, head, all-linear"},
        {WITH("'lora': {'targets': ['q_proj', 'q']}"), "key 'targets[1]': 'q' is given twice"},
        {WITH("'lora': 'none/such/'"),
         "key 'lora': none/such/: no such folder; expected the folder of a PEFT adapter, or"},
        {WITH("'lora': {'adapter': 'none'}"), "key 'adapter': none: no such folder; expected the folder"},
        {WITH("'lora': 'Makefile'"),
         "key 'lora': Makefile: it is a file; give the folder that holds adapter_config.json"},
        {WITH("'lora': 'organisation/name'"),
         "key 'lora': organisation/name: there is no such folder here, and nothing"},
        {WITH("'lora': '/dev/null'"), "key 'lora': /dev/null: is not a folder; expected the folder"},
        {WITH("'lora': ''"), "key 'lora': expected the folder of a PEFT adapter, or a rank as rank=8"},
        {WITH("'lora': {'adapter': '.'}"), "key 'adapter': .: is no PEFT adapter: it has no adapter_config.json"},
        {WITH("'deterministic': 'yes'"), "key 'deterministic': expected true or false, found 'yes'"},
        {WITH("'objective': 'dpi'"), "key 'objective': unknown objective"},
        {WITH("'objective': 'dpo'"),
         "key 'objective': dpo needs pairs, sequences 2i the chosen and 2i + 1 the rejected "
         "ones; the batch has 1"},
        {WITH("'objective': {'name': 'grpo', 'normaliser': 'dr_grpo'}"), "give length"},
        {WITH("'objective': {'name': 'grpo', 'importance': 'on'}"), "importance requires beta > 0"},
        {WITH("'batch': 2, 'objective': {'name': 'dpo', 'kind': 'ipo', 'smoothing': 0.1}"),
         "smoothing requires kind 'sigmoid', 'robust', 'simpo', 'sigmoid_norm', 'cpo' or 'exo_pair'; leave it out"},
        {WITH("'objective': 'grpo', 'data': {'text': 'a'}"),
         "key 'objective': 'grpo' needs an advantage for every sequence: give 'data' as {'batch': PATH}"},
        {WITH("'batch': 2, 'objective': 'dpo', 'data': {'text': 'a'}"),
         "key 'reference': missing; objective 'dpo' needs a reference"},
        {WITH("'batch': 2, 'objective': 'dpo', 'reference': 'file'"), "key 'reference': there is no batch file"},
        {WITH("'batch': 2, 'objective': 'dpo', 'reference': 'adapter-off'"),
         "key 'reference': there is no adapter that could be off"},
        {WITH("'batch': 2, 'objective': 'dpo', 'reference': 'no/such'"),
         "key 'reference': no/such: has no config.json: there is no such folder"},
        {WITH("'batch': 2, 'objective': 'dpo', 'reference': 3"), "expected null, file, random, adapter-off or"},
        {WITH("'objective': 'weighted-mean', 'data': {'text': 'a'}"),
         "key 'objective': 'weighted-mean' needs a weight for every row: give 'data' as {'batch': PATH}"},
        {WITH("'pad_gradient': 1"), "key 'pad_gradient': expected true or false, found 1"},
        {WITH("'gemm_algorithms': true"), "key 'gemm_algorithms': expected"},
        {WITH("'gemm_algorithms': 'a'"), "key 'gemm_algorithms': apply to cuBLASLt, but 'device' is 'cpu'"},
        {WITH("'whole_attention': null"), "key 'whole_attention': expected true or false, found null"},
        {WITH("'attention_queries': 64"),
         "key 'attention_queries': expected a whole number of tokens >= 128, found 64"},
        {WITH("'tf32': 1"), "key 'tf32': expected true or false, found 1"},
        {WITH("'optimizer': 'adanw'"), "unknown optimizer 'adanw'; did you mean 'adamw'?"},
        {WITH("'optimizer': {'name': 'adamw', 'rat': 1}"),
         "key 'rat': unknown key of optimizer 'adamw'; did you mean 'rate'? known keys: name, rate, decay"},
        {WITH("'optimizer': {'state': 'bf16'}"), "optimizer 'adamw': state 'bf16' requires a model in bf16"},
        {WITH("'optimizer': {'name': 'adam8bit', 'round': 'stochastic'}"),
         "optimizer 'adam8bit': round 'stochastic' requires weights in bf16, not f32"},
        {WITH("'optimizer': {'when': 'backward'}, 'place': {'gradients': 'host'}"),
         "key 'when': 'backward' frees gradients within the backward pass; leave place.gradients out"},
        {"{'model': 'tiny', 'context': 64, 'method': 'forward', 'optimizer': 'adamw'}",
         "method 'forward' computes no gradient for optimizer 'adamw'"},
        {"{'model': 'tiny', 'context': 64, 'method': 'seco', 'optimizer': {'when': 'backward'}}",
         "method 'seco' completes all gradients at its last chunk"},
        {"{'model': 'tiny', 'context': 64, 'method': 'seco', 'optimizer': 'bread-sgd'}",
         "method 'seco' completes all gradients at its last chunk, so 'backward' saves nothing; give the optimizer "
         "'when': 'end', or use full, checkpoint or streambp"},
        {WITH("'optimizer': 'sgd', 'train': {'steps': 5, 'warmup': 6}"),
         "c:2:53: key 'warmup': is longer than the run of 5 steps, so the rate is never reached; give at most 5"},
        {"{'model': 'tiny', 'context': 1, 'method': 'full', 'optimizer': 'sgd', 'train': {}}",
         "key 'context': a window of 1 token has no next token to predict"},
        {WITH("'optimizer': 'sgd', 'train': {'steps': 5, 'min_lr_ratio': 0.1}"),
         "key 'min_lr_ratio': requires a decay"},
        {WITH("'optimizer': 'sgd', 'train': {'steps': 5, 'decay_steps': 2}"),
         "key 'decay_steps': requires schedule wsd; give 'schedule' wsd, or leave it out"},
        {WITH("'optimizer': 'sgd', 'train': {'steps': 5, 'schedule': 'linear', 'cycles': 1}"),
         "key 'cycles': requires schedule wsd"},
        {WITH("'optimizer': 'sgd', 'train': {'steps': 5, 'schedule': 'wsd'}"),
         "key 'schedule': wsd ends with a decay; give its steps, 'decay_steps', or take constant"},
        {WITH("'optimizer': 'sgd', 'train': {'schedule': 'wsd', 'decay_steps': 9, 'warmup_type': 'cosine'}"),
         "key 'warmup_type': there is no warm-up"},
        {WITH("'optimizer': 'sgd', 'train': {'schedule': 'wsd', 'decay_steps': 9, 'decay_type': 'linear', "
              "'cycles': 1}"),
         "key 'cycles': requires a cosine"},
        {WITH("'optimizer': 'sgd', 'train': {'schedule': 'wsd', 'decay_steps': 9, 'cycles': 0}"),
         "key 'cycles': keeps the rate constant; give a number above 0"},
        {WITH("'optimizer': 'sgd', 'train': {'steps': 9, 'schedule': 'wsd', 'warmup': 3, 'decay_steps': 7}"),
         "key 'decay_steps': with 3 steps of 'warmup' the decay does not fit a run of 9 steps; give at most 6, or "
         "'stable_steps'"},
        {WITH("'optimizer': 'sgd', 'train': {'shuffle': 3}"), "key 'shuffle': orders data, and random"},
        {WITH("'optimizer': {'name': 'sgd', 'state': 'f32'}"), "state requires momentum > 0"},
        {WITH("'optimizer': {'name': 'sgd', 'coupling': 'decoupled'}"), "coupling requires decay > 0"},
        {WITH("'optimizer': {'seed': 2}"), "these options draw no random numbers; leave seed out"},
        {WITH("'optimizer': {'name': 'bcd', 'seed': 2}"), "these options draw no random numbers; leave seed out"},
        {WITH("'objective': {'name': 'grpo', 'normaliser': 'bnpo'}, 'device': 'plan', 'optimizer': 'sgd', 'train': "
              "{'accumulate': 2}"),
         "normaliser 'bnpo' would divide each of 2 micro-batches by its own number of tokens"},
        {WITH("'optimizer': 'bread-sgd', 'train': {'steps': 2, 'clip': 1}"),
         "key 'clip': needs all gradients at once"},
        {WITH("'optimizer': 'bread-sgd', 'train': {'steps': 2, 'accumulate': 2}"),
         "key 'accumulate': needs all gradients at once"},
        {WITH("'optimizer': 'bread-sgd', 'lora': {}"),
         "key 'optimizer': 'bread-sgd' updates weights, which 'lora' freezes; leave one of the two out"},
        {WITH("'optimizer': 'bread-sgd', 'parallel': {'data': 2}"),
         "key 'optimizer': 'bread-sgd' treats layers differently and does not run on several ranks"},
        {WITH("'optimizer': 'bread-lora'"), "key 'optimizer': 'bread-lora' trains LoRA"},
        {WITH("'optimizer': 'bread-lora', 'lora': {}, 'weights': 'nf4'"),
         "key 'weights': quantised weights cannot train, but optimizer 'bread-lora' updates them"},
        {WITH("'optimizer': {'name': 'bcd', 'lowest': 4}"),
         "optimizer 'bcd': there is no layer 4, they are 0 to 3; lower 'lowest'"},
        {"{'model': 'tiny', 'context': 64, 'method': 'seco', 'optimizer': 'bcd', 'parallel': {'stage': 2}}",
         "key 'optimizer': 'bcd' trains one block at a time"},
        {WITH("'optimizer': 'galore', 'lora': {}"),
         "key 'optimizer': 'galore' updates weights, which 'lora' freezes; leave one of the two out"},
        {WITH("'optimizer': {'name': 'galore', 'sums': 'projected'}, 'train': {'clip': 1}"),
         "key 'clip': needs the norm of whole gradients"},
        {WITH("'optimizer': {'name': 'galore', 'rank': 0}"), "key 'rank': expected a whole number (directions"},
        {WITH("'parallel': {'zero': 2}"), "key 'zero': requires several ranks of 'data' or 'sequence'"},
        {WITH("'parallel': {'data': 2, 'zero': 4}"), "key 'zero': expected a whole number from 0 to 3, found 4"},
        {WITH("'optimizer': 7"), "expected an optimizer: {'name': 'adamw', 'rate': 1e-4}, or its name, found 7"},
        {"{'model': 'tiny', 'context': 64, 'batch': 2, 'objective': 'dpo', 'method': {'name': 'spaco', 'budget': "
         "1}}",
         "key 'method': method 'spaco' under objective 'dpo': "},
        {WITH("'objective': {'name': 'dft', 'beta': 1}"),
         "key 'beta': objective 'dft' has no such option; objectives that have it: dpo, orpo, kto, grpo"},
        {WITH("'optimizer': {'rate': -1}"), "key 'rate': expected a number from 0 to 1000000, found -1"},
        {WITH("'limits': {'memory': '24Gib'}"), "key 'memory': expected a size with its unit, such as 24GiB"},
        {WITH("'limits': {'memory': '24'}"), "such as 24GiB (or 24G, the same), 80GB or 4096B, found '24'"},
        {WITH("'limits': {'memory': 0}"), "expected a whole number of bytes >= 1, found 0"},
        {WITH("'limits': {'memory': 1.5}"), "found 1.5"},
        {WITH("'limits': {'time': 1}"), "unknown key of 'limits'; known keys: memory, host_memory"},
        {WITH("'limits': {'host_memory': '24Gib'}"), "key 'host_memory': expected a size with its unit"},
        {WITH("'limits': {'memory': 9, 'host_memory': 0}"),
         "key 'host_memory': expected a whole number of bytes >= 1, found 0"},
        {WITH("'weights': 'nf4'"),
         "key 'weights': quantised weights cannot train; give 'lora', whose factors train, or leave 'weights' out"},
        {WITH("'lora': {}, 'weights': 'mf4'"),
         "key 'weights': unknown quantisation 'mf4'; did you mean 'nf4'? known names: nf4, int8"},
        {WITH("'place': {'weights': 'disk'}"), "key 'weights': unknown place 'disk'"},
        {WITH("'place': {'inputs': 'host'}"), "key 'inputs': unknown key of 'place'; known keys: weights"},
        {WITH("'place': {'optimizer': 'host'}"),
         "key 'optimizer': requires an optimizer; give 'optimizer', or leave it out"},
        {WITH("'place': 'host'"), "key 'place': expected an object"},
        {WITH("'host': '/tmp'"), "key 'host': expected folder=DIR, in a spec {'folder': PATH}, found '/tmp'"},
        {WITH("'host': {}"), "key 'host': expected null or {'folder': PATH}"},
        {WITH("'host': {'path': 'a'}"), "key 'path': unknown key of 'host'; known keys: folder"},
        {WITH("'host': {'folder': 3}"), "key 'folder': expected a folder for tensors kept on the host, found 3"},
        {WITH("'device': 'cuda', 'host': {'folder': 'a'}"), "need pinned memory, not a folder"},
    };
    expect_all_bad(cases, COUNT(cases));
}

static void models_are_named_as_on_the_hub(void **state)
{
    (void)state;
    static const struct {
        const char *given, *preset;
    } cases[] = {{"meta-llama/Llama-3.1-8B", "llama-3.1-8b"},
                 {"META-LLAMA/llama-3.1-8b-instruct", "llama-3.1-8b"},
                 {"Llama-3-8B", "llama-3-8b"},
                 {"qwen/qwen3-32b", "qwen3-32b"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int member = 0; member < 2; member++) {
            char json[200];
            snprintf(json, sizeof json,
                     member ? "{\"model\": {\"preset\": \"%s\"}, \"context\": 8, \"method\": \"full\"}"
                            : "{\"model\": \"%s\", \"context\": 8, \"method\": \"full\"}",
                     cases[i].given);
            struct trial trial;
            struct status status = {0};
            if (!trial_decode(&trial, json, "c", &status))
                fail_msg("%s", status.message);
            assert_non_null(strstr(trial.canonical, cases[i].preset));
            assert_null(strstr(trial.canonical, "/"));
            trial_free(&trial);
        }
    }
    for (const struct config_alias *alias = config_aliases; alias->hub_name; alias++)
        if (!config_preset(alias->hub_name))
            fail_msg("%s: no preset %s", alias->hub_name, alias->preset);
    static const struct bad bad[] = {
        {MODEL("'meta-llama/Lama-3.1-8B'"), "did you mean 'meta-llama/Llama-3.1-8B'?"},
        {MODEL("'meta-llama/Llama-3.1-405B'"), "nothing is downloaded"},
        {MODEL("'meta-llama/Llama-3.1-405B'"), "presets: tiny"},
    };
    expect_all_bad(bad, sizeof bad / sizeof *bad);
}

static void tokens_are_counted_in_K_and_M(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        size_t context, prompt, chunk, head_chunk;
    } cases[] = {
        {"{\"model\": \"tiny\", \"context\": \"32K\", \"prompt\": \"1k\", \"method\": {\"name\": \"seco\", "
         "\"chunk\": "
         "\"2k\", \"head_chunk\": \"1.5K\"}}",
         32768, 1024, 2048, 1536},
        {"{\"model\": \"tiny\", \"context\": \"1M\", \"method\": {\"name\": \"seco\", \"chunk\": \"0.5m\"}}",
         1048576, 0, 524288, 256},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trial trial;
        struct status status = {0};
        if (!trial_decode(&trial, cases[i].json, "c", &status))
            fail_msg("%s", status.message);
        assert_int_equal(trial.context, cases[i].context);
        assert_int_equal(trial.prompt, cases[i].prompt);
        const struct option_table *table = &trial.method->options;
        assert_int_equal(options_count(table, trial.options, "chunk", 0), cases[i].chunk);
        assert_int_equal(options_count(table, trial.options, "head_chunk", 0), cases[i].head_chunk);
        trial_free(&trial);
    }
    struct trial trial;
    struct status status = {0};
    assert_true(trial_decode(
        &trial, "{\"model\": \"tiny\", \"context\": 9, \"method\": \"full\", \"documents\": [\"1K\", 3]}", "c",
        &status));
    assert_int_equal(trial.packing.lengths[0], 1024);
    assert_non_null(strstr(trial.canonical, "\"documents\":[1024,3]"));
    trial_free(&trial);
    assert_true(trial_decode(
        &trial, "{\"model\": \"tiny\", \"context\": 9, \"method\": \"full\", \"documents\": {\"mean\": \"2K\"}}",
        "c", &status));
    assert_non_null(strstr(trial.canonical, "\"documents\":{\"mean\":2048}"));
    trial_free(&trial);
    static const struct bad bad[] = {
        {WITH("'prompt': '1G'"), "key 'prompt': expected a whole number of tokens >= 0, or one such as 32K or 1M"},
        {WITH("'prompt': '0.3K'"), "found '0.3K'"},
        {WITH("'prompt': '32'"), "found '32'"},
        {WITH("'prompt': '9000000M'"), "found 9437184000000"},
        {WITH("'batch': '2K'"), "key 'batch': expected a whole number of sequences >= 1, found '2K'"},
        {METHOD("{'name': 'seco', 'chunk': '0K'}"), "key 'chunk': expected a whole number"},
    };
    expect_all_bad(bad, sizeof bad / sizeof *bad);
}

static void bad_models_are_refused_with_the_place(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {MODEL("'lama-3-8b'"),
         "c:2:1: key 'model': 'lama-3-8b' is neither a preset nor a folder with a config.json; "
         "did you mean 'llama-3-8b'? presets: tiny, llama-3-8b"},
        {MODEL("''"), "'' is neither a preset nor a folder"},
        {MODEL("3"), "expected a preset, a shape {'layers': ...} or a folder, found 3"},
        {MODEL("{'layers': 2}"), "key 'model': 'width' is missing; give it, or a 'preset' to start from"},
        {MODEL("{'preset': 'tniy'}"), "c:2:12: key 'preset': unknown preset 'tniy'; did you mean 'tiny'?"},
        {MODEL("{'preset': 'tiny', 'layer': 2}"),
         "c:2:20: key 'layer': unknown key of 'model'; did you mean 'layers'?"},
        {MODEL("{'preset': 'tiny', 'layers': 0}"), "c:2:30: key 'layers': expected a whole number >= 1, found 0"},
        {MODEL("{'preset': 'tiny', 'width': 99999999}"), "expected a whole number from 1 to 16777216"},
        {MODEL("{'preset': 'tiny', 'kv_heads': 3}"), "c:2:1: key 'model': heads must be a multiple of kv_heads"},
        {MODEL("{'preset': 'tiny', 'rope_theta': 0}"), "key 'rope_theta': expected a number"},
        {MODEL("{'preset': 'tiny', 'name': '0123456789012345678901234567890123456789012345678901234567890123'}"),
         "key 'name': expected a label of at most 63 bytes"},
        {MODEL("{'preset': 'tiny', 'rope_scaling': {'type': 'longrope', 'factor': 2}}"),
         "unknown type of rope_scaling 'longrope'; known names: llama3, linear, yarn"},
        {MODEL("{'preset': 'tiny', 'rope_scaling': {'type': 'yarn', 'factor': 2}}"),
         "key 'original_context': missing; the context that the model was trained for"},
        {MODEL("{'preset': 'tiny', 'rope_scaling': {'type': 'yarn', 'factor': 2, 'low_freq_factor': 2}}"),
         "unknown key of 'rope_scaling'"},
        {MODEL("{'preset': 'tiny', 'rope_scaling': {'type': 'yarn', 'factor': 2, 'original_context': 64, "
               "'beta_slow': "
               "32}}"),
         "rope_scaling needs factor >= 1"},
        {MODEL("{'preset': 'tiny', 'rope_scaling': {'type': 'linear', 'factor': 2, 'original_context': 4}}"),
         "key 'rope_scaling': of type 'linear' has only a factor"},
        {MODEL("{'preset': 'tiny', 'norms': 'behind'}"), "key 'norms': unknown norms 'behind'; "},
        {MODEL("{'preset': 'tiny', 'whole_qk_norm': true}"), "whole_qk_norm requires qk_norm"},
        {MODEL("{'preset': 'tiny', 'rope_scaling': {}}"), "c:2:36: key 'factor': missing"},
        {MODEL("{'layers': 2, 'width': 10, 'heads': 3, 'ffn': 4, 'vocab': 5}"),
         "width 10 is no multiple of heads 3; give head_dim"},
        {MODEL("{'preset': 'tiny', 'vocab': 255}, 'data': {'text': 'a'}"),
         "key 'data': text is read as bytes, which need a vocabulary of at least 256"},
    };
    expect_all_bad(cases, COUNT(cases));
}

#define SPACO(more) METHOD("{'name': 'spaco', 'chunk': 8, 'budget': 2, " more "}")

static void bad_methods_are_refused_with_the_place(void **state)
{
    (void)state;
    static const struct bad cases[] = {
        {METHOD("'sceo'"), "c:2:1: key 'method': unknown method 'sceo'; did you mean 'seco'? known names: full"},
        {METHOD("{'chunk': 3}"), "c:2:1: key 'name': missing; methods: full"},
        {METHOD("7"), "key 'method': expected a method: {'name': 'seco', 'chunk': 128}, or its name, found 7"},
        {METHOD("['full']"), "expected a method"},
        {METHOD("{'name': 'full', 'chunk': 3}"),
         "c:2:18: key 'chunk': method 'full' has no such option; methods that have it: streambp, seco, spaco"},
        {METHOD("{'name': 'seco',\n'chnk': 3}"),
         "c:3:1: key 'chnk': unknown key of method 'seco'; did you mean 'chunk'? known keys: name, chunk"},
        {METHOD("{'name': 'seco', 'chunk': -1}"),
         "c:2:27: key 'chunk': expected a whole number (tokens per chunk of the context) >= 1, found -1"},
        {METHOD("{'name': 'seco', 'chunk': 0}"), ">= 1, found 0"},
        {METHOD("{'name': 'seco', 'chunk': null}"), "found null"},
        {METHOD("{'name': 'seco', 'chunk': [64]}"), "found a list of 1"},
        {METHOD("{'name': 'seco', 'keep': 'lena'}"), "key 'keep': unknown keep 'lena'; did you mean 'lean'?"},
        {METHOD("{'name': 'spaco', 'chunk': 32, 'budget': 3}"),
         "c:2:1: key 'method': method 'spaco' at context 64: budget 3 is larger than the number of chunks"},
        {METHOD("{'name': 'spaco', 'chunk': 32, 'budget': 1, 'sampler': 'unifrom'}"),
         "unknown sampler 'unifrom'; did you mean 'uniform'? known names: uniform, bernoulli, sequential, fixed"},
        {METHOD("{'name': 'spaco', 'chunk': 8, 'sampler': 'fixed', 'drawn_chunks': [3, 3]}"),
         "key 'drawn_chunks[1]': expected a number above the one before it (3), each once, found 3"},
        {METHOD("{'name': 'spaco', 'chunk': 8, 'sampler': 'fixed', 'drawn_chunks': [4, 3]}"), "before it (4)"},
        {METHOD("{'name': 'spaco', 'chunk': 8, 'sampler': 'fixed', 'drawn_chunks': [1.5]}"), "found 1.5"},
        {METHOD("{'name': 'spaco', 'chunk': 8, 'sampler': 'fixed', 'drawn_chunks': [4096]}"),
         "from 0 to 4095, found 4096"},
        {METHOD("{'name': 'spaco', 'chunk': 8, 'sampler': 'fixed', 'drawn_chunks': [8]}"),
         "chunk 8 does not exist"},
        {SPACO("'sampler': 'sequential', 'compensation': 'sequential'"),
         "compensation 'sequential' requires sampler 'fixed'"},
        {SPACO("'sampler': 'bernoulli', 'drawn_chunks': [3]"),
         "drawn_chunks go with sampler 'fixed' alone; leave it out"},
        {SPACO("'sampler': 'fixed', 'drawn_chunks': [3], 'sampler_seed': 2"), "sampler 'fixed' draws nothing"},
        {SPACO("'cap': 3"),
         "c:2:1: key 'method': method 'spaco' at context 64: cap requires compensation 'capped'"},
        {SPACO("'compensation': 'none', 'cap': 1.5"), "cap requires compensation 'capped'"},
        {SPACO("'minimum': 0.25"), "minimum requires sampler or compensation 'sequential'"},
        {SPACO("'sampler': 'fixed', 'drawn_chunks': [3], 'minimum': 0.25"), "minimum requires sampler or"},
        {METHOD("{'name': 'spaco', 'drawn_chunks': 3}"),
         "key 'drawn_chunks': expected a list of whole numbers, found 3"},
        {METHOD("{'name': 'spaco', 'cap': 'two'}"), "key 'cap': expected a number from 0 to 1000000, found 'two'"},
    };
    expect_all_bad(cases, COUNT(cases));
}

static void the_command_line_has_no_lines(void **state)
{
    (void)state;
    expect_bad(METHOD("{'name': 'seco', 'chunk': -1}"), "command line",
               "command line: key 'chunk': expected a whole number (tokens");
    expect_bad("{'method': 'full'}", "command line", "command line: key 'model': missing");
    // A long name must not push the reason out.
    char origin[3000];
    memset(origin, 'x', sizeof origin - 1);
    origin[sizeof origin - 1] = '\0';
    expect_bad("{'method': 'full'}", origin, "x:1:1: key 'model': missing");
}

// Rows of a step's group of sequences, how many sequences stay together, and those of the second of two replicas.
static void pairs_and_groups_stay_together(void **state)
{
    (void)state;
    static const struct {
        const char *keys;
        size_t rows, together, start, count;
    } cases[] = {{"", 20, 1, 6, 6},
                 {", 'prompt': 15", 20, 1, 6, 6},
                 {", 'objective': 'dpo'", 20, 2, 6, 6},
                 {", 'prompt': 15, 'group': 4", 14 + 4 * 5, 4, 8, 4},
                 {", 'prompt': 15, 'group': 4, 'objective': 'dpo'", 14 + 4 * 5, 4, 8, 4},
                 {", 'prompt': 15, 'group': 3, 'objective': 'dpo'", 14 + 3 * 5, 6, 6, 6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[300];
        snprintf(json, sizeof json,
                 "{'model': 'tiny', 'method': 'full', 'context': 20, 'batch': 12, 'parallel': {'data': 2}%s}",
                 cases[i].keys);
        struct trial trial = trial_of(json);
        struct row_range second = trial_sequences(&trial, 1);
        assert_int_equal(trial_row_tokens(&trial), cases[i].rows);
        assert_int_equal(trial_together(&trial), cases[i].together);
        assert_int_equal(second.start, cases[i].start);
        assert_int_equal(second.count, cases[i].count);
        trial_free(&trial);
    }
    expect_bad("{'model': 'tiny', 'method': 'full', 'context': 20, 'prompt': 20}", "c",
               "key 'prompt': leaves none of 20 tokens to predict");
}

// A trial that a user asks of a card gets larger defaults, which shrink as the batch grows. A recorded trial and
// given values keep theirs.
static void a_card_has_defaults_of_its_own(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *options;
        bool asked;
        size_t head_chunk, attention_queries;
    } cases[] = {{"'device': 'cpu'", "", true, 256, 2048},
                 {"'device': 'plan-cpu', 'batch': 2", "", true, 256, 2048},
                 {"'device': 'plan', 'dtype': 'bf16'", "", true, 2048, 8192},
                 {"'device': 'plan-cuda'", "", true, 2048, 8192},
                 {"'device': 'cuda'", "", true, 2048, 8192},
                 {"'device': 'cuda:1', 'batch': 2", "", true, 1024, 4096},
                 {"'device': 'cuda', 'batch': 3", "", true, 512, 2048},
                 {"'device': 'cuda', 'batch': 100", "", true, 256, 2048},
                 {"'device': 'cuda', 'attention_queries': '1K'", ", 'head_chunk': 0", true, 0, 1024},
                 {"'device': 'cuda'", "", false, 256, 2048}};
    char id[TRIAL_ID_BYTES] = "";
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct trial trial;
        struct status status = {0};
        char json[300];
        snprintf(json, sizeof json, "{'model': 'tiny', 'context': 64, %s, 'method': {'name': 'full'%s}}",
                 cases[i].keys, cases[i].options);
        char *text = quoted(json);
        if (!(cases[i].asked ? trial_decode_asked : trial_decode)(&trial, text, "c", &status))
            fail_msg("%s\n%s", status.message, text);
        assert_int_equal(options_count(&trial.method->options, trial.options, "head_chunk", 1),
                         cases[i].head_chunk);
        assert_int_equal(trial.attention_queries, cases[i].attention_queries);
        expect_id(trial.canonical, trial.id);
        if (strcmp(cases[i].keys, "'device': 'cuda'") == 0) {
            assert_string_not_equal(trial.id, id); // asked and recorded
            snprintf(id, sizeof id, "%s", trial.id);
        }
        free(text);
        trial_free(&trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trial_has_its_defaults),
        cmocka_unit_test(a_model_may_be_a_shape),
        cmocka_unit_test(a_model_may_be_a_folder),
        cmocka_unit_test(options_reach_the_method),
        cmocka_unit_test(bad_keys_are_refused_with_the_place),
        cmocka_unit_test(models_are_named_as_on_the_hub),
        cmocka_unit_test(tokens_are_counted_in_K_and_M),
        cmocka_unit_test(bad_models_are_refused_with_the_place),
        cmocka_unit_test(bad_methods_are_refused_with_the_place),
        cmocka_unit_test(the_command_line_has_no_lines),
        cmocka_unit_test(pairs_and_groups_stay_together),
        cmocka_unit_test(a_card_has_defaults_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
