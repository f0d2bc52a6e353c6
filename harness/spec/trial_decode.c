#include "harness/spec/trial_decode.h"
#include "harness/data/batch_file.h"
#include "harness/data/shared_prompt.h"
#include "harness/spec/framework_decode.h"
#include "harness/spec/trial_id.h"
#include "harness/spec/trial_key_decode.h"
#include "harness/text/text.h"
#include <string.h>

struct json_field trial_field(const struct trial_fields *fields, const char *path)
{
    const char *dot = strchr(path, '.');
    char key[32];
    snprintf(key, sizeof key, "%.*s", (int)strcspn(path, "."), path);
    size_t i = trial_key_find(key);
    CHECK(i < trial_key_count());
    return dot ? json_field_get(fields->keys[i], dot + 1) : fields->keys[i];
}

struct json_field trial_unsupported_field(const struct trial *trial, const struct trial_fields *fields)
{
    return trial->unsupported_at ? trial_field(fields, trial->unsupported_at) : fields->method.given.entry;
}

// Reads the tokens of a row of a batch file's groups, which determine the chunks to draw and shares.
static bool read_row_tokens(struct trial *trial, const struct trial_fields *fields, struct status *status)
{
    const struct json_field *share = method_fields_share(&fields->method);
    bool trains = json_field_given(trial_field(fields, "train"));
    struct batch_data data = {0};
    if (trial->data.kind != DATA_BATCH || trial->group <= 1 || trial->batch % trial->group ||
        !trial->method->largest_draw || (trains && !share))
        return true;
    if (trains)
        return json_field_fail(*share, status,
                               "micro-batches whose groups share prompts differ in their number of chunks; give a "
                               "number instead of a share");
    bool read = batch_file_read(&data, trial->data.path, trial->context, trial->batch, trial->config.vocab, status);
    if (read)
        trial->row_tokens = shared_prompt_tokens(&data, trial->group);
    batch_data_free(&data);
    return read;
}

static json_t *decode_method(struct trial *trial, const struct trial_fields *fields, struct status *status)
{
    trial->method = fields->method.method;
    trial->options = options_new(&trial->method->options);
    if (trial->suited && trial_is_of_card(trial))
        options_suit_card(&trial->method->options, trial->options, trial->batch);
    return read_row_tokens(trial, fields, status) &&
                   method_decode(&fields->method, &trial->config, trial_row_tokens(trial), trial->options,
                                 &trial->unsupported, status)
               ? method_json(trial->method, trial->options)
               : NULL;
}

// Checks the data of a training run: windows of tokens have targets everywhere and no other information.
static bool check_train_data(const struct trial *trial, const struct trial_fields *fields, struct status *status)
{
    struct json_field field = trial_field(fields, "train");
    struct json_field batch = trial_field(fields, "batch");
    const char *key = trial->labels                                 ? "labels"
                      : trial->packing.count || trial->packing.mean ? "documents"
                      : trial->prompt                               ? "prompt"
                      : trial->group > 1                            ? "group"
                                                                    : NULL;
    if (trial->train.shuffle && trial->data.kind == DATA_RANDOM && !trial->planned)
        return json_field_fail(trial_field(fields, "train.shuffle"), status,
                               "orders data, and random tokens have no order; leave it out, or give \"data\"");
    struct json_field window = trial_field(fields, "train.window");
    if (trial->train.window && trial->data.kind == DATA_BATCH)
        return json_field_fail(window, status,
                               "cuts a source of tokens, and the sequences of a batch file have their own lengths; "
                               "leave it out");
    if (trial->train.window && trial->train.window < trial->context)
        return json_field_fail(
            window, status, "%zu tokens do not hold the %zu of \"context\" that a step takes; give as many or more",
            trial->train.window, trial->context);
    if (trial->data.kind == DATA_BATCH)
        return batch.value ||
               json_field_fail(batch, status, "missing; give the sequences of a micro-batch, of the %zu in %s",
                               trial->batch, trial->data.path);
    if (key)
        return json_field_fail(field, status,
                               "predicts every token of a window; leave \"%s\" out, or give \"data\" as "
                               "{\"batch\": PATH} (--batch FILE), whose labels and documents are its own",
                               key);
    if (trial->context == 1)
        return json_field_fail(trial_field(fields, "context"), status,
                               "a window of 1 token has no next token to predict; give 2 or more");
    return trial->planned || objective_of_tokens(trial->objective, trial->objective_options) ||
           json_field_fail(trial_field(fields, "objective"), status,
                           "\"%s\" needs more than tokens: give \"data\" as {\"batch\": PATH} (--batch FILE), a "
                           "batch file or a folder of such",
                           trial->objective->name);
}

static bool check_train_reference(const struct trial *trial, const struct trial_fields *fields,
                                  struct status *status)
{
    struct json_field field = trial_field(fields, "reference");
    if (trial->reference.kind == REFERENCE_RANDOM && !trial->planned)
        return json_field_fail(
            field, status, "random works in a single step only; use file, adapter-off or the folder of a model");
    return trial->reference.kind != REFERENCE_ADAPTER_OFF || trial->optimizer->lora != LORA_BESIDE ||
           json_field_fail(field, status,
                           "optimizer \"%s\" also updates the base weights, which adapter-off takes as the "
                           "reference; use file or the folder of a model",
                           trial->optimizer->name);
}

static bool check_evaluation(const struct trial *trial, const struct trial_fields *fields, struct status *status)
{
    const struct training *train = &trial->train;
    struct json_field field = trial_field(fields, "train");
    bool evaluates = train->evaluate.path || train->held_out > 0;
    const char *key = train->evaluate_every     ? "evaluate_every"
                      : train->evaluate_windows ? "evaluate_windows"
                                                : NULL;
    if (train->evaluate.path && train->held_out > 0)
        return json_field_fail(trial_field(fields, "train.evaluate"), status,
                               "cannot be combined with \"held_out\"; leave one of the two out");
    return evaluates || !key ||
           json_field_fail(json_field_get(field, key), status,
                           "requires evaluation; give \"held_out\" or \"evaluate\", or leave it out");
}

// Checks the keys of schedule wsd together.
static bool check_wsd(const struct training *train, const struct trial_fields *fields, struct status *status)
{
    bool cycled = train->cycles < 0.5 || train->cycles > 0.5;
    const char *key = train->stable_steps                 ? "stable_steps"
                      : train->decay_steps                ? "decay_steps"
                      : train->warmup_type != RAMP_LINEAR ? "warmup_type"
                      : train->decay_type != RAMP_COSINE  ? "decay_type"
                      : cycled                            ? "cycles"
                                                          : NULL;
    if (train->schedule != SCHEDULE_WSD)
        return !key || json_field_fail(json_field_get(trial_field(fields, "train"), key), status,
                                       "requires schedule wsd; give \"schedule\" wsd, or leave it out");
    if (!train->decay_steps)
        return json_field_fail(trial_field(fields, "train.schedule"), status,
                               "wsd ends with a decay; give its steps, \"decay_steps\", or take constant");
    if (train->warmup_type != RAMP_LINEAR && !train->warmup)
        return json_field_fail(trial_field(fields, "train.warmup_type"), status,
                               "there is no warm-up; give its steps, \"warmup\", or leave this out");
    if (train->decay_type != RAMP_COSINE && cycled)
        return json_field_fail(trial_field(fields, "train.cycles"), status,
                               "requires a cosine decay; give \"decay_type\" cosine, or leave this out");
    if (train->cycles <= 0)
        return json_field_fail(trial_field(fields, "train.cycles"), status,
                               "keeps the rate constant; give a number above 0, or use \"schedule\" constant");
    return train->stable_steps || train->decay_steps <= train->steps - train->warmup ||
           json_field_fail(trial_field(fields, "train.decay_steps"), status,
                           "with %zu steps of \"warmup\" the decay does not fit a run of %zu steps; give at most "
                           "%zu, or \"stable_steps\", after which the decay begins and may be cut off",
                           train->warmup, train->steps, train->steps - train->warmup);
}

// Refuses values of the rate that would have no effect.
static bool check_rate(const struct training *train, const struct trial_fields *fields, struct status *status)
{
    if (train->warmup > train->steps)
        return json_field_fail(trial_field(fields, "train.warmup"), status,
                               "is longer than the run of %zu steps, so the rate is never reached; give at most "
                               "%zu, or more \"steps\"",
                               train->steps, train->steps);
    if (train->min_lr_ratio > 0 && train->schedule == SCHEDULE_CONSTANT)
        return json_field_fail(trial_field(fields, "train.min_lr_ratio"), status,
                               "requires a decay; give \"schedule\" linear, cosine or wsd, or leave it out");
    return check_wsd(train, fields, status);
}

// Checks combinations of keys.
static bool check_train(const struct trial *trial, const struct trial_fields *fields, struct status *status)
{
    const struct training *train = &trial->train;
    struct json_field field = trial_field(fields, "train");
    if (trial->method->no_gradient)
        return json_field_fail(field, status, "method \"%s\" computes no gradient", trial->method->name);
    if (!trial->optimizer)
        return json_field_fail(field, status, "training requires an optimizer; give \"optimizer\"");
    if (!check_train_data(trial, fields, status) || !check_train_reference(trial, fields, status))
        return false;
    bool in_backward = optimizer_updates_in_backward(trial->optimizer, trial->optimizer_options);
    if (in_backward && (train->clip > 0 || train->accumulate > 1))
        return json_field_fail(json_field_get(field, train->clip > 0 ? "clip" : "accumulate"), status,
                               "needs all gradients at once, but the optimizer's \"when\": \"backward\" frees each "
                               "within the backward pass; leave it out, or give \"when\": \"end\"");
    if (train->clip > 0 && !optimizer_keeps_gradients(trial->optimizer, trial->optimizer_options))
        return json_field_fail(trial_field(fields, "train.clip"), status,
                               "needs the norm of whole gradients, but the optimizer's \"sums\": \"projected\" "
                               "computes none; leave one of the two out");
    if (train->clip > 0 && trial_place(trial, OFFLOAD_GRADIENTS) == PLACE_HOST)
        return json_field_fail(
            trial_field(fields, "train.clip"), status,
            "needs all gradients on the device; leave it out, or gradients out of the method's offload");
    return check_rate(train, fields, status) && check_evaluation(trial, fields, status);
}

static bool check_objective(const struct trial *trial, const struct trial_fields *fields, struct status *status)
{
    struct json_field objective = trial_field(fields, "objective");
    struct status why = {0}, biased = {0};
    size_t micro_batches = trial->train.steps ? trial->train.accumulate : 1;
    if (!objective_check(trial->objective, trial->objective_options, trial->batch, micro_batches, &why))
        return json_field_fail(objective, status, "%s", why.message);
    if (!method_check_objective(trial->method, trial->options, trial->objective, trial->objective_options, &biased))
        return json_field_fail(fields->method.given.entry, status, "method \"%s\" under objective \"%s\": %s",
                               trial->method->name, trial->objective->name, biased.message);
    // A spec may name inputs for other objectives; they are ignored if this one reads none.
    bool tokens_alone = trial->data.kind != DATA_RANDOM && trial->data.kind != DATA_BATCH;
    unsigned reads = objective_terms(trial->objective, trial->objective_options).required;
    if (tokens_alone && reads & (BATCH_WEIGHTS | BATCH_ADVANTAGES | BATCH_DESIRABLE) && !trial->planned)
        return json_field_fail(
            objective, status,
            "\"%s\" needs %s: give \"data\" as {\"batch\": PATH} (--batch FILE), a file that has them",
            trial->objective->name,
            reads & BATCH_WEIGHTS     ? "a weight for every row"
            : reads & BATCH_DESIRABLE ? "a label of every sequence, desirable or not"
                                      : "an advantage for every sequence");
    return true;
}

// Checks prompts, and groups that share them.
static bool check_prompt(const struct trial *trial, const struct trial_fields *fields, struct status *status)
{
    struct json_field prompt = trial_field(fields, "prompt");
    struct json_field group = trial_field(fields, "group");
    bool file = trial->data.kind == DATA_BATCH;
    if (trial->prompt && (file || trial->labels))
        return json_field_fail(prompt, status, "the labels of %s mark where prompts end; leave this out",
                               file ? trial->data.path : trial->labels);
    if (trial->prompt >= trial->context)
        return json_field_fail(prompt, status, "leaves none of %zu tokens to predict; give fewer", trial->context);
    if (trial->group <= 1)
        return true;
    if (trial->batch % trial->group)
        return json_field_fail(group, status,
                               "a batch of %zu sequences is no multiple of group %zu; use a multiple, such as %zu",
                               trial->batch, trial->group, (trial->batch / trial->group + 1) * trial->group);
    if (!file && !trial->prompt)
        return json_field_fail(group, status, "requires a shared prompt; give its number of tokens, \"prompt\"");
    if (trial->packing.count || trial->packing.mean)
        return json_field_fail(
            group, status,
            "cannot be combined with \"documents\", which cut the shared prompt; leave one of the two out");
    if (config_chunk(&trial->config) > 0)
        return json_field_fail(group, status,
                               "cannot be combined with chunked attention, whose chunks begin with each sequence; "
                               "leave it out");
    return true;
}

// Checks the optimizer with other keys. A combination that is only impossible for the trial's method makes the
// trial unsupported.
static bool check_optimizer(struct trial *trial, const struct trial_fields *fields, struct status *status)
{
    const struct optimizer *optimizer = trial->optimizer;
    struct json_field field = trial_field(fields, "optimizer");
    if (optimizer->lora == LORA_NEVER && trial->lora.rank)
        return json_field_fail(field, status,
                               "\"%s\" updates weights, which \"lora\" freezes; leave one of the two out",
                               optimizer->name);
    if (optimizer->lora == LORA_BESIDE && !trial->lora.rank)
        return json_field_fail(field, status, "\"%s\" trains LoRA factors beside the weights; give \"lora\"",
                               optimizer->name);
    if (optimizer->lora == LORA_BESIDE && trial->quantisation)
        return json_field_fail(
            trial_field(fields, "weights"), status,
            "quantised weights cannot train, but optimizer \"%s\" updates them; leave one of the two out",
            optimizer->name);
    if ((optimizer->active_layer || optimizer->lora == LORA_BESIDE) &&
        (trial->lora.table || trial->lora.saved || trial->lora.targets & (LORA_EMBEDDING | LORA_HEAD)))
        return json_field_fail(field, status,
                               "\"%s\" trains one block at a time and needs equal LoRA factors in all layers and "
                               "no modules_to_save; leave one of the two out",
                               optimizer->name);
    if (optimizer->active_layer && trial->parallel.stage > 1)
        return json_field_fail(
            field, status,
            "\"%s\" trains one block at a time, and the other stages would wait; leave \"stage\" out",
            optimizer->name);
    if (optimizer->role && trial_ranks(trial) > 1)
        return json_field_fail(
            field, status,
            "\"%s\" treats layers differently and does not run on several ranks; leave \"parallel\" out",
            optimizer->name);
    if (trial->method->no_gradient && !trial->unsupported)
        trial->unsupported = text_new("method \"%s\" computes no gradient for optimizer \"%s\"; leave the "
                                      "optimizer out, or use another method",
                                      trial->method->name, optimizer->name);
    if (!optimizer_updates_in_backward(optimizer, trial->optimizer_options))
        return true;
    struct json_field when = trial_field(fields, "optimizer.when");
    if (trial_place(trial, OFFLOAD_GRADIENTS) == PLACE_HOST)
        return json_field_fail(
            when, status, "\"backward\" frees gradients within the backward pass; leave gradients out of offload");
    if (!trial->method->by_layer && !trial->lora.rank && !trial->unsupported)
        trial->unsupported =
            text_new("method \"%s\" completes all gradients at its last chunk, so \"backward\" saves nothing; give "
                     "the optimizer \"when\": \"end\", or use full, checkpoint or streambp",
                     trial->method->name);
    return true;
}

// Checks that nodes are of equal size and that there are several.
static bool check_node(const struct trial *trial, const struct trial_fields *fields, struct status *status)
{
    const struct parallel *parallel = &trial->parallel;
    struct json_field node = trial_field(fields, "parallel.node");
    size_t replicas = parallel->data * parallel->sequence;
    if (parallel->node <= 1)
        return true;
    if (replicas % parallel->node || replicas == parallel->node)
        return json_field_fail(
            node, status,
            "%zu ranks per node do not divide the %zu ranks of data and sequence into two or more nodes",
            parallel->node, replicas);
    if (parallel->sum == SUM_ENGINE)
        return json_field_fail(node, status,
                               "requires sums by the devices, but \"sum\" is engine; leave one of the two out");
    if (parallel->overlap)
        return json_field_fail(node, status, "cannot be combined with \"overlap\"; leave one of the two out");
    return true;
}

// Checks that ranks can divide the experts.
static bool check_expert_ranks(const struct trial *trial, const struct trial_fields *fields, struct status *status)
{
    const struct parallel *parallel = &trial->parallel;
    struct json_field field = trial_field(fields, "parallel.experts");
    size_t experts = trial->config.experts.routing.experts;
    if (parallel->experts <= 1)
        return true;
    if (experts == 0)
        return json_field_fail(field, status, "requires a mixture of experts; leave it out");
    if (experts % parallel->experts)
        return json_field_fail(field, status, "%zu ranks do not divide the model's %zu experts; give a divisor",
                               parallel->experts, experts);
    if (parallel->data % parallel->experts)
        return json_field_fail(field, status, "%zu ranks do not divide \"data\", %zu; give a divisor",
                               parallel->experts, parallel->data);
    return parallel->node <= 1 ||
           json_field_fail(field, status, "cannot be combined with \"node\"; leave one of the two out");
}

static bool check_latent(const struct trial *trial, const struct trial_fields *fields, struct status *status)
{
    bool latent = false;
    for (size_t l = 0; l < trial->config.layers; l++)
        latent |= config_kind(&trial->config, l)->mixer == MIXER_LATENT;
    if (!latent && trial->latent_block != LATENT_BLOCK)
        return json_field_fail(trial_field(fields, "latent_block"), status,
                               "applies to latent attention, which no layer of the model has; leave this out");
    return !latent || !trial->kv_gradient_stochastic ||
           json_field_fail(trial_field(fields, "kv_gradient_dtype"), status,
                           "latent attention sums its gradients in products, which round to nearest; give "
                           "\"bf16\" or \"f32\"");
}

// Checks the losses of routers, and what is measured of them.
static bool check_router(const struct trial *trial, const struct trial_fields *fields, struct status *status)
{
    const struct router_losses *losses = &trial->router_losses;
    const struct experts *experts = &trial->config.experts;
    struct status why = {0};
    bool any = router_losses_any(losses);
    static const char *const keys[] = {"router_aux_loss", "router_z_loss", "router_bias_update"};
    const double values[] = {losses->aux, losses->z, losses->bias_update};
    for (size_t i = 0; i < 3; i++) {
        if (values[i] > 0 && experts->routing.experts == 0)
            return json_field_fail(trial_field(fields, keys[i]), status,
                                   "requires layers with experts, which the model has not; leave it out");
    }
    if (trial->measure.routing && experts->routing.experts == 0)
        return json_field_fail(trial_field(fields, "measure.routing"), status,
                               "requires layers with experts, which the model has not; leave it out");
    if (losses->aux == 0 && (losses->form || losses->counts))
        return json_field_fail(trial_field(fields, losses->form ? "router_aux_form" : "router_aux_counts"), status,
                               "requires \"router_aux_loss\" above 0; give it, or leave this out");
    if (losses->counts == ROUTER_COUNTS_CELL && losses->form == ROUTER_LOSS_GLOBAL)
        return json_field_fail(
            trial_field(fields, "router_aux_counts"), status,
            "\"cell\" counts a layer's tokens; give \"router_aux_form\" \"layer\" or \"sequence\"");
    if (losses->aux > 0 && losses->form == ROUTER_LOSS_GLOBAL && trial->parallel.stage > 1)
        return json_field_fail(
            trial_field(fields, "router_aux_form"), status,
            "\"global\" counts all layers, of which a rank of \"stage\" has some; give \"layer\" or "
            "\"sequence\"");
    if (losses->aux > 0 && losses->form == ROUTER_LOSS_SEQUENCE && trial->group > 1)
        return json_field_fail(
            trial_field(fields, "router_aux_form"), status,
            "\"sequence\" counts sequences apart, which share a prompt by \"group\"; give \"global\" or "
            "\"layer\"");
    if (any && trial->method->check_sums && !trial->method->check_sums(trial->options, &why))
        return json_field_fail(fields->method.given.entry, status,
                               "losses of routers count all tokens, and those of %s; "
                               "use %s, or set router_aux_loss and router_z_loss to 0",
                               option_find(&trial->method->options, "loss")
                                   ? "the sampled chunks would be biased"
                                   : "later chunks are not known when others run backward",
                               option_find(&trial->method->options, "loss") ? "loss \"all\"" : "seco");
    if (losses->bias_update > 0 && (!experts->correction_bias || !trial->optimizer || trial->lora.rank))
        return json_field_fail(
            trial_field(fields, "router_bias_update"), status, "%s",
            !experts->correction_bias ? "requires correction biases, which the model's routers have not; "
                                        "leave it out"
            : trial->lora.rank        ? "moves weights, and an adapter's folder has none of them; leave "
                                        "it or \"lora\" out"
                                      : "moves biases after an update; give \"optimizer\", or leave it out");
    return true;
}

static bool check_together(struct trial *trial, const struct trial_fields *fields, struct status *status)
{
    if (trial->train.steps && !check_train(trial, fields, status))
        return false;
    if (trial_place(trial, OFFLOAD_OPTIMIZER) == PLACE_HOST && !trial->optimizer)
        return json_field_fail(json_field_get(fields->method.given.entry, "offload"), status,
                               "\"optimizer\" requires one; give \"optimizer\", or leave it out");
    if (trial->parallel.zero && trial->parallel.data * trial->parallel.sequence == 1)
        return json_field_fail(
            trial_field(fields, "parallel.zero"), status,
            "requires several ranks of \"data\" or \"sequence\"; give one of the two, or leave it out");
    if (trial_ranks(trial) > TRIAL_RANKS_MAX)
        return json_field_fail(trial_field(fields, "parallel"), status, "are %zu ranks; at most %d can be",
                               trial_ranks(trial), TRIAL_RANKS_MAX);
    if (trial->kv_gradient_stochastic && trial->parallel.sequence > 1)
        return json_field_fail(
            trial_field(fields, "kv_gradient_dtype"), status,
            "\"" BF16_STOCHASTIC
            "\" needs \"sequence\" 1: the sum over ranks rounds to nearest; give \"bf16\" or \"f32\"");
    if (!check_latent(trial, fields, status) || !check_router(trial, fields, status))
        return false;
    struct status why = {0};
    if (trial->interconnect && !interconnect_reach(trial->interconnect, trial_ranks(trial), &why))
        return json_field_fail(trial_field(fields, "interconnect"), status, "%s", why.message);
    if (trial->parallel.exchange && trial->parallel.sequence == 1)
        return json_field_fail(trial_field(fields, "parallel.exchange"), status,
                               "requires several ranks of \"sequence\"; give \"sequence\", or leave it out");
    if (trial->parallel.sum && trial->parallel.data * trial->parallel.sequence == 1)
        return json_field_fail(
            trial_field(fields, "parallel.sum"), status,
            "requires several ranks of \"data\" or \"sequence\"; give one of the two, or leave it out");
    if (trial->parallel.overlap && trial->parallel.data * trial->parallel.sequence == 1)
        return json_field_fail(
            trial_field(fields, "parallel.overlap"), status,
            "requires several ranks of \"data\" or \"sequence\"; give one of the two, or leave it out");
    if (!check_node(trial, fields, status) || !check_expert_ranks(trial, fields, status))
        return false;
    if (trial->optimizer && !check_optimizer(trial, fields, status))
        return false;
    if (trial->gemm_algorithms && !trial_is_of_card(trial))
        return json_field_fail(trial_field(fields, "gemm_algorithms"), status,
                               "apply to cuBLASLt, but \"device\" is \"%s\"; leave this out", trial->device);
    if (trial->labels && trial->data.kind == DATA_BATCH)
        return json_field_fail(trial_field(fields, "labels"), status, "%s has its own labels; leave this out",
                               trial->data.path);
    if ((trial->packing.count || trial->packing.mean) && trial->data.kind == DATA_BATCH)
        return json_field_fail(trial_field(fields, "documents"), status,
                               "%s gives its documents in a tensor \"documents\"; leave this out",
                               trial->data.path);
    return check_prompt(trial, fields, status) && check_objective(trial, fields, status);
}

static bool check_framework(struct trial *trial, const struct trial_fields *fields, const json_t *canonical,
                            struct status *status)
{
    struct trial_defaults defaults = {0};
    struct status why = {0};
    const char *key;
    if (!trial->framework)
        return true;
    json_t *own = trial_differences(trial, canonical, &defaults);
    bool fine = framework_trial_check(trial, own, &key, &why) ||
                json_field_fail(trial_field(fields, key), status, "%s", why.message);
    json_decref(own);
    trial_defaults_free(&defaults);
    return fine;
}

// The source of a key's value; for an absent key that a batch file determines, errors are reported at the file's
// key.
static struct json_field source_of(const struct trial_key *key, const struct trial *trial,
                                   const struct trial_fields *fields)
{
    struct json_field field = fields->keys[key - trial_keys];
    if (field.value || !key->told || trial->data.kind != DATA_BATCH)
        return field;
    field = trial_field(fields, "data.batch");
    field.value = NULL;
    return field;
}

// Decodes all keys, with defaults; returns a new reference, or NULL and a status.
static json_t *decode_keys(struct trial *trial, const struct trial_fields *fields, struct status *status)
{
    *trial = (struct trial){.suited = fields->suited};
    json_t *canonical = json_object();
    bool ok = true;
    for (size_t i = 0; ok && i < trial_key_count(); i++) {
        const struct trial_key *key = &trial_keys[i];
        json_t *value = key->type == KEY_METHOD
                            ? decode_method(trial, fields, status)
                            : trial_key_decode(key, trial, source_of(key, trial, fields), status);
        ok = value != NULL;
        if (ok)
            json_object_set_new(canonical, key->name, value);
    }
    trial->config.padded &= !trial->pad_gradient;
    if (ok && check_framework(trial, fields, canonical, status) && check_together(trial, fields, status))
        return canonical;
    json_decref(canonical);
    return NULL;
}

bool trial_identify_fields(struct trial *trial, const struct trial_fields *fields, struct trial_defaults *defaults,
                           struct status *status)
{
    json_t *canonical = decode_keys(trial, fields, status);
    if (canonical)
        trial_id_set(trial, canonical, defaults);
    json_decref(canonical);
    return canonical;
}

bool trial_decode_fields(struct trial *trial, const struct trial_fields *fields, struct trial_defaults *defaults,
                         struct status *status)
{
    json_t *canonical = decode_keys(trial, fields, status);
    if (canonical) {
        trial->canonical = json_dumps(canonical, JSON_COMPACT | JSON_SORT_KEYS);
        trial->shares = method_fields_shares(&fields->method);
        trial_id_set(trial, canonical, defaults);
    }
    json_decref(canonical);
    return canonical;
}

static bool decode(struct trial *trial, const char *json, const char *origin, bool suited, struct status *status)
{
    *trial = (struct trial){0};
    struct json_source source;
    struct trial_fields fields = {.suited = suited};
    struct trial_defaults defaults = {0};
    struct names known = {0};
    trial_key_names(&known, trial_keys);
    bool ok = json_source_parse(&source, origin, json, strlen(json), status);
    struct json_field root = json_field_root(&source);
    ok = ok && json_field_object(root, &known, NULL, status);
    for (size_t i = 0; ok && i < trial_key_count(); i++)
        fields.keys[i] = json_field_get(root, trial_keys[i].name);
    ok = ok && method_fields_read(&fields.method, trial_field(&fields, "method"), status) &&
         trial_decode_fields(trial, &fields, &defaults, status);
    trial_defaults_free(&defaults);
    if (ok && trial->unsupported) {
        ok = json_field_fail(trial_unsupported_field(trial, &fields), status, "%s", trial->unsupported);
        status->code = STATUS_UNSUPPORTED;
    }
    json_source_close(&source);
    return ok;
}

bool trial_decode(struct trial *trial, const char *json, const char *origin, struct status *status)
{
    return decode(trial, json, origin, false, status);
}

bool trial_decode_asked(struct trial *trial, const char *json, const char *origin, struct status *status)
{
    return decode(trial, json, origin, true, status);
}
