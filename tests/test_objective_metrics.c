// Metrics of a step beside its loss, under every objective and setting, against independent formulas from the
// rows' log-probs; and the same by every method. Loops over the arrays: a new entry is tested by existing.
#include "harness/machine/environment.h"
#include "methods/schedule/log_probs.h"
#include "tests/fixture.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { CONTEXT = 23, BATCH = 4, ROWS = CONTEXT * BATCH };

// [BATCH, CONTEXT], of sequences of several lengths.
static int32_t targets[ROWS];

static void open(struct fixture *f)
{
    for (int i = 0; i < ROWS; i++) {
        int b = i / CONTEXT, t = i % CONTEXT;
        targets[i] = t == 15 || t >= 18 + b || (b == 1 && t < 5) ? NO_TARGET : (7 * i + 3) % 31;
    }
    f->context = CONTEXT;
    f->batch_size = BATCH;
    f->targets = targets;
    fixture_open(f);
}

// [BATCH, CONTEXT]
static void log_probs(struct fixture *f, double *values)
{
    double turned[ROWS];
    struct tensor log_prob = tensor_new(f->device, ROWS, 1, DTYPE_F64, CATEGORY_DATA);
    log_prob_pass(&f->model, &f->batch, log_prob, (struct log_prob_options){0});
    tensor_read(f->device, log_prob, turned);
    tensor_free(f->device, &log_prob);
    for (int i = 0; i < ROWS; i++)
        values[i] = turned[i % CONTEXT * BATCH + i / CONTEXT];
}

// The mean over rows with a target of the entropy of what the model predicts there: a forward for each token that
// could be the target.
static double entropy_of(struct fixture *f)
{
    int32_t own[ROWS], other[ROWS];
    double sum = 0, count = 0;
    op_download(f->device, own, f->batch.targets);
    for (int32_t id = 0; id < (int32_t)f->config.vocab; id++) {
        double l[ROWS];
        for (int i = 0; i < ROWS; i++)
            other[i] = own[i] < 0 ? NO_TARGET : id;
        op_upload(f->device, f->batch.targets, other);
        log_probs(f, l);
        for (int i = 0; i < ROWS; i++)
            sum -= targets[i] < 0 ? 0 : exp(l[i]) * l[i];
    }
    op_upload(f->device, f->batch.targets, own);
    for (int i = 0; i < ROWS; i++)
        count += targets[i] >= 0;
    return sum / count;
}

// That of the squares of logsumexp: what a z-loss of weight 1 adds to the cross-entropy.
static double z_loss_of(struct fixture *f)
{
    const struct objective *own = f->objective, *mean = objective_find("token-mean");
    void *settings = f->objective_settings;
    double losses[2];
    for (int i = 0; i < 2; i++) {
        struct step_report report = {0};
        f->objective = mean;
        f->objective_settings = options_new(&mean->options);
        assert_true(options_set(&mean->options, f->objective_settings, "z_loss", i ? "1" : "0"));
        fixture_set_objective(f, f->device, &f->batch, 0);
        free(fixture_step(f, "full", NULL, &report));
        losses[i] = report.sums.loss;
        step_report_free(&report);
        options_free(&mean->options, f->objective_settings);
    }
    f->objective = own;
    f->objective_settings = settings;
    fixture_set_objective(f, f->device, &f->batch, 0);
    return losses[1] - losses[0];
}

static double number(const struct fixture *f, const char *name)
{
    const struct option *option = option_find(&f->objective->options, name);
    double value;
    memcpy(&value, (const char *)f->objective_settings + option->offset, sizeof value);
    return value;
}

static bool is(const struct fixture *f, const char *name, const char *choice)
{
    const struct option *option = option_find(&f->objective->options, name);
    return strcmp(option->choices[*(const int *)((const char *)f->objective_settings + option->offset)], choice) ==
           0;
}

static size_t count_of(size_t b)
{
    size_t count = 0;
    for (size_t i = b * CONTEXT; i < (b + 1) * CONTEXT; i++)
        count += targets[i] >= 0;
    return count;
}

static void of_pairs(const struct fixture *f, const double *l, double *metrics)
{
    bool orpo = strcmp(f->objective->name, "orpo") == 0, simpo = !orpo && is(f, "kind", "simpo");
    bool mean = orpo || simpo || is(f, "kind", "ipo") || is(f, "kind", "sigmoid_norm");
    bool alone = orpo || simpo || is(f, "kind", "cpo");
    for (size_t b = 0; b < BATCH; b += 2) {
        double sums[2] = {0}, shorter = fmin((double)count_of(b), (double)count_of(b + 1)), seen[2] = {0};
        for (size_t i = b * CONTEXT; i < (b + 2) * CONTEXT; i++) {
            size_t one = i / CONTEXT - b;
            double share = targets[i] < 0 ? 0 : orpo || seen[one]++ < shorter ? 1 : number(f, "ld_alpha");
            sums[one] += share * (l[i] - (alone ? 0 : f->reference[i])) / (mean ? (double)count_of(b + one) : 1);
        }
        metrics[METRIC_MARGIN] += number(f, "beta") * (sums[0] - sums[1]) / (BATCH / 2.0);
        metrics[METRIC_ACCURACY] += (sums[0] > sums[1]) / (BATCH / 2.0);
    }
}

static void of_values(const struct fixture *f, const double *l, double *metrics)
{
    size_t step = is(f, "kind", "kto") ? 2 : 1;
    double kl = 0, rewards[2] = {0}, counts[2] = {0};
    for (size_t b = 0; b < BATCH; b++) {
        double sum = 0;
        for (size_t i = b * CONTEXT; i < (b + 1) * CONTEXT; i++)
            sum += targets[i] < 0 ? 0 : l[i] - f->reference[i];
        bool mismatched = b % step == 1, good = f->desirable[b];
        kl += mismatched ? sum / (BATCH / 2.0) : 0;
        rewards[good] += mismatched ? 0 : number(f, "beta") * sum;
        counts[good] += !mismatched;
    }
    metrics[METRIC_MARGIN] = rewards[1] / counts[1] - rewards[0] / counts[0];
    metrics[METRIC_KL] = fmax(0, kl);
}

static void of_rows(const struct fixture *f, const double *l, double *metrics)
{
    double all = (double)(count_of(0) + count_of(1) + count_of(2) + count_of(3)), sums[BATCH] = {0};
    bool gspo = is(f, "policy", "gspo") || is(f, "policy", "gspo_token"), clip = gspo || is(f, "policy", "clip"),
         cispo = is(f, "policy", "cispo");
    bool of_sequence = is(f, "sampling", "sequence_truncate") || is(f, "sampling", "sequence_mask");
    bool masks = is(f, "sampling", "token_mask") || is(f, "sampling", "sequence_mask");
    for (size_t i = 0; i < ROWS; i++)
        sums[i / CONTEXT] += targets[i] < 0 ? 0 : f->old[i] - f->sampling[i];
    for (size_t i = 0; i < ROWS; i++) {
        size_t b = i / CONTEXT;
        double most_sampled = number(f, "sampling_max") > 0 ? number(f, "sampling_max") : INFINITY;
        double sampled = exp(of_sequence ? sums[b] : f->old[i] - f->sampling[i]);
        bool gone = masks && (sampled > most_sampled || sampled < number(f, "sampling_min"));
        double a = gone ? 0 : strstr(f->settings, "advantages=tokens") ? f->token_advantages[i] : f->advantages[b];
        double log_ratio = l[i] - f->old[i], gap = f->reference[i] - l[i];
        for (size_t j = b * CONTEXT; gspo && j < (b + 1) * CONTEXT; j++) {
            log_ratio = j == b * CONTEXT ? 0 : log_ratio;
            log_ratio += targets[j] < 0 ? 0 : (l[j] - f->old[j]) / (double)count_of(b);
        }
        double ratio = exp(log_ratio), dual = number(f, "dual") > 0 ? number(f, "dual") : INFINITY;
        double k = is(f, "estimator", "k1") ? -gap : is(f, "estimator", "k2") ? gap * gap / 2 : exp(gap) - gap - 1;
        double most = cispo ? number(f, "ratio_max") : a > 0 ? 1 + number(f, "clip_high") : dual;
        bool counts = targets[i] >= 0;
        metrics[METRIC_CLIP_LOW] += (counts && clip && a < 0 && ratio < 1 - number(f, "clip_low")) / all;
        metrics[METRIC_CLIP_HIGH] += (counts && a != 0 && (clip || cispo) && ratio > most) / all;
        metrics[METRIC_KL] += counts && number(f, "beta") > 0 ? k / all : 0;
    }
}

static void check(const struct fixture *f, const char *method, const double *found, const double *expected,
                  bool *seen)
{
    for (int m = 0; m < OBJECTIVE_METRICS; m++) {
        const char *name = objective_metrics[m].name;
        if (!(fabs(found[m] - expected[m]) <= 1e-13 * fmax(1, fabs(expected[m]))))
            fail_msg("%s under %s %s: %s %.17g, expected %.17g", method, f->objective->name, f->settings, name,
                     found[m], expected[m]);
        bool has = objective_has_metric(f->objective, f->objective_settings, (enum objective_metric)m);
        if (found[m] != 0 && !has)
            fail_msg("%s %s: %s %.17g, which it does not have", f->objective->name, f->settings, name, found[m]);
        seen[m] = seen[m] || (found[m] != 0 && found[m] != 1);
    }
}

static void test_what_they_mean(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    bool seen[OBJECTIVE_METRICS] = {false};
    for (size_t n = 0; fixture_choose_objective(&f, n); n++) {
        double l[ROWS], expected[OBJECTIVE_METRICS] = {0};
        struct step_report report = {0};
        open(&f);
        log_probs(&f, l);
        if (strcmp(f.objective->name, "dpo") == 0 || strcmp(f.objective->name, "orpo") == 0)
            of_pairs(&f, l, expected);
        else if (strcmp(f.objective->name, "kto") == 0)
            of_values(&f, l, expected);
        else if (strcmp(f.objective->name, "grpo") == 0)
            of_rows(&f, l, expected);
        if (strstr(f.settings, "entropy"))
            expected[METRIC_ENTROPY] = entropy_of(&f);
        if (strstr(f.settings, "z_loss"))
            expected[METRIC_Z_LOSS] = z_loss_of(&f);
        free(fixture_step(&f, "full", NULL, &report));
        check(&f, "full", report.sums.metrics, expected, seen);
        for (const struct method *const *m = methods; *m && (n % 3 == 0 || !*f.settings); m++) {
            void *options = fixture_options(*m, "chunk=5 head_chunk=2 budget=2 loss=all");
            bool all = (*m)->exact || (objective_gathers(&f.batch) && (*m)->make_exact); // whatever is drawn
            struct status status = {0};
            if (all && method_check_objective(*m, options, f.objective, f.objective_settings, &status)) {
                free(fixture_step(&f, (*m)->name, options, &report));
                check(&f, (*m)->name, report.sums.metrics, expected, seen);
            }
            options_free(&(*m)->options, options);
        }
        step_report_free(&report);
        fixture_close(&f);
    }
    // Routers' losses, which follow, need experts: test_experts.c.
    for (int m = 0; m < METRIC_AUX_LOSS; m++)
        if (!seen[m])
            fail_msg("%s is nowhere but 0 or 1", objective_metrics[m].name);
}

// A step that nothing feeds has none, and says 0.
static void test_nothing_counts(void **state)
{
    (void)state;
    struct fixture f = fixture_default();
    int32_t none[2 * CONTEXT];
    for (int i = 0; i < 2 * CONTEXT; i++)
        none[i] = NO_TARGET;
    f.objective = objective_find("grpo");
    f.context = CONTEXT;
    f.batch_size = 2;
    f.targets = none;
    fixture_open(&f);
    struct step_report report = {0};
    free(fixture_step(&f, "full", NULL, &report));
    for (int m = 0; m < OBJECTIVE_METRICS; m++)
        assert_true(report.sums.metrics[m] == 0);
    step_report_free(&report);
    fixture_close(&f);
}

int main(int argc, char **argv)
{
    (void)argc;
    environment_settle(argv); // the BLAS kernels that the program itself uses
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_they_mean),
                                       cmocka_unit_test(test_nothing_counts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
