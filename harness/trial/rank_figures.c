#include "harness/trial/trial_record.h"
#include <string.h>

void rank_figures_gather(const struct world *world, struct rank_figures *all, const struct rank_figures *own,
                         double *samples_ms, size_t sample_count)
{
    size_t count = world->comm.size;
    double *all_ms = calloc(count * sample_count + 1, sizeof *all_ms);
    world->ops->gather(world, all, own, sizeof *own);
    world->ops->gather(world, all_ms, samples_ms, sample_count * sizeof *all_ms);
    for (size_t i = 0; world->comm.rank == 0 && i < count * sample_count; i++) {
        double *slowest = &samples_ms[i % sample_count];
        *slowest = all_ms[i] > *slowest ? all_ms[i] : *slowest;
    }
    free(all_ms);
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

struct rank_figures rank_figures_merge(const struct rank_figures *ranks, size_t count)
{
    const struct rank_figures *largest = ranks, *host = ranks;
    struct counters counters = {0};
    double loss = 0, aux_loss = 0, router_z_loss = 0;
    for (const struct rank_figures *rank = ranks; rank < ranks + count; rank++) {
        add_counters(&counters, &rank->counters);
        loss += rank->loss;
        aux_loss += rank->aux_loss;
        router_z_loss += rank->router_z_loss;
        if (rank->peak_bytes > largest->peak_bytes)
            largest = rank;
        if (rank->host_peak_bytes > host->host_peak_bytes)
            host = rank;
    }
    struct rank_figures merged = *largest;
    merged.loss = loss;
    merged.aux_loss = aux_loss;
    merged.router_z_loss = router_z_loss;
    merged.counters = counters;
    merged.host_peak_bytes = host->host_peak_bytes;
    memcpy(merged.host_peak_by_category, host->host_peak_by_category, sizeof merged.host_peak_by_category);
    return merged;
}
