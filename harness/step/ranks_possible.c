#include "harness/step/ranks_possible.h"
#include "kernels/attention/all_to_all.h"
#include <string.h>

static bool stages_fit(const struct trial *trial, struct status *status)
{
    const struct method *method = trial->method;
    if (!(method->parallel & PARALLEL_STAGE))
        return status_set(
            status, STATUS_UNSUPPORTED,
            "%s takes no stage ranks: it ends a layer before it begins the one below, and a pipeline would "
            "wait for all layers of the ranks above; seco and spaco walk chunks",
            method->name);
    const struct option *rows = option_find(&method->options, "segment_starts");
    const struct index_list *list = rows ? (const void *)((const char *)trial->options + rows->offset) : NULL;
    if (options_count(&method->options, trial->options, "segments", 1) > 1 || (list && list->count))
        return status_set(
            status, STATUS_UNSUPPORTED,
            "segments of %s run their layers segment by segment, stage ranks chunk by chunk: give one of the "
            "two",
            method->name);
    if (trial->parallel.stage > trial->config.layers)
        return status_set(status, STATUS_UNSUPPORTED, "the model's %zu layers are too few for %zu stage ranks",
                          trial->config.layers, trial->parallel.stage);
    if (trial->config.tied && trial->gradients_place == PLACE_HOST && !trial->lora.rank)
        return status_set(
            status, STATUS_UNSUPPORTED,
            "the gradient of a tied table is a sum of both ends of the pipeline and must be on their devices "
            "for it: place.gradients is host");
    return true;
}

static bool sequence_fits(const struct trial *trial, struct status *status)
{
    const struct method *method = trial->method;
    const struct config *c = &trial->config;
    bool all_to_all = trial->parallel.exchange == EXCHANGE_ALL_TO_ALL;
    bool by_chunk =
        option_find(&method->options, "chunk") && options_choice(&method->options, trial->options, "offload", 0);
    for (size_t l = 0; l < c->layers; l++)
        if (!config_mixer(c, l)->sends)
            return status_set(status, STATUS_UNSUPPORTED,
                              "layer %zu, %s, takes no sequence ranks: leave parallel.sequence out", l,
                              config_mixer(c, l)->kind.name);
    if (trial->parallel.exchange != EXCHANGE_GATHER && method->parallel & PARALLEL_SEQUENCE && by_chunk)
        return status_set(
            status, STATUS_UNSUPPORTED,
            "with offload rows of %s come from the host chunk by chunk, and %s for each of them: leave "
            "parallel.exchange or offload out; checkpoint brings whole rows",
            method->name,
            all_to_all ? "queries would go to the ranks of their heads" : "keys and values would go round");
    if (trial->parallel.exchange == EXCHANGE_RING && trial->group > 1)
        return status_set(
            status, STATUS_UNSUPPORTED,
            "a prompt that sequences share is not seen by keys that go round: leave parallel.exchange or "
            "group out");
    if (all_to_all && !heads_divide(c->heads, c->kv_heads, trial->parallel.sequence))
        return status_set(status, STATUS_UNSUPPORTED,
                          "%zu ranks cannot have as many each of %zu heads of queries and %zu of keys: take a "
                          "number that divides the first and divides the second or is a multiple of it, or another "
                          "parallel.exchange",
                          trial->parallel.sequence, c->heads, c->kv_heads);
    return method->parallel & PARALLEL_SEQUENCE ||
           status_set(status, STATUS_UNSUPPORTED,
                      "%s takes no sequence ranks: of each of its chunks one rank would have the tokens and the "
                      "others wait, or all exchange keys and values chunk by chunk; full, checkpoint and streambp "
                      "walk rows",
                      trial->method->name);
}

// Checks data and sequence ranks, which are replicas of the model.
static bool replicas_fit(const struct trial *trial, struct status *status)
{
    const struct method *method = trial->method;
    if (trial->parallel.data > 1 && !(method->parallel & PARALLEL_DATA))
        return status_set(status, STATUS_UNSUPPORTED, "%s takes no data ranks", method->name);
    if (!method->by_layer && trial->parallel.zero > ZERO_OPTIMIZER)
        return status_set(
            status, STATUS_UNSUPPORTED,
            "%s completes no gradient before its last chunk, so that shares of them would save nothing, and "
            "would gather weights for every chunk of every layer: parallel.zero is at most %d; full, "
            "checkpoint and streambp walk rows",
            method->name, ZERO_OPTIMIZER);
    if (trial->weights_place == PLACE_HOST || trial->gradients_place == PLACE_HOST ||
        trial->optimizer_place == PLACE_HOST)
        return status_set(
            status, STATUS_UNSUPPORTED,
            "ranks of data or sequence send each other what is on their devices: leave \"place\" out, and take a "
            "higher parallel.zero");
    if (trial->optimizer && !trial->optimizer->by_element)
        return status_set(
            status, STATUS_UNSUPPORTED,
            "%s moves whole matrices, and ranks of data or sequence sum and share out gradients by elements; take "
            "another optimizer, or stage ranks of seco and spaco",
            trial->optimizer->name);
    if (trial->parallel.sum == SUM_ENGINE && trial->gradient_dtype == DTYPE_BF16 && !trial_is_of_card(trial))
        return status_set(status, STATUS_UNSUPPORTED,
                          "MPI, which carries the bytes of device %s, adds no bf16: leave parallel.sum out, or let "
                          "gradient_dtype be f32",
                          trial->device);
    return true;
}

bool ranks_fit(const struct trial *trial, struct status *status)
{
    const struct parallel *parallel = &trial->parallel;
    return (parallel->stage == 1 || stages_fit(trial, status)) &&
           (parallel->sequence == 1 || sequence_fits(trial, status)) &&
           (parallel->data * parallel->sequence == 1 || replicas_fit(trial, status));
}

bool ranks_possible(const struct trial *trial, struct status *status)
{
    size_t together = trial_together(trial), ranks = trial_ranks(trial);
    if (!ranks_fit(trial, status))
        return false;
    if (trial->parallel.data > trial->batch / together)
        return status_set(status, STATUS_UNSUPPORTED, "the batch's %s are %zu, too few for %zu data ranks",
                          together > 2 || trial->group > 1 ? "groups"
                          : together > 1                   ? "pairs"
                                                           : "sequences",
                          trial->batch / together, trial->parallel.data);
    if (ranks > 1 && strchr(trial->device, ':'))
        return status_set(status, STATUS_UNSUPPORTED,
                          "ranks of one machine have a card each, and \"%s\" is one: leave its number out; "
                          "CUDA_VISIBLE_DEVICES says which cards there are",
                          trial->device);
    return true;
}
