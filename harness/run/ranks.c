#include "harness/run/ranks.h"
#include "harness/run/choice.h"
#include <string.h>

bool ranks_possible(const struct trial *trial, struct status *status)
{
    size_t stages = trial->parallel.stage;
    if (stages == 1)
        return true;
    if (choice_is_open(trial))
        return choice_possible(trial, status);
    if (!trial->method->pipeline)
        return status_set(
            status, STATUS_UNSUPPORTED,
            "%s takes no stage ranks: it ends a row before it begins the one below, and a pipeline would "
            "wait for all rows of the ranks above; seco and spaco walk columns",
            trial->method->name);
    const struct option *rows = option_find(&trial->method->options, "stage_rows");
    const struct index_list *list = rows ? (const void *)((const char *)trial->options + rows->offset) : NULL;
    if (options_count(&trial->method->options, trial->options, "stages", 1) > 1 || (list && list->count))
        return status_set(
            status, STATUS_UNSUPPORTED,
            "stages of %s run their layers stage by stage, stage ranks column by column: give one of the "
            "two",
            trial->method->name);
    if (stages > trial->config.layers)
        return status_set(status, STATUS_UNSUPPORTED, "the model's %zu layers are too few for %zu stage ranks",
                          trial->config.layers, stages);
    if (trial->config.tied && trial->gradients_place == PLACE_HOST && !trial->lora.rank)
        return status_set(
            status, STATUS_UNSUPPORTED,
            "the gradient of a tied table is a sum of both ends of the pipeline and must be on their devices "
            "for it: place.gradients is host");
    if (!trial->planned && strcmp(trial->device, "cpu") != 0)
        return status_set(status, STATUS_UNSUPPORTED,
                          "device %s has no transport between ranks yet: ranks are the CPU's, or planned",
                          trial->device);
    return true;
}

struct rank_figures rank_figures_of(const struct trial_result *result, double loss)
{
    struct rank_figures figures = {.peak_bytes = result->peak_bytes,
                                   .resident_bytes = result->resident_bytes,
                                   .host_peak_bytes = result->host_peak_bytes,
                                   .floor_bytes_per_token = result->floor_bytes_per_token,
                                   .loss = loss,
                                   .counters = result->counters};
    memcpy(figures.peak_by_category, result->peak_by_category, sizeof figures.peak_by_category);
    memcpy(figures.host_peak_by_category, result->host_peak_by_category, sizeof figures.host_peak_by_category);
    return figures;
}

void ranks_gather(const struct world *world, struct rank_figures *all, const struct rank_figures *own,
                  double *samples_ms, size_t sample_count)
{
    size_t count = world->comm.size;
    double *all_ms = calloc(count * sample_count + 1, sizeof *all_ms);
    CHECK(all_ms);
    world->ops->gather(world, all, own, sizeof *own);
    world->ops->gather(world, all_ms, samples_ms, sample_count * sizeof *all_ms);
    for (size_t i = 0; world->comm.rank == 0 && i < count * sample_count; i++) {
        double *slowest = &samples_ms[i % sample_count];
        *slowest = all_ms[i] > *slowest ? all_ms[i] : *slowest;
    }
    free(all_ms);
}

double ranks_loss(const struct rank_figures *ranks, size_t count)
{
    double loss = 0;
    for (size_t r = 0; r < count; r++)
        loss += ranks[r].loss;
    return loss;
}

static void add_counters(struct counters *sum, const struct counters *counters)
{
    sum->flops += counters->flops;
    sum->bytes_moved += counters->bytes_moved;
    sum->glue_bytes += counters->glue_bytes;
    sum->launches += counters->launches;
    sum->sent_bytes += counters->sent_bytes;
    sum->received_bytes += counters->received_bytes;
    sum->messages += counters->messages;
    for (int queue = 0; queue < QUEUE_COUNT; queue++)
        sum->link_bytes[queue] += counters->link_bytes[queue];
}

void ranks_merge(struct trial_result *result, const struct rank_figures *ranks, size_t count)
{
    const struct rank_figures *largest = ranks, *host = ranks;
    result->counters = (struct counters){0};
    for (const struct rank_figures *rank = ranks; rank < ranks + count; rank++) {
        add_counters(&result->counters, &rank->counters);
        if (rank->peak_bytes > largest->peak_bytes)
            largest = rank;
        if (rank->host_peak_bytes > host->host_peak_bytes)
            host = rank;
    }
    result->peak_bytes = largest->peak_bytes;
    result->resident_bytes = largest->resident_bytes;
    result->floor_bytes_per_token = largest->floor_bytes_per_token;
    memcpy(result->peak_by_category, largest->peak_by_category, sizeof result->peak_by_category);
    result->host_peak_bytes = host->host_peak_bytes;
    memcpy(result->host_peak_by_category, host->host_peak_by_category, sizeof result->host_peak_by_category);
    result->ranks = ranks;
    result->rank_count = count;
}

// The rank whose gradient of the parameter is taken: the lowest that has it.
static size_t owner_of(const struct model *model, const struct parameter *parameter, size_t context,
                       const struct world *world)
{
    struct model other = *model;
    struct comm comm = world->comm;
    for (comm.rank = 0; comm.rank < comm.size; comm.rank++) {
        other.ranks = ranks_in_pipeline(&comm, &model->config, context);
        if (model_has(&other, parameter))
            return comm.rank;
    }
    CHECK(!"a parameter of nobody");
}

static bool trains(const struct model *model, const struct parameter *parameter)
{
    return !model->lora.rank || strstr(parameter->name, "lora_");
}

void ranks_gradients(struct gradient_set *set, const struct model *model, size_t context, const struct world *world)
{
    struct gradient_set own = {0};
    size_t rank = world->comm.rank, next = 0;
    gradient_set_take(&own, model);
    if (world->comm.size == 1) {
        *set = own;
        return;
    }
    *set = (struct gradient_set){.tensors = calloc(model->parameter_count + 1, sizeof *set->tensors)};
    CHECK(set->tensors);
    for (size_t i = 0; i < model->parameter_count; i++) {
        const struct parameter *parameter = &model->parameters[i];
        if (!trains(model, parameter))
            continue;
        size_t owner = owner_of(model, parameter, context, world);
        struct gradient_tensor *mine = model_has(model, parameter) ? &own.tensors[next++] : NULL;
        CHECK(owner != rank || mine);
        if (owner == rank && rank > 0) {
            world->ops->send(world, 0, &mine->hash, sizeof mine->hash);
            world->ops->send(world, 0, mine->values, mine->size * sizeof *mine->values);
        }
        if (rank > 0)
            continue;
        struct gradient_tensor *tensor = &set->tensors[set->count++];
        memcpy(tensor->name, parameter->name, sizeof tensor->name);
        tensor->size = parameter->value.rows * parameter->value.cols;
        tensor->values = malloc((tensor->size + 1) * sizeof *tensor->values);
        CHECK(tensor->values);
        if (mine && owner == 0) {
            tensor->hash = mine->hash;
            memcpy(tensor->values, mine->values, tensor->size * sizeof *tensor->values);
        } else {
            world->ops->receive(world, owner, &tensor->hash, sizeof tensor->hash);
            world->ops->receive(world, owner, tensor->values, tensor->size * sizeof *tensor->values);
        }
    }
    gradient_set_hash(set);
    gradient_set_free(&own);
}
