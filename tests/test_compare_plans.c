// Tests of `longbp compare --by device` of a plan and measurements: exact values of a plan must be equal, and
// fields that a plan lacks are not judged.
#define _GNU_SOURCE // asprintf, nftw, mkdtemp
#include "tests/compared.h"

#define MEASURED(number)                                                                                           \
    .setting = ", 'profile': null, 'interconnect': null, 'measure': {'samples': " number                           \
               ", 'warmup': 1, 'gradient': 'full-f64'}"
#define PLANNED                                                                                                    \
    .device = "plan-cpu", .samples = -1,                                                                           \
    .setting = ", 'profile': 'rtx-3090', 'interconnect': 'infiniband', "                                           \
               "'measure': {'samples': 1, 'warmup': 0, 'gradient': 'none'}"
// The records' other members: what a measurement has, and a plan.
#define RAN        ", 'loss': 3, 'bias': {'rms_error': 0.5}, 'instructions': 7, 'energy_j': 2, 'device_used_bytes': 9"
#define COUNTED    ", 'estimate_ms': 4"
#define MORE_BYTES ", 'resident_bytes': 500, 'model_flops': 4000, 'attention_glue_bytes': 20"

static void a_plan_is_held_by_what_it_has(void **state)
{
    static const char title[] = "BASE: device cpu, NEW: device plan-cpu, profile rtx-3090\n";
    // Both ways round, in one file or in two.
    BASE(*state, {MEASURED("5"), .more = RAN MORE_BYTES}, {.trial = 1, MEASURED("20"), .more = RAN MORE_BYTES},
         {PLANNED, .more = COUNTED MORE_BYTES}, {.trial = 1, PLANNED, .more = COUNTED MORE_BYTES});
    expect(*state, "--by device base", 0, title);
    expect(
        *state, "--by device base", 0,
        "2 trials in both, 0 only in BASE, 0 only in NEW: 0 worse, 0 undecided, 0 changed, 0 better, 2 same, 0 not "
        "judged\n"
        "times: not compared: NEW is planned, and a plan has none\n"
        "verdict: same\n");
    expect(*state, "--by device --deterministic base", 0, "times: left out\n");
    NEW(*state, {MEASURED("5"), .more = RAN MORE_BYTES});
    BASE(*state, {PLANNED, .more = COUNTED MORE_BYTES});
    expect(*state, "--by device new base", 0, title);
    expect(
        *state, "--by device base new", 0,
        "1 trials in both, 0 only in BASE, 0 only in NEW: 0 worse, 0 undecided, 0 changed, 0 better, 1 same, 0 not "
        "judged\n"
        "times: not compared: BASE is planned, and a plan has none\n");
    // A trial that was not planned is not missed.
    NEW(*state, {MEASURED("5"), .more = RAN MORE_BYTES}, {.trial = 1, MEASURED("5"), .more = RAN MORE_BYTES});
    expect(*state, "--by device new base", 0,
           "1 trials in both, 1 only in BASE, 0 only in NEW: 0 worse, 0 undecided");
}

static void a_plan_with_other_bytes_is_worse(void **state)
{
    static const struct {
        struct sketch planned;
        const char *part;
    } cases[] = {
        {{PLANNED, .peak_bytes = 1001, .more = COUNTED MORE_BYTES}, "peak_bytes 1000 B -> 1001 B, +1 B, +0.1 %"},
        {{PLANNED, .peak_bytes = 999, .more = COUNTED MORE_BYTES}, "peak_bytes 1000 B -> 999 B, -1 B, -0.1 %"},
        {{PLANNED, .peak_bytes = 999, .activations = 601, .more = COUNTED MORE_BYTES},
         "peak_by_category.activations 600 B -> 601 B"},
        {{PLANNED, .activations = 599, .more = COUNTED MORE_BYTES}, "peak_by_category.activations 600 B -> 599 B"},
        {{PLANNED, .flops = 4999, .more = COUNTED MORE_BYTES}, "flops 5000 -> 4999"},
        {{PLANNED, .bytes_moved = 901, .more = COUNTED MORE_BYTES}, "bytes_moved 900 B -> 901 B"},
        {{PLANNED, .launches = 71, .more = COUNTED MORE_BYTES}, "launches 70 -> 71"},
        {{PLANNED, .more = COUNTED ", 'resident_bytes': 499, 'model_flops': 4000, 'attention_glue_bytes': 20"},
         "resident_bytes 500 B -> 499 B"},
        {{PLANNED, .more = COUNTED ", 'resident_bytes': 500, 'model_flops': 4001, 'attention_glue_bytes': 20"},
         "model_flops 4000 -> 4001"},
        {{PLANNED, .more = COUNTED ", 'resident_bytes': 500, 'model_flops': 4000, 'attention_glue_bytes': 19"},
         "attention_glue_bytes 20 B -> 19 B"},
    };
    NEW(*state, {MEASURED("5"), .more = RAN MORE_BYTES});
    for (size_t i = 0; i < COUNT(cases); i++) {
        char part[160];
        BASE(*state, cases[i].planned);
        snprintf(part, sizeof part, "worse       00000000  full, context 512, f32 plan-cpu: %s", cases[i].part);
        expect(*state, "--by device new base", 1, part);
        expect(*state, "--by device base new", 1, "verdict: worse\n");
    }
    expect(*state, "--by device --allow attention_glue_bytes=5% new base", 0,
           "let pass by --allow attention_glue_bytes=5%");
    // A figure that one of them does not know is no fault.
    BASE(*state, {PLANNED, .more = COUNTED ", 'model_flops': 4000, 'attention_glue_bytes': 20"});
    expect_silent(*state, "--by device new base", 0, "resident_bytes");
    expect(*state, "--by device base new", 0, "verdict: same\n");
    // Draws that are not the same.
    NEW(*state, {MEASURED("5"), .more = RAN ", 'drawn_chunks': [0, 3]"});
    BASE(*state, {PLANNED, .flops = 4000, .more = COUNTED ", 'drawn_chunks': [2]"});
    expect(*state, "--by device new base", 0, "1 pair drew other chunks");
}

static void how_a_trial_ends_is_foreseen_or_not(void **state)
{
    static const struct {
        const char *measured, *planned;
        int code;
        const char *change;
    } cases[] = {{"ok", "oom", 1, "worse "},
                 {"oom", "ok", 1, "worse "},
                 {"ok", "unsupported", 1, "worse "},
                 {"crash", "ok", 0, "not judged  "},
                 {"failed", "ok", 0, "not judged  "},
                 {"timeout", "ok", 0, "not judged  "},
                 {"unsupported", "ok", 0, "not judged  "},
                 {"oom", "oom", 0, ": 0 worse, 0 undecided, 0 changed, 0 better, 1 same"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        NEW(*state, {MEASURED("5"), .status = cases[i].measured});
        BASE(*state, {PLANNED, .status = cases[i].planned});
        expect(*state, "--by device new base", cases[i].code, cases[i].change);
        expect(*state, "--by device base new", cases[i].code, cases[i].change);
    }
}

#define LIMITED(memory, host) .setting = ", 'limits': {'memory': " memory ", 'host_memory': " host "}"

static void limits_of_one_side_are_left_out(void **state)
{
    static const char one[] = "1 trials in both, 0 only in BASE, 0 only in NEW",
                      none[] = "0 trials in both, 1 only in BASE, 1 only in NEW";
    static const struct {
        struct sketch measured;
        int code;
        const char *part;
    } cases[] = {{{LIMITED("null", "null")}, 0, one},
                 {{LIMITED("2048", "null")}, 0, one},
                 {{LIMITED("2048", "64")}, 0, one},
                 {{LIMITED("4096", "null")}, 3, none}};
    BASE(*state, {.device = "plan-cpu", .samples = -1, .more = COUNTED, LIMITED("2048", "null")});
    for (size_t i = 0; i < COUNT(cases); i++) {
        NEW(*state, cases[i].measured);
        expect(*state, "--by device new base", cases[i].code, cases[i].part);
        expect(*state, "--by device base new", cases[i].code, cases[i].part);
    }
    // If both sides have several, each is held against its own.
    BASE(*state, {.device = "plan-cpu", .samples = -1, .more = COUNTED, LIMITED("2048", "null")},
         {.device = "plan-cpu", .samples = -1, .more = COUNTED, .flops = 6000, LIMITED("4096", "null")});
    NEW(*state, {LIMITED("4096", "null"), .flops = 6000}, {LIMITED("2048", "null")});
    expect(*state, "--by device new base", 0, "2 trials in both, 0 only in BASE, 0 only in NEW: 0 worse");
    // A limit that the host has on one side alone is none of the device's.
    BASE(*state, {.device = "plan-cpu", .samples = -1, .more = COUNTED, LIMITED("2048", "64")});
    NEW(*state, {LIMITED("null", "32")});
    expect(*state, "--by device new base", 3, none);
}

// Sizes that are rounded to the same words are told to the byte.
static void limits_that_read_alike_are_told_apart(void **state)
{
    BASE(*state, {.setting = ", 'limits': {'memory': 35096013}"}, {.setting = ", 'limits': {'memory': 35651584}"});
    expect(*state, "--deterministic --by limits base", 0,
           "BASE: limits memory=33.47 MiB, NEW: limits memory=34.00 MiB\n");
    BASE(*state, {.setting = ", 'limits': {'memory': 35651584}"}, {.setting = ", 'limits': {'memory': 35096013}"},
         {.setting = ", 'limits': {'memory': 35096014}"});
    expect(*state, "--deterministic --by limits base", 0,
           "BASE: limits memory=35651584 B, NEW: limits memory=35096013 B\n");
    expect(*state, "--deterministic --by limits base", 0,
           "BASE: limits memory=35651584 B, NEW: limits memory=35096014 B\n");
}

// One has a limit that the other has not: it explains which of the two is out of memory.
static void a_limit_of_one_side_explains_oom(void **state)
{
    static const char *const limits[][2] = {{"2048", "null"}, {"null", "64"}};
    for (size_t i = 0; i < 4; i++) {
        char setting[80];
        snprintf(setting, sizeof setting, ", 'limits': {'memory': %s, 'host_memory': %s}", limits[i % 2][0],
                 limits[i % 2][1]);
        const char *limited = i < 2 ? "oom" : "ok", *free_of = i < 2 ? "ok" : "oom";
        // Both ways round: what was measured has the limit, or the plan.
        NEW(*state, {.setting = setting, .status = limited});
        BASE(*state, {PLANNED, .status = free_of});
        expect(*state, "--by device new base", 0, "not judged  00000000  full, context 512");
        expect(*state, "--by device new base", 0, ", one has a limit that the other has not\n");
        expect(*state, "--by device base new", 0, "verdict: not judged\n");
        NEW(*state, {MEASURED("5"), .status = free_of});
        BASE(*state, {.device = "plan-cpu", .samples = -1, .setting = setting, .status = limited});
        expect(*state, "--by device new base", 0, "0 better, 0 same, 1 not judged\n");
        expect(*state, "--by device base new", 0, "verdict: not judged\n");
    }
    // An end that no memory explains, and a limit that both have.
    NEW(*state, {LIMITED("2048", "null"), .status = "ok"});
    BASE(*state, {PLANNED, .status = "unsupported"});
    expect(*state, "--by device new base", 1, "verdict: worse\n");
    NEW(*state, {LIMITED("2048", "null"), .status = "oom"});
    BASE(*state, {.device = "plan-cpu", .samples = -1, LIMITED("2048", "null")});
    expect(*state, "--by device new base", 1, "status oom -> ok\n");
}

#define CARD .device = "cuda", .card = "NVIDIA H200, driver 580.95", MEASURED("5")
#define PLANNED_CUDA(profile)                                                                                      \
    .device = "plan-cuda", .samples = -1, .setting = ", 'profile': " profile ", 'interconnect': null, 'measure': {}"

static void the_title_says_what_was_planned(void **state)
{
    static const char note[] = "number of multiprocessors changes its plan",
                      advice[] = ": plan with --profile NAME\n";
    BASE(*state, {CARD});
    NEW(*state, {PLANNED_CUDA("'h200-141g'")});
    expect(*state, "--by device base new", 0,
           "BASE: device cuda, card NVIDIA H200, NEW: device plan-cuda, profile h200-141g\n");
    expect(*state, "--by device new base", 0,
           "BASE: device plan-cuda, profile h200-141g, NEW: device cuda, card NVIDIA H200\n");
    expect_silent(*state, "--by device base new", 0, "note:");
    expect(*state, "--by device --format json base new", 0, "'note': null");
    NEW(*state, {PLANNED_CUDA("'h200-141g'")}, {.trial = 1, PLANNED_CUDA("'rtx-3090'")});
    expect(*state, "--by device base new", 0, "NEW: device plan-cuda, profile h200-141g or rtx-3090\n");
    NEW(*state, {PLANNED_CUDA("null")});
    expect(*state, "--by device base new", 0,
           "BASE: device cuda, card NVIDIA H200, NEW: device plan-cuda, no profile\n");
    expect(*state, "--by device base new", 0, "note: NEW was planned without a profile, and a card");
    expect(*state, "--by device base new", 0, note);
    expect(*state, "--by device --format json base new", 0, "'note': 'NEW was planned");
    expect(*state, "--by device --format markdown base new", 0, "- note: NEW was planned");
    expect(*state, "--by device new base", 0, "note: BASE was planned without a profile");
    expect_silent(*state, "--by device base new", 0, advice);
    // A trial that one side alone has is no difference between the two.
    NEW(*state, {PLANNED_CUDA("null")}, {.trial = 1, PLANNED_CUDA("null")});
    expect_silent(*state, "--by device base new", 0, advice);
    NEW(*state, {PLANNED_CUDA("null"), .peak_bytes = 1001});
    expect(*state, "--by device base new", 1, note);
    expect(*state, "--by device base new", 1, advice);
    // The profile changes no byte of a plan of the CPU.
    BASE(*state, {MEASURED("5")}, {.device = "plan-cpu", .samples = -1, .peak_bytes = 1001});
    expect(*state, "--by device base", 1, "BASE: device cpu, NEW: device plan-cpu, no profile\n");
    expect_silent(*state, "--by device base", 1, "note:");
}

static void the_file_that_is_missing_is_named(void **state)
{
    static const char plan[] = " one device, cuda; a second result file is needed, of a plan: longbp run SPEC "
                               "--device plan-cuda --profile NAME --out FILE\n";
    static const struct {
        const char *files, *said;
    } cases[] = {{"base", "--by device: base has"},
                 {"base base", "--by device: base, given twice, has"},
                 {"base new", "--by device: base and new have"}};
    BASE(*state, {CARD});
    NEW(*state, {CARD});
    for (size_t i = 0; i < COUNT(cases); i++) {
        char arguments[80];
        snprintf(arguments, sizeof arguments, "--by device %s", cases[i].files);
        expect(*state, arguments, 2, cases[i].said);
        expect(*state, arguments, 2, plan);
    }
    BASE(*state, {MEASURED("5")});
    expect(*state, "--by device base", 2, "of a plan: longbp run SPEC --device plan-cpu --out FILE\n");
    BASE(*state, {PLANNED_CUDA("null")});
    expect(*state, "--by device base", 2,
           "one device, plan-cuda; a second result file is needed, of what was measured: longbp run SPEC --device "
           "cuda --out FILE\n");
    BASE(*state);
    expect(*state, "--by device base", 2, "--by device: base has no record with it");
}

static void two_that_measure_are_paired_as_before(void **state)
{
    static const char none[] = "0 trials in both, 1 only in BASE, 1 only in NEW";
    BASE(*state, {MEASURED("5")}, {.device = "cuda", MEASURED("6")});
    expect(*state, "--by device base", 3, none);
    BASE(*state, {MEASURED("5")}, {.device = "cuda", MEASURED("5"), .flops = 4000});
    expect(*state, "--by device --deterministic base", 0,
           "better      00000000  full, context 512, f32 cuda: flops");
    expect_silent(*state, "--by device base", 0, "times: not compared");
    // So are two plans, and a plan and what was measured by another key.
    BASE(*state, {PLANNED}, {.device = "plan-cuda", .samples = -1, MEASURED("5")});
    expect(*state, "--by device base", 3, none);
    BASE(*state, {MEASURED("5")}, {.trial = 4, PLANNED});
    expect(*state, "--by head_chunk base", 3, none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_plan_is_held_by_what_it_has),         TEST(a_plan_with_other_bytes_is_worse),
        TEST(how_a_trial_ends_is_foreseen_or_not),   TEST(limits_of_one_side_are_left_out),
        TEST(limits_that_read_alike_are_told_apart), TEST(a_limit_of_one_side_explains_oom),
        TEST(the_title_says_what_was_planned),       TEST(the_file_that_is_missing_is_named),
        TEST(two_that_measure_are_paired_as_before),
    };
    return cmocka_run_group_tests_name("compare plans", tests, NULL, NULL);
}
