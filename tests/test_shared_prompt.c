// Sequences that share a prompt, which is computed once: loss and gradient of a step are those of the sequences
// one by one, for every exact method, objective and chunk; counts and plans are those of the shared schedule.
#include "harness/machine/environment.h"
#include "kernels/model/flops.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { T = 23, SEQUENCES = 6, GROUP = 3, ROWS_MAX = SEQUENCES * T };

// Tokens of the prompts of the two groups, and of every sequence.
static const size_t prompts[] = {9, 4}, lengths[] = {23, 12, 17, 23, 9, 8};

static size_t shared_of(size_t b)
{
    return prompts[b / GROUP] - 1;
}

// A sequence's completion has targets, but for some tokens within it and one sequence that is all without.
static void open_sequences(struct fixture *f, const int32_t targets[ROWS_MAX])
{
    f->batch_size = SEQUENCES;
    f->context = T;
    f->targets = targets;
    f->prompt = prompts[0];
    f->group = GROUP;
    fixture_open(f);
}

static void set_targets(int32_t targets[ROWS_MAX], bool one_without)
{
    for (size_t i = 0; i < ROWS_MAX; i++) {
        size_t b = i / T, t = i % T;
        bool none = t + 1 < prompts[b / GROUP] || t + 1 >= lengths[b] || t == 10 + b || (one_without && b == 1);
        targets[i] = none ? NO_TARGET : (int32_t)((7 * i + 3) % 31);
    }
}

// One row of the batch.
struct row {
    size_t count;
    size_t from[ROWS_MAX]; // of each token its index among those of the sequences
    int32_t of[ROWS_MAX];
};

// The prompt but its last token, then the rest of every sequence, the last two the other way round than they are.
static struct row lay(size_t group)
{
    struct row row = {0};
    size_t first = group * GROUP;
    for (size_t t = 0; t < shared_of(first); t++) {
        row.from[row.count] = first * T + t;
        row.of[row.count++] = -1;
    }
    for (size_t n = 0; n < GROUP; n++) {
        size_t b = first + (n == 0 ? 0 : GROUP - n);
        for (size_t t = shared_of(first); t < lengths[b]; t++) {
            row.from[row.count] = b * T + t;
            row.of[row.count++] = (int32_t)b;
        }
    }
    return row;
}

// Puts the fixture's sequences into rows, one of each group.
static void share(struct fixture *f)
{
    struct row rows[] = {lay(0), lay(1)};
    size_t context = rows[0].count > rows[1].count ? rows[0].count : rows[1].count;
    int32_t ids[ROWS_MAX] = {0}, targets[ROWS_MAX], of[ROWS_MAX];
    double weights[ROWS_MAX] = {0}, old[ROWS_MAX] = {0}, reference[ROWS_MAX] = {0}, sampling[ROWS_MAX] = {0};
    double token_advantages[ROWS_MAX] = {0};
    for (size_t i = 0; i < 2 * context; i++) {
        const struct row *row = &rows[i / context];
        size_t at = i % context;
        bool padding = at >= row->count;
        size_t from = padding ? 0 : row->from[at];
        ids[i] = f->ids[from];
        targets[i] = padding ? NO_TARGET : f->targets[from];
        of[i] = row->of[padding ? row->count - 1 : at];
        weights[i] = f->weights[from];
        old[i] = f->old[from];
        reference[i] = f->reference[from];
        sampling[i] = f->sampling[from];
        token_advantages[i] = f->token_advantages[from];
    }
    batch_close(&f->batch, f->device);
    batch_open(&f->batch, f->device, ids, targets, context, 2);
    batch_set_branches(&f->batch, f->device, of, SEQUENCES);
    batch_block_keys(&f->batch, f->device, model_latent_block(&f->model));
    struct batch_values values = {.weights = weights,
                                  .old_logprobs = old,
                                  .reference_logprobs = reference,
                                  .sampling_logprobs = sampling,
                                  .advantages = f->advantages,
                                  .desirable = f->desirable};
    if (strstr(f->settings, "advantages=tokens"))
        values.token_advantages = token_advantages;
    if (f->objective)
        batch_set_objective(&f->batch, f->device, f->objective, f->objective_settings, &values);
}

static void check_method(struct fixture *f, const struct method *method, const char *text, const double *expected,
                         double loss)
{
    struct step_report report = {0};
    void *options = fixture_options(method, "%s", text);
    if (method->make_exact)
        method->make_exact(options, f->batch.context);
    double *found = fixture_step(f, method->name, options, &report);
    double error = relative_l2(found, expected, f->gradient_count);
    if (!(error <= 1e-13) || !(fabs(report.sums.loss - loss) <= 1e-13 * fmax(1, fabs(loss))))
        fail_msg("%s, %s, under %s %s: relative L2 %.2e, loss %.17g, of separate sequences %.17g", method->name,
                 text, f->objective->name, f->settings, error, report.sums.loss, loss);
    free(found);
    options_free(&method->options, options);
    step_report_free(&report);
}

static const char *const texts[] = {"chunk=1",
                                    "chunk=5 head_chunk=2 loss=all",
                                    "chunk=7",
                                    "chunk=64 head_chunk=0",
                                    "chunk=5 segments=2",
                                    "chunk=4 segments=3 loss=all inner=checkpoint"};

// A model of number `index`: plain, LoRA, windows within prompts and beyond, norms of queries and keys, and layers
// of Gated DeltaNet or with latents.
static void choose_model(struct fixture *f, size_t index)
{
    static const size_t windows[] = {0, 0, 3, 11, 6};
    fixture_set_windows(&f->config, windows[index % COUNT(windows)], index % 4 == 3);
    f->config.qk_norm = index % 3 == 2;
    if (index % 5 == 4)
        fixture_set_delta(&f->config, index % 2 ? 3 : 6);
    if (index % 5 == 3)
        fixture_choose(f, index % 2 ? "DeepSeek" : "Kimi");
    if (index % 2)
        f->lora = (struct lora){.rank = 2, .alpha = 4, .targets = LORA_Q | LORA_K | LORA_UP | LORA_KV_A};
}

static void shared_is_as_if_apart(void **state)
{
    (void)state;
    struct fixture chosen = fixture_default();
    for (size_t n = 0; fixture_choose_objective(&chosen, n); n++) {
        struct fixture f = chosen;
        int32_t targets[ROWS_MAX];
        // A pair needs both of its sequences.
        set_targets(targets, strcmp(f.objective->name, "dpo") != 0);
        choose_model(&f, n);
        open_sequences(&f, targets);
        struct step_report report = {0};
        struct normaliser apart = f.batch.normaliser;
        double *expected = fixture_step(&f, "full", NULL, &report), loss = report.sums.loss;
        assert_true(isfinite(loss) && loss != 0);
        share(&f);
        struct normaliser *counted = &f.batch.normaliser;
        assert_true(counted->rows == apart.rows && counted->chosen_rows == apart.chosen_rows);
        assert_true(counted->sequences == apart.sequences && counted->pairs == apart.pairs);
        for (const struct method *const *m = methods; *m; m++)
            for (size_t i = 0; i < COUNT(texts) && ((*m)->exact || (*m)->make_exact); i++)
                if (!*f.settings || i == n % COUNT(texts)) // all of them for an objective as it is by default
                    check_method(&f, *m, texts[i], expected, loss);
        free(expected);
        step_report_free(&report);
        fixture_close(&f);
    }
}

// One pair, whose slope is multiplied in after a walk of chunks.
static void a_pair_may_defer(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    struct step_report report = {0};
    int32_t targets[2 * T], of[2 * T - 5];
    f.objective = objective_find("dpo");
    f.prompt = 6;
    f.group = 2;
    for (size_t i = 0; i < 2 * T; i++)
        targets[i] = i % T < 5 ? NO_TARGET : (int32_t)(i % 31);
    f.targets = targets;
    fixture_open(&f);
    double *expected = fixture_step(&f, "full", NULL, &report), loss = report.sums.loss, reference[2 * T];
    int32_t ids[2 * T];
    for (size_t i = 0; i < COUNT(of); i++) {
        size_t from = i < T ? i : i + 5;
        of[i] = i < 5 ? -1 : i >= T;
        ids[i] = f.ids[from];
        targets[i] = targets[from];
        reference[i] = f.reference[from];
    }
    batch_close(&f.batch, f.device);
    batch_open(&f.batch, f.device, ids, targets, COUNT(of), 1);
    batch_set_branches(&f.batch, f.device, of, 2);
    batch_set_objective(&f.batch, f.device, f.objective, f.objective_settings,
                        &(struct batch_values){.reference_logprobs = reference});
    assert_true(objective_defers(&f.batch));
    for (size_t i = 0; i < COUNT(texts); i++)
        check_method(&f, method_find("seco"), texts[i], expected, loss);
    free(expected);
    step_report_free(&report);
    fixture_close(&f);
}

// Pairs of a query and a key that it sees, by the definition.
static double pairs_of(const struct row *row, size_t context, size_t shared, size_t window)
{
    double pairs = 0;
    for (size_t i = 0, begin = 0; i < context; i++) {
        size_t at = i < row->count ? i : row->count - 1; // padding is the last sequence's
        begin = i > 0 && i < row->count && row->of[at] != row->of[i - 1] ? i : begin;
        size_t position = row->of[at] < 0 ? i : shared + i - begin;
        pairs += (double)(window && window < position + 1 ? window : position + 1);
    }
    return pairs;
}

// FLOPs of a step: those of the tokens that are walked, and of the keys that they see.
static void flops_are_of_what_is_walked(void **state)
{
    (void)state;
    static const size_t windows[] = {0, 1, 6, 100};
    for (size_t i = 0; i < COUNT(windows); i++) {
        int32_t targets[ROWS_MAX];
        struct fixture f = fixture_default();
        struct step_report report = {0};
        struct row rows[] = {lay(0), lay(1)};
        double flops[2], attention[2] = {0}, tokens[2];
        f.config.kinds[0].window = windows[i];
        set_targets(targets, false);
        open_sequences(&f, targets);
        size_t window = windows[i] ? windows[i] : T, max = window < T ? window : T;
        double apart = (double)(max * (max + 1)) / 2 + (double)((T - max) * max);
        for (int n = 0; n < 2; n++) {
            if (n)
                share(&f);
            f.device->counters = (struct counters){0};
            free(fixture_step(&f, "full", NULL, &report));
            flops[n] = f.device->counters.flops;
            tokens[n] = (double)(f.batch.context * f.batch.batch);
            double pairs = n ? pairs_of(&rows[0], f.batch.context, shared_of(0), windows[i]) +
                                   pairs_of(&rows[1], f.batch.context, shared_of(GROUP), windows[i])
                             : apart * SEQUENCES;
            double heads = (double)(f.config.kinds[0].heads * f.config.kinds[0].head_dim * f.config.layers);
            attention[n] = 14 * heads * pairs; // forward 4 per pair and element of a head, backward 10
            // Count of a forward pass: 4 of those, and every token's share of the rest.
            double forward = model_forward_flops(&f.config, &f.lora, &f.batch) - attention[n] * 4 / 14;
            double model = model_flops(&f.config, &f.lora, &f.batch) - attention[n] * 12 / 14;
            assert_true(fabs(model - 3 * forward) <= 1e-12 * model);
        }
        double others[] = {(flops[0] - attention[0]) / tokens[0], (flops[1] - attention[1]) / tokens[1]};
        assert_true(tokens[1] < 0.75 * tokens[0] && others[0] > 0);
        assert_true(fabs(others[1] - others[0]) <= 1e-12 * others[0]);
        step_report_free(&report);
        fixture_close(&f);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_is_as_if_apart),
        cmocka_unit_test(a_pair_may_defer),
        cmocka_unit_test(flops_are_of_what_is_walked),
    };
    return cmocka_run_group_tests_name("shared prompt", tests, NULL, NULL);
}
