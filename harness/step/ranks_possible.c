#include "harness/step/ranks_possible.h"
#include <string.h>

static bool stages_fit(const struct trial *trial, struct status *status)
{
    const struct method *method = trial->method;
    bool at_once = !method->by_layer && !method->no_gradient;
    if (!(method->parallel & PARALLEL_STAGE) && at_once)
        return status_set(status, STATUS_UNSUPPORTED,
                          "%s takes no stage ranks: its chunks run forward and backward one after another, so that "
                          "the other stages would wait for each; use seco or spaco",
                          method->name);
    if (!(method->parallel & PARALLEL_STAGE))
        return status_set(status, STATUS_UNSUPPORTED,
                          "%s takes no stage ranks: its backward pass completes a layer before it begins the one "
                          "below, so stages would run one after another; use seco or spaco",
                          method->name);
    const struct option *rows = option_find(&method->options, "segment_starts");
    const struct index_list *list = rows ? (const void *)((const char *)trial->options + rows->offset) : NULL;
    if (options_count(&method->options, trial->options, "segments", 1) > 1 || (list && list->count))
        return status_set(status, STATUS_UNSUPPORTED,
                          "segments of %s cannot be combined with stage ranks; leave one of the two out",
                          method->name);
    if (options_count(&method->options, trial->options, "first_chunk", 0))
        return status_set(
            status, STATUS_UNSUPPORTED,
            "stage ranks pass the chunks of both passes on alike: leave first_chunk or parallel.stage out");
    if (trial->parallel.stage > trial->config.layers)
        return status_set(status, STATUS_UNSUPPORTED, "the model's %zu layers are too few for %zu stage ranks",
                          trial->config.layers, trial->parallel.stage);
    if (trial->config.tied && trial_place(trial, OFFLOAD_GRADIENTS) == PLACE_HOST && !trial->lora.rank)
        return status_set(
            status, STATUS_UNSUPPORTED,
            "the first and the last stage add their gradients of the tied embedding on the devices; leave "
            "gradients out of offload");
    return true;
}

static bool sequence_fits(const struct trial *trial, struct status *status)
{
    const struct method *method = trial->method;
    const struct config *c = &trial->config;
    const struct parallel *parallel = &trial->parallel;
    bool all_to_all = parallel->exchange == EXCHANGE_ALL_TO_ALL, sends = false;
    bool by_chunk = option_find(&method->options, "chunk") && trial_place(trial, ~OFFLOAD_TRAINER);
    for (size_t l = 0; l < c->layers; l++) {
        const struct mixer *mixer = config_mixer(c, l);
        if (!mixer->shares)
            return status_set(status, STATUS_UNSUPPORTED,
                              "layer %zu, %s, takes no sequence ranks: leave parallel.sequence out", l,
                              mixer->kind.name);
        if (!mixer->shares(c, l, parallel->exchange, parallel->sequence, status))
            return false;
        sends |= mixer->sends(parallel->exchange);
    }
    if (sends && method->parallel & PARALLEL_SEQUENCE && by_chunk)
        return status_set(status, STATUS_UNSUPPORTED,
                          "with offload %s loads layers from the host chunk by chunk, and %s for each chunk; leave "
                          "%soffload out, or use checkpoint",
                          method->name,
                          all_to_all                              ? "ranks would exchange heads"
                          : parallel->exchange == EXCHANGE_GATHER ? "states would pass through all ranks"
                                                                  : "keys and values would pass through all ranks",
                          parallel->exchange == EXCHANGE_GATHER ? "" : "parallel.exchange or ");
    if (parallel->exchange == EXCHANGE_RING && trial->group > 1)
        return status_set(status, STATUS_UNSUPPORTED,
                          "ring exchange does not support a shared prompt; leave parallel.exchange or group out");
    if (!all_to_all && trial->group > 1 && config_has_states(c))
        return status_set(status, STATUS_UNSUPPORTED,
                          "ranks pass no states behind a shared prompt: use parallel.exchange all-to-all, or leave "
                          "group out");
    return method->parallel & PARALLEL_SEQUENCE ||
           status_set(status, STATUS_UNSUPPORTED,
                      "%s takes no sequence ranks: its chunks would run on one rank after another; use full, "
                      "checkpoint or streambp",
                      trial->method->name);
}

// Checks ranks that share the experts: each has as many tokens in every cell.
static bool experts_fit(const struct trial *trial, struct status *status)
{
    const struct experts *e = &trial->config.experts;
    size_t numbers = e->width * trial->config.width;
    if (trial->parallel.sequence > 1)
        return status_set(status, STATUS_UNSUPPORTED,
                          "ranks that share the experts take whole sequences: leave parallel.experts or "
                          "parallel.sequence out");
    if (trial->group > 1 && trial->data.kind == DATA_BATCH)
        return status_set(
            status, STATUS_UNSUPPORTED,
            "rows of a shared prompt differ in length between ranks, but those that share the experts "
            "take as many tokens each: leave parallel.experts or group out");
    if (trial->quantisation && numbers % QUANTISATION_WHOLE)
        return status_set(status, STATUS_UNSUPPORTED,
                          "an expert's matrices have %zu numbers, no multiple of %d, so ranks cannot cut quantised "
                          "experts between them: leave parallel.experts or quantisation out",
                          numbers, QUANTISATION_WHOLE);
    return true;
}

// Checks data and sequence ranks, which are replicas of the model.
static bool replicas_fit(const struct trial *trial, struct status *status)
{
    const struct method *method = trial->method;
    if (trial->parallel.data > 1 && !(method->parallel & PARALLEL_DATA))
        return status_set(status, STATUS_UNSUPPORTED, "%s takes no data ranks", method->name);
    if (!method->by_layer && trial->parallel.zero > ZERO_OPTIMIZER)
        return status_set(status, STATUS_UNSUPPORTED,
                          "%s completes all gradients at its last chunk, and would gather weights for every chunk "
                          "of every layer: parallel.zero is at most %d; for more use full, checkpoint or streambp",
                          method->name, ZERO_OPTIMIZER);
    if (trial_place(trial, OFFLOAD_TRAINER) == PLACE_HOST)
        return status_set(status, STATUS_UNSUPPORTED,
                          "ranks of data or sequence keep weights, gradients and state on their devices: leave "
                          "them out of offload, and use a higher parallel.zero");
    if (trial->optimizer && !trial->optimizer->by_element)
        return status_set(status, STATUS_UNSUPPORTED,
                          "%s updates whole matrices, but ranks of data or sequence split them by elements; use "
                          "another optimizer, or stage ranks of seco or spaco",
                          trial->optimizer->name);
    if (trial->parallel.sum == SUM_ENGINE && trial->gradient_dtype == DTYPE_BF16 && !trial_is_of_card(trial))
        return status_set(
            status, STATUS_UNSUPPORTED,
            "MPI, which device %s uses, adds no bf16: leave parallel.sum out, or use gradient_dtype f32",
            trial->device);
    return true;
}

bool ranks_fit(const struct trial *trial, struct status *status)
{
    const struct parallel *parallel = &trial->parallel;
    return (parallel->stage == 1 || stages_fit(trial, status)) &&
           (parallel->sequence == 1 || sequence_fits(trial, status)) &&
           (parallel->data * parallel->sequence == 1 || replicas_fit(trial, status)) &&
           (parallel->experts == 1 || experts_fit(trial, status));
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
    if (trial->parallel.experts > 1 && trial->batch / together % trial->parallel.data)
        return status_set(
            status, STATUS_UNSUPPORTED,
            "ranks that share the experts have as many sequences each, but %zu do not divide by %zu data "
            "ranks: use another batch, or leave parallel.experts out",
            trial->batch / together, trial->parallel.data);
    if (ranks > 1 && strchr(trial->device, ':'))
        return status_set(status, STATUS_UNSUPPORTED,
                          "each rank needs a card of its own, but \"%s\" names one card: leave its number out; "
                          "CUDA_VISIBLE_DEVICES selects cards",
                          trial->device);
    return true;
}
