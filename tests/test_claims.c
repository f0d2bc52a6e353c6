// Tests of `longbp claims`: every way to take a figure, which figure decides, what a verdict is, and that the
// committed claims have the verdicts that the committed records give them. JSON is written with ' for ".
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "tests/program.h"
#include "tests/quoted.h"
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define RECORD(id, method, context, device, more)                                                                  \
    "{'schema': 2, 'id': '" id "123456789abcdef0123456789abcdef', 'experiment': 'e', 'status': 'ok', 'trial': "    \
    "{'dtype': 'f32', 'device': '" device "', 'batch': 1, 'context': " #context ", 'method': {'name': '" method    \
    "', 'chunk': 8}}, " more "}\n"
#define MEASURED(id, method, context, peak, ms)                                                                    \
    RECORD(id, method, context, "cpu",                                                                             \
           "'peak_bytes': " #peak ", 'median_ms': " #ms ", 'mean_ms': " #ms ", 'samples_ms': [" #ms "]")
#define PLANNED(id, method, context, peak)                                                                         \
    RECORD(id, method, context, "plan-cpu", "'peak_bytes': " #peak ", 'samples_ms': []")
#define LOST(id, method, context)                                                                                  \
    "{'schema': 2, 'id': '" id                                                                                     \
    "123456789abcdef0123456789abcdef', 'experiment': 'e', 'status': 'oom', 'reason': '', "                         \
    "'trial': {'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': " #context ", 'method': {'name': '" method  \
    "', 'chunk': 8}}}\n"

static const char records[] = MEASURED("0", "full", 64, 1000, 10) MEASURED("1", "full", 128, 3000, 20)
    MEASURED("2", "full", 256, 4000, 40) MEASURED("3", "seco", 64, 800, 12) MEASURED("4", "seco", 128, 1500, 30)
        LOST("5", "seco", 256) PLANNED("6", "streambp", 64, 500) PLANNED("7", "full", 64, 1000);

static void write_quoted(const struct scratch *scratch, const char *name, const char *text)
{
    char *json = quoted(text);
    scratch_file(scratch, name, json, strlen(json));
    free(json);
}

// A file of one claim: its figures, its bound, and the verdict and what follows it.
static void write_claim(const struct scratch *scratch, const char *figures, const char *holds, const char *verdict)
{
    char *text;
    write_quoted(scratch, "r.jsonl", records);
    assert_true(
        asprintf(&text,
                 "{'claims': [\n{'id': 'c', 'paper': 'P', 'claim': 'that it is', 'published': '7', 'source': "
                 "'S',\n'figures': [%s],\n'holds': %s,\n'verdict': %s}]}\n",
                 figures, holds, verdict) > 0);
    write_quoted(scratch, "c.json", text);
    free(text);
}

static json_t *claim(const struct scratch *scratch, int code)
{
    int found = run(scratch, "$L claims c.json --format json");
    char *out = text_of(scratch, "out"), *err = text_of(scratch, "err");
    if (found != code)
        fail_msg("expected %d, found %d: %s%s", code, found, out, err);
    json_t *list = json_loads(out, 0, NULL), *only = json_incref(json_array_get(list, 0));
    assert_non_null(only);
    json_decref(list);
    free(out);
    free(err);
    return only;
}

static double value_of(const json_t *claim, const char *baseline)
{
    const json_t *figure = json_object_get(json_object_get(claim, "figures"), baseline);
    return json_is_null(figure) ? NAN : json_number_value(json_object_get(figure, "value"));
}

#define FIGURE(against, take, field, of, over)                                                                     \
    "{'against': '" against "', 'take': '" take "', 'field': '" field "', 'of': [" of "], 'over': [" over          \
    "], 'apart': ['device'], 'records': ['r.jsonl']}"

static void every_way_to_take_a_figure(void **state)
{
    const struct scratch *scratch = *state;
    static const struct {
        const char *figure;
        double value;
    } cases[] = {
        {FIGURE("none", "min", "peak_bytes", "'method=seco'", ""), 800},
        {FIGURE("none", "max", "peak_bytes", "'method=seco'", ""), 1500},
        {FIGURE("none", "max", "trial.context", "'method=seco'", ""), 128}, // at 256 it is out of memory
        {FIGURE("none", "min ratio", "peak_bytes", "'method=seco'", "'method=full', 'device=cpu'"), 1500.0 / 3000},
        {FIGURE("none", "max ratio", "peak_bytes", "'method=seco'", "'method=full', 'device=cpu'"), 800.0 / 1000},
        {FIGURE("none", "last ratio", "peak_bytes", "'method=seco'", "'method=full', 'device=cpu'"), 1500.0 / 3000},
        {FIGURE("none", "ratio of max", "trial.context", "'method=seco'", "'method=full', 'device=cpu'"),
         128.0 / 256},
        {FIGURE("none", "min", "peak_bytes", "'method=seco', 'context=128'", ""), 1500},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char holds[80];
        snprintf(holds, sizeof holds, "{'at most': %.17g}", cases[i].value);
        write_claim(scratch, cases[i].figure, holds, "'reproduced'");
        json_t *found = claim(scratch, 0);
        assert_true(value_of(found, "none") == cases[i].value);
        json_decref(found);
        // Just beyond the bound it is not.
        snprintf(holds, sizeof holds, "{'at least': %.17g}", cases[i].value * (1 + 1e-12));
        write_claim(scratch, cases[i].figure, holds, "'not reproduced'");
        json_decref(claim(scratch, 0));
    }
}

// A mean difference has Student's interval over its pairs: -200 at 64 tokens and -1500 at 128, so -850 give or take
// 8259. With the other side's keys apart there are four pairs, two of whose differences are -2200 and 500.
static void differences_are_of_pairs(void **state)
{
    const struct scratch *scratch = *state;
    static const struct {
        const char *apart, *holds, *verdict;
        double value, half;
    } cases[] = {{"", "{'at most': 0}", "'cannot tell'", -850, 8259.033},
                 {"", "{'at most': 7409}", "'cannot tell'", -850, 8259.033},
                 {"", "{'at most': 7410}", "'reproduced'", -850, 8259.033},
                 {"", "{'at least': 7410}", "'not reproduced'", -850, 8259.033},
                 {"", "{'at least': -9110}", "'reproduced'", -850, 8259.033},
                 {"'context'", "{'at most': 0}", "'cannot tell'", -850, 1946.676}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char figure[400];
        snprintf(figure, sizeof figure,
                 "{'against': 'none', 'take': 'mean difference', 'field': 'peak_bytes', 'of': ['method=seco'], "
                 "'over': ['method=full', 'device=cpu', 'context=64,128'], 'apart': [%s], 'records': ['r.jsonl']}",
                 cases[i].apart);
        write_claim(scratch, figure, cases[i].holds, cases[i].verdict);
        json_t *found = claim(scratch, 0);
        const json_t *none = json_object_get(json_object_get(found, "figures"), "none");
        assert_true(fabs(value_of(found, "none") - cases[i].value) < 1e-9);
        assert_true(fabs(json_number_value(json_object_get(none, "low")) - cases[i].value + cases[i].half) < 1e-2);
        assert_true(fabs(json_number_value(json_object_get(none, "high")) - cases[i].value - cases[i].half) < 1e-2);
        json_decref(found);
    }
}

// Times are told from a bound by what they may be off: over three rounds the ratio is 1.1, 1.2 and 1.3, of which
// Student's interval is 0.97 to 1.47; and that of a greatest ratio reaches as far as that of any pair.
static void times_are_of_rounds(void **state)
{
    const struct scratch *scratch = *state;
    // 10.0 is another record of the same value: a line that was read before would not count.
    static const char full[] = MEASURED("0", "full", 64, 1000, 10), seco[] = MEASURED("3", "seco", 64, 800, 11),
                      rounds[] = MEASURED("0", "full", 64, 1000, 20) MEASURED("3", "seco", 64, 800, 24)
                          MEASURED("0", "full", 64, 1000, 10.0) MEASURED("3", "seco", 64, 800, 13),
                      once_more[] = MEASURED("3", "seco", 64, 800, 50),
                      others[] = MEASURED("1", "full", 128, 1000, 10) MEASURED("4", "seco", 128, 800, 11)
                          MEASURED("1", "full", 128, 1000, 10.0) MEASURED("4", "seco", 128, 800, 15);
    static const struct {
        const char *take, *records[4], *holds, *verdict;
        double value, low, high;
    } cases[] = {
        {"max ratio", {full, seco}, "{'at most': 1.5}", "cannot tell", 1.1, NAN, NAN},
        {"max ratio", {full, seco}, "{'at least': 1.5}", "cannot tell", 1.1, NAN, NAN},
        {"max ratio", {full, seco, rounds}, "{'at most': 1.5}", "reproduced", 1.197216, 0.972822, 1.473369},
        {"max ratio", {full, seco, rounds}, "{'at most': 1.4}", "cannot tell", 1.197216, 0.972822, 1.473369},
        {"min ratio", {full, seco, rounds}, "{'at most': 1}", "cannot tell", 1.197216, 0.972822, 1.473369},
        {"last ratio", {full, seco, rounds}, "{'at most': 0.9}", "not reproduced", 1.197216, 0.972822, 1.473369},
        {"last ratio", {full, seco, rounds}, "{'at least': 0.9}", "reproduced", 1.197216, 0.972822, 1.473369},
        {"last ratio",
         {once_more, full, seco, rounds}, // a round that one side alone has
         "{'at least': 0.9}",
         "reproduced",
         1.197216,
         0.972822,
         1.473369},
        {"max ratio", {full, seco, rounds, others}, "{'at most': 10}", "reproduced", 1.284523, 0.972822, 9.215010},
        {"min ratio",
         {full, seco, rounds, others},
         "{'at least': 0.9}",
         "cannot tell",
         1.197216,
         0.179056,
         1.473369},
    };
    static const char *const fields[] = {"time_ms", "median_ms", "mean_ms"};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char figure[400], *text;
        assert_true(asprintf(&text, "%s%s%s%s", cases[i].records[0], cases[i].records[1],
                             cases[i].records[2] ? cases[i].records[2] : "",
                             cases[i].records[3] ? cases[i].records[3] : "") > 0);
        snprintf(figure, sizeof figure,
                 "{'against': 'none', 'take': '%s', 'field': '%s', 'of': ['method=seco'], 'over': "
                 "['method=full'], 'records': ['r.jsonl']}",
                 cases[i].take, fields[i % COUNT(fields)]);
        char verdict[40];
        snprintf(verdict, sizeof verdict, "'%s'", cases[i].verdict);
        write_claim(scratch, figure, cases[i].holds, verdict);
        write_quoted(scratch, "r.jsonl", text);
        json_t *found = claim(scratch, 0);
        const json_t *none = json_object_get(json_object_get(found, "figures"), "none"),
                     *low = json_object_get(none, "low"), *high = json_object_get(none, "high");
        assert_true(fabs(value_of(found, "none") - cases[i].value) < 1e-6);
        assert_int_equal(json_is_null(high), isnan(cases[i].high));
        if (!isnan(cases[i].high)) {
            assert_true(fabs(json_number_value(low) - cases[i].low) < 1e-6);
            assert_true(fabs(json_number_value(high) - cases[i].high) < 1e-5);
        }
        json_decref(found);
        assert_int_equal(run(scratch, "$L claims c.json | tr -s ' '"), 0);
        assert_says(scratch, "out",
                    !cases[i].records[2] ? "7 1.1 (one round) - - - cannot tell\n" : "P: that it is 7 1.");
        free(text);
    }
    assert_says(scratch, "out", "7 1.2 (0.179 to 1.47) - - - cannot tell\n");
}

static void what_is_measured_decides_before_what_is_planned(void **state)
{
    const struct scratch *scratch = *state;
    static const char published[] =
        FIGURE("published form", "min ratio", "peak_bytes", "'method=streambp'", "'method=full'"),
                      lean[] =
                          FIGURE("lean", "min ratio", "peak_bytes", "'method=seco'", "'method=full', 'device=cpu'");
    char *both;
    // Planned 0.5, measured 0.5 and more: the bound tells them apart.
    assert_true(asprintf(&both, "%s, %s", published, lean) > 0);
    write_claim(scratch, both, "{'at most': 0.5}", "'reproduced'");
    json_t *found = claim(scratch, 0);
    assert_string_equal(json_string_value(json_object_get(found, "decided_by")), "lean");
    assert_true(value_of(found, "published form") == 0.5 && value_of(found, "lean") == 0.5);
    json_decref(found);
    write_claim(scratch, published, "{'at most': 0.5}", "'planned only', 'plan_holds': true");
    found = claim(scratch, 0);
    assert_int_equal(json_array_size(json_object_get(found, "pictures")), 0);
    assert_string_equal(json_string_value(json_object_get(found, "decided_by")), "published form");
    json_decref(found);
    write_claim(scratch, published, "{'at most': 0.4}", "'planned only', 'plan_holds': false");
    json_decref(claim(scratch, 0));
    // A plan is called one wherever it stands.
    assert_int_equal(run(scratch, "$L claims c.json | tr -s ' '"), 0);
    assert_says(scratch, "out", "P: that it is 7 - 0.5 (planned) - - planned only: does not hold in the plan\n");
    assert_int_equal(run(scratch, "$L claims c.json --format markdown | tr -s ' '"), 0);
    assert_says(scratch, "out",
                "| P: that it is | 7 | - | 0.5 (planned) | - | - | planned only: does not hold in the plan |\n");
    free(both);
}

static void a_verdict_that_changed_is_exit_1(void **state)
{
    const struct scratch *scratch = *state;
    static const char figure[] = FIGURE("none", "min", "peak_bytes", "'method=seco'", ""),
                      nothing[] = FIGURE("none", "min", "peak_bytes", "'method=spaco'", "");
    static const char *const verdicts[] = {"'reproduced'", "'not reproduced'", "'planned only'", "'not run'"};
    for (size_t i = 0; i < COUNT(verdicts); i++) {
        write_claim(scratch, figure, "{'at most': 800}", verdicts[i]);
        json_decref(claim(scratch, i == 0 ? 0 : 1));
        write_claim(scratch, nothing, "{'at most': 800}", verdicts[i]);
        json_decref(claim(scratch, i == 3 ? 0 : 1));
        write_claim(scratch, "", "{}", verdicts[i]);
        json_decref(claim(scratch, i == 3 ? 0 : 1));
    }
    write_claim(scratch, figure, "{'at most': 799}", "'reproduced'");
    assert_int_equal(run(scratch, "$L claims c.json"), 1);
    assert_says(scratch, "out", "\nchanged: c was \"reproduced\" and is \"not reproduced\"\n");
    write_claim(scratch, figure, "{'at most': 799}", "'planned only', 'plan_holds': true");
    json_decref(claim(scratch, 1));
}

// A record of max-context or max-batch; digit: of its id.
#define FOUND(digit, method, context, batch, status, sought, more)                                                 \
    "{'schema': 2, 'id': '0000000000000000000000000000000" digit "', 'experiment': 'max-" sought                   \
    "', 'status': '" status "', 'trial': {'device': 'plan-cuda', 'dtype': 'bf16', 'model': 'm', 'batch': " batch   \
    ", 'context': " context ", 'method': {'name': '" method "'}}, 'search': {'sought': '" sought "'}" more "}\n"

// Claims take the records of max-context and max-batch.
static void longest_contexts_are_records(void **state)
{
    const struct scratch *scratch = *state;
    static const char longest[] = FOUND("1", "full", "100", "1", "ok", "context", "")
        FOUND("2", "seco", "250", "1", "ok", "context", "") FOUND("3", "spaco", "900", "1", "oom", "context", ""),
                      largest[] = FOUND("4", "full", "5", "2", "ok", "batch", "")
                          FOUND("5", "seco", "5", "3", "ok", "batch", "");
    static const struct {
        const char *file, *field;
        double value;
    } cases[] = {{"longest.jsonl", "trial.context", 2.5}, {"largest.jsonl", "trial.batch", 1.5}};
    write_quoted(scratch, "longest.jsonl", longest);
    write_quoted(scratch, "largest.jsonl", largest);
    for (size_t i = 0; i < COUNT(cases); i++) {
        char figure[300];
        snprintf(figure, sizeof figure,
                 "{'against': 'lean', 'take': 'ratio of max', 'field': '%s', 'of': ['method=seco'], 'over': "
                 "['method=full'], 'records': ['%s']}",
                 cases[i].field, cases[i].file);
        write_claim(scratch, figure, "{'at least': 1}", "'planned only', 'plan_holds': true");
        json_t *found = claim(scratch, 0);
        assert_true(value_of(found, "lean") == cases[i].value);
        json_decref(found);
    }
    // Nothing is times what another has none of; files are told apart by all of their paths.
    static const char others[] = FOUND("6", "full", "7", "1", "ok", "context", "")
        FOUND("7", "seco", "7", "1", "ok", "context", ", 'host_peak_bytes': 5"),
                      folder[] = "a-folder-whose-name-is-as-long-as-that-of-some-in-a-home-folder-of-somebody";
    char figure[600], path[200];
    assert_int_equal(mkdir(scratch_path(scratch, folder).text, 0777), 0);
    snprintf(path, sizeof path, "%s/a.jsonl", folder);
    write_quoted(scratch, path, longest);
    snprintf(path, sizeof path, "%s/b.jsonl", folder);
    write_quoted(scratch, path, others);
    snprintf(figure, sizeof figure,
             "{'against': 'lean', 'take': 'max', 'field': 'trial.context', 'records': ['%s/a.jsonl', "
             "'%s/b.jsonl']}, {'against': 'none', 'take': 'min ratio', 'field': 'host_peak_bytes', 'of': "
             "['method=seco'], 'over': ['method=full'], 'records': ['%s/b.jsonl']}",
             folder, folder, folder);
    write_claim(scratch, figure, "{'at least': 1}", "'planned only', 'plan_holds': true");
    json_t *found = claim(scratch, 0);
    assert_true(value_of(found, "lean") == 250);
    assert_true(isnan(value_of(found, "none")));
    json_decref(found);
}

// A record of max-context of a step of another framework, of a model and on a card that a paper names.
#define THEIRS(digit, model, context, lora, loss)                                                                  \
    "{'schema': 2, 'id': '0000000000000000000000000000000" digit "', 'experiment': 'max-context', 'status': 'ok'," \
    " 'trial': {'device': 'plan-transformers', 'dtype': 'bf16', 'model': '" model                                  \
    "', 'batch': 1, 'context': " context ", 'lora': " lora ", 'profile': 'a800-80g', 'framework': {'loss': '" loss \
    "'}, 'method': {'name': 'checkpoint'}}, 'framework': {'name': 'transformers'}, 'search': {'sought': "          \
    "'context'}}\n"

// Reported contexts are divided by what their baseline holds elsewhere, model by model: StreamBP's Figure 3 has 110
// and 40 thousand tokens of all weights, 16 thousand of LoRA.
static void published_contexts_are_over_those_of_a_framework(void **state)
{
    const struct scratch *scratch = *state;
    static const char theirs[] = THEIRS("1", "qwen3-8b", "55000", "null", "chunked")
        THEIRS("2", "qwen3-14b", "32000", "null", "chunked") THEIRS("3", "qwen3-8b", "11000", "null", "whole")
            THEIRS("4", "qwen3-32b", "1000", "null", "chunked") THEIRS("5", "qwen3-4b", "1", "null", "chunked");
    static const char figure[] =
        "{'against': 'framework, chunked', 'take': 'published over', 'field': 'trial.context', 'points': "
        "'streambp-figure3', 'method': 'streambp', 'of': ['framework.name=transformers', "
        "'trial.framework.loss=chunked'], 'records': ['theirs.jsonl']}";
    write_quoted(scratch, "theirs.jsonl", theirs);
    write_claim(scratch, figure, "{'at least': 1.3}", "'planned only', 'plan_holds': false");
    json_t *found = claim(scratch, 0);
    const json_t *taken = json_object_get(json_object_get(found, "figures"), "framework, chunked");
    assert_true(value_of(found, "framework, chunked") == 1.25);
    assert_true(json_number_value(json_object_get(taken, "low")) == 1.25);
    assert_true(json_number_value(json_object_get(taken, "high")) == 2);
    assert_true(json_is_true(json_object_get(taken, "planned")));
    json_decref(found);
    assert_int_equal(run(scratch, "$L claims c.json"), 0);
    assert_says(scratch, "out", "1.25 to 2 (planned)");
}

static void mistakes_are_told_with_their_place(void **state)
{
    const struct scratch *scratch = *state;
    static const char figure[] = FIGURE("none", "min", "peak_bytes", "'method=seco'", "");
    static const struct {
        const char *figures, *holds, *verdict, *message;
    } cases[] = {
        {figure, "{'at most': 1}", "'prooven'", "c.json:5:12: key \"verdict\": unknown verdict \"prooven\""},
        {figure, "{'below': 1}", "'not run'", "c.json:4:"},
        {figure, "{'at most': 1, 'at least': 0}", "'not run'", "expected {\"at least\": NUMBER} or"},
        {figure, "{'at most': '1'}", "'not run'", "c.json:4:"},
        {figure, "{'at most': 1}", "'reproduced', 'plan_holds': true", "is of a verdict \"planned only\""},
        {"{'against': 'lean'}", "{'at most': 1}", "'not run'", "c.json:3:13:"},
        {FIGURE("fat", "min", "peak_bytes", "", ""), "{'at most': 1}", "'not run'", "unknown baseline \"fat\""},
        {FIGURE("lean", "mim", "peak_bytes", "", ""), "{'at most': 1}", "'not run'", "did you mean \"min\"?"},
        {FIGURE("lean", "min", "peek_bytes", "", ""), "{'at most': 1}", "'not run'",
         "did you mean \"peak_bytes\"?"},
        {FIGURE("lean", "min", "peak_bytes", "'metod=seco'", ""), "{'at most': 1}", "'not run'",
         "no field \"metod\""},
        {FIGURE("lean", "min", "peak_bytes", "", "") ", " FIGURE("lean", "max", "peak_bytes", "", ""),
         "{'at most': 1}", "'not run'", "the claim has such a figure already"},
        {"{'against': 'lean', 'take': 'min', 'field': 'flops', 'apart': ['sede'], 'records': ['r.jsonl']}",
         "{'at most': 1}", "'not run'", "apart: no key \"sede\"; did you mean \"seed\"?"},
        {"{'against': 'lean', 'take': 'min', 'field': 'flops', 'records': ['none.jsonl']}", "{'at most': 1}",
         "'not run'", "none.jsonl: No such file"},
        {"{'against': 'lean', 'take': 'published over', 'field': 'flops', 'points': 'streambp-figure3', "
         "'records': ['r.jsonl']}",
         "{'at most': 1}", "'not run'",
         "a figure \"published over\" has \"points\", an experiment, and \"method\""},
        {"{'against': 'lean', 'take': 'max', 'field': 'flops', 'points': 'streambp-figure3', 'method': "
         "'streambp', 'records': ['r.jsonl']}",
         "{'at most': 1}", "'not run'", "others have none"},
        {"{'against': 'lean', 'take': 'published over', 'field': 'flops', 'points': 'streambp-figure9', "
         "'method': 'streambp', 'records': ['r.jsonl']}",
         "{'at most': 1}", "'not run'", "points: no file of longest contexts of \"streambp-figure9\""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        write_claim(scratch, cases[i].figures, cases[i].holds, cases[i].verdict);
        int code = run(scratch, "$L claims c.json");
        if (code != 2)
            fail_msg("case %zu: exit code %d", i, code);
        assert_says(scratch, "err", cases[i].message);
    }
    assert_int_equal(run(scratch, "$L claims missing.json"), 2);
    assert_int_equal(run(scratch, "$L claims c.json c.json"), 2);
    assert_int_equal(run(scratch, "$L claims --format csv"), 2);
}

// From any folder, for they come with the program.
static void the_committed_verdicts_hold(void **state)
{
    int code = run(*state, "$L claims");
    char *out = text_of(*state, "out"), *err = text_of(*state, "err");
    if (code != 0)
        fail_msg("exit code %d: %s%s", code, out, err);
    static const char *const papers[] = {
        "SeCO: ", "SpaCO: ", "StreamBP: ", "seco-decimals (arXiv 2505.16710; picture gradient-error)\n"};
    for (size_t i = 0; i < COUNT(papers); i++)
        assert_non_null(strstr(out, papers[i]));
    free(out);
    free(err);
    assert_int_equal(run(*state, "$L claims experiments/findings.json"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_way_to_take_a_figure),
        TEST(differences_are_of_pairs),
        TEST(times_are_of_rounds),
        TEST(what_is_measured_decides_before_what_is_planned),
        TEST(a_verdict_that_changed_is_exit_1),
        TEST(longest_contexts_are_records),
        TEST(published_contexts_are_over_those_of_a_framework),
        TEST(mistakes_are_told_with_their_place),
        TEST(the_committed_verdicts_hold),
    };
    return cmocka_run_group_tests_name("claims", tests, NULL, NULL);
}
