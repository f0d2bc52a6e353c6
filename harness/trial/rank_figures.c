#include "harness/trial/rank_figures.h"
#include <math.h>
#include <string.h>

struct rank_figures rank_figures_of(const struct trial_result *result, double loss)
{
    struct rank_figures figures = {.peak_bytes = result->peak_bytes,
                                   .resident_bytes = result->resident_bytes,
                                   .host_peak_bytes = result->host_peak_bytes,
                                   .floor_bytes_per_token = result->floor_bytes_per_token,
                                   .tokens = result->tokens,
                                   .loss = loss,
                                   .idle_share = NAN,
                                   .counters = result->counters};
    memcpy(figures.peak_by_category, result->peak_by_category, sizeof figures.peak_by_category);
    memcpy(figures.host_peak_by_category, result->host_peak_by_category, sizeof figures.host_peak_by_category);
    return figures;
}

void rank_figures_gather(const struct world *world, struct rank_figures *all, const struct rank_figures *own,
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

double rank_figures_loss(const struct rank_figures *ranks, size_t count)
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

void rank_figures_merge(struct trial_result *result, const struct rank_figures *ranks, size_t count)
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
    result->tokens = largest->tokens;
    memcpy(result->peak_by_category, largest->peak_by_category, sizeof result->peak_by_category);
    result->host_peak_bytes = host->host_peak_bytes;
    memcpy(result->host_peak_by_category, host->host_peak_by_category, sizeof result->host_peak_by_category);
    result->ranks = ranks;
    result->rank_count = count;
}
