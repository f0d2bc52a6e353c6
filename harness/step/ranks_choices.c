#include "harness/step/ranks_choices.h"
#include <string.h>

// Copies a layer's rows of own tokens to theirs among all.
static void place(int32_t *all, const int32_t *own, size_t words, size_t all_batch, const struct batch *batch,
                  struct row_range sequences)
{
    struct token_run runs[PIECES] = {{0}};
    size_t count = pieces_runs(&batch->pieces, (struct span){0, batch->context}, runs);
    for (size_t r = 0; r < count; r++)
        for (size_t t = 0; t < runs[r].count; t++)
            memcpy(all + ((runs[r].start + t) * all_batch + sequences.start) * words,
                   own + (runs[r].first + t) * batch->batch * words, batch->batch * words * sizeof *all);
}

// Adds the layer's rows of every rank to `all` on rank 0; rows that a rank has not are 0.
static void gather_layer(int32_t *all, size_t numbers, const struct world *world)
{
    size_t bytes = numbers * sizeof *all;
    int32_t *others = malloc(bytes + 1);
    CHECK(others);
    if (world->comm.rank > 0)
        world->ops->send(world, 0, all, bytes);
    for (size_t rank = 1; rank < world->comm.size && world->comm.rank == 0; rank++) {
        world->ops->receive(world, rank, others, bytes);
        for (size_t i = 0; i < numbers; i++)
            all[i] |= others[i];
    }
    free(others);
}

void ranks_choices(struct kept_choices *all, const struct kept_choices *own, const struct trial *trial,
                   const struct batch *batch, struct row_range sequences, const struct world *world)
{
    const struct config *config = &trial->config;
    size_t words = routing_words(&config->experts.routing), layers = 0;
    double chosen = 0; // pairs of a token and a layer
    *all = (struct kept_choices){.rows = trial->context * trial->batch};
    if (config->experts.routing.experts == 0 || trial->group > 1)
        return;
    all->layers = config->layers;
    all->numbers = all->rows * words;
    CHECK(all->of = calloc(all->layers, sizeof *all->of));
    for (size_t l = 0; l < all->layers; l++) {
        if (config_kind(config, l)->mlp != MLP_EXPERTS)
            continue;
        layers++;
        CHECK(all->of[l] = calloc(all->numbers, sizeof **all->of));
        if (own->whole && own->of[l]) {
            place(all->of[l], own->of[l], words, trial->batch, batch, sequences);
            chosen += (double)own->rows;
        }
        gather_layer(all->of[l], all->numbers, world);
    }
    world_sum(world, &chosen, 1);
    all->whole = world->comm.rank == 0 && chosen == (double)layers * (double)all->rows;
}
