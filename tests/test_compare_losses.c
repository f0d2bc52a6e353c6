// Tests of `longbp compare`: the loss of a step, which is to be the same but for rounding, and the losses that
// training runs end with, which may be as far apart as they scatter.
#define _GNU_SOURCE // asprintf, nftw, mkdtemp
#include "tests/compared.h"

#define LOSS(loss)           .more = ", 'loss': " loss
#define OF_MODEL(loss, last) .more = ", 'loss': " loss ", 'model_hash': '000000000000000" last "'"
#define HASHED(loss, last)   .more = ", 'loss': " loss ", 'data_hash': '000000000000000" last "'"

static void a_step_has_the_same_loss_but_for_rounding(void **state)
{
    static const struct {
        struct sketch base, new;
        int code;
        const char *part;
    } cases[] = {
        {{LOSS("3")}, {LOSS("3")}, 0, "0 otherwise changed"},
        {{LOSS("3")}, {LOSS("3.000003")}, 0, "0 otherwise changed"}, // two noise floors of 6e-7
        {{LOSS("3")}, {LOSS("2.999997")}, 0, "0 otherwise changed"},
        {{LOSS("3")},
         {LOSS("3.000004")},
         1,
         "worse       00000000  full, context 512, f32 cpu: loss 3 -> 3.000004"},
        {{LOSS("3.25")}, {LOSS("3.24999")}, 1, "loss 3.25 -> 3.24999, -0.000308 %\n"}, // less is as wrong
        {{.dtype = "bf16", LOSS("3")}, {.dtype = "bf16", LOSS("3.009")}, 0, "0 otherwise changed"},
        {{.dtype = "bf16", LOSS("3")}, {.dtype = "bf16", LOSS("3.011")}, 1, "loss 3 -> 3.011"},
        {{LOSS("3")},
         {LOSS("null")},
         1,
         "worse       00000000  full, context 512, f32 cpu: loss 3 -> not finite\n"},
        {{LOSS("null")}, {LOSS("null")}, 0, "0 otherwise changed"},
        {{.trial = 0}, {LOSS("3")}, 0, "other       00000000  full, context 512, f32 cpu: loss not finite -> 3\n"},
        {{.device = "plan-cpu", LOSS("null")}, {.device = "plan-cpu", LOSS("null")}, 0, "0 otherwise changed"},
        // Other data, or another model, has another loss; what a record does not say is taken for the same.
        {{HASHED("3", "1")},
         {HASHED("4", "2")},
         0,
         "other       00000000  full, context 512, f32 cpu: loss 3 -> 4"},
        {{HASHED("3", "1")}, {HASHED("null", "2")}, 1, "loss 3 -> not finite"},
        {{HASHED("3", "1")}, {HASHED("4", "1")}, 1, "verdict: worse"},
        {{LOSS("3")}, {HASHED("4", "1")}, 1, "verdict: worse"},
        {{OF_MODEL("3", "1")}, {OF_MODEL("4", "2")}, 0, "1 otherwise changed"},
        {{OF_MODEL("3", "1")}, {OF_MODEL("4", "1")}, 1, "verdict: worse"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        BASE(*state, cases[i].base);
        NEW(*state, cases[i].new);
        expect(*state, "--deterministic base new", cases[i].code, cases[i].part);
        expect(*state, "--deterministic base new", cases[i].code, cases[i].part);
    }
    BASE(*state, {LOSS("3")});
    NEW(*state, {LOSS("3.02")});
    expect(*state, "--allow loss=1% base new", 0, "loss 3 -> 3.02, +0.667 %, let pass by --allow loss=1%\n");
    expect(*state, "--allow loss=0.01 base new", 1, "worse");
    NEW(*state, {LOSS("null")});
    expect(*state, "--allow loss=100% base new", 1, "not finite");
    expect(*state, "--allow lass=1% base new", 2, "did you mean 'loss'?");
}

static void the_loss_of_another_setting_is_another(void **state)
{
    BASE(*state, {.trial = 1, LOSS("3")}, {.trial = 5, LOSS("4")});
    expect(*state, "--by head_chunk base", 0, "other       00000000  seco, context 512, f32 cpu: loss 3 -> 4");
    BASE(*state, {.trial = 1, LOSS("3")}, {.trial = 5, LOSS("null")});
    expect(*state, "--by head_chunk base", 1, "loss 3 -> not finite");
    BASE(*state, {.trial = 0, LOSS("3")}, {.trial = 0, .device = "plan-cpu", .samples = -1, LOSS("null")});
    expect_silent(*state, "--by device --deterministic base", 0, "loss"); // which a plan has none of
}

// Eight steps, of which the last quarter has a mean of 3; they scatter by `scatter` about it.
#define CURVE_OF(scatter, loss, held_out)                                                                          \
    ", 'curve': {'loss': [5, 4, 3.5, 3.2, 3, 3" scatter ", " loss "], 'evaluation_step': [4, 8], "                 \
    "'evaluation_loss': [4.5, " held_out "]}"
#define STEADY(loss, held_out)    .more = CURVE_OF("", loss ", " loss, held_out)
#define SCATTERED(loss, held_out) .more = CURVE_OF(".5", loss, held_out)

static void training_runs_end_at_another_loss(void **state)
{
    static const struct {
        struct sketch base, new;
        int code;
        const char *part, *flags;
    } cases[] = {
        {{STEADY("3", "3.1")}, {STEADY("3", "3.1")}, 0, "0 otherwise changed", ""},
        {{STEADY("3", "3.1")}, {STEADY("6", "6.1")}, 1, "last_loss 3 -> 6, +100 %\n", ""},
        {{STEADY("3", "3.1")}, {STEADY("6", "6.1")}, 1, "held_out_loss 3.1 -> 6.1, +96.8 %\n", ""},
        {{STEADY("3", "3.1")},
         {STEADY("3", "6.1")},
         1,
         "worse       00000000  full, context 512, f32 cpu: held",
         ""},
        {{STEADY("6", "6.1")},
         {STEADY("3", "3.1")},
         0,
         "better      00000000  full, context 512, f32 cpu: last",
         ""},
        // Each run's last two steps are 0.9 from the step before: 2 sqrt(2 (0.9^2 + 0.9^2) / 8) = 1.27.
        {{SCATTERED("2.6, 3.5", "3")}, {SCATTERED("2.6, 3.5", "4.2")}, 0, "other       00000000", ""},
        {{SCATTERED("2.6, 3.5", "3")}, {SCATTERED("2.6, 3.5", "4.3")}, 1, "held_out_loss 3 -> 4.3", ""},
        {{SCATTERED("2.6, 3.5", "3")}, {SCATTERED("2.7, 3.4", "3.2")}, 0, "held_out_loss 3 -> 3.2", ""},
        {{SCATTERED("2.6, 3.5", "3")}, {SCATTERED("1, 11", "3")}, 1, "last_loss 3.05 -> 6", ""}, // not its own
        // What is within the noise is told where bits repeat, and the program alone may have changed them.
        {{SCATTERED("2.6, 3.5", "3")},
         {.cpu = "another", SCATTERED("2.6, 3.5", "4.2")},
         0,
         "0 otherwise changed",
         "--deterministic"},
        {{.device = "cuda", SCATTERED("2.6, 3.5", "3")},
         {.device = "cuda", SCATTERED("2.6, 3.5", "4.2")},
         0,
         "0 otherwise changed",
         ""},
        {{.device = "cuda", SCATTERED("2.6, 3.5", "3")},
         {.device = "cuda", SCATTERED("2.6, 3.5", "4.3")},
         1,
         "held_out_loss 3 -> 4.3",
         ""},
        {{SCATTERED("2.6, 3.5", "3")},
         {SCATTERED("2.6, 3.5", "4.3")},
         0,
         "--allow held_out_loss=2%",
         "--allow "
         "held_out_loss=2%"},
        {{STEADY("3", "3.1")}, {.more = ", 'curve': {'loss': [3]}"}, 3, "held_out_loss 3.1 -> unknown", ""},
        {{.more = ", 'curve': {'loss': [3]}"}, {STEADY("3", "3.1")}, 0, "held_out_loss unknown -> 3.1", ""},
        // A run of one step ends before it learned: as a step.
        {{.more = ", 'curve': {'loss': [3]}"}, {.more = ", 'curve': {'loss': [3.000004]}"}, 1, "last_loss", ""},
        {{.trial = 0}, {STEADY("3", "3.1")}, 0, "other       00000000", ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char arguments[160];
        BASE(*state, cases[i].base);
        NEW(*state, cases[i].new);
        snprintf(arguments, sizeof arguments, "%s base new", cases[i].flags);
        expect(*state, arguments, cases[i].code, cases[i].part);
    }
}

static void settings_are_held_by_where_their_runs_end(void **state)
{
#define RUN(loss, hash) CURVE_OF("", loss ", " loss, loss) ", 'data_hash': '000000000000000" hash "'"
    BASE(*state, {.trial = 0, .setting = ", 'optimizer': {'name': 'sgd'}", .more = RUN("3.99", "1")},
         {.trial = 0, .setting = ", 'optimizer': {'name': 'adamw'}", .more = RUN("2.71", "1")});
    expect(*state, "--by optimizer base", 0,
           "better      00000000  full, context 512, f32 cpu: last_loss 3.99 -> 2.71, -32.1 %\n");
    expect(*state, "--by optimizer base", 0, "verdict: better\n");
    // Of other data, and of another objective, a loss says nothing of how well a run learned.
    BASE(*state, {.trial = 0, .setting = ", 'objective': {'name': 'sft'}", .more = RUN("2.71", "1")},
         {.trial = 0, .setting = ", 'objective': {'name': 'dpo'}", .more = RUN("3.99", "1")});
    expect(*state, "--by objective base", 0, "last_loss 2.71 -> 3.99");
    expect(*state, "--by objective base", 0, "verdict: same\n");
    BASE(*state, {.trial = 0, .setting = ", 'seed': 1", .more = RUN("2.71", "1")},
         {.trial = 0, .setting = ", 'seed': 2", .more = RUN("3.99", "2")});
    expect(*state, "--by seed base", 0, "last_loss 2.71 -> 3.99");
    expect(*state, "--by seed base", 0, "verdict: same\n");
    BASE(*state, {.trial = 0, .setting = ", 'seed': 1", .more = RUN("2.71", "1")},
         {.trial = 0, .setting = ", 'seed': 2", .more = RUN("3.99", "1")});
    expect(*state, "--by seed base", 1, "verdict: worse\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_step_has_the_same_loss_but_for_rounding),
        TEST(the_loss_of_another_setting_is_another),
        TEST(training_runs_end_at_another_loss),
        TEST(settings_are_held_by_where_their_runs_end),
    };
    return cmocka_run_group_tests_name("compare losses", tests, NULL, NULL);
}
