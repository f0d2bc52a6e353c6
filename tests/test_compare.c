// Tests of `longbp compare` on records written for them: each verdict and its exit code, the output, and every
// kind of refused file.
#define _GNU_SOURCE // asprintf, nftw, mkdtemp
#include "tests/compared.h"
#include <math.h>

// --- verdicts

static void equal_files_are_the_same(void **state)
{
    BASE(*state, {.trial = 0}, {.trial = 1}, {.trial = 2, .status = "oom"});
    expect(
        *state, "--deterministic base base", 0,
        "3 trials in both, 0 only in BASE, 0 only in NEW: 0 worse, 0 undecided, 0 changed, 0 better, 3 same, 0 not "
        "judged\n");
    expect(*state, "--deterministic base base", 0, "verdict: same\n");
    expect_silent(*state, "--deterministic base base", 0, "context 512"); // only what changed
    expect(*state, "--all base base", 0, "full, context 512, f32 cpu: time 10.01 ms -> 10.01 ms, x1.000 [");
    expect(*state, "--all base base", 0, "full, context 1024, f32 cpu: oom");
}

static void statuses(void **state)
{
    enum { S, B, C, W }; // same, better, changed, worse
    static const char *const names[] = {"ok", "oom", "timeout", "unsupported", "crash", "failed"},
                             *const verdicts[] = {"same", "better", "changed", "worse"};
    static const int expected[6][6] = {{S, W, W, W, W, W}, {B, S, C, C, W, W}, {B, C, S, C, W, W},
                                       {B, C, C, S, W, W}, {B, B, B, B, S, C}, {B, B, B, B, C, S}};
    for (size_t i = 0; i < 6; i++) {
        for (size_t j = 0; j < 6; j++) {
            BASE(*state, {.trial = 1, .samples = -1}, {.samples = -1, .status = names[i]});
            NEW(*state, {.trial = 1, .samples = -1}, {.samples = -1, .status = names[j]});
            const char *verdict = verdicts[expected[i][j]], *shown = i == j ? "" : verdict;
            expect_judged(*state, "base new", verdict, "status", shown);
            // Another machine may be too slow.
            bool slow = i == 0 && j == 2;
            expect_judged(*state, "--deterministic base new", slow ? "undecided" : verdict, "status",
                          slow ? "undecided" : shown);
        }
    }
}

// Which verdict each change is: tests/test_compare_table.c.
static void changes_are_told(void **state)
{
    static const struct {
        struct sketch new;
        int code;
        const char *part;
    } cases[] = {
        {{.peak_bytes = 1001},
         1,
         "worse       00000000  full, context 512, f32 cpu: peak_bytes 1000 B -> 1001 B, +1 B, +0.1 %\n"},
        {{.peak_bytes = 999},
         0,
         "better      00000000  full, context 512, f32 cpu: peak_bytes 1000 B -> 999 B, -1 B, -0.1 %\n"},
        {{.activations = 601}, 1, "peak_by_category.activations 600 B -> 601 B, +1 B"},
        {{.flops = 5001}, 1, "worse       00000000  full, context 512, f32 cpu: flops 5000 -> 5001, +0.02 %\n"},
        {{.more = ", 'host_peak_bytes': 5"}, 1, "host_peak_bytes 0 B -> 5 B, +5 B\n"},
        {{.more = ", 'resident_bytes': 5"}, 0, "only in NEW 00000000  full, context 512, f32 cpu: resident_bytes "},
        {{.more = ", 'resident_bytes': 5"}, 0, "1 figure is only in NEW, and not judged\n"},
        {{.more = ", 'data_hash': '0123456789abcdee'"},
         3,
         "changed     00000000  full, context 512, f32 cpu: inputs other data (data_hash), nothing else is "
         "judged\n"},
        {{.more = ", 'data_hash': '0123456789abcdee'"},
         3,
         "verdict: changed: 1 trial read other data or another model\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        BASE(*state, {.more = ", 'data_hash': '0123456789abcdef'"});
        NEW(*state, cases[i].new);
        expect(*state, "--deterministic base new", cases[i].code, cases[i].part);
    }
    BASE(*state, {.more = ", 'model_flops': 5"});
    NEW(*state, {.trial = 0});
    expect(*state, "--deterministic base new", 3, "model_flops 5 -> unknown\n");
    expect(*state, "--deterministic base new", 3, "verdict: undecided: 1 trial lacks figures that BASE has\n");
}

// Those of one build are within 3 % of each other, less as well as more.
static void instructions_have_their_noise(void **state)
{
#define INSTRUCTIONS(count) .more = ", 'instructions': " #count
    BASE(*state, {INSTRUCTIONS(1000000000), .machine = ", 'spin_count': 5000"});
    NEW(*state, {INSTRUCTIONS(971000000)});
    expect_judged(*state, "--deterministic --exact base new", "same", "instructions", "");
    NEW(*state, {INSTRUCTIONS(1200000000), .machine = ", 'spin_count': null"});
    expect_judged(*state, "--deterministic --allow instructions=10% base new", "worse", "instructions", NULL);
    NEW(*state, {INSTRUCTIONS(1090000000)});
    expect(*state, "--deterministic --allow instructions=10% base new", 0, "let pass by --allow instructions=10%");
}

static void allowances(void **state)
{
    static const struct {
        const char *allow, *verdict, *what, *on;
    } cases[] = {
        {"--exact", "worse", "launches", "worse"},
        {"--allow peak_bytes=1%,launches=2", "same", "launches", "same"},
        {"--allow peak_bytes=10 --allow launches=3%", "same", "peak_bytes", "same"},
        {"--allow peak_bytes=10B,launches=2", "same", "peak_by_category.activations", "same"},
        {"--allow peak_bytes=1%", "worse", "launches", "worse"},
        {"--allow peak_bytes=9,launches=2", "worse", "peak_bytes", "worse"},
        {"--allow peak_bytes=1%,launches=2,peak_by_category=0", "worse", "peak_by_category.activations", "worse"},
        {"--allow peak_bytes=1%,launches=2,peak_by_category=2%", "same", "peak_by_category.activations", "same"},
    };
    char arguments[160];
    BASE(*state, {.trial = 0});
    NEW(*state, {.peak_bytes = 1010, .activations = 610, .launches = 72});
    for (size_t i = 0; i < COUNT(cases); i++) {
        snprintf(arguments, sizeof arguments, "--deterministic %s base new", cases[i].allow);
        expect_judged(*state, arguments, cases[i].verdict, cases[i].what, cases[i].on);
    }
    NEW(*state, {.launches = 69});
    expect_judged(*state, "--deterministic --exact --allow launches=1 base new", "same", "launches", NULL);
    expect_judged(*state, "--deterministic --exact --allow launches=1% base new", "worse", "launches", NULL);
    static const char *const bad[] = {"peak_bites=1%",  "peak_bytes",     "peak_bytes=",    "peak_bytes=-1",
                                      "peak_bytes=1%%", "peak_bytes=nan", "peak_bytes=1e3", "launches=2,,",
                                      "flops=inf%",     "flops=0x10"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        snprintf(arguments, sizeof arguments, "--allow %s base new", bad[i]);
        expect(*state, arguments, 2, "--allow: ");
    }
    expect(*state, "--allow peak_bites=1% base new", 2, "did you mean 'peak_bytes'?");
}

static void gradient_errors_may_move_within_rounding(void **state)
{
    static const struct {
        struct sketch base, new;
        const char *verdict;
    } cases[] = {
        {{.error = 5e-7}, {.error = 1.6e-6}, "same"}, // two noise floors of 6e-7 more
        {{.error = 5e-7}, {.error = 1.8e-6}, "worse"},
        {{.error = 5e-7}, {.error = 1.8e-6, .floor = 1e-6}, "worse"}, // NEW's floor excuses nothing
        {{.error = 5e-7, .floor = 1e-6}, {.error = 1.8e-6}, "same"},
        {{.error = 1e-5}, {.error = 1e-7}, "better"},
        // A floor of next to nothing, for the one other order of sums flipped no rounding: up to 2 * 0.4247 * 2^-8.
        {{.dtype = "bf16", .error = 5e-3, .floor = 1e-9},
         {.dtype = "bf16", .error = 8.3e-3, .floor = 1e-9},
         "same"},
        {{.dtype = "bf16", .error = 5e-3, .floor = 1e-9},
         {.dtype = "bf16", .error = 8.4e-3, .floor = 1e-9},
         "worse"},
        {{.dtype = "bf16", .error = 5e-3, .floor = 3e-3},
         {.dtype = "bf16", .error = 1.09e-2, .floor = 3e-3},
         "same"},
        {{.dtype = "bf16", .error = 5e-3, .floor = 3e-3},
         {.dtype = "bf16", .error = 1.11e-2, .floor = 3e-3},
         "worse"},
        {{.dtype = "f64", .error = 1e-16, .floor = 1e-15},
         {.dtype = "f64", .error = 9e-13, .floor = 1e-15},
         "same"},
        {{.dtype = "f64", .error = 1e-16, .floor = 1e-15},
         {.dtype = "f64", .error = 1.1e-12, .floor = 1e-15},
         "worse"},
        {{.error = 0.25}, {.error = 0.250001}, "same"}, // a sampled gradient
        {{.error = 0.25}, {.error = 0.2501}, "worse"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *verdict = cases[i].verdict;
        BASE(*state, cases[i].base);
        NEW(*state, cases[i].new);
        expect_judged(*state, "--deterministic base new", verdict, "gradient.relative_l2",
                      strcmp(verdict, "same") == 0 ? "" : NULL);
    }
    // A tensor has no floor of its own: twice its error in BASE, up to 32 floors of 6e-7, and no less than one
    // floor.
#define TENSOR(error) .bits = ", 'tensors': {'w': {'hash': '0000000000000001', 'relative_l2': " #error "}}"
    static const struct {
        struct sketch base, new;
        const char *verdict;
    } tensors[] = {
        {{TENSOR(1e-5)}, {TENSOR(2.9e-5)}, "same"}, {{TENSOR(1e-5)}, {TENSOR(3.1e-5)}, "worse"},
        {{TENSOR(0.1)}, {TENSOR(0.10003)}, "same"}, {{TENSOR(0.1)}, {TENSOR(0.10004)}, "worse"},
        {{TENSOR(1e-9)}, {TENSOR(1.1e-6)}, "same"}, {{TENSOR(1e-9)}, {TENSOR(1.3e-6)}, "worse"},
        {{TENSOR(1e-4)}, {TENSOR(1e-5)}, "better"},
    };
    for (size_t i = 0; i < COUNT(tensors); i++) {
        const char *verdict = tensors[i].verdict;
        BASE(*state, tensors[i].base);
        NEW(*state, tensors[i].new);
        expect_judged(*state, "--deterministic base new", verdict, "w", strcmp(verdict, "same") == 0 ? "" : NULL);
    }
}

static void what_allow_let_pass_is_listed(void **state)
{
    static const char allow[] = "--deterministic --allow peak_bytes=1%,launches=2 base new";
    BASE(*state, {.trial = 0});
    NEW(*state, {.peak_bytes = 1010, .activations = 610, .launches = 72, .more = ", 'host_peak_bytes': null"});
    expect(*state, allow, 0, "peak_bytes 1000 B -> 1010 B, +10 B, +1 %, let pass by --allow peak_bytes=1%\n");
    // A part of the peak by what is said of the peak.
    expect(*state, allow, 0, "activations 600 B -> 610 B, +10 B, +1.67 %, let pass by --allow peak_bytes=1%\n");
    expect(*state, allow, 0,
           "allowed     00000000  full, context 512, f32 cpu: launches 70 -> 72, +2.86 %, let pass ");
    expect(*state, allow, 0, "3 figures changed and were let pass by --allow\n");
    expect(*state, "--deterministic --format json --allow launches=2,peak_bytes=1% base new", 0,
           "'allowance': 'launches=2'");
    // Nobody let pass what fell.
    NEW(*state, {.peak_bytes = 999, .activations = 601});
    expect_silent(*state, "--deterministic --allow launches=2 base new", 0, "let pass");
}

static void a_pull_request_gets_markdown_or_test_results(void **state)
{
    BASE(*state, {.trial = 0}, {.trial = 1}, {.trial = 2}, {.trial = 3});
    NEW(*state, {.peak_bytes = 1 << 20}, {.trial = 1}, {.trial = 2, .status = "oom"});
    expect(*state, "--deterministic --format markdown base base", 0, "**verdict: same**\n\n- 4 trials in both");
    expect_silent(*state, "--deterministic --format markdown base base", 0, "|");
    expect(*state, "--deterministic --format markdown base new", 1, "**verdict: worse**\n\n- 3 trials in both");
    expect(*state, "--deterministic --format markdown base new", 1,
           "| peak_bytes | 1000 B | 1.00 MiB | +1023.02 KiB, ");
    // A case for each trial and one for the verdict: those that are worse fail, those that are open are skipped.
    expect(*state, "--deterministic --format junit base new", 1,
           "<testsuite name='longbp compare' tests='5' failures='3' errors='0' skipped='1'>\n"
           "    <testcase classname='longbp.compare' name='full, context 512, f32 cpu'>\n"
           "      <failure>worse peak_bytes 1000 B -&gt; 1.00 MiB, +1023.02 KiB");
    expect(*state, "--deterministic --format junit base new", 1,
           "name='seco, context 1024, f32 cpu'>\n      <skipped>undecided status ok -&gt; -, only in "
           "BASE\n</skipped>");
    expect(*state, "--deterministic --format junit base base", 0, "tests='5' failures='0' errors='0' skipped='0'");
    // An undecided verdict is an error: nobody has seen that it is fine.
    NEW(*state, {.trial = 1}, {.trial = 2}, {.trial = 3});
    expect(*state, "--deterministic --format junit base new", 3, "tests='5' failures='0' errors='1' skipped='1'>");
    expect(*state, "--deterministic --format junit base new", 3,
           "name='verdict'>\n      <error>1 trial is only in BASE</error>");
    // So is what changed.
    BASE(*state, {.more = ", 'model_hash': '0123456789abcdef'"});
    NEW(*state, {.more = ", 'model_hash': '0123456789abcdee'"});
    expect(*state, "--deterministic --format junit base new", 3, "tests='2' failures='0' errors='1' skipped='1'>");
    expect(*state, "--format xml base new", 2,
           "--format: unknown word 'xml'; known words: text, markdown, junit, json");
}

static void settings_of_one_file_are_held_against_each_other(void **state)
{
    static const char title[] = "BASE: head_chunk 0, NEW: head_chunk 1\n";
    BASE(*state, {.trial = 1, .bits = HASHES("1", "2", "3")},
         {.trial = 5, .peak_bytes = 900, .bits = HASHES("4", "2", "5")}, {.trial = 9, .peak_bytes = 1100},
         {.trial = 3}, {.trial = 7, .peak_bytes = 900});
    expect(*state, "--deterministic --by head_chunk base", 1, title);
    expect(*state, "--deterministic --by head_chunk base", 1, "peak_bytes 1000 B -> 900 B, -100 B, -10 %\n");
    expect(*state, "--deterministic --by head_chunk base", 1,
           "not judged  00000000  seco, head_chunk 0, context 1024, f32 cpu: status ok -> -");
    expect(*state, "--deterministic --by head_chunk base", 1, "2 trials in both, 0 only in BASE");
    expect(*state, "--deterministic --by head_chunk base", 1, "verdict: worse\n"); // of the second pair
    expect_silent(*state, "--deterministic --by head_chunk base", 1, "bits");
    expect(*state, "--deterministic --by head_chunk --format json base", 1,
           "'title': 'BASE: head_chunk 0, NEW: head_chunk 1'");
    expect(*state, "--deterministic --by head_chunk --format junit base", 1,
           "<testsuite name='BASE: head_chunk 0, NEW: head_chunk 2'");
    expect(*state, "--deterministic --by head_chunk --format markdown base", 1,
           "### BASE: head_chunk 0, NEW: head_chunk 1\n");
    expect(*state, "--deterministic --by method base", 1, "BASE: seco, head_chunk 0, NEW: seco, head_chunk 1\n");
    expect(*state, "--by dtype base", 2, "--by dtype: base has one value of it");
    expect(*state, "--by chunk base", 2, "--by chunk: base has no record with it");
    expect(*state, "--by chonk base", 2, "--by: no key 'chonk'; did you mean 'chunk'?");
    expect(*state, "--by chunk", 2, "one or two result files against each other; name them");
    // Two files are one; a line that both have counts once.
    NEW(*state, {.trial = 1, .bits = HASHES("1", "2", "3")}, {.trial = 13, .flops = 5001});
    expect(*state, "--deterministic --by head_chunk new base", 1, "flops 5000 -> 5001");
    expect(*state, "--deterministic --by head_chunk new base", 1, "1 record is left out");
    expect(*state, "--by dtype base new", 2, "--by dtype: base and new have one value of it");
    expect(*state, "--by dtype base ./base", 2, "--by dtype: base, given twice, has one value of it");
    // One of them may be of a version before a key.
    BASE(*state, {.trial = 0, .setting = ", 'parallel': {'stage': 1}"},
         {.trial = 1, .setting = ", 'parallel': {'data': 1, 'stage': 1, 'zero': 0}, 'group': 1"});
    expect(*state, "--deterministic --by method base", 0, "1 trials in both, 0 only in BASE, 0 only in NEW");
    BASE(*state, {.trial = 0}, {.trial = 0, .setting = ", 'group': 2"});
    expect(*state, "--deterministic --by group base", 0, "BASE: group 1, NEW: group 2\n");
    expect(*state, "--deterministic --by group base", 0, "1 trials in both, 0 only in BASE, 0 only in NEW");
}

static void trials_of_one_file_alone(void **state)
{
    BASE(*state, {.trial = 0}, {.trial = 1});
    NEW(*state, {.trial = 0});
    expect(*state, "--deterministic base new", 3,
           "undecided   00000000  seco, context 512, f32 cpu: status ok -> -, only in BASE");
    expect(*state, "--deterministic base new", 3, "verdict: undecided: 1 trial is only in BASE\n");
    expect(*state, "--deterministic new base", 0, "1 trials in both, 0 only in BASE, 1 only in NEW");
    BASE(*state, {.trial = 0}, {.trial = 1, .status = "oom"});
    expect(*state, "--deterministic base new", 3, "status oom -> -, only in BASE");
    NEW(*state, {.peak_bytes = 2000});
    expect(*state, "--deterministic base new", 1, "verdict: worse"); // known, whatever else is missing
    scratch_file(*state, "new", "", 0);
    expect(*state, "--deterministic base new", 3, "no trial is in both files");
    expect(*state, "new new", 3, "no trial is in both files");
}

// An id is a hash of its trial, so that a trial under another's id was edited.
static void two_trials_under_one_id_are_refused(void **state)
{
    static const char refusal[] = "id 00000000000000000000000000000000: two trials that differ in 'seed' have it";
    BASE(*state, {.setting = ", 'seed': 1"});
    NEW(*state, {.setting = ", 'seed': 2"});
    expect(*state, "base new", 2, refusal);
    expect(*state, "new base", 2, refusal);
    NEW(*state, {.setting = ", 'seed': 1"}, {.setting = ", 'seed': 2"}, {.setting = ", 'seed': 1"});
    expect(*state, "base new", 2, refusal);
    expect(*state, "new base", 2, refusal);
    NEW(*state, {.trial = 1}, {.trial = 1, .setting = ", 'seed': 2"}, {.trial = 0}); // nor in one file alone
    BASE(*state, {.trial = 0});
    expect(*state, "base new", 2, "00000001: two trials that differ in 'seed' have it");
    // A version before a member of a key has none to say.
    BASE(*state, {.setting = ", 'optimizer': {'name': 'sgd'}"});
    NEW(*state, {.setting = ", 'optimizer': {'name': 'sgd', 'momentum': 0}"});
    expect_judged(*state, "--deterministic base new", "same", "flops", "");
    NEW(*state, {.setting = ", 'optimizer': {'name': 'adamw', 'momentum': 0}"});
    expect(*state, "--deterministic base new", 2, "two trials that differ in 'optimizer' have it");
}

// The rounds of a trial are what the revision and the machine of its last record measured.
static void records_of_another_build_or_machine_are_left_out(void **state)
{
    BASE(*state, {.trial = 0});
    NEW(*state, {.flops = 6000, .revision = "old"}, {.flops = 6000, .cpu = "old"}, {.trial = 0});
    expect(*state, "--deterministic base new", 0, "2 records of another revision or machine than their trial");
    expect(*state, "--deterministic --format json base new", 0, "'older': 2");
    expect_judged(*state, "--deterministic new base", "same", "flops", "");
    NEW(*state, {.trial = 0}, {.flops = 6000, .revision = "next"});
    expect_judged(*state, "--deterministic base new", "worse", "flops", NULL);
    NEW(*state, {.trial = 0}, {.status = "crash"}, {.trial = 0});
    expect(*state, "--deterministic base new", 1, "status ok -> crash in 1 of 3 rounds\n");
    // Other data are seen beside a round that crashed and does not say which it read.
    BASE(*state, {.more = ", 'data_hash': '0000000000000001'"}, {.status = "crash"});
    NEW(*state, {.more = ", 'data_hash': '0000000000000002'"}, {.status = "crash"});
    expect_judged(*state, "--deterministic base new", "changed", "inputs", NULL);
}

// A trial with a fault is no better for being new; a card that is too small is no fault.
static void new_trials_must_not_fail(void **state)
{
    BASE(*state, {.trial = 0});
    NEW(*state, {.trial = 0}, {.trial = 1, .status = "oom"});
    expect(*state, "--deterministic base new", 0,
           "not judged  00000000  seco, context 512, f32 cpu: status - -> oom, only in NEW\n");
    expect(*state, "--deterministic --format junit base new", 0, "tests='3' failures='0' errors='0'");
    NEW(*state, {.trial = 0}, {.trial = 1, .status = "failed", .reason = "a wrong gradient"});
    expect(*state, "--deterministic base new", 1, "status - -> failed, only in NEW: a wrong gradient\n");
    expect(*state, "--deterministic --format junit base new", 1, "tests='3' failures='2' errors='0' skipped='0'>");
    scratch_file(*state, "base", "", 0);
    expect(*state, "--deterministic base new", 1, "verdict: worse"); // though no trial is in both
    // Under --by one side's trials are no part of what the setting costs.
    BASE(*state, {.trial = 1}, {.trial = 5}, {.trial = 7, .status = "crash"});
    expect(*state, "--deterministic --by head_chunk base", 0, "status - -> crash, only in NEW");
}

static void json_says_the_same(void **state)
{
    BASE(*state, {.trial = 0}, {.trial = 1}, {.trial = 0}, {.trial = 1});
    NEW(*state, {.trial = 0, .ms = 12}, {.trial = 1, .ms = 12, .peak_bytes = 1001}, {.trial = 0, .ms = 12},
        {.trial = 1, .ms = 12, .peak_bytes = 1001});
    json_t *json = judged(*state, "base new", "worse"), *changed;
    const char *trial_verdict, *what, *name, *verdict, *time_verdict, *all_verdict;
    int worse, both, rounds;
    double ratio, low, high, before, after, base_ms, new_ms;
    assert_int_equal(json_unpack(json, "{s:{s:i, s:i}, s:{s:{s:s}}, s:o}", "trials", "worse", &worse, "both", &both,
                                 "time", "all", "verdict", &all_verdict, "changed", &changed),
                     0);
    assert_string_equal(all_verdict, "worse");
    assert_int_equal(worse, 2);
    assert_int_equal(both, 2);
    assert_int_equal(json_array_size(changed), 2);
    assert_int_equal(json_unpack(json_array_get(changed, 1),
                                 "{s:s, s:s, s:[{s:s, s:f, s:f, s:s}], s:{s:s, s:f, s:f, s:f, s:i, s:f, s:f}}",
                                 "verdict", &trial_verdict, "what", &what, "quantities", "name", &name, "base",
                                 &before, "new", &after, "verdict", &verdict, "time", "verdict", &time_verdict,
                                 "ratio", &ratio, "low", &low, "high", &high, "rounds", &rounds, "base_ms",
                                 &base_ms, "new_ms", &new_ms),
                     0);
    assert_string_equal(trial_verdict, "worse");
    assert_string_equal(what, "seco, context 512, f32 cpu");
    assert_string_equal(name, "peak_bytes");
    assert_string_equal(verdict, "worse");
    assert_true(before == 1000 && after == 1001);
    assert_string_equal(time_verdict, "worse");
    assert_true(low > 1.1 && low < ratio && fabs(ratio - 1.2) < 1e-9 && ratio < high && high < 1.3);
    assert_true(rounds == 2 && fabs(base_ms - 10.01) < 1e-4 && fabs(new_ms - 12.012) < 1e-4);
    json_decref(json);
}

// A name says no more than tells two trials apart: the value of a key in which they differ, of an object those
// members of it.
static void labels_tell_trials_apart(void **state)
{
    struct scratch *scratch = *state;
    static const struct {
        const char *settings[2], *labels[2];
    } cases[] = {
        {{", 'kv_gradient_dtype': 'f32', 'seed': 1", ", 'kv_gradient_dtype': 'bf16', 'seed': 1"},
         {"context 512, kv_gradient_dtype f32, f32 cpu:", "context 512, kv_gradient_dtype bf16, f32 cpu:"}},
        {{", 'lora': null", ", 'lora': {'rank': 4, 'alpha': 16}"},
         {"context 512, no lora, f32 cpu:", "context 512, lora 4 alpha=16, f32 cpu:"}},
        {{", 'limits': {'memory': 1024, 'host_memory': null}", ", 'limits': {'memory': 2048, 'host_memory': null}"},
         {"context 512, limits memory=1.00 KiB, f32 cpu:", "context 512, limits memory=2.00 KiB, f32 cpu:"}},
        {{", 'limits': {'memory': 35096013, 'host_memory': null}",
          ", 'limits': {'memory': 35096014, 'host_memory': null}"},
         {"context 512, limits memory=35096013 B, f32 cpu:", "context 512, limits memory=35096014 B, f32 cpu:"}},
        {{", 'lora': {'rank': 8, 'alpha': 16}", ", 'lora': {'rank': 8, 'alpha': 32}"},
         {"context 512, lora alpha=16, f32 cpu:", "context 512, lora alpha=32, f32 cpu:"}},
        // A record of a version before a key, or before a member, has the default.
        {{", 'parallel': {'stage': 1}",
          ", 'parallel': {'data': 1, 'stage': 1, 'zero': 0}, 'group': 1, 'prompt': 0, 'documents': null"},
         {"context 512, f32 cpu:", "context 512, f32 cpu:"}},
        {{", 'parallel': {'stage': 1}", ", 'parallel': {'data': 2, 'stage': 1, 'zero': 0}, 'group': 8"},
         {"context 512, group 1, parallel data=1, f32 cpu:", "context 512, group 8, parallel data=2, f32 cpu:"}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        BASE(scratch, {.setting = cases[i].settings[0]}, {.trial = 1, .setting = cases[i].settings[1]});
        NEW(scratch, {.setting = cases[i].settings[0]}, {.trial = 1, .setting = cases[i].settings[1]});
        for (size_t side = 0; side < 2; side++)
            expect(scratch, "--deterministic --all base new", 0, cases[i].labels[side]);
    }
}

// --- bad input

static void bad_files_are_refused(void **state)
{
    struct scratch *scratch = *state;
    static const struct {
        const char *command, *part; // sed on the good file
    } cases[] = {
        {"'2s/.schema.: 2/\"schema\": 3/'", "new:2: schema 3, but this program reads schema 2"},
        {"'2s/.peak_bytes.:/\"peek_bytes\":/'", "new:2: unknown key 'peek_bytes'; did you mean 'peak_bytes'?"},
        {"'2s/.model.:/\"modle\":/'", "new:2: unknown key 'trial.modle'; did you mean 'model'?"},
        {"'2s/.flops.: 5000/\"flops\": NaN/'", "new:2:"},
        {"'2s/.flops.: 5000/\"flops\": 1e999/'", "new:2:"},
        {"'2s/.flops.: 5000/\"flops\": -1/'", "new:2: 'flops' is not a number >= 0"},
        {"'2s/.peak_bytes.: 1000/\"peak_bytes\": -1000/'", "new:2: 'peak_bytes' is not a whole number >= 0"},
        {"'2s/.activations.: 600/\"activations\": -600/'", "'peak_by_category.activations' is not a whole number"},
        {"'2s/.samples_ms.: \\[/&-3, /'", "new:2: 'samples_ms' is not an array of numbers > 0"},
        {"'2s/.samples_ms.: \\[/&null, /'", "new:2: 'samples_ms' is not an array of numbers > 0"},
        {"'2s/.status.: .ok./\"status\": \"fine\"/'", "new:2: 'status' is 'fine'"},
        {"'2s/.*/[]/'", "new:2: not a record"},
        {"'2s/.*//'", "new:2:"},
    };
    BASE(scratch, {.trial = 0}, {.trial = 1});
    for (size_t i = 0; i < COUNT(cases); i++) {
        char *command;
        assert_true(asprintf(&command, "sed %s '%s/base' > '%s/new'", cases[i].command, scratch->folder,
                             scratch->folder) > 0);
        assert_int_equal(system(command), 0);
        free(command);
        expect(scratch, "--deterministic base new", 2, cases[i].part);
        expect(scratch, "--deterministic new base", 2, cases[i].part);
    }
    expect(scratch, "base absent", 2, "absent: No such file");
    expect(scratch, "base .", 2, "Is a directory");
    expect(scratch, "base", 2, "name two result files");
    expect(scratch, "base base base", 2, "is a third");
}

static void torn_last_lines_are_refused(void **state)
{
    struct scratch *scratch = *state;
    BASE(scratch, {.trial = 0}, {.trial = 1});
    char *command;
    assert_true(asprintf(&command, "cd '%s' && head -c -30 base > new && head -c -1 base > unterminated",
                         scratch->folder) > 0);
    assert_int_equal(system(command), 0);
    free(command);
    expect(scratch, "--deterministic base new", 2, "new:2: the last line is incomplete");
    expect(scratch, "--deterministic new base", 2, "new:2: the last line is incomplete");
    expect(scratch, "--by method base new", 2, "new:2: the last line is incomplete");
    expect(scratch, "--deterministic base unterminated", 0, "verdict: same"); // whole but for its newline
}

// `longbp compare` reads what `longbp run` writes.
static void real_records(void **state)
{
    struct scratch *scratch = *state;
    static const char spec[] = "{'experiment': 't', 'model': {'layers': 1, 'width': 8, 'heads': 2, 'ffn': 8, "
                               "'vocab': 11}, 'dtype': 'f64', "
                               "'axes': {'context': [8, 16], 'method': ['full', {'name': 'seco', 'chunk': [3, 4]}, "
                               "{'name': 'spaco', 'chunk': 4, 'budget': 1, 'sampler': ['uniform', 'bernoulli']}]}, "
                               "'measure': {'warmup': 0, 'samples': 4, 'timeline': true, 'bias': true}}";
    char *json = quoted(spec), *command;
    scratch_file(scratch, "spec.json", json, strlen(json));
    free(json);
    const char *program = getenv("LONGBP");
    char *absolute = realpath(program && *program ? program : "build/longbp", NULL);
    assert_non_null(absolute);
    assert_true(
        asprintf(&command,
                 "cd '%s' && for run in base new; do '%s' run spec.json --out $run >out 2>err || exit 1; done",
                 scratch->folder, absolute) > 0);
    assert_int_equal(system(command), 0);
    free(command);
    free(absolute);
    expect(scratch, "--deterministic base new", 0, "10 trials in both");
    expect(scratch, "--deterministic base new", 0, "gradients: bits changed in 0 of 10 trials\n");
    expect(scratch, "--deterministic base new", 0, "verdict: same");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(equal_files_are_the_same),
        TEST(statuses),
        TEST(changes_are_told),
        TEST(instructions_have_their_noise),
        TEST(allowances),
        TEST(gradient_errors_may_move_within_rounding),
        TEST(what_allow_let_pass_is_listed),
        TEST(a_pull_request_gets_markdown_or_test_results),
        TEST(settings_of_one_file_are_held_against_each_other),
        TEST(trials_of_one_file_alone),
        TEST(two_trials_under_one_id_are_refused),
        TEST(records_of_another_build_or_machine_are_left_out),
        TEST(new_trials_must_not_fail),
        TEST(json_says_the_same),
        TEST(labels_tell_trials_apart),
        TEST(bad_files_are_refused),
        TEST(torn_last_lines_are_refused),
        TEST(real_records),
    };
    return cmocka_run_group_tests_name("compare", tests, NULL, NULL);
}
