// PEFT adapters: every command reads the result of `longbp train --lora`; PEFT's keys and names of projections
// have PEFT's meaning; keys that would change the computation are refused by name.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/folder/adapter.h"
#include "harness/folder/adapter_tensors.h"
#include "harness/folder/folder.h"
#include "tests/program.h"
#include "tests/quoted.h"
#include "tests/trial_of.h"
#include <jansson.h>
#include <math.h>

#define TRAIN                                                                                                      \
    "$L train --model tiny --dtype f64 --tokens text --context 12 --steps 4 --method streambp --chunk 5 "          \
    "--optimizer adamw,rate=1e-2 --held-out 0.3 "
#define MADE  TRAIN "--lora r=2,alpha=3,target_modules=q_proj,down,use_rslora=true --out made"
#define GIVEN "--model tiny --tokens text --context 12 --dtype f64 "

static void make(const struct scratch *scratch)
{
    char text[400];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i % 26);
    scratch_file(scratch, "text", text, sizeof text);
    assert_int_equal(run(scratch, MADE), 0);
}

// The first or last evaluation of a run.
static double evaluation(const struct scratch *scratch, const char *file, bool last)
{
    char *text = text_of(scratch, file), *rest = text, *line;
    double loss = NAN;
    while ((line = strsep(&rest, "\n"))) {
        json_t *json = json_loads(line, 0, NULL), *value = json_object_get(json, "evaluation_loss");
        if (value && (last || isnan(loss)))
            loss = json_real_value(value);
        json_decref(json);
    }
    free(text);
    return loss;
}

static double number_of(const struct scratch *scratch, const char *file, const char *key)
{
    char *text = text_of(scratch, file);
    json_t *json = json_loads(text, 0, NULL);
    double value = json_number_value(json_object_get(json, key));
    json_decref(json);
    free(text);
    return value;
}

static void what_training_writes_every_command_takes(void **state)
{
    struct scratch *scratch = *state;
    make(scratch);
    assert_int_equal(run(scratch, "grep -q '\"use_rslora\": true' made/adapter_config.json"), 0);
    assert_int_equal(run(scratch, TRAIN "--lora made --out again"), 0);
    double before = evaluation(scratch, "made/steps.jsonl", true);
    assert_true(before == evaluation(scratch, "again/steps.jsonl", false));
    assert_true(before != evaluation(scratch, "made/steps.jsonl", false));
    assert_int_equal(run(scratch, "cmp made/adapter_config.json again/adapter_config.json"), 0);

    // The adapter's rank and projections apply, and no others. A slash at the end names the same adapter.
    assert_int_equal(run(scratch, "$L grad " GIVEN "--lora made/ --method seco --chunk 4 --out g > out"), 0);
    double loss = number_of(scratch, "out", "loss");
    assert_int_equal(run(scratch, "$L grad " GIVEN "--lora adapter=made,r=2,alpha=3 --out h > out"), 0);
    assert_true(fabs(loss - number_of(scratch, "out", "loss")) < 1e-12);
    assert_int_equal(run(scratch, "$L grad " GIVEN "--lora r=2,alpha=3,targets=q,down,rslora=true --out h > out"),
                     0);
    assert_true(fabs(loss - number_of(scratch, "out", "loss")) > 1e-6);

    assert_int_equal(run(scratch,
                         "$L plan --model tiny --context 64 --lora made --json > new && $L plan --model tiny "
                         "--context 64 --lora r=2,targets=q,down --json > old"),
                     0);
    assert_true(number_of(scratch, "new", "peak_bytes") > 0);
    assert_true(number_of(scratch, "new", "peak_bytes") == number_of(scratch, "old", "peak_bytes"));
    assert_int_equal(run(scratch, "$L verify --model tiny --lora made --shape 'last chunk'"), 0);
    assert_refused(scratch, "$L verify --lora made --shape 'last chunk'");
    assert_int_equal(run(scratch, "$L verify --lora r=2,targets=all-linear --shape 'last chunk'"), 0);

    char *spec =
        quoted("{'experiment': 'adapter', 'model': 'tiny', 'lora': 'made', 'measure': {'samples': 1}, 'axes': "
               "{'context': [16], 'method': [{'name': 'full'}, {'name': 'seco', 'chunk': 5}]}}");
    scratch_file(scratch, "spec.json", spec, strlen(spec));
    free(spec);
    assert_int_equal(run(scratch, "$L run spec.json --out r.jsonl"), 0);
    assert_int_equal(run(scratch, "test $(grep -c '\"adapter\": *\"made\"' r.jsonl) = 2"), 0);
    assert_int_equal(run(scratch, "test $(grep -c '\"status\": *\"ok\"' r.jsonl) = 2"), 0);
}

// Beside the weights it is taken up where factors train, and else not left out in silence.
static void an_adapter_beside_the_weights_is_used_or_named(void **state)
{
    struct scratch *scratch = *state;
    make(scratch);
    assert_int_equal(run(scratch, "$L init --model tiny --dtype f64 --out both && $L grad --model both --lora made "
                                  "--tokens text --context 12 --dtype f64 --out g > out"),
                     0);
    double loss = number_of(scratch, "out", "loss");
    assert_int_equal(run(scratch,
                         "cp made/adapter_* both && $L grad --model both --lora r=2 --tokens text --context 12 "
                         "--dtype f64 --out g > out"),
                     0);
    assert_true(loss == number_of(scratch, "out", "loss"));
    assert_refused(scratch, "$L grad --model both --tokens text --context 12 --out g");
    assert_refused(scratch, "$L plan --model both --lora alpha=4 --context 12");
    assert_refused(scratch, "$L plan --model made --context 12");
    // A reference has its own: of a policy and a reference that are one, no pair is preferred.
    assert_int_equal(run(scratch,
                         "$L grad --model both --lora both --reference both --objective dpo,beta=0.5 --tokens "
                         "text --context 12 --batch 2 --dtype f64 --out g > out"),
                     0);
    assert_true(fabs(number_of(scratch, "out", "loss") - log(2)) < 1e-12);
    assert_int_equal(run(scratch,
                         "mkdir bare && cp both/config.json both/model.safetensors bare && $L grad --model both "
                         "--lora both --reference bare --objective dpo,beta=0.5 --tokens text --context 12 "
                         "--batch 2 --dtype f64 --out g > out"),
                     0);
    assert_true(fabs(number_of(scratch, "out", "loss") - log(2)) > 1e-6);
}

static char *lora_of(const char *lora)
{
    char text[300];
    snprintf(text, sizeof text, "{'model': 'tiny', 'method': 'full', 'context': 8, 'lora': %s}", lora);
    struct trial trial = trial_of(text);
    char *id = strdup(trial.id);
    trial_free(&trial);
    return id;
}

static void names_of_peft_are_names_here(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"{'rank': 4, 'alpha': 8}", "{'r': 4, 'lora_alpha': 8}"},
        {"{'targets': ['k', 'up']}", "{'target_modules': ['up_proj', 'self_attn.k_proj']}"},
        {"{'targets': ['o']}", "{'target_modules': 'o_proj'}"},
        {"{'targets': ['q', 'k', 'v', 'o', 'gate', 'up', 'down']}", "{'target_modules': 'all-linear'}"},
        {"{'targets': 'all-linear'}", "{'targets': ['all-linear']}"},
        {"{'rslora': true}", "{'use_rslora': true}"},
        {"{'rslora': false}", "{}"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char *ours = lora_of(same[i][0]), *theirs = lora_of(same[i][1]);
        assert_string_equal(ours, theirs);
        free(ours);
        free(theirs);
    }
    char *plain = lora_of("{}"), *stabilised = lora_of("{'rslora': true}");
    assert_string_not_equal(plain, stabilised);
    free(plain);
    free(stabilised);
}

// The adapter's configuration with one key set. message "": it is read.
static void what_is_not_supported_is_refused(void **state)
{
    static const struct {
        const char *set, *message;
    } cases[] = {
        {"'lora_dropout': 0.1, 'target_modules': '.*q_proj|.*down_proj', 'rank_pattern': {}, 'modules_to_save': "
         "null",
         ""},
        {"'init_lora_weights': 'gaussian', 'layers_to_transform': null", ""},
        {"'use_dora': true", "key 'use_dora': DoRA scales the rows of each weight"},
        {"'rank_pattern': {'q_proj': 4}", "expected the shape [4, 128], found [2, 128]"},
        {"'rank_pattern': {'(?=q)q_proj': 4}", "regular expression '(?=q)q_proj'"},
        {"'alpha_pattern': {'q_proj': 'much'}", "key 'q_proj': expected a number"},
        {"'layers_to_transform': [0, 2, 3]", "layers.1.mlp.down_proj.lora_A.weight: unexpected"},
        {"'target_modules': ['q_proj']", "down_proj.lora_A.weight: unexpected"},
        {"'target_modules': ['q_proj', 'down_proj', 'up_proj']", "up_proj.lora_A.weight is missing"},
        {"'target_modules': null", "key 'target_modules'"},
        {"'bias': 'lora_only'", "key 'bias': biases that train are not supported, expected 'none'"},
        {"'modules_to_save': ['lm_head']", "base_model.model.lm_head.weight is missing"},
        {"'fan_in_fan_out': true", "key 'fan_in_fan_out': weights are [out, in] here"},
        {"'init_lora_weights': 'pissa'", "key 'init_lora_weights': factors that began with other weights"},
        {"'peft_type': 'LOHA'", "key 'peft_type': unknown kind of adapter 'LOHA'"},
        {"'r': 3", "expected the shape [3, 128], found [2, 128]"},
        {"'r': '2'", "key 'r': expected a whole number"},
        {"'r': null", "key 'r': expected a whole number"},
        {"'lora_alpha': 0", "key 'lora_alpha': expected a number from 1e-06"},
        {"'target_parameters': ['mlp.experts.down_proj']",
         "key 'target_parameters[0]': the model has no parameter"},
    };
    struct scratch *scratch = *state;
    make(scratch);
    char *text = text_of(scratch, "made/adapter_config.json");
    struct scratch_path folder = scratch_path(scratch, "made");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char set[300], *message = quoted(cases[i].message);
        snprintf(set, sizeof set, "{%s}", cases[i].set);
        char *quoted_set = quoted(set);
        json_t *config = json_loads(text, 0, NULL), *changes = json_loads(quoted_set, 0, NULL);
        assert_non_null(changes);
        json_object_update(config, changes);
        assert_int_equal(json_dump_file(config, scratch_path(scratch, "made/adapter_config.json").text, 0), 0);
        struct lora lora;
        struct status status = {0};
        bool read = adapter_read(folder.text, config_preset("tiny"), &lora, &status);
        if (read != !*message || !strstr(status.message, message))
            fail_msg("%s: expected \"%s\", found \"%s\"", set, message, status.message);
        assert_true(!read ||
                    (lora.rank == 2 && lora.alpha == 3 && lora.rslora && lora.targets == (LORA_Q | LORA_DOWN)));
        json_decref(config);
        json_decref(changes);
        free(quoted_set);
        free(message);
    }
    struct lora lora;
    struct status status = {0};
    assert_false(adapter_read(folder.text, config_preset("qwen3-0.6b"), &lora, &status)); // another model's
    assert_int_equal(run(scratch, "rm made/adapter_config.json"), 0);
    status = (struct status){0};
    assert_false(adapter_read(folder.text, config_preset("tiny"), &lora, &status));
    assert_non_null(strstr(status.message, "made: is no PEFT adapter: it has no adapter_config.json"));
    free(text);
}

// ---- which modules have factors

static bool has_tensor(const struct adapter_tensors *tensors, const char *module, const char *factor)
{
    char name[200];
    snprintf(name, sizeof name, "base_model.model.%s.%s", module, factor);
    for (size_t i = 0; i < tensors->count; i++)
        if (strcmp(tensors->items[i].name, name) == 0)
            return true;
    return false;
}

static struct trial trial_with(const char *model, const char *lora)
{
    char text[500];
    snprintf(text, sizeof text, "{'model': %s, 'method': 'full', 'context': 8, 'lora': %s}", model, lora);
    return trial_of(text);
}

// Rank and alpha of a module as PEFT 0.21 gives them to it.
static void modules_are_chosen_as_peft_does(void **state)
{
    (void)state;
    static const struct {
        const char *lora;
        size_t layer;
        unsigned target;
        size_t rank;
        double alpha;
    } cases[] = {
        {"{'r': 3, 'layers_to_transform': [1, 3]}", 0, LORA_Q, 0, 0},
        {"{'r': 3, 'layers_to_transform': [1, 3]}", 3, LORA_V, 3, 16},
        {"{'layers_to_transform': 2, 'layers_pattern': 'layers'}", 2, LORA_Q, 8, 16},
        {"{'rank_pattern': {'q_proj': 2}, 'alpha_pattern': {'self_attn.v_proj': 5}}", 1, LORA_Q, 2, 16},
        {"{'rank_pattern': {'q_proj': 2}, 'alpha_pattern': {'self_attn.v_proj': 5}}", 1, LORA_V, 8, 5},
        {"{'rank_pattern': {'layers.1.*': 2}}", 1, LORA_V, 2, 16},
        {"{'rank_pattern': {'layers.1.*': 2}}", 2, LORA_V, 8, 16},
        {"{'rank_pattern': {'^model\\\\.layers\\\\.[01]\\\\..*': 2}}", 1, LORA_V, 2, 16},
        {"{'targets': '.*\\\\.[0-1]\\\\.(?:self_attn|mlp)\\\\.(q|up)_proj'}", 1, LORA_UP, 8, 16},
        {"{'targets': '.*\\\\.[0-1]\\\\.(?:self_attn|mlp)\\\\.(q|up)_proj'}", 2, LORA_UP, 0, 0},
        {"{'targets': '.*\\\\d\\\\.mlp.[\\\\w]+?_proj'}", 3, LORA_DOWN, 8, 16},
        {"{'targets': ['layers.2.mlp.up_proj', 'k']}", 2, LORA_UP, 8, 16},
        {"{'targets': ['layers.2.mlp.up_proj', 'k']}", 1, LORA_UP, 0, 0},
        {"{'targets': ['layers.2.mlp.up_proj', 'k']}", 1, LORA_K, 8, 16},
        {"{'targets': 'all-linear', 'exclude_modules': ['down_proj']}", 0, LORA_DOWN, 0, 0},
        {"{'targets': 'all-linear', 'exclude_modules': '.*layers.1.*'}", 1, LORA_O, 0, 0},
        {"{'targets': 'all-linear'}", 0, LORA_HEAD, 0, 0},
        {"{'targets': ['head', 'embed_tokens']}", 0, LORA_HEAD, 8, 16},
        {"{'targets': ['q', 'up'], 'modules_to_save': ['mlp']}", 0, LORA_UP, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trial trial = trial_with("'tiny'", cases[i].lora);
        struct lora_factors found = lora_factors_of(&trial.lora, cases[i].layer, cases[i].target);
        if (found.rank != cases[i].rank || (found.rank && found.alpha != cases[i].alpha))
            fail_msg("%s: rank %zu, alpha %g", cases[i].lora, found.rank, found.alpha);
        struct trial again; // a record's trial is the same one
        struct status status = {0};
        assert_true(trial_decode(&again, trial.canonical, "canonical", &status));
        assert_string_equal(again.id, trial.id);
        trial_free(&again);
        trial_free(&trial);
    }
}

// Latent attention has no projection of values alone, so that LoRA's default is all linear modules.
static void latent_attention_has_modules_of_its_own(void **state)
{
    (void)state;
    static const char model[] = "{'preset': 'tiny', 'q_rank': 16, 'kv_rank': 24, 'head_dim': 48, 'rotary': 16, "
                                "'value_dim': 20}";
    const unsigned latent = LORA_Q_A | LORA_Q_B | LORA_KV_A | LORA_KV_B | LORA_O,
                   mlp = LORA_GATE | LORA_UP | LORA_DOWN;
    static const char *const all[] = {"{}", "{'targets': 'all-linear'}",
                                      "{'target_modules': '.*_(proj|mqa)', 'exclude_modules': ['lm_head']}"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct trial trial = trial_with(model, all[i]);
        assert_int_equal(trial.lora.targets, latent | mlp);
        trial_free(&trial);
    }
    struct trial trial = trial_with(model, "{'targets': ['kv_a_proj_with_mqa', 'q_b', 'kv_b_proj']}");
    assert_int_equal(trial.lora.targets, LORA_KV_A | LORA_Q_B | LORA_KV_B);
    trial_free(&trial);
}

#define EXPERTS(MORE)                                                                                              \
    "{'layers': 3, 'width': 16, 'heads': 2, 'ffn': 24, 'vocab': 32, 'experts': 4, 'experts_per_token': 2, "        \
    "'expert_width': 12, 'dense_layers': [1]" MORE "}"

// Routers' and experts' parameters are targets by their own names; "all-linear" has them as peft does for
// qwen3_moe.
static void experts_are_named_apart(void **state)
{
    (void)state;
    static const char shared[] = EXPERTS(", 'shared_expert_width': 20, 'shared_expert_gated': true");
    static const struct {
        const char *lora;
        unsigned targets, target;
        size_t rank;
        double alpha;
    } cases[] = {
        {"{}", LORA_Q | LORA_V, LORA_EXPERTS_DOWN, 0, 0},
        {"{'targets': ['router', 'experts_down']}", LORA_ROUTER | LORA_EXPERTS_DOWN, LORA_EXPERTS_DOWN, 8, 16},
        {"{'targets': ['experts.gate_up_proj', 'q']}", LORA_EXPERTS_GATE_UP | LORA_Q, LORA_EXPERTS_GATE_UP, 8, 16},
        {"{'targets': ['gate', 'down_proj']}", LORA_GATE | LORA_DOWN, LORA_EXPERTS_DOWN, 0, 0},
        {"{'targets': ['layers.2.mlp.experts.down_proj']}", LORA_EXPERTS_DOWN, LORA_EXPERTS_DOWN, 8, 16},
        {"{'r': 3, 'targets': ['experts_down'], 'rank_pattern': {'experts_down': 5}}", LORA_EXPERTS_DOWN,
         LORA_EXPERTS_DOWN, 5, 16},
        {"{'targets': 'all-linear', 'exclude_modules': ['k', 'v', 'o', 'q']}",
         LORA_GATE | LORA_UP | LORA_DOWN | LORA_PARAMETERS | LORA_SHARED_EXPERT_GATE, LORA_EXPERTS_GATE_UP, 16, 32},
        {"{'r': 3, 'targets': 'all-linear'}",
         LORA_Q | LORA_K | LORA_V | LORA_O | LORA_GATE | LORA_UP | LORA_DOWN | LORA_PARAMETERS |
             LORA_SHARED_EXPERT_GATE,
         LORA_EXPERTS_DOWN, 3, 16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trial trial = trial_with(shared, cases[i].lora);
        struct lora_factors found = lora_factors_of(&trial.lora, 2, cases[i].target);
        if (trial.lora.targets != cases[i].targets || found.rank != cases[i].rank ||
            (found.rank && found.alpha != cases[i].alpha))
            fail_msg("%s: targets %x, rank %zu, alpha %g", cases[i].lora, trial.lora.targets, found.rank,
                     found.alpha);
        struct trial again;
        struct status status = {0};
        assert_true(trial_decode(&again, trial.canonical, "canonical", &status));
        assert_string_equal(again.id, trial.id);
        trial_free(&again);
        trial_free(&trial);
    }
}

// A shared expert that has no gate is "shared_experts", which "all-linear" leaves out, as it does gpt-oss's
// experts.
static void shared_experts_have_their_families_name(void **state)
{
    (void)state;
    struct trial trial =
        trial_with("'deepseek-v3'", "{'targets': ['gate', 'layers.4.mlp.shared_experts.up_proj']}");
    struct model model;
    assert_int_equal(trial.lora.targets, LORA_GATE | LORA_UP);
    assert_int_equal(lora_factors_of(&trial.lora, 4, LORA_UP).rank, 8);
    assert_int_equal(lora_factors_of(&trial.lora, 5, LORA_UP).rank, 0);
    model_list(&model, &trial.config, &trial.lora);
    struct adapter_tensors tensors = adapter_tensors_of(&model, NULL);
    assert_true(has_tensor(&tensors, "model.layers.4.mlp.shared_experts.up_proj", "lora_B.weight"));
    assert_true(has_tensor(&tensors, "model.layers.2.mlp.gate_proj", "lora_A.weight")); // a dense layer
    free(tensors.items);
    model_close(&model);
    trial_free(&trial);
    static const struct {
        const char *model;
        unsigned targets;
    } all[] = {
        {"'glm-4.5-air'", LORA_Q | LORA_K | LORA_V | LORA_O | LORA_GATE | LORA_UP | LORA_DOWN | LORA_PARAMETERS},
        {"'gpt-oss-20b'", LORA_Q | LORA_K | LORA_V | LORA_O}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        trial = trial_with(all[i].model, "{'targets': 'all-linear'}");
        assert_int_equal(trial.lora.targets, all[i].targets);
        assert_int_equal(lora_factors_of(&trial.lora, 3, LORA_GATE).rank, 0);
        trial_free(&trial);
    }
    char *json =
        quoted("{'model': 'gpt-oss-20b', 'method': 'full', 'context': 8, 'lora': {'targets': ['router']}}");
    struct status status = {0};
    assert_false(trial_decode(&trial, json, "c", &status));
    if (!strstr(status.message, "mlp.gate.weight are not supported in this family"))
        fail_msg("%s", status.message);
    trial_free(&trial);
    free(json);
}

// Names, shapes and order of the numbers as peft 0.21 saves them: of A [experts rank, in] an expert's rows one
// below the other, of B [out, rank experts] its numbers `experts` apart; gpt-oss's rows of gate and up take turns.
static void factors_of_experts_are_as_peft_saves_them(void **state)
{
    (void)state;
    enum { E = 4, RANK = 3 };
    static const char in_turn[] =
        EXPERTS(", 'expert_bias': true, 'router_bias': true, 'swiglu_alpha': 1.702, 'swiglu_limit': 7");
    static const struct {
        const char *targets, *gate_up, *down;
        bool in_turn;
    } cases[] = {{"['experts_gate_up', 'experts_down']", "mlp.experts.base_layer", "mlp.experts", false},
                 {"['experts_gate_up', 'experts_down']", "mlp.experts.base_layer", "mlp.experts", true},
                 {"['experts_gate_up']", "mlp.experts", NULL, false},
                 {"['experts_down']", NULL, "mlp.experts", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char lora[120];
        snprintf(lora, sizeof lora, "{'r': %d, 'targets': %s}", RANK, cases[i].targets);
        struct trial trial = trial_with(cases[i].in_turn ? in_turn : EXPERTS(""), lora);
        struct model model;
        model_list(&model, &trial.config, &trial.lora);
        struct adapter_tensors tensors = adapter_tensors_of(&model, NULL);
        assert_int_equal(tensors.count, 2 * 2 * (1 + (cases[i].gate_up && cases[i].down))); // of layers 0 and 2
        for (size_t j = 0, at = 0; j < 2; j++) {
            const char *module = j ? cases[i].down : cases[i].gate_up;
            size_t out = j ? 16 : 24, in = j ? 12 : 16;
            if (!module)
                continue;
            const struct adapter_tensor *a = &tensors.items[at++], *b = &tensors.items[at++];
            char name[100];
            snprintf(name, sizeof name, "base_model.model.model.layers.0.%s.lora_A.weight", module);
            assert_string_equal(a->name, name);
            snprintf(name, sizeof name, "base_model.model.model.layers.0.%s.lora_B.weight", module);
            assert_string_equal(b->name, name);
            assert_true(a->rows == E * RANK && a->cols == in && adapter_tensor_is_plain(a));
            assert_true(b->rows == out && b->cols == RANK * E && !adapter_tensor_is_plain(b));
            for (size_t e = 0, n = 0; e < E; e++)
                for (size_t o = 0; o < out; o++)
                    for (size_t r = 0; r < RANK; r++, n++) {
                        size_t row = j || !cases[i].in_turn ? o : o % (out / 2) * 2 + o / (out / 2);
                        assert_int_equal(adapter_tensor_index(b, &b->pieces[0], n), (row * RANK + r) * E + e);
                    }
        }
        free(tensors.items);
        model_close(&model);
        trial_free(&trial);
    }
}

// PEFT would take a dense layer's "gate_proj" in target_modules for the experts'. What is written is read back.
static void a_dense_layer_beside_experts_has_its_weights_named(void **state)
{
    struct scratch *scratch = *state;
    struct trial trial = trial_with(
        EXPERTS(""), "{'r': 3, 'targets': ['q', 'up', 'down', 'experts_down'], 'rank_pattern': {'up': 5}}");
    struct model model;
    struct status status = {0};
    model_list(&model, &trial.config, &trial.lora);
    struct adapter_tensors tensors = adapter_tensors_of(&model, NULL);
    assert_true(has_tensor(&tensors, "model.layers.1.mlp.up_proj", "lora_A.weight"));
    assert_true(adapter_write_config(scratch->folder, NULL, &trial.config, &trial.lora, &status));
    json_t *written = json_load_file(scratch_path(scratch, "adapter_config.json").text, 0, NULL);
    json_t *expected =
        json_pack("{s:[s], s:[s, s, s], s:{s:i}}", "target_modules", "q_proj", "target_parameters",
                  "up_proj.weight", "down_proj.weight", "experts.down_proj", "rank_pattern", "up_proj.weight", 5);
    const char *key;
    json_t *value;
    json_object_foreach(expected, key, value)
    {
        if (!json_equal(json_object_get(written, key), value))
            fail_msg("%s is otherwise", key);
    }
    json_decref(expected);
    json_decref(written);

    size_t count = tensors.count;
    struct safetensors_item *items = calloc(count, sizeof *items);
    struct safetensors_writer writer;
    static const double zeros[24 * 16];
    for (size_t i = 0; i < count; i++)
        items[i] = safetensors_item(tensors.items[i].name, tensors.items[i].rows, tensors.items[i].cols,
                                    tensors.items[i].form, DTYPE_F32);
    assert_true(safetensors_create(&writer, scratch_path(scratch, "adapter_model.safetensors").text, items, count,
                                   &status));
    for (size_t i = 0; i < count; i++)
        assert_true(safetensors_append(&writer, zeros, tensors.items[i].rows * tensors.items[i].cols, &status));
    assert_true(safetensors_commit(&writer, &status));
    safetensors_discard(&writer);
    free(items);
    struct lora read;
    if (!adapter_read(scratch->folder, &trial.config, &read, &status))
        fail_msg("%s", status.message);
    assert_int_equal(read.targets, trial.lora.targets);
    assert_int_equal(lora_factors_of(&read, 1, LORA_UP).rank, 5);
    assert_int_equal(lora_factors_of(&read, 2, LORA_EXPERTS_DOWN).rank, 3);
    lora_free(&read);
    free(tensors.items);
    model_close(&model);
    trial_free(&trial);
}

static void what_chooses_nothing_is_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{'rank_pattern': {'k_proj': 4}}", "key 'k_proj': matches no module"},
        {"{'rank_pattern': {'q_proj': 4, '.*attn.q_proj': 5}}", "two values"},
        {"{'rank_pattern': {'q_proj': 0}}", "key 'q_proj'"},
        {"{'targets': '.*q_proj', 'layers_to_transform': [1]}", "key 'layers_to_transform'"},
        {"{'layers_to_transform': [4]}", "key 'layers_to_transform[0]'"},
        {"{'layers_pattern': 'layers'}", "key 'layers_pattern'"},
        {"{'layers_to_transform': 2, 'layers_pattern': 'h'}", "no module of the model is left"},
        {"{'targets': ['qkv']}", "fuses no projections"},
        {"{'targets': ['q', 'experts_down']}", "key 'targets[1]': the model has no module of that name"},
        {"{'targets': '.*query'}", "no module of the model is left"},
        {"{'exclude_modules': ['q', 'v']}", "no module of the model is left"},
        {"{'modules_to_save': ['score']}", "key 'modules_to_save[0]': no module"},
        {"{'modules_to_save': ['proj']}", "both name model.layers.0.self_attn.q_proj"},
        {"{'targets': '(q'}", "regular expression '(q'"},
        {"{'targets': '.+*q_proj'}", "a quantifier of a quantifier"},
        {"{'targets': '.*(?<!v)_proj'}", "regular expression"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        snprintf(text, sizeof text, "{'model': 'tiny', 'method': 'full', 'context': 8, 'lora': %s}", cases[i][0]);
        char *json = quoted(text), *message = quoted(cases[i][1]);
        struct trial trial;
        struct status status = {0};
        if (trial_decode(&trial, json, "c", &status) || !strstr(status.message, message))
            fail_msg("%s: expected \"%s\", found \"%s\"", cases[i][0], message, status.message);
        trial_free(&trial);
        free(message);
        free(json);
    }
}

// Every method's gradient is full backprop's in f64, and its bytes and FLOPs are those of the plan, where layers
// have different factors or none, and where the table, the head and norms train.
static void plans_and_gradients_hold_for_all_modules(void **state)
{
    struct scratch *scratch = *state;
    static const char *const runs[][2] = {{"cpu", "'samples': 1, 'warmup': 0, 'gradient': 'full-f64'"},
                                          {"plan-cpu", "'samples': 1, 'warmup': 0"}};
    for (size_t i = 0; i < 2; i++) {
        char text[1500];
        snprintf(
            text, sizeof text,
            "{'experiment': 'modules', 'dtype': 'f64', 'optimizer': 'adamw', 'device': '%s', 'measure': {%s}, "
            "'model': "
            "{'layers': 3, 'width': 16, 'heads': 2, 'kv_heads': 1, 'ffn': 24, 'vocab': 32, 'tied': true}, 'axes': "
            "{'context': [12], 'lora': [{'r': 2, 'layers_to_transform': [2]}, {'r': 2, 'rank_pattern': "
            "{'layers.1.self_attn.q_proj': 5}}, {'r': 2, 'targets': ['embed', 'head', 'q']}, {'r': 2, "
            "'modules_to_save': ['embed_tokens', 'norm']}, {'r': 2, 'modules_to_save': ['lm_head'], "
            "'ensure_weight_tying': true}, {'r': 2, 'targets': 'head'}], 'method': ['full', {'name': 'streambp', "
            "'chunk': 5, 'segments': 2, 'offload': ['inputs', 'input_gradients']}, {'name': 'seco', 'chunk': 5}, "
            "{'name': "
            "'seco', "
            "'chunk': 5, 'segments': 2}]}}",
            runs[i][0], runs[i][1]);
        char *spec = quoted(text);
        scratch_file(scratch, "spec.json", spec, strlen(spec));
        free(spec);
        snprintf(text, sizeof text, "$L run spec.json --out %s.jsonl", runs[i][0]);
        assert_int_equal(run(scratch, text), 0);
    }
    char *measured = text_of(scratch, "cpu.jsonl"), *planned = text_of(scratch, "plan-cpu.jsonl");
    char *rest[] = {measured, planned};
    static const char *const same[] = {"peak_bytes", "host_peak_bytes", "resident_bytes", "flops"};
    size_t found = 0;
    for (char *line; (line = strsep(&rest[0], "\n")) && *line; found++) {
        json_t *one = json_loads(line, 0, NULL), *other = json_loads(strsep(&rest[1], "\n"), 0, NULL);
        assert_string_equal(json_string_value(json_object_get(one, "status")), "ok");
        for (size_t i = 0; i < sizeof same / sizeof *same; i++)
            if (!json_equal(json_object_get(one, same[i]), json_object_get(other, same[i])))
                fail_msg("%s differs: %s", same[i], line);
        json_t *error = json_object_get(json_object_get(one, "gradient"), "relative_l2");
        assert_true(json_number_value(error) < 1e-13 && json_is_number(error));
        json_decref(one);
        json_decref(other);
    }
    assert_int_equal(found, 6 * 4);
    free(measured);
    free(planned);
}

// Over a Phi-3 the adapter is the base's own modules'; factors of parts are read back as they were, and go on.
static void adapters_of_fused_projections_are_the_bases_own(void **state)
{
    struct scratch *scratch = *state;
#define PHI3                                                                                                       \
    "$L train --model phi3 --dtype f64 --tokens text --context 12 --steps 4 --method seco --chunk 5 --optimizer "  \
    "adamw,rate=1e-2 --held-out 0.3 --quiet "
    make(scratch);
    assert_int_equal(run(scratch, "$L init --model tiny --dtype f64 --out phi3 && sed -i 's/\"model_type\": "
                                  "\"llama\"/\"model_type\": \"phi3\"/; s/LlamaForCausalLM/Phi3ForCausalLM/' "
                                  "phi3/config.json && grep -q phi3 phi3/config.json"),
                     0);
    static const char *const loras[] = {"r=2,alpha=3,targets=q,v,up,rslora=true", "r=2,targets=all-linear",
                                        "r=2,targets=qkv_proj,layers_to_transform=1,2"};
    for (size_t i = 0; i < sizeof loras / sizeof *loras; i++) {
        char command[400];
        snprintf(command, sizeof command, "rm -rf one two && " PHI3 "--lora %s --out one", loras[i]);
        assert_int_equal(run(scratch, command), 0);
        assert_int_equal(run(scratch, "! grep -qE '[\".](q|k|v|gate|up)_proj' one/adapter_config.json"), 0);
        assert_int_equal(run(scratch, "grep -aq qkv_proj.lora_A one/adapter_model.safetensors && ! grep -aqE "
                                      "'\\.(q|k|v|gate|up)_proj' one/adapter_model.safetensors"),
                         0);
        double loss = evaluation(scratch, "one/steps.jsonl", true);
        assert_int_equal(run(scratch, PHI3 "--lora one --out two"), 0);
        assert_true(fabs(loss - evaluation(scratch, "two/steps.jsonl", false)) < 1e-12);
        snprintf(command, sizeof command, "rm -rf two && " PHI3 "--checkpoint 2 --lora %s --out two", loras[i]);
        assert_int_equal(run(scratch, command), 0);
        snprintf(command, sizeof command,
                 "rm -r two/adapter_* two/*4 && " PHI3 "--checkpoint 2 --lora %s --out two --resume", loras[i]);
        assert_int_equal(run(scratch, command), 0);
        assert_int_equal(run(scratch, "cmp one/adapter_model.safetensors two/adapter_model.safetensors"), 0);
    }
#undef PHI3
}

// Names of the language model within the whole model, as peft 0.21 names modules of AutoModelForImageTextToText in
// transformers 5.24.
static void names_within_a_larger_model_are_as_in_peft(void **state)
{
    struct scratch *scratch = *state;
    static const struct {
        const char *model_type, *decoder;
    } types[] = {
        {"gemma3", "model.language_model"},     {"llava", "model.language_model"},
        {"llava_next", "model.language_model"}, {"llava_onevision", "model.language_model"},
        {"vipllava", "model.language_model"},   {"mistral3", "model.language_model"},
        {"internvl", "model.language_model"},   {"idefics3", "model.text_model"},
        {"smolvlm", "model.text_model"},        {"qwen2_audio", "model.language_model"},
        {"qwen2_vl", "model.language_model"},   {"qwen2_5_vl", "model.language_model"},
        {"qwen3_vl", "model.language_model"},
    };
    const struct lora lora = {.rank = 2, .alpha = 4, .targets = LORA_Q | LORA_EMBEDDING | LORA_HEAD};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char text[400], layer[100], table[100];
        snprintf(text, sizeof text,
                 "{'model_type': '%s', 'text_config': {'hidden_size': 32, 'num_hidden_layers': 1, "
                 "'num_attention_heads': 4, 'num_key_value_heads': 2, 'intermediate_size': 48, 'vocab_size': 64}}",
                 types[i].model_type);
        char *json = quoted(text);
        scratch_file(scratch, "config.json", json, strlen(json));
        free(json);
        struct config config;
        struct status status = {0};
        if (!folder_read_config(scratch->folder, &config, &status))
            fail_msg("%s", status.message);
        struct model model;
        model_list(&model, &config, &lora);
        struct adapter_tensors tensors = adapter_tensors_of(&model, config.submodule);
        snprintf(layer, sizeof layer, "%s.layers.0.self_attn.q_proj", types[i].decoder);
        snprintf(table, sizeof table, "%s.embed_tokens", types[i].decoder);
        assert_true(has_tensor(&tensors, layer, "lora_A.weight") && has_tensor(&tensors, layer, "lora_B.weight"));
        assert_true(has_tensor(&tensors, table, "lora_embedding_A"));
        assert_true(has_tensor(&tensors, "lm_head", "lora_A.weight"));
        free(tensors.items);
        model_close(&model);

        assert_true(adapter_write_config(scratch->folder, NULL, &config, &lora, &status));
        json_t *written = json_load_file(scratch_path(scratch, "adapter_config.json").text, 0, NULL);
        json_t *targets = json_object_get(written, "target_modules");
        assert_string_equal(json_string_value(json_array_get(targets, 0)), layer);
        assert_string_equal(json_string_value(json_array_get(targets, 1)), table);
        assert_string_equal(json_string_value(json_array_get(targets, 2)), "lm_head");
        json_decref(written);
    }
}

// They are read back, also under the names of older classes; those of another part of the model are refused.
static void an_adapter_within_a_larger_model_is_read(void **state)
{
    struct scratch *scratch = *state;
#define LLAVA                                                                                                      \
    "$L train --model llava --dtype f64 --tokens text --context 12 --steps 2 --method full --held-out 0.3 "        \
    "--quiet "
    make(scratch);
    assert_int_equal(run(scratch, "$L init --model tiny --dtype f64 --out llava && "
                                  "(printf '{\"model_type\": \"llava\", \"tie_word_embeddings\": false, "
                                  "\"text_config\": ' && cat llava/config.json && echo }) > c && mv c "
                                  "llava/config.json"),
                     0);
    assert_int_equal(run(scratch, LLAVA "--lora "
                                        "r=2,targets=q,v,layers_to_transform=1,2,rank_pattern=layers.1.self_attn.q_"
                                        "proj:3,modules_to_save=norm,lm_head --out one"),
                     0);
    assert_int_equal(run(scratch, "grep -q '\"model.language_model.layers.1.self_attn.q_proj\": 3' "
                                  "one/adapter_config.json && "
                                  "grep -q '\"model.language_model.layers.0.input_layernorm\"' "
                                  "one/adapter_config.json && ! grep -q '\"norm\"' one/adapter_config.json"),
                     0);
    double loss = evaluation(scratch, "one/steps.jsonl", true);
    assert_int_equal(run(scratch, LLAVA "--lora one --out two"), 0);
    assert_true(fabs(loss - evaluation(scratch, "two/steps.jsonl", false)) < 1e-12);

    // As saved by peft over transformers before 4.52.
    assert_int_equal(run(scratch,
                         "grep -aq base_model.model.model.language_model.layers.1 one/adapter_model.safetensors "
                         "&& sed -i 's/model\\.model\\.language_model\\./model.language_model.model./g' "
                         "one/adapter_model.safetensors && ! grep -aq "
                         "base_model.model.model.language_model one/adapter_model.safetensors && rm -r two"),
                     0);
    assert_int_equal(run(scratch, LLAVA "--lora one --out two"), 0);
    assert_true(fabs(loss - evaluation(scratch, "two/steps.jsonl", false)) < 1e-12);

    // As many bytes, so that the file's header stays as long.
    assert_int_equal(run(scratch, "cp -r one seeing && sed -i 's/language_model\\.model\\.layers\\.2/"
                                  "vision_tower.e.model.layers.2/g' seeing/adapter_model.safetensors && "
                                  "$L plan --model llava --context 12 --lora seeing"),
                     2);
    assert_says(scratch, "err",
                "tensor base_model.model.vision_tower.e.model.layers.2.input_layernorm.weight: belongs to no "
                "language model; train an adapter");
    assert_int_equal(run(scratch, "sed -i 's/model\\.language_model\\.model\\.layers\\.2/"
                                  "model.model.language_model.layers.1/g' one/adapter_model.safetensors && "
                                  "$L plan --model llava --context 12 --lora one"),
                     2);
    assert_says(scratch, "err", "is there twice, under two names");

    // Beside the weights, which are the language model's alone, an adapter is theirs; a run goes on from its own.
#define BESIDE LLAVA "--optimizer bread-lora,rate=1e-3 --lora r=2 --checkpoint 1 --out beside"
    assert_int_equal(run(scratch, BESIDE " && rm beside/adapter_* && " BESIDE " --resume"), 0);
    assert_int_equal(run(scratch, "$L plan --model beside --context 12 --lora beside"), 0);
    assert_int_equal(run(scratch, "grep -aq base_model.model.model.layers beside/adapter_model.safetensors"), 0);
#undef BESIDE
#undef LLAVA

    // A partly read reference is reported, too; if it is the model, once.
    assert_int_equal(run(scratch,
                         "cp -r llava other && $L grad --model llava --lora r=2 --reference other --objective dpo "
                         "--tokens text --context 12 --batch 2 --dtype f64 --out g"),
                     0);
    assert_says(scratch, "err", "llava: reads the language model of llava alone");
    assert_says(scratch, "err", "other: reads the language model of llava alone");
    assert_int_equal(run(scratch,
                         "$L grad --model llava --lora r=2 --reference llava --objective dpo --tokens text "
                         "--context 12 --batch 2 --dtype f64 --out g 2> said && "
                         "test $(grep -c 'of llava alone' said) = 1"),
                     0);
}

// A trained adapter belongs to its base model: over other weights no run resumes.
static void an_adapter_goes_on_over_its_own_base(void **state)
{
    struct scratch *scratch = *state;
#define RUN                                                                                                        \
    "$L train --model base --lora r=2 --context 12 --method full --optimizer sgd --steps 2 --out run --quiet"
    assert_int_equal(run(scratch, "$L init --model tiny --out base && " RUN " && " RUN " --resume"), 0);
    assert_int_equal(run(scratch, "sed -i -z 's/,[[:space:]]*\"model_hash\": \"[0-9a-f]*\"//' run/training.json && "
                                  "! grep model_hash run/training.json && " RUN " --resume"),
                     0); // an earlier version's
    assert_int_equal(run(scratch, "rm -r run && " RUN " && rm -r base && $L init --model tiny --seed 2 --out base"),
                     0);
    assert_int_equal(run(scratch, RUN " --resume"), 2);
    assert_says(scratch, "err", "run: the run was begun with model_hash \"");
#undef RUN
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_training_writes_every_command_takes, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(an_adapter_beside_the_weights_is_used_or_named, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test(names_of_peft_are_names_here),
        cmocka_unit_test_setup_teardown(what_is_not_supported_is_refused, scratch_setup, scratch_teardown),
        cmocka_unit_test(modules_are_chosen_as_peft_does),
        cmocka_unit_test(latent_attention_has_modules_of_its_own),
        cmocka_unit_test(experts_are_named_apart),
        cmocka_unit_test(factors_of_experts_are_as_peft_saves_them),
        cmocka_unit_test(shared_experts_have_their_families_name),
        cmocka_unit_test_setup_teardown(a_dense_layer_beside_experts_has_its_weights_named, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test(what_chooses_nothing_is_refused),
        cmocka_unit_test_setup_teardown(plans_and_gradients_hold_for_all_modules, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(adapters_of_fused_projections_are_the_bases_own, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(names_within_a_larger_model_are_as_in_peft, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test_setup_teardown(an_adapter_within_a_larger_model_is_read, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(an_adapter_goes_on_over_its_own_base, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
