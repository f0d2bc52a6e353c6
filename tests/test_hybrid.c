// Layers of Gated DeltaNet among those of attention: the full gradient is that of the loss by central differences,
// and every exact method's is the full one, with memory that reaches across chunks, documents and shared prompts;
// work and peaks are as planned, and FLOPs by their formulas.
#include "kernels/model/flops.h"
#include "tests/fixture.h"
#include "tests/sanitized.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// A sequence's prompt and what continues it; 0: none.
struct branches {
    size_t prompt, lengths[4];
};

// Three layers in four, but the highest one, of Gated DeltaNet; or with the highest one.
static struct fixture fixture_of(size_t index, size_t context, const char *device)
{
    struct fixture f = fixture_default();
    f.config.layers = 4;
    f.config.norms = index % 3 == 1 ? NORMS_AROUND : index % 3 == 2 ? NORMS_AFTER : NORMS_BEFORE;
    f.config.unit_offset = index % 2;
    fixture_set_delta(&f.config, index % 2 ? 0xd : 0x7);
    f.config.kinds[CONFIG_DELTA].beta_scale = index % 3 ? 2 : 0;
    if (index % 3 == 2) // as OLMo Hybrid's are
        f.config.kinds[CONFIG_DELTA].mixer = fixture_mixer("delta_split");
    f.config.kinds[CONFIG_DELTA].norms_before = index % 3 == 2;
    f.context = context;
    f.device_name = device;
    return f;
}

static void open_with(struct fixture *f, const struct branches *branches)
{
    static int32_t given[600];
    assert_true(f->context * f->batch_size <= COUNT(given));
    for (size_t i = 0; i < COUNT(given); i++)
        given[i] = (int32_t)(5 * i % f->config.vocab);
    f->targets = given; // of the last token, too
    fixture_open(f);
    if (!branches || !branches->prompt)
        return;
    size_t count = f->context * f->batch_size, sequences = 0;
    int32_t *of = malloc(count * sizeof *of), *targets = malloc(count * sizeof *targets);
    assert_true(of && targets);
    for (size_t b = 0; b < f->batch_size; b++) {
        size_t t = 0, prompt = branches->prompt - b;
        for (; t < prompt; t++)
            of[b * f->context + t] = -1;
        for (size_t i = 0; i < 4 && t < f->context; i++, sequences++)
            for (size_t end = branches->lengths[i] ? t + branches->lengths[i] : f->context;
                 t < end && t < f->context; t++)
                of[b * f->context + t] = (int32_t)sequences;
    }
    for (size_t i = 0; i < count; i++)
        targets[i] = of[i] < 0 ? NO_TARGET : (int32_t)(7 * i % f->config.vocab);
    batch_close(&f->batch, f->device);
    bool dataless = f->device->ops->dataless;
    batch_open(&f->batch, f->device, dataless ? NULL : f->ids, dataless ? NULL : targets, f->context,
               f->batch_size);
    batch_set_branches(&f->batch, f->device, of, sequences);
    f->batch.normaliser.rows = f->context;
    free(targets);
    free(of);
}

struct taken {
    struct counters counters;
    size_t peak_bytes;
    double loss, *gradients;
};

static struct taken take_step(struct fixture *f, const struct method *method, void *options)
{
    struct step_report report = {0};
    f->device->counters = (struct counters){0};
    arena_reset_peak(&f->device->arena);
    fixture_take_step(&f->trainer, method, &f->batch, options, 0, &report);
    assert_int_equal(f->device->status.code, STATUS_OK);
    struct taken taken = {f->device->counters, f->device->arena.peak_bytes, report.sums.loss,
                          f->device->ops->dataless ? NULL : fixture_gradients(f)};
    step_report_free(&report);
    return taken;
}

static struct taken take_default(struct fixture *f, const char *name)
{
    const struct method *method = method_find(name);
    void *options = options_new(&method->options);
    struct taken taken = take_step(f, method, options);
    options_free(&method->options, options);
    return taken;
}

static struct taken take_full(struct fixture *f)
{
    return take_default(f, "full");
}

static void check(struct fixture *f, struct fixture *plan, const struct method *method, const char *text,
                  const struct taken *full)
{
    void *options = fixture_options(method, "%s", text);
    if (method->make_exact)
        method->make_exact(options, f->context);
    struct taken taken = take_step(f, method, options), planned = take_step(plan, method, options);
    double error = relative_l2(taken.gradients, full->gradients, f->gradient_count);
    if (!(error <= 1e-13) || !(fabs(taken.loss - full->loss) <= 1e-13 * full->loss))
        fail_msg("%s %s, %zu tokens, documents of %zu: relative L2 %.2e", method->name, text, f->context,
                 f->document, error);
    if (memcmp(&planned.counters, &taken.counters, sizeof planned.counters) != 0 ||
        planned.peak_bytes != taken.peak_bytes)
        fail_msg("%s %s: peak %zu, planned %zu; %.0f FLOPs, planned %.0f", method->name, text, taken.peak_bytes,
                 planned.peak_bytes, taken.counters.flops, planned.counters.flops);
    free(taken.gradients);
    options_free(&method->options, options);
}

static void check_all(struct fixture *f, struct fixture *plan, const struct branches *branches,
                      const char *const *texts, size_t count)
{
    open_with(f, branches);
    open_with(plan, branches);
    struct taken full = take_full(f);
    assert_true(full.loss > 0);
    for (const struct method *const *m = methods; *m; m++)
        for (size_t i = 0; i < count && (*m)->exact; i++)
            check(f, plan, *m, texts[i], &full);
    free(full.gradients);
    fixture_close(plan);
    fixture_close(f);
}

static void chunks_of_any_length(void **state)
{
    (void)state;
    static const struct {
        size_t context, document;
        struct branches branches;
    } cases[] = {{.context = 1},      {.context = 2}, {.context = 3}, {.context = 23},
                 {.context = 197},    {70, 5, {0}},   {70, 1, {0}},   {91, 0, {20, {30, 1, 40}}},
                 {24, 0, {8, {3, 1}}}};
    for (size_t i = STRIDE > 1; i < COUNT(cases); i += STRIDE) {
        char last[32];
        snprintf(last, sizeof last, "chunk=%zu", cases[i].context + 1);
        const char *texts[] = {"chunk=1", "chunk=2 keep=all", "chunk=3", "chunk=5 segments=2", "chunk=64", last};
        struct fixture f = fixture_of(i, cases[i].context, "cpu"),
                       plan = fixture_of(i, cases[i].context, "plan-cpu");
        f.document = plan.document = cases[i].document;
        f.batch_size = plan.batch_size = cases[i].context == 197 ? 1 : 3;
        check_all(&f, &plan, &cases[i].branches, texts, COUNT(texts));
    }
}

static void every_option(void **state)
{
    (void)state;
    static const char *const texts[] = {"chunk=5 segments=2 keep=all",        "chunk=4 segments=3 inner=checkpoint",
                                        "chunk=23 attention=kept segments=2", "chunk=7 attention=kept keep=all",
                                        "chunk=6 offload=kv segments=2",      "chunk=4 offload=kv inner=checkpoint",
                                        "chunk=5 offload=kv segments=4",      "chunk=7 offload=inputs segments=3",
                                        "chunk=5 offload=inputs+gradient"};
    static const struct branches prompt = {6, {8, 1}};
    // 1, 6 and 11 have both kinds of LoRA and none, documents, prompts and neither.
    const size_t first = STRIDE > 1, step = STRIDE > 1 ? 5 : 1;
    for (size_t i = first; i < 12; i += step) {
        struct fixture f = fixture_of(i, 23, "cpu");
        f.lora = i % 4 == 1 ? (struct lora){.rank = 2, .alpha = 4, .targets = LORA_IN_QKV | LORA_IN_A | LORA_OUT}
                 : i % 4 == 3
                     ? (struct lora){.rank = 3, .alpha = 2, .targets = LORA_Q | LORA_IN_Z | LORA_IN_B | LORA_DOWN}
                     : (struct lora){0};
        f.quantisation = i % 4 == 1 ? QUANTISATION_INT8 : QUANTISATION_NONE;
        f.document = i % 3 == 1 ? 7 : 0;
        struct fixture plan = f;
        plan.device_name = "plan-cpu";
        open_with(&f, i % 3 == 2 ? &prompt : NULL);
        open_with(&plan, i % 3 == 2 ? &prompt : NULL);
        struct taken full = take_full(&f);
        for (size_t j = 0; j < COUNT(texts); j++)
            for (const struct method *const *m = methods; *m; m++) {
                const struct option *option = option_find(&(*m)->options, "offload");
                const char *asked = strstr(texts[j], "offload=");
                bool takes = !asked;
                for (size_t n = 0; asked && option && option->choices[n]; n++)
                    takes |= strcspn(asked + 8, " ") == strlen(option->choices[n]) &&
                             strncmp(asked + 8, option->choices[n], strlen(option->choices[n])) == 0;
                if (!takes || !(*m)->exact)
                    continue;
                check(&f, &plan, *m, texts[j], &full);
            }
        free(full.gradients);
        fixture_close(&plan);
        fixture_close(&f);
    }
}

static double loss_of(struct fixture *f)
{
    struct taken taken = take_default(f, "forward");
    free(taken.gradients);
    return taken.loss;
}

// Each parameter, along a direction of its own.
static void gradients_are_those_of_the_loss(void **state)
{
    (void)state;
    static const struct branches prompt = {20, {30, 1, 0}};
    for (size_t i = 0; i < 3; i++) {
        struct fixture f = fixture_of(i, 70, "cpu");
        f.document = i == 1 ? 9 : 0;
        open_with(&f, i == 2 ? &prompt : NULL);
        struct taken full = take_full(&f);
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
                losses[side] = loss_of(&f);
            }
            for (size_t j = 0; j < count; j++)
                values[j] += step * random_normal(&random, at + j);
            double found = (losses[0] - losses[1]) / (2 * step);
            if (!(fabs(found - slope) <= 2e-5 * size + 1e-7))
                fail_msg("%zu, %s: %.10g by differences, %.10g", i, parameter->name, found, slope);
            checked += strstr(parameter->name, "linear_attn") != NULL && size > 0;
            at += count;
        }
        assert_int_equal(checked, 3 * (i % 3 == 2 ? 11 : 9));
        free(full.gradients);
        fixture_close(&f);
    }
}

// FLOPs of the delta rule, in blocks of 64 tokens and a rest: the forward, the states alone, the backward.
static void rule_flops(const struct layer_kind *k, size_t tokens, double flops[3])
{
    double K = (double)k->head_dim, V = (double)k->value_dim, H = (double)k->heads;
    flops[0] = flops[1] = flops[2] = 0;
    for (size_t t = 0; t < tokens; t += 64) {
        double c = tokens - t < 64 ? (double)(tokens - t) : 64;
        double forward = 2 * c * c * (K + V) + 6 * c * K * V, states = c * (c - 1) * (K + V) + 4 * c * K * V;
        flops[0] += H * forward;
        flops[1] += H * states;
        flops[2] += H * (2 * forward + states + 2 * c * c * K);
    }
}

// A sequence of 150 tokens; in chunks of 64 the last has no first pass, and the highest layer, attention's, has
// keys and values alone in that of the others, which are there in their second.
static void flops_are_by_their_formulas(void **state)
{
    (void)state;
    struct fixture f = fixture_of(0, 150, "plan-cpu");
    fixture_open(&f);
    const struct layer_kind *k = &f.config.kinds[CONFIG_DELTA], *attention = &f.config.kinds[0];
    double B = (double)f.batch_size, d = (double)f.config.width, v = (double)(k->heads * k->value_dim),
           w = (double)(2 * k->kv_heads * k->head_dim) + v, whole[3], chunk[3],
           pairs = 150 * 151 / 2 * (double)(attention->heads * attention->head_dim);
    rule_flops(k, 150, whole);
    rule_flops(k, 64, chunk);
    struct taken full = take_full(&f);
    double model = model_flops(&f.config, &f.lora, &f.batch);
    assert_true(full.counters.flops == model + B * (3 * (whole[2] - 2 * whole[0]) + 2 * pairs));
    void *options = fixture_options(method_find("seco"), "%s", "chunk=64");
    struct taken seco = take_step(&f, method_find("seco"), options);
    options_free(&method_find("seco")->options, options);
    double projections = d * (w + 2 * v + 2 * (double)k->heads), mlp = 3 * d * (double)f.config.ffn;
    // Blocks of the last chunk are those of a whole run: 64 tokens each, and 22.
    assert_true(seco.counters.flops ==
                full.counters.flops + 3 * B * (128 * 2 * (projections + mlp) + 2 * chunk[0]));
    fixture_close(&f);
}

// Sets of five chunks, all of them when `every`: the mean of spaco's estimates over them, by the probabilities of
// the sampler of each chunk with probability 2 / 5, or from the right, relative to the exact gradient.
static double bias_of(struct fixture *f, struct fixture *plan, const char *text, bool sequential)
{
    const struct method *spaco = method_find("spaco");
    struct taken full = take_full(f);
    double *mean = calloc(f->gradient_count, sizeof *mean), total = 0;
    for (unsigned bits = 0; bits < 32; bits++) {
        double probability = 1, t = 2, taken = 0;
        char chunks[32] = "";
        for (size_t i = 5; i-- > 0;) {
            double p = sequential ? fmin(fmax((t - taken) / (double)(i + 1), 0.2), 1) : 0.4;
            probability *= bits >> i & 1 ? p : 1 - p;
            taken += bits >> i & 1;
        }
        for (size_t i = 0; i < 5; i++)
            if (bits >> i & 1)
                snprintf(chunks + strlen(chunks), 8, "%s%zu", *chunks ? "," : "", i);
        total += probability;
        if (!*chunks || probability == 0)
            continue;
        void *options = fixture_options(spaco, "%s budget=2 sampler=fixed drawn_chunks=%s%s", text, chunks,
                                        sequential ? " compensation=sequential" : "");
        struct taken of = take_step(f, spaco, options), planned = take_step(plan, spaco, options);
        if (memcmp(&planned.counters, &of.counters, sizeof of.counters) != 0 || planned.peak_bytes != of.peak_bytes)
            fail_msg("%s, chunks %s: peak %zu, planned %zu; %.0f FLOPs, planned %.0f", text, chunks, of.peak_bytes,
                     planned.peak_bytes, of.counters.flops, planned.counters.flops);
        for (size_t i = 0; i < f->gradient_count; i++)
            mean[i] += probability * of.gradients[i];
        free(of.gradients);
        options_free(&spaco->options, options);
    }
    assert_true(fabs(total - 1) < 1e-14);
    double bias = relative_l2(mean, full.gradients, f->gradient_count);
    free(mean);
    free(full.gradients);
    return bias;
}

// A state's gradient passes chunks that are not drawn, or ends there: both are right in the mean, whatever the
// documents and prompts, and for chunks shorter than the convolution. Multiplied in place it is not.
static void samples_are_unbiased(void **state)
{
    (void)state;
    static const struct {
        size_t context, document;
        struct branches branches;
        const char *text;
    } cases[] = {{20, 0, {0}, "chunk=4"},
                 {19, 0, {0}, "chunk=4 segments=2 offload=kv"},
                 {10, 0, {0}, "chunk=2 loss=all"},
                 {5, 0, {0}, "chunk=1 inner=checkpoint"},
                 {20, 6, {0}, "chunk=4 loss=all segments=3"},
                 {20, 0, {7, {4, 1, 3}}, "chunk=4"},
                 {10, 0, {5, {1, 2}}, "chunk=2 offload=kv"},
                 {5, 0, {3, {1}}, "chunk=1"}};
    static const char *const passages[] = {"carry", "cut", "in-place"};
    for (size_t i = 0; i < COUNT(cases); i += STRIDE)
        for (size_t j = 0; j < (i ? 2 : 3); j++)
            for (size_t sequential = 0; sequential < 2; sequential++) {
                struct fixture f = fixture_of(0, cases[i].context, "cpu");
                f.config.layers = 3;
                fixture_set_delta(&f.config, 0x5);
                f.document = cases[i].document;
                f.batch_size = cases[i].branches.prompt ? 2 : 1;
                struct fixture plan = f;
                plan.device_name = "plan-cpu";
                open_with(&f, &cases[i].branches);
                open_with(&plan, &cases[i].branches);
                char text[96];
                snprintf(text, sizeof text, "%s state=%s", cases[i].text, passages[j]);
                double bias = bias_of(&f, &plan, text, sequential);
                // Mean and reference may each be off by what an exact method may.
                if (!(bias <= 2 * 1e-13) != (j == 2))
                    fail_msg("%zu %s%s: the mean is off by %.2e", i, text, sequential ? ", sequential" : "", bias);
                fixture_close(&plan);
                fixture_close(&f);
            }
}

static struct taken take_drawn(struct fixture *f, const char *chunks, const char *further)
{
    const struct method *spaco = method_find("spaco");
    void *options = fixture_options(spaco, "chunk=64 sampler=fixed drawn_chunks=%s %s", chunks, further);
    struct taken taken = take_step(f, spaco, options);
    options_free(&spaco->options, options);
    return taken;
}

// If of five chunks the first, third and last are drawn, to carry gradients takes a transition of each chunk
// between, and of the third, in whose backward alone something passes times a factor. There are two states, but
// three if the second is drawn in place of the first, to whose left there is none.
static void a_passage_costs_transitions(void **state)
{
    (void)state;
    static const char *const segments[] = {"segments=1", "segments=2", "segments=3"};
    struct fixture f = fixture_of(0, 5 * 64, "plan-cpu");
    fixture_open(&f);
    const struct layer_kind *k = &f.config.kinds[CONFIG_DELTA];
    double K = (double)k->head_dim, V = (double)k->value_dim, H = (double)k->heads,
           layers = 3 * (double)f.batch_size, transition = 64 * 63 * 2 * K + 4 * 64 * K * K, passed = 2 * K * K * V;
    for (size_t i = 0; i < COUNT(segments); i++) {
        char cut[32];
        snprintf(cut, sizeof cut, "%s state=cut", segments[i]);
        double flops = take_drawn(&f, "0,2,4", segments[i]).counters.flops;
        assert_true(flops - take_drawn(&f, "0,2,4", cut).counters.flops == layers * H * 3 * (transition + passed));
    }
    const size_t *kept = &f.device->arena.peak_by_category[CATEGORY_KV_CACHE];
    take_drawn(&f, "0,2,4", "state=cut");
    double two = (double)*kept, rows = 2 * (double)k->kv_heads * K + H * V;
    take_drawn(&f, "1,2,4", "state=cut");
    double state_bytes = layers * (H * K * V + 3 * rows) * sizeof(double);
    assert_true(fabs((double)*kept - two - state_bytes) < 6 * ARENA_ALIGNMENT); // of two tensors in three layers
    fixture_close(&f);
}

// A model without states has no passage to choose.
static void passages_are_of_states(void **state)
{
    (void)state;
    const struct method *spaco = method_find("spaco");
    void *options = fixture_options(spaco, "%s", "chunk=4 budget=2 state=cut");
    for (int states = 0; states < 2; states++) {
        struct fixture f = states ? fixture_of(0, 23, "cpu") : fixture_default();
        struct status status = {0};
        assert_int_equal(spaco->check(options, &f.config, f.context, &status), states);
        assert_true(states || strstr(status.message, "state requires layers"));
    }
    options_free(&spaco->options, options);
}

// Projections alone are quantised.
static void filters_keep_their_dtype(void **state)
{
    (void)state;
    struct fixture f = fixture_of(0, 23, "cpu");
    f.lora = (struct lora){.rank = 2, .alpha = 4, .targets = LORA_IN_QKV};
    f.quantisation = QUANTISATION_INT8;
    fixture_open(&f);
    for (size_t i = 0; i < f.model.parameter_count; i++) {
        const struct parameter *p = &f.model.parameters[i];
        bool projection = strstr(p->name, "in_proj") || strstr(p->name, "out_proj");
        if (strstr(p->name, "linear_attn") && !parameter_is_factor(p))
            assert_int_equal(p->quantisation, projection ? QUANTISATION_INT8 : QUANTISATION_NONE);
    }
    fixture_close(&f);
}

// A context twice as long takes no less than the lower bound more, and of one chunk's schedules little more.
static void the_peak_grows_by_the_lower_bound(void **state)
{
    (void)state;
    for (const struct method *const *m = methods; *m; m++) {
        double lower_bound = 0;
        size_t peaks[2] = {0};
        for (size_t j = 0; j < 2 && !(*m)->draw; j++) {
            struct fixture f = fixture_default();
            f.config = *config_preset("tiny");
            fixture_set_delta(&f.config, 0x7);
            f.config.kinds[CONFIG_DELTA].head_dim = f.config.kinds[CONFIG_DELTA].value_dim = 32;
            f.device_name = "plan-cpu";
            f.context = 2048 << j;
            f.batch_size = 1;
            fixture_open(&f);
            void *options = fixture_options(*m, "%s", "chunk=128 head_chunk=128");
            peaks[j] = take_step(&f, *m, options).peak_bytes;
            lower_bound = (*m)->lower_bound_bytes_per_token(&f.model, options, f.context);
            options_free(&(*m)->options, options);
            fixture_close(&f);
        }
        double growth = (double)(peaks[1] - peaks[0]) / 2048;
        if (!(growth >= lower_bound) || (strcmp((*m)->name, "full") == 0 && growth > 1.05 * lower_bound))
            fail_msg("%s: %.0f bytes per token, lower bound %.0f", (*m)->name, growth, lower_bound);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_those_of_the_loss),
                                       cmocka_unit_test(chunks_of_any_length),
                                       cmocka_unit_test(every_option),
                                       cmocka_unit_test(flops_are_by_their_formulas),
                                       cmocka_unit_test(samples_are_unbiased),
                                       cmocka_unit_test(a_passage_costs_transitions),
                                       cmocka_unit_test(passages_are_of_states),
                                       cmocka_unit_test(filters_keep_their_dtype),
                                       cmocka_unit_test(the_peak_grows_by_the_lower_bound)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
