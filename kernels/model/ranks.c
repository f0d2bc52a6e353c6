#include "kernels/model/ranks.h"

struct ranks ranks_alone(const struct config *config)
{
    return (struct ranks){.pipeline = comm_self,
                          .end_layer = config->layers,
                          .replicas = comm_self,
                          .sequence = comm_self,
                          .experts = comm_self,
                          .copies = comm_self};
}

// Forward FLOPs of a token in a layer, half the context attended to, and in the head.
static double layer_work(const struct config *c, size_t layer, size_t context)
{
    const struct layer_kind *k = config_kind(c, layer);
    double q = (double)k->heads * k->head_dim, kv = (double)k->kv_heads * k->head_dim;
    return 2 * (2 * q + 2 * kv + 3.0 * config_active_width(c, layer)) * c->width + 2 * (double)context * q;
}
static double mean_layer_work(const struct config *c, size_t context)
{
    double first = layer_work(c, 0, context), more = 0; // than the first: one of a uniform model exactly
    for (size_t l = 1; l < c->layers; l++)
        more += layer_work(c, l, context) - first;
    return first + more / (double)c->layers;
}
static double head_work(const struct config *c)
{
    return 2.0 * (double)c->vocab * c->width;
}

// Layers of the highest stage: with them the longest stage is shortest; of several such numbers the largest.
static size_t highest_layers(size_t stages, const struct config *c, size_t context)
{
    double layer = mean_layer_work(c, context), head = head_work(c), shortest = 0;
    size_t best = 0;
    for (size_t own = 1; own + (stages - 1) <= c->layers; own++) {
        size_t max = (c->layers - own + stages - 2) / (stages - 1);
        double highest = (double)own * layer + head, others = (double)max * layer;
        double longest = highest > others ? highest : others;
        if (best == 0 || longest <= shortest) {
            shortest = longest;
            best = own;
        }
    }
    return best;
}

// The stage of a rank of the pipeline.
static void cut_layers(struct ranks *ranks, const struct config *config, size_t context)
{
    size_t stages = ranks->pipeline.size;
    CHECK(stages > 0 && stages <= config->layers);
    if (stages == 1)
        return;
    size_t below = config->layers - highest_layers(stages, config, context);
    ranks->first_layer = below * ranks->pipeline.rank / (stages - 1);
    if (!ranks_highest(ranks))
        ranks->end_layer = below * (ranks->pipeline.rank + 1) / (stages - 1);
}

struct ranks ranks_of(const struct comm *all, struct split split, const struct config *config, size_t context)
{
    size_t replicas = split.data * split.sequence, replica = all->rank % replicas;
    size_t experts = split.experts ? split.experts : 1, within = replica % experts;
    CHECK(all->size == replicas * split.stages && replicas % experts == 0);
    struct ranks ranks = {.pipeline = comm_part(all, replica, replicas, split.stages),
                          .end_layer = config->layers,
                          .replicas = comm_part(all, all->rank - replica, 1, replicas),
                          .sequence =
                              comm_part(all, all->rank / split.sequence * split.sequence, 1, split.sequence),
                          .experts = comm_part(all, all->rank - within, 1, experts),
                          .copies = comm_part(all, all->rank - replica + within, experts, replicas / experts),
                          .exchange = split.exchange,
                          .zero = split.zero,
                          .sum = split.sum,
                          .overlap = split.overlap};
    ranks.replicas.node = split.node < replicas ? split.node : 0; // one node has all
    cut_layers(&ranks, config, context);
    return ranks;
}
