// Training over ranks: the losses, norms and evaluations of one rank, for every method with ranks, with every level
// of ZeRO and stages, under objectives whose counts differ from rank to rank. Started by itself this program starts
// itself under mpirun, with 2 and 4 ranks.
#define _GNU_SOURCE // asprintf
#include "tests/training_run.h"
#include "tests/training_sequences.h"
#include "tests/under_mpirun.h"

enum { STEPS = 8 };

struct curve_of_run {
    double losses[STEPS], norms[STEPS], metrics[STEPS * OBJECTIVE_METRICS];
    double evaluations[2], evaluated_metrics[2 * OBJECTIVE_METRICS];
};

static void evaluate(struct training_run *run, struct curve_of_run *curve, size_t i)
{
    struct objective_sums found;
    struct status status = {0};
    assert_true(train_evaluate(&run->train, &found, &status));
    curve->evaluations[i] = found.loss;
    memcpy(curve->evaluated_metrics + i * OBJECTIVE_METRICS, found.metrics, sizeof found.metrics);
}

#define TIED                                                                                                       \
    "'model': {'layers': 2, 'width': 16, 'heads': 4, 'kv_heads': 2, 'head_dim': 4, 'ffn': 24, 'vocab': 37, "       \
    "'tied': true}"

// data: the trial's tokens or batch; keys: the rest besides model and method.
static struct curve_of_run train(const char *model, const char *data, const char *keys, const char *method,
                                 const char *parallel, const struct world *as)
{
    struct training_run run;
    struct curve_of_run curve;
    char *json;
    assert_true(asprintf(&json,
                         "{%s, 'data': {%s}, 'context': %d, 'dtype': 'f64', %s, 'optimizer': {'name': "
                         "'adamw', 'rate': 0.003}, 'method': {%s}, 'parallel': {%s}}",
                         model, data, CONTEXT, keys, method, parallel) > 0);
    training_run_open_as(&run, json, as);
    evaluate(&run, &curve, 0);
    for (size_t i = 0; i < STEPS; i++) {
        curve.losses[i] = training_run_step(&run);
        curve.norms[i] = run.train.gradient_norm;
        memcpy(curve.metrics + i * OBJECTIVE_METRICS, run.train.sums.metrics, sizeof run.train.sums.metrics);
    }
    evaluate(&run, &curve, 1);
    training_run_close(&run);
    free(json);
    return curve;
}

static bool agree(const double *a, const double *b, size_t count)
{
    bool same = true;
    for (size_t i = 0; i < count; i++)
        same = same && fabs(a[i] - b[i]) <= 1e-9 * fmax(fabs(b[i]), 0.1);
    return same;
}

// A run over the ranks that there are, and that of one. exact: to the bit.
static void check(const char *model, const char *data, const char *keys, const char *method, const char *parallel,
                  const struct curve_of_run *one, bool exact)
{
    struct curve_of_run found = train(model, data, keys, method, parallel, &world);
    if (exact ? memcmp(one, &found, sizeof found) != 0
              : !agree(found.losses, one->losses, STEPS) || !agree(found.norms, one->norms, STEPS) ||
                    !agree(found.metrics, one->metrics, STEPS * OBJECTIVE_METRICS) ||
                    !agree(found.evaluations, one->evaluations, 2) ||
                    !agree(found.evaluated_metrics, one->evaluated_metrics, 2 * OBJECTIVE_METRICS))
        fail_msg("%s, %s, {%s}: losses %.17g .. %.17g, of one rank %.17g .. %.17g", keys, method, parallel,
                 found.losses[0], found.losses[STEPS - 1], one->losses[0], one->losses[STEPS - 1]);
    double losses[STEPS];
    memcpy(losses, found.losses, sizeof losses);
    world.ops->broadcast(&world, losses, sizeof losses);
    assert_memory_equal(losses, found.losses, sizeof losses); // what one rank knows all know
}

// Two ranks at every level, four at the highest, of which an evaluation leaves some without sequences.
static void check_method(const struct method *method, const char *data, const char *keys)
{
    static const char *const exchanges[] = {"ring", "all-to-all"}; // of whole rows
    struct world alone;
    char words[120], parallel[80];
    size_t ranks = world.comm.size;
    int highest = method->by_layer ? ZERO_WEIGHTS : ZERO_OPTIMIZER;
    bool chunks = option_find(&method->options, "chunk");
    snprintf(words, sizeof words, "'name': '%s'%s", method->name, chunks ? ", 'chunk': 7, 'head_chunk': 5" : "");
    world_open_alone(&alone);
    const struct curve_of_run one = train(MODEL, data, keys, words, "", &alone);
    assert_true(one.losses[0] != one.losses[STEPS - 1]);
    for (int zero = ranks == 2 ? ZERO_NOTHING : highest; zero <= highest; zero++) {
        snprintf(parallel, sizeof parallel, "'data': %zu, 'zero': %d", ranks, zero);
        check(MODEL, data, keys, words, parallel, &one, false);
    }
    snprintf(parallel, sizeof parallel, "'sequence': 2, 'data': %zu, 'zero': %zu", ranks / 2, ranks - 2);
    if (method->parallel & PARALLEL_SEQUENCE)
        check(MODEL, data, keys, words, parallel, &one, false);
    for (size_t i = 0; i < COUNT(exchanges) && method->parallel & PARALLEL_SEQUENCE && ranks == 2; i++) {
        snprintf(parallel, sizeof parallel, "'sequence': 2, 'exchange': '%s'", exchanges[i]);
        check(MODEL, data, keys, words, parallel, &one, false);
    }
    if (method->parallel & PARALLEL_STAGE && ranks == 2) {
        check(MODEL, data, keys, words, "'stage': 2", &one, true);
        const struct curve_of_run tied = train(TIED, data, keys, words, "", &alone);
        check(TIED, data, keys, words, "'stage': 2", &tied, false); // both ends add to its table
    } else if (method->parallel & PARALLEL_STAGE) {
        check(MODEL, data, keys, words, "'stage': 2, 'data': 2, 'zero': 1", &one, false);
    }
}

static void windows_have_the_losses_of_one_rank(void **state)
{
    (void)state;
    for (const struct method *const *m = methods; *m; m++) {
        if ((*m)->exact)
            check_method(*m, "'tokens': 'tokens', 'dtype': 'u16'",
                         "'batch': 5, 'train': {'steps': 8, 'accumulate': 2, 'shuffle': 3, 'clip': 0.5, "
                         "'held_out': 0.5, 'evaluate_windows': 7}");
    }
}

// Sequences with more and with fewer labels, and pairs, which stay together: of one of the last no rank has any.
static void sequences_have_the_losses_of_one_rank(void **state)
{
    (void)state;
    static const char *const objectives_of[] = {"'token-mean'",
                                                "{'name': 'dpo', 'sft': 0.3}",
                                                "'kto'",
                                                "{'name': 'grpo', 'beta': 0.1}",
                                                "{'name': 'grpo', 'entropy_bonus': 0.2, 'z_loss': 0.1}",
                                                "{'name': 'sequence-mean', 'smoothing': 0.2}"};
    for (size_t o = 0; o < COUNT(objectives_of); o++) {
        for (const struct method *const *m = methods; *m; m++) {
            char keys[300];
            snprintf(
                keys, sizeof keys,
                "'batch': 8, 'objective': %s, 'train': {'steps': 8, 'shuffle': 5, 'clip': 0.1, 'held_out': 0.2}",
                objectives_of[o]);
            if (strcmp((*m)->name, "streambp") == 0 || strcmp((*m)->name, "seco") == 0)
                check_method(*m, "'batch': 'data'", keys);
        }
    }
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {2, 4};
    const struct CMUnitTest tests[] = {cmocka_unit_test(windows_have_the_losses_of_one_rank),
                                       cmocka_unit_test(sequences_have_the_losses_of_one_rank)};
    environment_settle(argv);
    if (argc > 1)
        return open_world() && cmocka_run_group_tests(tests, NULL, NULL) == 0 ? close_world() : 1;
    char *program = realpath(argv[0], NULL);
    struct scratch scratch = scratch_open();
    uint16_t tokens[40 * CONTEXT];
    for (size_t i = 0; i < COUNT(tokens); i++)
        tokens[i] = (uint16_t)((i * i + 3 * i) % VOCAB);
    write_file(&scratch, "data", 0, 5 * GROUP, WITH_NUMBERS);
    scratch_file(&scratch, "tokens", tokens, sizeof tokens);
    char plugin[4096];
    char *where = realpath(getenv("BUILD") ? getenv("BUILD") : "build", NULL);
    CHECK(program && where && chdir(scratch.folder) == 0);
    snprintf(plugin, sizeof plugin, "%s", where);
    setenv("BUILD", plugin, 1);
    int code = start_all(program, counts, COUNT(counts));
    scratch_close(&scratch);
    free(where);
    free(program);
    return code;
}
