// Replicas of a test under mpirun: a model of which each rank takes some of the sequences, and the same rank
// without data.
#pragma once
#include "kernels/trainer/bucket.h"
#include "tests/chosen_tests.h"
#include "tests/fixture.h"
#include "tests/under_mpirun.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SEQUENCES 8 // pairs are as many as the most ranks

struct setting {
    const char *options;
    bool tied, qk_norm, lora, documents, masked;
    enum quantisation quantisation; // with lora
    enum dtype dtype;
    size_t context, sequences; // 0: 23, and SEQUENCES
    size_t window;             // of layers that have one; 0: none has
    size_t family;             // one more than its number (fixture_choose_family); 0: Llama's
    unsigned delta;            // layers of Gated DeltaNet, as bits
    unsigned experts;          // layers with experts, as bits
    bool biases;               // of experts and routers
    size_t expert_count;       // 0: 5
    struct router_losses losses;
    const struct objective *objective; // NULL: the default
    const char *settings;
};

static struct fixture fixture_of(const struct setting *s)
{
    static int32_t targets[23 * SEQUENCES];
    struct fixture f = fixture_default();
    f.device_name = rank_device;
    f.batch_size = s->sequences ? s->sequences : SEQUENCES;
    f.context = s->context ? s->context : f.context;
    f.config.kinds[0].window = s->window;
    f.config.tied = s->tied;
    f.config.qk_norm = s->qk_norm;
    if (s->family > 0)
        fixture_choose_family(&f, s->family - 1);
    if (s->delta) {
        fixture_set_delta(&f.config, s->delta);
        f.config.kinds[CONFIG_DELTA].heads = 8;
        f.config.kinds[CONFIG_DELTA].kv_heads = 4; // which 4 ranks can share
    }
    if (s->experts)
        fixture_set_experts(&f.config, s->experts, s->expert_count ? s->expert_count : 5, 2);
    f.config.experts.bias = f.config.experts.router_bias = s->biases;
    f.router_losses = s->losses;
    f.quantisation = s->quantisation;
    f.dtype = s->dtype;
    f.rounding = s->dtype == DTYPE_BF16 ? DTYPE_BF16 : f.rounding;
    f.document = s->documents ? 7 : 0;
    f.objective = s->objective;
    if (s->lora)
        f.lora =
            (struct lora){.rank = 3, .alpha = 6, .targets = LORA_Q | LORA_V | LORA_DOWN | LORA_IN_QKV | LORA_KV_B};
    if (s->lora && s->experts)
        f.lora.targets |= LORA_EXPERTS_GATE_UP | LORA_EXPERTS_DOWN;
    // The first sequences have hardly a target, and the first of all none.
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        size_t sequence = i / f.context, t = i % f.context;
        targets[i] = t < f.context - 3 * sequence || t + 1 == f.context ? NO_TARGET : (int32_t)(7 * i % 31);
    }
    f.targets = s->masked ? targets : NULL;
    snprintf(f.settings, sizeof f.settings, "%s", s->settings ? s->settings : "");
    return f;
}

struct measured {
    struct counters counters;
    size_t peak_bytes;
    double loss;
};

static void open_replica(struct fixture *f, struct ranks *ranks, struct split split)
{
    struct fixture asked = *f;
    fixture_open_objective(&asked);
    bool pairs = f->objective && objective_terms(f->objective, asked.objective_settings).divisor == PER_PAIR;
    size_t together = pairs ? 2 : 1;
    fixture_close_objective(&asked);
    *ranks = ranks_of(&world.comm, split, &f->config, f->context);
    struct row_range groups = comm_share(f->batch_size / together, split.data, split_data(split, world.comm.rank));
    f->ranks = ranks;
    f->sequences = (struct row_range){groups.start * together, groups.count * together};
    fixture_open(f);
}

// The same rank without data.
struct plan {
    struct device *device;
    struct model model;
    struct trainer trainer;
    struct batch batch;
    struct comm comm;
    struct ranks ranks;
};

static void plan_open(struct plan *plan, const struct fixture *f, struct split split)
{
    struct status status = {0};
    plan->device = device_open(rank_plan, f->dtype, 0, &status);
    assert_non_null(plan->device);
    plan->device->multiprocessors = f->device->multiprocessors;
    plan->device->compute_capability = f->device->compute_capability;
    plan->comm = comm_planned(world.comm.rank, world.comm.size);
    plan->ranks = ranks_of(&plan->comm, split, &f->config, f->context);
    struct trainer_options options = fixture_trainer_options(f);
    options.ranks = &plan->ranks;
    trainer_open(&plan->trainer, &plan->model, &f->config, &options, plan->device);
    fixture_open_batch(f, plan->device, &plan->batch, f->sequences);
    plan->batch.normaliser = f->batch.normaliser;
    fixture_share(f, plan->device, &plan->batch);
}

static void plan_close(struct plan *plan)
{
    batch_close(&plan->batch, plan->device);
    trainer_close(&plan->trainer);
    device_close(plan->device);
}

static void assert_as_planned(const struct measured *found, const struct measured *planned)
{
    const struct counters *a = &found->counters, *b = &planned->counters;
    assert_true(a->sent_bytes == b->sent_bytes && a->received_bytes == b->received_bytes);
    assert_int_equal(a->messages, b->messages);
    assert_true(a->flops == b->flops && a->bytes_moved == b->bytes_moved);
    assert_int_equal(a->launches, b->launches);
    assert_int_equal(found->peak_bytes, planned->peak_bytes);
}

static void assert_same_bytes(const void *found, const void *expected, size_t bytes)
{
    assert_true(memcmp(found, expected, bytes) == 0); // cmocka's own looks at each byte
}

static void assert_same_everywhere(const double *values, size_t count)
{
    double *first = malloc(count * sizeof *first);
    assert_non_null(first);
    memcpy(first, values, count * sizeof *first);
    world.ops->broadcast(&world, first, count * sizeof *first);
    assert_same_bytes(first, values, count * sizeof *first);
    free(first);
}

// Broadcasts the first rank's `count` values; *values of the others are NULL before. The caller frees them.
static void share_values(double **values, size_t *count)
{
    world.ops->broadcast(&world, count, sizeof *count);
    if (!*values) {
        *values = malloc((*count + 1) * sizeof **values);
        assert_non_null(*values);
    }
    world.ops->broadcast(&world, *values, *count * sizeof **values);
}
