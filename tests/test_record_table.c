// Tests of `longbp report` as one table: each record a row, columns by the table of fields, texts of any kind as
// they are.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/spec/trial_keys.h"
#include "tests/program.h"
#include "tests/quoted.h"
#include <jansson.h>

#define ID(digit)           digit "123456789abcdef0123456789abcdef"
#define RECORD(digit, more) "{'schema': 2, 'id': '" ID(digit) "', 'experiment': 'e', 'status': 'ok', " more "}\n"
#define TRIAL(method)                                                                                              \
    "'trial': {'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': 8, 'limits': {'memory': null}, 'method': "  \
    "{'name': " method "}}"
#define HOSTILE RECORD("0", "'reason': '=1+1,\\u0022q\\u0022\\na\\rb', 'command': '', " TRIAL("'full'"))

static void write_records(const struct scratch *scratch, const char *text)
{
    char *json = quoted(text);
    scratch_file(scratch, "r.jsonl", json, strlen(json));
    free(json);
}

static void expect(const struct scratch *scratch, const char *command, const char *expected)
{
    assert_int_equal(run(scratch, command), 0);
    char *text = text_of(scratch, "out");
    assert_string_equal(text, expected);
    free(text);
}

static void fields_are_columns(void **state)
{
    const struct scratch *scratch = *state;
    write_records(
        scratch,
        RECORD("a",
               TRIAL("'seco', 'chunk': 4, 'a.b': 7") ", 'peak_bytes': 12, 'median_ms': 1.5, "
                                                     "'samples_ms': [1, 2], 'peak_by_category': {'weights': 3}")
            RECORD("b", TRIAL("'full'") ", 'peak_bytes': null, 'gradient': {'hash': null}"));
    expect(scratch,
           "$L report r.jsonl --format csv --columns "
           "id,trial.method.chunk,trial.context,peak_bytes,peak_by_category.weights,"
           "samples_ms,trial.limits.memory",
           "id,trial.method.chunk,trial.context,peak_bytes,peak_by_category.weights,samples_ms,trial.limits."
           "memory\r\n" ID("a") ",4,8,12,3,\"[1.0,2.0]\",\r\n" ID("b") ",,8,,,,\r\n");
    expect(scratch,
           "sed 's/: \"e\"/: \"f\"/' r.jsonl >s.jsonl; "
           "$L report r.jsonl s.jsonl --all --format csv --columns=trial.method.a.b,trial.limits",
           "trial.method.a.b,trial.limits\r\n7,\"{\"\"memory\"\":null,\"\"host_memory\"\":null}\"\r\n,\"{"
           "\"\"memory\"\":null,\"\"host_memory\"\":null}\"\r\n"
           "7,\"{\"\"memory\"\":null,\"\"host_memory\"\":null}\"\r\n,\"{\"\"memory\"\":null,\"\"host_memory\"\":"
           "null}\"\r\n");
    expect(scratch, "$L report r.jsonl --format json --columns peak_bytes,trial.method.name,samples_ms",
           "[\n{\"peak_bytes\":12,\"trial.method.name\":\"seco\",\"samples_ms\":[1.0,2.0]},\n"
           "{\"peak_bytes\":null,\"trial.method.name\":\"full\",\"samples_ms\":null}\n]\n");
}

static void names_of_columns_are_json(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch, RECORD("a", TRIAL("'full', 'a\\\"b\\n': 7, 'c': {'d': 'e\\\"'}")));
    expect(scratch, "$L report r.jsonl --format json --columns \"$(printf 'trial.method.a\"b\\n,trial.method.c')\"",
           "[\n{\"trial.method.a\\\"b\\n\":7,\"trial.method.c\":{\"d\":\"e\\\"\"}}\n]\n");
}

// Columns of each tensor; their names have dots, and not all records have all of them.
static void parts_of_a_map_are_columns(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch, RECORD("a", TRIAL("'full'") ", 'gradient': {'tensors': {'a.b': {'max_abs': 1}}}")
                               RECORD("b", TRIAL("'full'") ", 'gradient': {'tensors': {'a.b': {'max_abs': 2}, "
                                                           "'c': {'max_abs': 3}}}"));
    expect(scratch,
           "$L report r.jsonl --format csv --columns gradient.tensors.a.b.max_abs,gradient.tensors.c.max_abs",
           "gradient.tensors.a.b.max_abs,gradient.tensors.c.max_abs\r\n1.0,\r\n2.0,3.0\r\n");
    assert_refused(scratch, "$L report r.jsonl --format csv --columns gradient.tensors.NAME.max_abs");
    assert_refused(scratch, "$L report r.jsonl --format csv --columns gradient.tensors.NAME.mox_abs");
}

static void hostile_texts_stay_data(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch, HOSTILE);
    expect(scratch, "$L report r.jsonl --format csv --columns reason,command,loss",
           "reason,command,loss\r\n\"=1+1,\"\"q\"\"\na\rb\",\"\",\r\n");
    write_records(scratch, RECORD("0", TRIAL("'full', '=x,\\n': '=y'")));
    expect(scratch,
           "$L report r.jsonl --format csv >all && grep -c '^\"=x,$\\|method.=x,$' all; grep -o ',=y,' all",
           "1\n,=y,\n");
}

// Scalar fields are columns by default; nested tables are not.
static void all_columns_are_those_of_the_table(void **state)
{
    const struct scratch *scratch = *state;
    static const char *const there[] = {"schema,",        "trial.method.name,",         "trial.measure.warmup,",
                                        "gradient.hash,", "peak_by_category.kv_cache,", "provenance.cpu,",
                                        ",command\r\n"};
    static const char *const absent[] = {"tensors", "rows", "events", ",trial,", ",gradient,", "trial.method,"};
    write_records(scratch, HOSTILE);
    assert_int_equal(run(scratch, "$L report r.jsonl --format csv"), 0);
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        assert_says(scratch, "out", there[i]);
    char *text = text_of(scratch, "out");
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_null(strstr(text, absent[i]));
    free(text);
    assert_int_equal(run(scratch, "$L report r.jsonl --format json"), 0);
    text = text_of(scratch, "out");
    json_t *rows = json_loads(text, 0, NULL);
    assert_int_equal(json_array_size(rows), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 0), "status")), "ok");
    json_decref(rows);
    free(text);
}

static void mistakes_are_told_before_anything_is_written(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch, HOSTILE);
    scratch_file(scratch, "bad.jsonl", "{}\n", 3);
    assert_refused(scratch, "$L report r.jsonl --format csv --columns id,peek_bytes");
    assert_refused(scratch, "$L report r.jsonl --columns contxt");
    assert_refused(scratch, "$L report r.jsonl --sort chnk");
    assert_refused(scratch, "$L report r.jsonl --format markdwon");
    assert_refused(scratch, "$L report r.jsonl --format csv --columns trial.method.nam");
    assert_refused(scratch, "$L report r.jsonl --format csv --columns trial.method.chunky");
    assert_refused(scratch, "$L report r.jsonl --format csv --columns id,");
    assert_refused(scratch, "$L report r.jsonl --format csv --columns id,status,id");
    assert_refused(scratch, "$L report r.jsonl bad.jsonl");
    expect(scratch, "cat r.jsonl | $L report /dev/stdin --format csv --columns status", "status\r\nok\r\n");
    assert_refused(scratch, "$L report r.jsonl --format tsv");
    assert_refused(scratch, "$L report");
    assert_int_equal(run(scratch, "$L report r.jsonl --format csv >/dev/full"), 2);
}

// --- for people

#define TIMED(digit, method, context, samples, peak)                                                               \
    "{'schema': 2, 'id': '" ID(digit) "', 'experiment': 'e', 'status': 'ok', 'trial': {'model': 'tiny', 'dtype': " \
                                      "'f32', 'device': 'cpu', 'batch': 1, 'context': " #context                   \
                                      ", 'method': {'name': " method "}}, "                                        \
                                      "'samples_ms': " samples ", 'median_ms': 20, 'peak_bytes': " #peak "}\n"
// The first one's trial.
#define OTHER_BUILD(ms)                                                                                            \
    "{'schema': 2, 'id': '" ID("a") "', 'experiment': 'e', 'status': 'ok', 'trial': {'model': 'tiny', 'dtype': "   \
                                    "'f32', 'device': 'cpu', 'batch': 1, 'context': 64, 'method': {'name': "       \
                                    "'full'}}, 'samples_ms': [" #ms "], 'median_ms': 7, 'peak_bytes': 2048, "      \
                                    "'provenance': {'revision': 'abcdef123456'}}\n"
// Samples whose median is 20, and whose quartiles are 15 and 25.
#define SAMPLES "[10, 30, 20]"
#define PLANNED                                                                                                    \
    "{'schema': 2, 'id': '" ID("d") "', 'experiment': 'e', 'status': 'ok', 'trial': {'model': 'tiny', 'dtype': "   \
                                    "'f32', 'device': 'plan-cpu', 'batch': 1, 'context': 64, 'method': {'name': "  \
                                    "'full'}}, 'samples_ms': [], "                                                 \
                                    "'estimate_ms': 5, 'profile': 'p', 'peak_bytes': 512}\n"
#define LOST                                                                                                       \
    "{'schema': 2, 'id': '" ID(                                                                                    \
        "e") "', 'experiment': 'e', 'status': 'oom', 'reason': 'full', 'trial': {'model': "                        \
             "'tiny', 'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': 64, 'method': {'name': 'full'}}, "   \
             "'peak_bytes': 4096}\n"

// Lines of a table, every run of spaces or dashes as one.
static void expect_lines(const struct scratch *scratch, const char *command, const char *expected)
{
    char piped[400];
    snprintf(piped, sizeof piped, "%s > table && tr -s ' -' < table | sed 's/ *$//'", command);
    expect(scratch, piped, expected);
}

static void assert_silent(const struct scratch *scratch, const char *words)
{
    char *text = text_of(scratch, "out");
    assert_null(strstr(text, words));
    free(text);
}

static void the_table_says_what_differs(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch,
                  TIMED("a", "'full'", 64, SAMPLES, 2048) TIMED("b", "'seco', 'chunk': 8", 64, SAMPLES, 1024)
                      TIMED("c", "'seco', 'chunk': 16", 64, "[40]", 3072));
    expect_lines(scratch, "$L report r.jsonl",
                 "tiny, f32, cpu, batch 1, context 64\n\nsetting time, ms +- peak_bytes time / full peak / "
                 "full\nfull 20.00 5.000 2.00 KiB 1.000 1.000\nseco, chunk 8 20.00 5.000 1.00 KiB 1.000 "
                 "0.5000\nseco, chunk 16 20.00 - 3.00 KiB 1.000 1.500\n\n2 of 3 ratios of times come from one "
                 "round and have no interval: `longbp run -rounds 3` gives one\n");
    // Failed trials have a status; plans have an estimate, which no time is compared with.
    write_records(scratch, TIMED("a", "'full'", 64, SAMPLES, 2048) PLANNED LOST);
    expect_lines(scratch, "$L report r.jsonl",
                 "tiny, f32, batch 1, context 64\n\nsetting status time, ms +- estimate_ms peak_bytes time / full "
                 "peak / full\nfull, device cpu ok 20.00 5.000 - 2.00 KiB 1.000 1.000\nfull, device plan-cpu ok - "
                 "- 5.000 512 B - 0.2500\nfull, device cpu oom - - - > 4.00 KiB - -\n\n1 of 3 rows are planned: "
                 "bytes are exact, times estimates\n");
}

#define CHECKED(digit, method, error)                                                                              \
    RECORD(digit, TRIAL(method) ", 'samples_ms': [4], 'median_ms': 4, 'gradient': {'relative_l2': " error "}")

// The gradient's error is a column wherever one was measured, of exact methods and of estimates.
static void the_gradients_error_is_told(void **state)
{
    const struct scratch *scratch = *state;
    static const char table[] = "$L report r.jsonl | grep -c gradient.relative_l2";
    write_records(scratch, CHECKED("a", "'full'", "1e-7") CHECKED("b", "'spaco', 'chunk': 4, 'budget': 1", "0.75")
                               CHECKED("c", "'spaco', 'chunk': 4, 'budget': 2", "2e-7"));
    expect_lines(scratch, "$L report r.jsonl",
                 "f32, cpu, batch 1, context 8\n\nsetting gradient.relative_l2 time, ms time / full\nfull 1e-07 "
                 "4.000 1.000\nspaco, chunk 4, budget 1 0.7500 - -\nspaco, chunk 4, budget 2 2e-07 - -\n\n2 of 3 "
                 "rows draw their chunks: times are means over draws, all else describes the first draw\n");
    expect(scratch, table, "1\n");
    // Without a time there is none that is a mean.
    write_records(scratch, CHECKED("b", "'spaco', 'chunk': 4, 'budget': 1", "0.75"));
    assert_int_equal(run(scratch, "$L report r.jsonl"), 0);
    assert_silent(scratch, "draw their columns");
    write_records(scratch, CHECKED("a", "'full'", "1e-7") CHECKED("c", "'seco', 'chunk': 4", "2e-7"));
    expect(scratch, table, "1\n");
    write_records(scratch, CHECKED("a", "'full'", "null") CHECKED("b", "'seco', 'chunk': 4", "2e-7"));
    expect_lines(scratch, "$L report r.jsonl",
                 "f32, cpu, batch 1, context 8\n\nsetting gradient.relative_l2 time, ms time / full\nfull - 4.000 "
                 "1.000\nseco, chunk 4 2e-07 4.000 1.000\n\n1 of 2 ratios of times come from one round and have no "
                 "interval: `longbp run -rounds 3` gives one\n");
    write_records(scratch, CHECKED("a", "'full'", "null") CHECKED("b", "'seco', 'chunk': 4", "null"));
    assert_int_equal(run(scratch, table), 1);
}

// Columns that a user names have no number beside them, which would be 0.
static void fixed_chunks_have_no_budget(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch,
                  TIMED("a", "'spaco', 'chunk': 8, 'budget': 0, 'drawn_chunks': [2]", 64, SAMPLES, 1024)
                      TIMED("b", "'spaco', 'chunk': 8, 'budget': 2, 'drawn_chunks': []", 64, SAMPLES, 1024));
    assert_int_equal(run(scratch, "$L report r.jsonl"), 0);
    assert_says(scratch, "out", "\nspaco, chunk 8, fixed chunks ");
    assert_says(scratch, "out", "\nspaco, chunk 8, budget 2 ");
}

#define SAMPLED(digit, budget, rest)                                                                               \
    TIMED(digit, "'spaco', 'chunk': 32, 'budget': " #budget ", " rest, 64, "[4]", 8)

// A value that is not the default is said of every row where it tells any two apart, also of one that its budget
// alone tells from all others.
static void what_tells_rows_apart_is_said_of_each(void **state)
{
    const struct scratch *scratch = *state;
#define FIXED "'sampler': 'fixed', 'drawn_chunks': [0, 1], 'compensation': 'paper'"
#define DRAWS "'sampler': 'uniform', 'drawn_chunks': [], 'compensation': 'paper'"
    write_records(scratch, SAMPLED("1", 1, FIXED) SAMPLED("2", 2, FIXED) SAMPLED("3", 3, FIXED)
                               SAMPLED("4", 1, DRAWS) SAMPLED("5", 2, DRAWS) SAMPLED("6", 4, DRAWS));
    expect_lines(scratch, "$L report r.jsonl --columns setting",
                 "setting\nspaco, chunk 32, budget 1, sampler fixed\nspaco, chunk 32, budget 2, sampler fixed\n"
                 "spaco, chunk 32, budget 3, sampler fixed\nspaco, chunk 32, budget 1, sampler uniform\n"
                 "spaco, chunk 32, budget 2, sampler uniform\nspaco, chunk 32, budget 4\n");
    // Also where what stands before it tells them apart already.
    write_records(scratch, SAMPLED("1", 1, "'loss': 'sampled'") SAMPLED("2", 2, "'loss': 'all'"));
    expect_lines(scratch, "$L report r.jsonl --columns setting",
                 "setting\nspaco, chunk 32, budget 1\nspaco, chunk 32, budget 2, loss all\n");
    // Values that all rows share are in none.
    write_records(scratch, SAMPLED("1", 1, FIXED) SAMPLED("2", 2, FIXED));
    expect_lines(scratch, "$L report r.jsonl --columns setting",
                 "setting\nspaco, chunk 32, budget 1\nspaco, chunk 32, budget 2\n");
}

// Rounds are records of one trial: a table has the samples of all. Records of other builds are separate.
static void what_has_several_records_is_told(void **state)
{
    const struct scratch *scratch = *state;
    static const char rounds[] = "have the samples of several rounds",
                      several[] = "are the last of several records";
    write_records(scratch,
                  TIMED("a", "'full'", 64, SAMPLES, 2048) TIMED("b", "'seco', 'chunk': 8", 64, SAMPLES, 1024)
                      TIMED("a", "'full'", 64, "[40]", 2048) TIMED("a", "'full'", 64, "[50]", 2048));
    expect_lines(scratch, "$L report r.jsonl",
                 "tiny, f32, cpu, batch 1, context 64\n\n"
                 "setting time, ms +- peak_bytes time / full peak / full\n"
                 "full 30.00 10.00 2.00 KiB 1.000 1.000\n"
                 "seco, chunk 8 20.00 5.000 1.00 KiB 1.000 0.5000\n\n" // of dashes one is left in what follows
                 "1 of 2 rows have the samples of several rounds: `longbp report -all` shows each\n\n1 of 2 ratios "
                 "of times come from one round and have no interval: `longbp run -rounds 3` gives one\n");
    assert_int_equal(run(scratch, "$L report r.jsonl --where method=seco"), 0);
    assert_silent(scratch, rounds);
    assert_int_equal(run(scratch, "$L report r.jsonl --where method=full"), 0);
    assert_says(scratch, "out", "\n1 of 1 rows have the samples of several rounds: ");
    assert_silent(scratch, several);
    assert_int_equal(run(scratch, "$L report r.jsonl --all"), 0);
    assert_silent(scratch, rounds);
    // Programs read the table; who runs them reads the rest.
    assert_int_equal(run(scratch, "$L report r.jsonl --format csv --columns samples_ms"), 0);
    assert_silent(scratch, rounds);
    assert_says(scratch, "err", "longbp: 1 of 2 rows have the samples of several rounds: `longbp report --all`");
    assert_int_equal(run(scratch, "$L report r.jsonl --format json --all"), 0);
    expect(scratch, "cat err", "");
    write_records(scratch, TIMED("a", "'full'", 64, SAMPLES, 2048) OTHER_BUILD(7) OTHER_BUILD(8));
    assert_int_equal(run(scratch, "$L report r.jsonl"), 0);
    assert_says(scratch, "out", "\n1 of 1 rows have the samples of several rounds: ");
    assert_says(scratch, "out", "\n1 of 1 rows are the last of several records of their trial by other builds ");
}

// Fields that an earlier version did not write have the default, and differ from other values.
static void what_is_not_said_differs_too(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch,
                  RECORD("a", TRIAL("'full'")) RECORD("b", TRIAL("'full'}, 'prompt': 32, 'lora': {'rank': 4")));
    expect_lines(scratch, "$L report r.jsonl --columns setting",
                 "setting\nfull, prompt 0, no lora\nfull, prompt 32, lora 4\n");
    write_records(scratch,
                  RECORD("a", TRIAL("'full'"))
                      RECORD("b", "'trial': {'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': 8, 'limits': "
                                  "{'memory': 1048576}, 'method': {'name': 'full'}}"));
    expect_lines(scratch, "$L report r.jsonl --columns setting",
                 "setting\nfull, no limits\nfull, limits memory=1.00 MiB\n");
}

// With a unit and four digits for people, in full for programs.
static void large_numbers_have_a_unit(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch, RECORD("a", TRIAL("'full'") ", 'flops': 999, 'model_flops': 186250312345678, "
                                                       "'model_flops_per_s': 504279425301502, 'categories': "
                                                       "{'roofline': {'bytes_per_s': 4190000000000}}"));
    expect_lines(scratch,
                 "$L report r.jsonl --columns "
                 "flops,model_flops,model_flops_per_s,categories.roofline.bytes_per_s",
                 "flops model_flops model_flops_per_s categories.roofline.bytes_per_s\n"
                 "999.0 FLOP 186.3 TFLOP 504.3 TFLOP/s 4.190 TB/s\n");
    expect(scratch, "$L report r.jsonl --columns model_flops_per_s --format csv",
           "model_flops_per_s\r\n504279425301502.0\r\n");
}

static void a_table_has_the_columns_and_order_that_are_asked_for(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch,
                  TIMED("a", "'full'", 64, SAMPLES, 2048) TIMED("b", "'seco', 'chunk': 8", 32, SAMPLES, 1024)
                      TIMED("c", "'seco', 'chunk': 16", 64, "[40]", 3072) PLANNED);
    expect_lines(scratch, "$L report r.jsonl --columns method,chunk,context,peak_bytes --sort peak_bytes:desc",
                 "method chunk context peak_bytes\nseco 16 64 3.00 KiB\nfull - 64 2.00 KiB\nseco 8 32 1.00 KiB\n"
                 "full - 64 512 B\n");
    // Numbers by size, what has none last in either order; ratios over the first record's method, which context 32
    // lacks.
    expect_lines(scratch, "$L report r.jsonl --columns chunk,peak_ratio --sort chunk",
                 "chunk peak / full\n8 -\n16 1.500\n- 1.000\n- 0.2500\n");
    expect_lines(scratch, "$L report r.jsonl --columns chunk,time_ratio,peak_ratio --sort peak_ratio:desc",
                 "chunk time / full peak / full\n16 1.000 1.500\n- 1.000 1.000\n- - 0.2500\n8 - -\n");
    expect_lines(scratch, "$L report r.jsonl --columns chunk --sort chunk:desc", "chunk\n16\n8\n-\n-\n");
    assert_refused(scratch, "$L report r.jsonl --sort chunk:down");
    assert_refused(scratch, "$L report r.jsonl --sort chonk");
}

#define ON(digit, method, blas, median)                                                                            \
    "{'schema': 2, 'id': '" ID(digit) "', 'experiment': 'e', 'status': 'ok', 'trial': {'model': 'tiny', 'dtype': " \
                                      "'f32', 'device': 'cpu', 'batch': 1, 'context': 64, 'method': {'name': "     \
                                      "'" method "'}}, 'samples_ms': [" #median "], 'median_ms': " #median ", "    \
                                      "'provenance': {'cpu': 'A CPU', 'threads': 2, 'blas': '" blas "'}}\n"

// Times of two machines, even of one name, have no ratio, and rows name the machine.
static void ratios_are_of_one_machine(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch,
                  ON("a", "full", "B 1, core Zen; by C", 20) ON("b", "checkpoint", "B 1, core Zen; by C", 30)
                      ON("c", "full", "B 1, core Cooperlake", 5) ON("d", "checkpoint", "B 1, core Cooperlake", 6));
    expect_lines(scratch, "$L report r.jsonl --columns setting,time_ratio",
                 "setting time / full\nfull, on A CPU (Zen) 1.000\n"
                 "checkpoint, on A CPU (Zen) 1.500\nfull, on A CPU (Cooperlake) 1.000\n"
                 "checkpoint, on A CPU (Cooperlake) 1.200\n");
    write_records(scratch, ON("a", "full", "B 1, core Zen", 20) ON("b", "checkpoint", "B 1, core Zen", 30));
    expect_lines(scratch, "$L report r.jsonl --columns setting,time_ratio",
                 "setting time / full\nfull 1.000\ncheckpoint 1.500\n");
    // Bytes are those of any machine; what comes between does not join them.
    write_records(scratch, ON("a", "full", "B 1, core Zen", 20) PLANNED ON("c", "full", "B 1, core Cooperlake", 5)
                               ON("e", "checkpoint", "B 1, core Cooperlake", 6));
    expect_lines(scratch, "$L report r.jsonl --columns method,time_ratio",
                 "method time / full\nfull 1.000\nfull -\nfull 1.000\ncheckpoint 1.200\n");
    // Plans were measured on no machine.
    write_records(scratch, ON("a", "full", "B 1, core Zen", 20) PLANNED);
    expect_lines(scratch, "$L report r.jsonl --columns setting",
                 "setting\nfull, device cpu\nfull, device plan-cpu\n");
}

#define ROUND(digit, method, context, median)                                                                      \
    "{'schema': 2, 'id': '" ID(digit) "', 'experiment': 'e', 'status': 'ok', 'trial': {'model': 'tiny', 'dtype': " \
                                      "'f32', 'device': 'cpu', 'batch': 1, 'context': " #context ", 'method': "    \
                                      "{'name': '" method "'}}, 'samples_ms': [" #median                           \
                                      "], 'median_ms': " #median ", 'peak_bytes': 1024}\n"

// The machine slows down from round to round, and the rounds have different orders: full takes 10, 20 and 80 ms,
// checkpoint 11, 24 and 104, which is 1.1, 1.2 and 1.3 times as long. If rounds are rows, each has its own
// baseline.
static void ratios_are_of_rounds_in_turn(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch,
                  ROUND("a", "full", 64, 10) ROUND("b", "checkpoint", 64, 11) ROUND("b", "checkpoint", 64, 24)
                      ROUND("a", "full", 64, 20) ROUND("a", "full", 64, 80) ROUND("b", "checkpoint", 64, 104));
    // Log-ratios log 1.1, log 1.2, log 1.3: mean 1.19722, and 4.30265 of its standard errors, as numpy has them.
    expect_lines(
        scratch, "$L report r.jsonl --columns method,time_ratio,time_ratio_low,time_ratio_high",
        "method time / full from to\nfull 1.000 1.000 1.000\ncheckpoint 1.197 (0.973 to 1.47) 0.9728 1.473\n");
    expect_lines(scratch, "$L report r.jsonl --all --columns method,time_ratio",
                 "method time / full\nfull 1.000\ncheckpoint 1.100\ncheckpoint 1.200\nfull 1.000\nfull 1.000\n"
                 "checkpoint 1.300\n");
    // One round has no interval, and the report says so.
    write_records(scratch, ROUND("a", "full", 64, 10) ROUND("b", "checkpoint", 64, 11));
    assert_int_equal(run(scratch, "$L report r.jsonl"), 0);
    assert_says(scratch, "out", "1 of 2 ratios of times come from one round and have no interval");
}

// From context to context the baseline is one method with its options, which the title names; without it there is
// no ratio.
static void the_baseline_is_one_method(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch, ROUND("a", "full", 64, 10) ROUND("b", "checkpoint", 64, 12)
                               ROUND("c", "checkpoint", 128, 30) ROUND("d", "forward", 128, 15));
    expect_lines(scratch, "$L report r.jsonl --columns method,context,time_ratio,peak_ratio",
                 "method context time / full peak / full\nfull 64 1.000 1.000\ncheckpoint 64 1.200 1.000\n"
                 "checkpoint 128 - -\nforward 128 - -\n");
    write_records(scratch, TIMED("a", "'seco', 'chunk': 8", 64, SAMPLES, 1024)
                               TIMED("b", "'seco', 'chunk': 16", 64, SAMPLES, 2048));
    expect_lines(scratch, "$L report r.jsonl --columns chunk,peak_ratio",
                 "chunk peak / seco, chunk 8\n8 1.000\n16 2.000\n");
    // Two dtypes of the method at one context: the title tells which of them is meant.
    write_records(scratch,
                  RECORD("a",
                         "'trial': {'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': 8, 'method': {'name': "
                         "'full'}}, 'peak_bytes': 4") RECORD("b", "'trial': {'dtype': 'bf16', 'device': 'cpu', "
                                                                  "'batch': 1, 'context': 8, 'method': {'name': "
                                                                  "'full'}}, 'peak_bytes': 2"));
    expect_lines(scratch, "$L report r.jsonl --columns dtype,peak_ratio",
                 "dtype peak / full, dtype f32\nf32 1.000\nbf16 0.5000\n");
}

#define REFUSED(digit, what)                                                                                       \
    "{'schema': 2, 'id': '" ID(                                                                                    \
        digit) "', 'experiment': 'e', 'status': 'oom', 'reason': '9 bytes too few (limits." what                   \
               ")', 'trial': {'model': 'tiny', 'dtype': 'f32', 'device': 'cpu', 'batch': 1, "                      \
               "'context': 64, 'method': {'name': 'full'}, 'limits': {'memory': 8192}}, "                          \
               "'peak_bytes': 4096}\n"

// A step that the limit stopped takes more than the limit, however little it had until then.
static void a_refused_step_takes_more_than_the_limit(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch, REFUSED("a", "memory") REFUSED("b", "host_memory"));
    expect_lines(scratch, "$L report r.jsonl --columns peak_bytes", "peak_bytes\n> 8.00 KiB\n> 4.00 KiB\n");
}

// Also one that no record has: null, and not a mistake.
static void every_key_and_option_is_a_column(void **state)
{
    const struct scratch *scratch = *state;
    char command[200];
    write_records(scratch, RECORD("0", TRIAL("'full'")));
    for (size_t i = 0; i < trial_key_count(); i++) {
        snprintf(command, sizeof command, "$L report r.jsonl --columns id,%s --where status=oom,ok",
                 trial_keys[i].name);
        assert_int_equal(run(scratch, command), 0);
        for (const struct trial_key *member = trial_keys[i].members; member && member->name; member++) {
            snprintf(command, sizeof command, "$L report r.jsonl --columns trial.%s.%s", trial_keys[i].name,
                     member->name);
            if (strcmp(trial_keys[i].name, "train") != 0) // whose members are those that records have
                assert_int_equal(run(scratch, command), 0);
        }
    }
    const struct option *option;
    for (size_t i = 0; (option = methods_option(i)); i++) {
        snprintf(command, sizeof command, "$L report r.jsonl --format csv --columns %s --where %s=null",
                 option->name, option->name);
        char expected[120];
        snprintf(expected, sizeof expected, "%s\r\n\r\n", option->name);
        expect(scratch, command, expected);
    }
    assert_refused(scratch, "$L report r.jsonl --where status=crash --columns method,chunk");
    assert_refused(scratch, ": >none.jsonl; $L report none.jsonl --where status=crash --columns method,chunk");
    assert_refused(scratch, "$L report none.jsonl --format csv");
    assert_refused(scratch, "$L report none.jsonl --format json");
}

// Each format writes its own signs so that they are read as text.
static void every_format_escapes_its_signs(void **state)
{
    const struct scratch *scratch = *state;
    write_records(scratch, RECORD("0", "'reason': 'a|b_c\\n100% & \\\\{x}', " TRIAL("'full'")));
    expect_lines(scratch, "$L report r.jsonl --columns status,reason --format markdown",
                 "| status | reason |\n|:-|-:|\n| ok | a\\|b_c 100% & \\{x} |\n");
    expect_lines(scratch, "$L report r.jsonl --columns status,reason --format latex",
                 "\\begin{tabular}{lr}\n\\hline\nstatus & reason \\\\\n\\hline\n"
                 "ok & a\\textbar{}b\\_c 100\\% \\& \\textbackslash{}\\{x\\} \\\\\n\\hline\n\\end{tabular}\n");
    expect_lines(scratch, "$L report r.jsonl --columns status,reason", "status reason\nok a|b_c 100% & \\{x}\n");
}

// A text is no wider than a terminal: what a row is of stands in several lines then, broken behind commas.
static void wide_rows_are_wrapped(void **state)
{
    const struct scratch *scratch = *state;
    char reason[200] = "";
    for (int i = 1; i <= 12; i++)
        snprintf(reason + strlen(reason), sizeof reason - strlen(reason), "%sword number %d", i > 1 ? ", " : "", i);
    char *record;
    assert_true(asprintf(&record, RECORD("0", "'reason': '%s', " TRIAL("'full'")), reason) > 0);
    write_records(scratch, record);
    free(record);
    expect(scratch, "$L report r.jsonl --columns reason,status | awk 'length > 120 { print }'", "");
    assert_int_equal(
        run(scratch, "$L report r.jsonl --columns reason,status | tail -n +2 | tr -d '\\n' | tr -s ' '"), 0);
    char *text = text_of(scratch, "out"), *status = strstr(text, " ok");
    assert_non_null(status);
    memmove(status, status + 3, strlen(status + 3) + 1); // of the first line
    assert_string_equal(text, reason);
    free(text);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(fields_are_columns),
                                       TEST(names_of_columns_are_json),
                                       TEST(parts_of_a_map_are_columns),
                                       TEST(hostile_texts_stay_data),
                                       TEST(all_columns_are_those_of_the_table),
                                       TEST(mistakes_are_told_before_anything_is_written),
                                       TEST(the_table_says_what_differs),
                                       TEST(the_gradients_error_is_told),
                                       TEST(fixed_chunks_have_no_budget),
                                       TEST(what_tells_rows_apart_is_said_of_each),
                                       TEST(what_has_several_records_is_told),
                                       TEST(what_is_not_said_differs_too),
                                       TEST(large_numbers_have_a_unit),
                                       TEST(a_table_has_the_columns_and_order_that_are_asked_for),
                                       TEST(ratios_are_of_one_machine),
                                       TEST(ratios_are_of_rounds_in_turn),
                                       TEST(the_baseline_is_one_method),
                                       TEST(a_refused_step_takes_more_than_the_limit),
                                       TEST(every_key_and_option_is_a_column),
                                       TEST(every_format_escapes_its_signs),
                                       TEST(wide_rows_are_wrapped)};
    return cmocka_run_group_tests_name("record_table", tests, NULL, NULL);
}
