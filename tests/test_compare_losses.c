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
        const char *verdict, *on;
    } cases[] = {
        {{LOSS("3")}, {LOSS("3")}, "same", ""},
        {{LOSS("3")}, {LOSS("3.0000035")}, "same", ""}, // two noise floors of 6e-7
        {{LOSS("3")}, {LOSS("2.9999965")}, "same", ""},
        {{LOSS("3")}, {LOSS("3.000004")}, "worse", "worse"},
        {{LOSS("3")}, {LOSS("3.000004"), .floor = 1.1e-6}, "worse", "worse"}, // NEW's floor excuses nothing
        {{LOSS("3"), .floor = 1.1e-6}, {LOSS("3.000004")}, "same", ""},
        {{LOSS("3.25")}, {LOSS("3.24999")}, "worse", "worse"}, // less is as wrong
        {{.dtype = "bf16", LOSS("3")}, {.dtype = "bf16", LOSS("3.009")}, "same", ""},
        {{.dtype = "bf16", LOSS("3")}, {.dtype = "bf16", LOSS("3.011")}, "worse", "worse"},
        {{LOSS("3")}, {LOSS("null")}, "worse", "worse"},
        {{LOSS("null")}, {LOSS("null")}, "same", ""},
        {{.device = "plan-cpu", LOSS("null")}, {.device = "plan-cpu", LOSS("null")}, "same", ""},
        // Other data, or another model, has another loss; what a record does not say is taken for the same.
        {{HASHED("3", "1")}, {HASHED("4", "2")}, "changed", ""},
        {{HASHED("3", "1")}, {HASHED("4", "1")}, "worse", "worse"},
        {{LOSS("3")}, {HASHED("4", "1")}, "worse", "worse"},
        {{OF_MODEL("3", "1")}, {OF_MODEL("4", "2")}, "changed", ""},
        {{OF_MODEL("3", "1")}, {OF_MODEL("4", "1")}, "worse", "worse"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        BASE(*state, cases[i].base);
        NEW(*state, cases[i].new);
        expect_judged(*state, "--deterministic base new", cases[i].verdict, "loss", cases[i].on);
    }
    BASE(*state, {LOSS("3")});
    NEW(*state, {LOSS("3.000004")});
    expect(*state, "--deterministic base new", 1, "loss 3 -> 3.000004, +0.000133 %\n");
    NEW(*state, {LOSS("3.02")});
    expect(*state, "--deterministic --allow loss=1% base new", 0,
           "loss 3 -> 3.02, +0.667 %, let pass by --allow loss=1%\n");
    expect_judged(*state, "--deterministic --allow loss=0.01 base new", "worse", "loss", NULL);
    NEW(*state, {LOSS("null")});
    expect(*state, "--deterministic --allow loss=100% base new", 1, "loss 3 -> not finite\n");
    expect(*state, "--allow lass=1% base new", 2, "did you mean 'loss'?");
}

// Each file has three rounds. A round whose loss is not finite gives the other rounds no tolerance.
static void a_loss_that_is_not_finite_excuses_nothing(void **state)
{
    static const struct {
        const char *base[3], *new[3], *verdict;
    } cases[] = {
        {{"3", "3", "null"}, {"3", "3", "3"}, "changed"},
        {{"3", "3", "null"}, {"4", "4", "4"}, "worse"},
        {{"3", "3", "null"}, {"3.000001", "3.000001", "null"}, "same"},
        {{"3", "3", "null"}, {"3", "3", "null"}, "same"},
        {{"null", "3", "3"}, {"3", "3", "null"}, "same"},
        {{"3", "3", "null"}, {"4", "4", "null"}, "worse"},
        {{"3", "3", "null"}, {"null", "null", "null"}, "worse"},
        {{"3", "3", "3"}, {"3", "null", "3"}, "worse"},
        {{"null", "null", "null"}, {"3", "3", "3"}, "changed"},
        {{"null", "null", "null"}, {"null", "3", "3"}, "changed"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sketch sides[2][3] = {0};
        char losses[6][20];
        for (size_t k = 0; k < 6; k++) {
            snprintf(losses[k], sizeof losses[k], ", 'loss': %s", k < 3 ? cases[i].base[k] : cases[i].new[k - 3]);
            sides[k / 3][k % 3].more = losses[k];
        }
        write_records(*state, "base", sides[0], 3);
        write_records(*state, "new", sides[1], 3);
        bool same = strcmp(cases[i].verdict, "same") == 0;
        expect_judged(*state, "--deterministic base new", cases[i].verdict, "loss", same ? "" : NULL);
        if (strcmp(cases[i].verdict, "changed") == 0) // whatever is allowed
            expect_judged(*state, "--deterministic --allow loss=100% base new", "changed", "loss", NULL);
    }
}

static void the_loss_of_another_setting_is_another(void **state)
{
    BASE(*state, {.trial = 1, LOSS("3")}, {.trial = 5, LOSS("4")});
    expect(*state, "--deterministic --by head_chunk base", 0,
           "changed     00000000  seco, context 512, f32 cpu: loss 3 -> 4");
    BASE(*state, {.trial = 1, LOSS("3")}, {.trial = 5, LOSS("null")});
    expect(*state, "--deterministic --by head_chunk base", 1, "loss 3 -> not finite");
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
        const char *verdict, *what, *on;
    } cases[] = {
        {{STEADY("3", "3.1")}, {STEADY("3", "3.1")}, "same", "last_loss", ""},
        {{STEADY("3", "3.1")}, {STEADY("6", "6.1")}, "worse", "last_loss", NULL},
        {{STEADY("3", "3.1")}, {STEADY("6", "6.1")}, "worse", "held_out_loss", NULL},
        {{STEADY("3", "3.1")}, {STEADY("3", "6.1")}, "worse", "last_loss", ""},
        {{STEADY("6", "6.1")}, {STEADY("2", "2.1")}, "better", "last_loss", NULL},
        // BASE's last two steps are 0.9 from the step before: 2 sqrt((0.9^2 + 0.9^2) / 4 (1/2 + 1/2)) = 1.27.
        {{SCATTERED("2.6, 3.5", "3")}, {SCATTERED("2.6, 3.5", "4.2")}, "same", "held_out_loss", ""},
        {{SCATTERED("2.6, 3.5", "3")}, {SCATTERED("2.6, 3.5", "4.3")}, "worse", "held_out_loss", NULL},
        {{SCATTERED("2.6, 3.5", "3")}, {SCATTERED("2.6, 3.5", "1.7")}, "better", "held_out_loss", NULL},
        {{SCATTERED("2.6, 3.5", "3")},
         {SCATTERED("1, 11", "3")},
         "worse",
         "last_loss",
         NULL}, // NEW's excuses nothing
        {{SCATTERED("1, 11", "3")}, {SCATTERED("2.6, 3.5", "4.3")}, "same", "held_out_loss", ""},
        {{STEADY("3", "3.1")}, {.more = ", 'curve': {'loss': [3]}"}, "undecided", "held_out_loss", NULL},
        {{.more = ", 'curve': {'loss': [3]}"}, {STEADY("3", "3.1")}, "same", "held_out_loss", "not judged"},
        // A run of one step ends before it learned: as a step.
        {{.more = ", 'curve': {'loss': [3]}"},
         {.more = ", 'curve': {'loss': [3.000004]}"},
         "worse",
         "last_loss",
         NULL},
        {{.trial = 0}, {STEADY("3", "3.1")}, "same", "last_loss", "not judged"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        BASE(*state, cases[i].base);
        NEW(*state, cases[i].new);
        expect_judged(*state, "--deterministic base new", cases[i].verdict, cases[i].what, cases[i].on);
    }
    BASE(*state, {SCATTERED("2.6, 3.5", "3")});
    NEW(*state, {SCATTERED("2.6, 3.5", "4.3")});
    expect(*state, "--deterministic --allow held_out_loss=2% base new", 0, "--allow held_out_loss=2%");
}

static void settings_are_held_by_where_their_runs_end(void **state)
{
#define RUN(loss, hash) CURVE_OF("", loss ", " loss, loss) ", 'data_hash': '000000000000000" hash "'"
    static const struct {
        const char *key, *settings[2], *more[2];
        int code;
        const char *said;
    } cases[] = {
        {"optimizer",
         {", 'optimizer': {'name': 'sgd'}", ", 'optimizer': {'name': 'adamw'}"},
         {RUN("3.99", "1"), RUN("2.71", "1")},
         0,
         "better"},
        // A loss of other data or of another objective says nothing of how well a run learned.
        {"objective",
         {", 'objective': {'name': 'sft'}", ", 'objective': {'name': 'dpo'}"},
         {RUN("2.71", "1"), RUN("3.99", "1")},
         0,
         "changed"},
        {"seed", {", 'seed': 1", ", 'seed': 2"}, {RUN("2.71", "1"), RUN("3.99", "2")}, 0, "changed"},
        {"seed",
         {", 'seed': 1", ", 'seed': 2"},
         {RUN("2.71", "1") ", 'model_hash': '0000000000000001'",
          RUN("3.99", "1") ", 'model_hash': '0000000000000002'"},
         0,
         "changed"},
        {"seed", {", 'seed': 1", ", 'seed': 2"}, {RUN("2.71", "1"), RUN("3.99", "1")}, 1, "worse"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char arguments[64], row[96];
        snprintf(arguments, sizeof arguments, "--deterministic --by %s base", cases[i].key);
        snprintf(row, sizeof row, "%-11s 00000000  full, context 512, f32 cpu: last_loss", cases[i].said);
        BASE(*state, {.setting = cases[i].settings[0], .more = cases[i].more[0]},
             {.setting = cases[i].settings[1], .more = cases[i].more[1]});
        expect(*state, arguments, cases[i].code, row);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_step_has_the_same_loss_but_for_rounding), TEST(a_loss_that_is_not_finite_excuses_nothing),
        TEST(the_loss_of_another_setting_is_another),    TEST(training_runs_end_at_another_loss),
        TEST(settings_are_held_by_where_their_runs_end),
    };
    return cmocka_run_group_tests_name("compare losses", tests, NULL, NULL);
}
