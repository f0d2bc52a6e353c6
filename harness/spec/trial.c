#include "harness/spec/trial.h"
#include "harness/profile/interconnect.h"
#include "harness/spec/device_kind.h"
#include "harness/spec/method_decode.h"
#include "kernels/objectives/objective.h"
#include <string.h>

bool trial_plans_on(const char *device)
{
    return !strncmp(device, "plan", 4);
}

bool trial_is_exact(const struct trial *trial)
{
    return trial->method->exact && trial->router_losses.counts == ROUTER_COUNTS_STEP;
}

bool trial_has_metric(const struct trial *trial, enum objective_metric metric, bool of_evaluation)
{
    if (metric == METRIC_AUX_LOSS || metric == METRIC_ROUTER_Z_LOSS)
        return !of_evaluation &&
               (metric == METRIC_AUX_LOSS ? trial->router_losses.aux : trial->router_losses.z) > 0;
    return objective_has_metric(trial->objective, trial->objective_options, metric);
}

bool trial_is_of_card(const struct trial *trial)
{
    return device_is_of_card(trial->device);
}

size_t trial_row_tokens(const struct trial *trial)
{
    size_t T = trial->context, prompt = trial->prompt < T ? trial->prompt : T - 1;
    if (trial->row_tokens)
        return trial->row_tokens;
    if (trial->group <= 1)
        return T;
    // Each sequence has its own last token of the prompt, and no target follows its last token.
    return prompt ? prompt - 1 + trial->group * (T - prompt) : trial->group * T;
}

size_t trial_ranks(const struct trial *trial)
{
    return trial->parallel.data * trial->parallel.sequence * trial->parallel.stage;
}

bool trial_times_ranks(const struct trial *trial)
{
    return trial->parallel.exchange != EXCHANGE_RING || trial->parallel.sequence <= RING_RANKS_TIMED;
}

const struct interconnect *trial_interconnect(const struct trial *trial)
{
    const struct interconnect *interconnect = trial->interconnect ? trial->interconnect
                                              : trial->profile    ? &trial->profile->interconnect
                                                                  : NULL;
    struct status why = {0};
    if (!trial_times_ranks(trial))
        return NULL;
    return interconnect && interconnect->count && interconnect_reach(interconnect, trial_ranks(trial), &why)
               ? interconnect
               : NULL;
}

struct split trial_split(const struct trial *trial)
{
    const struct parallel *parallel = &trial->parallel;
    return (struct split){parallel->data,
                          parallel->sequence,
                          parallel->stage,
                          (enum zero)parallel->zero,
                          (enum exchange)parallel->exchange,
                          (enum sum)parallel->sum,
                          parallel->overlap,
                          parallel->node,
                          parallel->experts};
}

size_t trial_window(const struct trial *trial)
{
    return trial->train.window ? trial->train.window : trial->context;
}

size_t trial_draw(const struct trial *trial, size_t index)
{
    return trial->train.steps ? index + ((trial->seed - 1) << 32) : index;
}

size_t trial_together(const struct trial *trial)
{
    size_t group = trial->group > 1 ? trial->group : 1;
    size_t compared = objective_together(trial->objective, trial->objective_options), common = compared;
    for (size_t rest = group; rest;) { // Euclid's algorithm, for the least common multiple
        size_t next = common % rest;
        common = rest;
        rest = next;
    }
    return group / common * compared;
}

struct row_range trial_share(const struct trial *trial, size_t sequences, size_t replica)
{
    size_t together = trial_together(trial);
    struct row_range groups = comm_share(sequences / together, trial->parallel.data, replica);
    return (struct row_range){groups.start * together, groups.count * together};
}

struct row_range trial_sequences(const struct trial *trial, size_t replica)
{
    return trial_share(trial, trial->batch, replica);
}

void trial_free(struct trial *trial)
{
    free(trial->canonical);
    free(trial->shares);
    free(trial->profile);
    free(trial->interconnect);
    free(trial->model_folder);
    free(trial->adapter_folder);
    lora_free(&trial->lora);
    free(trial->data.path);
    free(trial->labels);
    free(trial->train.evaluate.path);
    free(trial->packing.lengths);
    free(trial->reference.folder);
    free(trial->host_folder);
    free(trial->gemm_algorithms);
    free(trial->framework);
    free(trial->unsupported);
    if (trial->options)
        options_free(&trial->method->options, trial->options);
    if (trial->objective_options)
        options_free(&trial->objective->options, trial->objective_options);
    if (trial->optimizer_options)
        options_free(&trial->optimizer->options, trial->optimizer_options);
    *trial = (struct trial){0};
}

enum place trial_place(const struct trial *trial, enum offload_target target)
{
    bool host = trial->options && options_words(&trial->method->options, trial->options, "offload") & target;
    return host ? PLACE_HOST : PLACE_DEVICE;
}

bool trial_offload(struct trial *trial, unsigned targets)
{
    const struct option *option = option_find(&trial->method->options, "offload");
    if (option)
        *(unsigned *)((char *)trial->options + option->offset) = targets;
    return option || !targets;
}

json_t *trial_chosen(const struct trial *trial)
{
    return trial->chosen ? method_json(trial->method, trial->options) : NULL;
}
