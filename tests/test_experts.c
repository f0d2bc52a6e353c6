// Layers with experts: the full gradient is that of the loss by central differences, and every exact method's is
// the full one, with equal logits, experts without a token and with all of them, all experts, one token; work and
// peaks are as planned; a rebuild whose sums are rounded otherwise takes the experts that the first pass chose.
#include "kernels/layers/choices.h"
#include "kernels/model/flops.h"
#include "kernels/model/unit.h"
#include "tests/fixture.h"
#include "tests/sanitized.h"
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// Routers as they are; with two experts whose logits are equal; with equal logits of all, so that all tokens take
// the first ones.
enum router { ANY, PAIR, EQUAL, ROUTERS };

// Families by number.
static void choose(struct fixture *f, size_t index)
{
    struct config *c = &f->config;
    struct routing *r = &c->experts.routing;
    switch (index) {
    case 0: // Mixtral
        fixture_set_experts(c, 7, 4, 2);
        break;
    case 1: // weights as they are; a dense layer
        c->norms = NORMS_AROUND;
        c->unit_offset = true;
        c->activation = ACTIVATION_GELU_TANH;
        c->residual_scale = 0.22;
        fixture_set_experts(c, 5, 8, 1);
        r->normalised = false;
        break;
    case 2:
        c->norms = NORMS_AFTER;
        fixture_set_experts(c, 7, 3, 3);
        break;
    case 3: // DeepSeek-V3's scores
        c->parallel = c->centred = true;
        fixture_set_experts(c, 6, 6, 2);
        r->score = ROUTER_SIGMOID;
        r->added = 1e-20, r->scale = 2.5;
        r->groups = 3, r->top_groups = 2, r->group_best = 2;
        c->experts.correction_bias = true;
        c->experts.shared_width = 10;
        break;
    case 5: // gpt-oss
        c->qkv_bias = c->kinds[0].sinks = true;
        fixture_set_experts(c, 7, 5, 2);
        c->experts.router_bias = c->experts.bias = true;
        c->experts.alpha = 1.702, c->experts.limit = 0.6; // which bounds random numbers as 7 does a trained model's
        break;
    case 4: // Qwen3-Next, with choices of two bytes
        fixture_set_experts(c, 2, 300, 3);
        c->experts.width = 4;
        c->experts.shared_width = 18;
        c->experts.shared_gated = true;
        c->residual_scale = 0.7;
        r->least = 0.02;
        break;
    }
}
#define FAMILIES 6

static struct fixture fixture_of(size_t index, size_t context, const char *device)
{
    struct fixture f = fixture_default();
    f.context = context;
    f.device_name = device;
    choose(&f, index);
    return f;
}

static void make_rows_equal(struct fixture *f, struct tensor rows, enum router router)
{
    if (router == EQUAL)
        op_zero(f->device, rows);
    else
        op_copy(f->device, tensor_rows(rows, rows.rows - 1, 1), tensor_rows(rows, 0, 1));
}

static void make_equal(struct fixture *f, const struct projection *gate, enum router router)
{
    struct tensor weight = gate->weight->value;
    make_rows_equal(f, weight, router);
    if (gate->lora_b)
        make_rows_equal(f, gate->lora_b->value, router);
    if (gate->bias && router == EQUAL)
        op_zero(f->device, gate->bias->value);
    else if (gate->bias)
        op_copy_columns(f->device, gate->bias->value, weight.rows - 1, gate->bias->value, 0, 1);
}

static void open_with(struct fixture *f, enum router router)
{
    fixture_open(f);
    for (size_t l = 0; l < f->config.layers && !f->device->ops->dataless; l++)
        if (router != ANY && config_mlp(&f->config, l)->chooses)
            make_equal(f, &f->model.layers[l].mlp.parameters[0], router);
}

// Factors on all that layers with experts have, and on some of attention.
static void adapt(struct fixture *f)
{
    f->lora = (struct lora){.rank = 2, .alpha = 3};
    f->lora.targets = LORA_Q | LORA_O | LORA_GATE | LORA_UP | LORA_DOWN | LORA_ROUTER | LORA_SHARED_EXPERT_GATE |
                      LORA_EXPERTS_GATE_UP | LORA_EXPERTS_DOWN;
}

struct taken {
    struct counters counters;
    size_t peak_bytes;
    double loss, *gradients;
    double aux_loss, z_loss;
};

// Losses of routers by number; 0: none.
static struct router_losses losses_of(size_t index)
{
    static const struct router_losses losses[] = {{.aux = 0},
                                                  {.aux = 0.7, .z = 0.02},
                                                  {.aux = 0.5, .form = ROUTER_LOSS_LAYER},
                                                  {.aux = 0.6, .z = 0.01, .form = ROUTER_LOSS_SEQUENCE}};
    return losses[index % COUNT(losses)];
}

static struct taken take_step(struct fixture *f, const struct method *method, void *options)
{
    struct step_report report = {0};
    f->device->counters = (struct counters){0};
    arena_reset_peak(&f->device->arena);
    fixture_take_step(&f->trainer, method, &f->batch, options, 0, &report);
    assert_int_equal(f->device->status.code, STATUS_OK);
    struct taken taken = {f->device->counters,
                          f->device->arena.peak_bytes,
                          report.sums.loss,
                          f->device->ops->dataless ? NULL : fixture_gradients(f),
                          report.sums.metrics[METRIC_AUX_LOSS],
                          report.sums.metrics[METRIC_ROUTER_Z_LOSS]};
    step_report_free(&report);
    return taken;
}

static struct taken take(struct fixture *f, const char *name, const char *text)
{
    const struct method *method = method_find(name);
    void *options = fixture_options(method, "%s", text);
    struct taken taken = take_step(f, method, options);
    options_free(&method->options, options);
    return taken;
}

static void check(struct fixture *f, struct fixture *plan, const struct method *method, const char *text,
                  const struct taken *full)
{
    void *options = fixture_options(method, "%s", text);
    if (method->make_exact)
        method->make_exact(options, f->context);
    struct taken taken = take_step(f, method, options), planned = take_step(plan, method, options);
    double error = relative_l2(taken.gradients, full->gradients, f->gradient_count);
    if (!method->no_gradient && !(error <= 1e-13))
        fail_msg("%s %s, %zu tokens: relative L2 %.2e", method->name, text, f->context, error);
    if (!(fabs(taken.loss - full->loss) <= 1e-13 * full->loss) && strcmp(method->name, "null") != 0)
        fail_msg("%s %s, %zu tokens: loss %.17g, %.17g", method->name, text, f->context, taken.loss, full->loss);
    if (!method->no_gradient && !(fabs(taken.aux_loss - full->aux_loss) <= 1e-13 * full->aux_loss &&
                                  fabs(taken.z_loss - full->z_loss) <= 1e-13 * full->z_loss))
        fail_msg("%s %s, %zu tokens: losses of routers %.17g and %.17g, %.17g and %.17g", method->name, text,
                 f->context, taken.aux_loss, taken.z_loss, full->aux_loss, full->z_loss);
    if (memcmp(&planned.counters, &taken.counters, sizeof planned.counters) != 0 ||
        planned.peak_bytes != taken.peak_bytes)
        fail_msg("%s %s: peak %zu, planned %zu; %.0f FLOPs, planned %.0f", method->name, text, taken.peak_bytes,
                 planned.peak_bytes, taken.counters.flops, planned.counters.flops);
    free(taken.gradients);
    options_free(&method->options, options);
}

// With equal logits all p are 1 / E, so that the balancing loss is the number of choices, each counted once: k a
// token, or 1 in each layer.
static void check_counts(const struct fixture *f, enum router router, const struct taken *taken)
{
    const struct routing *r = &f->config.experts.routing;
    size_t layers = 0;
    for (size_t l = 0; l < f->config.layers; l++)
        layers += config_mlp(&f->config, l)->chooses;
    bool of_all = f->router_losses.form == ROUTER_LOSS_GLOBAL;
    double expected = of_all ? (double)r->chosen : (double)layers, logsumexp = log((double)r->experts);
    if (router != EQUAL || f->router_losses.aux == 0)
        return;
    assert_true(fabs(taken->aux_loss - expected) <= 1e-13 * expected);
    expected = (double)layers * logsumexp * logsumexp;
    assert_true(fabs(taken->z_loss - expected) <= 1e-13 * expected);
}

// Texts from `first` on, each `step`-th.
static void check_all(struct fixture *f, struct fixture *plan, enum router router, const char *const *texts,
                      size_t count, size_t first, size_t step)
{
    open_with(f, router);
    open_with(plan, router);
    struct taken full = take(f, "full", "");
    check_counts(f, router, &full);
    for (const struct method *const *m = methods; *m; m++)
        for (size_t i = first; i < count; i += step)
            check(f, plan, *m, texts[i], &full);
    free(full.gradients);
    fixture_close(plan);
    fixture_close(f);
}

static void every_method_is_exact(void **state)
{
    (void)state;
    static const char *const texts[] = {"chunk=1",
                                        "chunk=4 keep=all segments=2 loss=all first_chunk=9",
                                        "chunk=5 inner=checkpoint attention=kept",
                                        "chunk=7 offload=kv segments=3 first_chunk=14",
                                        "chunk=6 offload=inputs",
                                        "chunk=64 keep=all"};
    for (size_t i = 0; i < FAMILIES * ROUTERS; i++) {
        if (!is_chosen(i % FAMILIES + i / FAMILIES, STRIDE)) // each family, and each router
            continue;
        static const int32_t targets[] = {3, 30, 7};
        struct fixture f = fixture_of(i % FAMILIES, i % 4 == 3 ? 1 : 23, "cpu");
        f.batch_size = i % 2 ? 3 : 2;
        f.document = i % 5 == 2 ? 7 : 0;
        f.targets = f.context == 1 ? targets : NULL;
        if (i % 3 == 1 && f.context > 1)
            adapt(&f);
        f.router_losses = losses_of(i);
        f.objective = i == 6 ? objective_find("dpo") : NULL; // of a pair
        struct fixture plan = f;
        plan.device_name = "plan-cpu";
        check_all(&f, &plan, (enum router)(i / FAMILIES), texts, COUNT(texts), i / FAMILIES, ROUTERS);
    }
}

// The sum over draws of their gradients, each as probable as it is.
struct expectation {
    struct fixture *f;
    double *sum;
};

static bool add_draw(void *visitor, const void *options, double probability)
{
    struct expectation *expectation = visitor;
    struct taken taken = take_step(expectation->f, method_find("spaco"), (void *)(uintptr_t)options);
    CHECK(taken.gradients);
    for (size_t i = 0; i < expectation->f->gradient_count; i++)
        expectation->sum[i] += probability * taken.gradients[i];
    free(taken.gradients);
    return true;
}

static void sampled_chunks_have_the_losses_in_the_mean(void **state)
{
    (void)state;
    const struct method *spaco = method_find("spaco");
    for (size_t i = 1; i < 4; i++) {
        struct fixture f = fixture_of(0, 23, "cpu");
        struct status status = {0};
        f.router_losses = losses_of(i);
        f.router_losses.aux *= 100; // as large as the rest
        open_with(&f, ANY);
        struct taken full = take(&f, "full", "");
        struct expectation expectation = {&f, zeros(f.gradient_count)};
        void *options = fixture_options(spaco, "chunk=8 budget=2 sampler=bernoulli loss=all");
        assert_true(spaco->each_draw(options, f.context, 100, add_draw, &expectation, &status));
        double error = relative_l2(expectation.sum, full.gradients, f.gradient_count);
        if (!(error <= 1e-13))
            fail_msg("losses %zu: relative bias %.2e", i, error);
        options_free(&spaco->options, options);
        free(expectation.sum);
        free(full.gradients);
        fixture_close(&f);
    }
}

// A chunk's own counts are off, and the more so the smaller it is; all tokens' in one chunk are the step's.
static void counts_of_cells_are_off(void **state)
{
    (void)state;
    static const char *const texts[] = {"chunk=23", "chunk=12", "chunk=3"};
    struct fixture f = fixture_of(0, 23, "cpu");
    double errors[COUNT(texts)];
    f.router_losses = losses_of(2);
    f.router_losses.aux *= 100;
    open_with(&f, ANY);
    struct taken full = take(&f, "full", "");
    f.model.router_losses.counts = ROUTER_COUNTS_CELL;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct taken seco = take(&f, "seco", texts[i]), streambp = take(&f, "streambp", texts[i]);
        errors[i] = relative_l2(seco.gradients, full.gradients, f.gradient_count);
        assert_true(relative_l2(streambp.gradients, seco.gradients, f.gradient_count) <= 1e-12);
        assert_true(fabs(seco.aux_loss - full.aux_loss) <= 1e-13 * full.aux_loss);
        free(streambp.gradients);
        free(seco.gradients);
    }
    assert_true(errors[0] <= 1e-13 && errors[1] > 1e-3 && errors[2] > errors[1]);
    free(full.gradients);
    fixture_close(&f);
}

// Sequences in micro-batches have the losses of one batch where f is of a sequence; and otherwise the sum of
// theirs.
static void micro_batches_add_up(void **state)
{
    (void)state;
    for (size_t i = 1; i < 4; i++) {
        struct fixture f = fixture_of(0, 23, "cpu");
        f.batch_size = 4;
        f.router_losses = losses_of(i);
        open_with(&f, ANY);
        struct taken whole = take(&f, "full", "");
        const struct method *seco = method_find("seco");
        void *options = fixture_options(seco, "chunk=5");
        struct step_report report = {0};
        double aux_loss = 0, z_loss = 0;
        trainer_zero(&f.trainer);
        for (size_t b = 0; b < 4; b++) {
            struct batch part;
            fixture_open_batch(&f, f.device, &part, (struct row_range){b, 1});
            part.normaliser = f.batch.normaliser;
            method_step(seco, &f.model, &part, options, &report);
            aux_loss += report.sums.metrics[METRIC_AUX_LOSS];
            z_loss += report.sums.metrics[METRIC_ROUTER_Z_LOSS];
            batch_close(&part, f.device);
        }
        double *found = fixture_gradients(&f), error = relative_l2(found, whole.gradients, f.gradient_count);
        bool same = f.router_losses.form == ROUTER_LOSS_SEQUENCE;
        double aux_error = fabs(aux_loss - whole.aux_loss) / whole.aux_loss;
        assert_true(same ? error <= 1e-13 && aux_error <= 1e-13 : error > 1e-6 && aux_loss > whole.aux_loss);
        assert_true(fabs(z_loss - whole.z_loss) <= 1e-13 * whole.z_loss);
        step_report_free(&report);
        options_free(&seco->options, options);
        free(found);
        free(whole.gradients);
        fixture_close(&f);
    }
}

// Biases go up by the step where an expert has fewer tokens than the mean, and down where it has more; in a model
// of bf16, too, by steps that bf16 would round away.
static void an_update_moves_biases(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_BF16};
    static const double steps[] = {0.125, 0x1p-14};
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        struct fixture f = fixture_of(3, 23, "cpu");
        f.dtype = f.rounding = dtypes[i];
        f.router_losses.bias_update = steps[i];
        fixture_set_optimizer(&f, optimizer_find("sgd"), "%s", "");
        open_with(&f, EQUAL);
        struct parameter *bias = model_parameter(&f.model, "model.layers.1.mlp.gate.e_score_correction_bias");
        size_t experts = f.config.experts.routing.experts, moved_down = 0;
        assert_non_null(bias);
        double *before = numbers_of(f.device, bias->value);
        // All tokens take the experts of the greatest biases in the two groups with the greatest sums.
        struct step_report report = {0};
        void *options = fixture_options(method_find("seco"), "chunk=5");
        fixture_take_step(&f.trainer, method_find("seco"), &f.batch, options, 1, &report);
        double *after = numbers_of(f.device, bias->value);
        for (size_t e = 0; e < experts; e++) {
            bool down = after[e] < before[e];
            moved_down += down;
            assert_true(after[e] ==
                        dtype_round(before[e] + (down ? -steps[i] : steps[i]), dtype_statistic(f.dtype)));
            for (size_t other = 0; other < experts; other++)
                assert_true(e / 2 != other / 2 ||
                            !(down && after[other] > before[other] && before[e] < before[other]));
        }
        assert_int_equal(moved_down, f.config.experts.routing.chosen);
        free(after);
        free(before);
        options_free(&method_find("seco")->options, options);
        step_report_free(&report);
        fixture_close(&f);
    }
}

// Chunks of more permuted rows than a block has.
static void blocks_of_rows_cut_experts(void **state)
{
    (void)state;
    static const char *const texts[] = {"chunk=500", "chunk=701 keep=all"};
    for (size_t i = 0; i < 2; i++) {
        struct fixture f = fixture_default();
        f.context = 701;
        f.batch_size = 3;
        f.config.layers = 1;
        choose(&f, i ? 2 : 0);
        if (i)
            adapt(&f);
        struct fixture plan = f;
        plan.device_name = "plan-cpu";
        open_with(&f, ANY);
        assert_true(701 * 3 * f.config.experts.routing.chosen > f.device->ops->rules->expert_rows);
        fixture_close(&f);
        check_all(&f, &plan, ANY, texts, COUNT(texts), i, 2);
    }
}

// Each parameter, along a direction of its own.
static void gradients_are_those_of_the_loss(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * FAMILIES; i++) {
        struct fixture f = fixture_of(i % FAMILIES, 9, "cpu");
        f.router_losses = losses_of(i % 2 ? i : 0);
        if (i >= FAMILIES)
            adapt(&f);
        open_with(&f, ANY);
        struct taken full = take(&f, "full", "");
        struct random random = random_named(11, "direction");
        size_t at = 0, checked = 0;
        for (size_t p = 0; p < f.model.parameter_count; p++) {
            struct parameter *parameter = &f.model.parameters[p];
            size_t count = tensor_count(parameter->grad);
            double *values = parameter->value.data, slope = 0, size = 0, losses[2], step = 1e-6;
            for (size_t j = 0; j < count; j++) {
                double direction = random_normal(&random, at + j);
                slope += direction * full.gradients[at + j];
                size += fabs(direction * full.gradients[at + j]);
            }
            for (int side = 0; side < 2; side++) {
                for (size_t j = 0; j < count; j++)
                    values[j] += (side ? -2 : 1) * step * random_normal(&random, at + j);
                struct taken taken = take(&f, f.router_losses.aux > 0 ? "full" : "forward", "");
                losses[side] = taken.loss + f.router_losses.aux * taken.aux_loss + f.router_losses.z * taken.z_loss;
                free(taken.gradients);
            }
            for (size_t j = 0; j < count; j++)
                values[j] += step * random_normal(&random, at + j);
            double found = (losses[0] - losses[1]) / (2 * step);
            if (!(fabs(found - slope) <= 1e-6 * size + 1e-8))
                fail_msg("%zu, %s: %.10g by differences, %.10g", i, parameter->name, found, slope);
            checked +=
                size > 0 && (strstr(parameter->name, "mlp.experts") || strstr(parameter->name, "mlp.gate.") ||
                             strstr(parameter->name, "mlp.shared_expert"));
            at += count;
        }
        static const size_t parameters[FAMILIES] = {9, 6, 9, 12, 7, 18},
                            factors[FAMILIES] = {18, 12, 18, 24, 14, 18};
        assert_int_equal(checked, (i < FAMILIES ? parameters : factors)[i % FAMILIES]);
        free(full.gradients);
        fixture_close(&f);
    }
}

// A step's FLOPs are three times a forward's, of the experts that tokens take and the router; a rebuild has no
// product with down_proj.
static void flops_are_of_the_chosen_experts(void **state)
{
    (void)state;
    struct fixture f = fixture_of(0, 23, "plan-cpu"), dense = fixture_default();
    const struct experts *e = &f.config.experts;
    double tokens = (double)(f.context * f.batch_size), d = (double)f.config.width,
           chosen = (double)(e->routing.chosen * e->width), layers = (double)f.config.layers;
    dense.device_name = "plan-cpu";
    fixture_open(&f);
    fixture_open(&dense);
    struct taken full = take(&f, "full", ""), of_dense = take(&dense, "full", "");
    struct taken again = take(&f, "checkpoint", ""), dense_again = take(&dense, "checkpoint", "");
    double more = 3 * chosen + (double)e->routing.experts - 3 * (double)f.config.ffn;
    assert_true(full.counters.flops - of_dense.counters.flops == 6 * layers * tokens * d * more);
    assert_true(model_flops(&f.config, &f.lora, &f.batch) - model_flops(&dense.config, &dense.lora, &dense.batch) ==
                6 * layers * tokens * d * more);
    more -= chosen - (double)f.config.ffn;
    assert_true(again.counters.flops - full.counters.flops - dense_again.counters.flops + of_dense.counters.flops ==
                2 * layers * tokens * d * more);
    fixture_close(&dense);
    fixture_close(&f);
}

static void bits_are_those_of_any_threads(void **state)
{
    (void)state;
    int before = omp_get_max_threads();
    static const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        struct fixture f = fixture_of(0, 150, "cpu");
        f.dtype = dtypes[i];
        f.config.width = 96;
        f.config.experts.width = 200;
        open_with(&f, ANY);
        double *first = NULL;
        for (int threads = 1; threads <= 3; threads++) {
            omp_set_num_threads(threads);
            struct taken taken = take(&f, "seco", "chunk=128");
            if (first)
                assert_memory_equal(taken.gradients, first, f.gradient_count * sizeof *first);
            free(first);
            first = taken.gradients;
        }
        free(first);
        fixture_close(&f);
    }
    omp_set_num_threads(before);
}

// Relative distance of a checkpointed step's gradient from that of the same step whose rebuilds sum as its first
// pass.
static double distance_of(struct fixture *f, bool anew)
{
    const struct choices_probe probe = {.reverse_sums = 1, .anew = anew};
    struct taken same = take(f, "checkpoint", "");
    f->model.probe = &probe;
    struct taken reversed = take(f, "checkpoint", "");
    f->model.probe = NULL;
    double distance = relative_l2(reversed.gradients, same.gradients, f->gradient_count);
    free(reversed.gradients);
    free(same.gradients);
    return distance;
}

static void rebuilds_take_what_the_first_pass_chose(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    f.dtype = f.rounding = DTYPE_BF16;
    f.config.width = 64;
    f.context = 200;
    fixture_set_experts(&f.config, 7, 32, 4);
    open_with(&f, ANY);
    double kept = distance_of(&f, false), anew = distance_of(&f, true);
    fixture_close(&f);
    if (!(kept > 0 && kept < 2e-2 && anew > 1.2 * kept))
        fail_msg("kept choices %.2e from unreversed sums, new ones %.2e", kept, anew);
}

// Logits are f32, biases of routers bf16 and those of choices f32.
static void models_in_bf16_route_alike_in_every_pass(void **state)
{
    (void)state;
    static const size_t families[] = {3, 5};
    for (size_t i = 0; i < COUNT(families); i++) {
        struct fixture f = fixture_of(families[i], 23, "cpu");
        f.dtype = f.rounding = DTYPE_BF16;
        f.router_losses = losses_of(1);
        struct fixture plan = f;
        plan.device_name = "plan-cpu";
        open_with(&f, ANY);
        open_with(&plan, ANY);
        struct taken full = take(&f, "full", ""), seco = take(&f, "seco", "chunk=5"),
                     planned = take(&plan, "seco", "chunk=5");
        assert_true(relative_l2(seco.gradients, full.gradients, f.gradient_count) < 2e-2);
        assert_true(fabs(seco.aux_loss - full.aux_loss) < 1e-2 * full.aux_loss);
        assert_memory_equal(&planned.counters, &seco.counters, sizeof planned.counters);
        assert_int_equal(planned.peak_bytes, seco.peak_bytes);
        free(seco.gradients);
        free(full.gradients);
        fixture_close(&plan);
        fixture_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_method_is_exact),
                                       cmocka_unit_test(sampled_chunks_have_the_losses_in_the_mean),
                                       cmocka_unit_test(counts_of_cells_are_off),
                                       cmocka_unit_test(micro_batches_add_up),
                                       cmocka_unit_test(an_update_moves_biases),
                                       cmocka_unit_test(blocks_of_rows_cut_experts),
                                       cmocka_unit_test(gradients_are_those_of_the_loss),
                                       cmocka_unit_test(flops_are_of_the_chosen_experts),
                                       cmocka_unit_test(bits_are_those_of_any_threads),
                                       cmocka_unit_test(rebuilds_take_what_the_first_pass_chose),
                                       cmocka_unit_test(models_in_bf16_route_alike_in_every_pass)};
    return cmocka_run_group_tests_name("experts", tests, NULL, NULL);
}
