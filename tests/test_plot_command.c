// `longbp plot` against names that a shell or gnuplot could take for commands: of folders, files and scripts on the
// command line, and within records. Whatever they say, nothing runs: the file `x`, which each would make, is not
// there.
#define _GNU_SOURCE // setenv, asprintf
#include "tests/chosen_tests.h"
#include "tests/program.h"
#include "tests/quoted.h"
#include <jansson.h>
#include <stdbool.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const names[] = {
    "|touch x;#",
    "<touch x;#",
    "| touch x",
    "<(touch x)",
    "`touch x`",
    "$(touch x)",
    "'.system('touch x').'",
    "';system 'touch x';#",
    "\");system(\"touch x\");(\"",
    "@x",
    "$x",
    "-",
    "-e",
    "~",
    "+",
    "++",
    " ",
    "a\nsystem 'touch x'\n",
    "a\\",
    "{:Bold %d}",
    "'",
    "it''s ' ' ' 12'34 \\047",
    "''a",
    "\"quoted\"",
    "\tx\"",
    "K\303\266nig",
};

// Two contexts of one method: enough for memory and time. `text` replaces every text of a record: the experiment,
// the model, the method's options, the machine.
static void write_records(const struct scratch *scratch, const char *name, const char *text)
{
    FILE *file = fopen(scratch_path(scratch, name).text, "w");
    assert_non_null(file);
    for (int i = 1; i <= 2; i++) {
        char id[33];
        snprintf(id, sizeof id, "%032x", i);
        json_t *record =
            json_pack("{s:i, s:s, s:s, s:s, s:s, s:{s:s, s:s, s:s, s:i, s:i, s:i, s:n, s:{s:s, s:s, s:s}},"
                      " s:i, s:f, s:[f], s:{s:s, s:b, s:s, s:i}}",
                      "schema", 2, "id", id, "experiment", text, "status", "ok", "reason", text, "trial", "model",
                      text, "dtype", "f32", "device", "cpu", "batch", 1, "context", 64 * i, "seed", 1, "lora",
                      "method", "name", "seco", "inner", text, text, text, "peak_bytes", 1000 * i, "median_ms", 5.0,
                      "samples_ms", 5.0, "provenance", "revision", text, "dirty", 0, "cpu", text, "threads", 2);
        assert_non_null(record);
        assert_int_equal(json_dumpf(record, file, JSON_COMPACT), 0);
        fputc('\n', file);
        json_decref(record);
    }
    assert_int_equal(fclose(file), 0);
}

// Runs a command line in which $N is a name and $P this tree's folder of scripts; nothing else may come of it.
static void expect_drawn(const struct scratch *scratch, const char *name, const char *command)
{
    char *scripts = realpath("plots", NULL);
    assert_non_null(scripts);
    setenv("N", name, 1);
    setenv("P", scripts, 1);
    int code = run(scratch, command);
    free(scripts);
    if (access(scratch_path(scratch, "x").text, F_OK) == 0)
        fail_msg("it ran: %s, with %s", command, name);
    if (code != 0) {
        char *err = text_of(scratch, "err");
        fail_msg("%s, with %s: exit code %d: %s", command, name, code, err);
    }
}

static void folders_of_any_name_are_drawn_into(void **state)
{
    struct scratch *scratch = *state;
    write_records(scratch, "r.jsonl", "plain");
    for (size_t i = 0; i < COUNT(names); i++)
        expect_drawn(scratch, names[i],
                     "$L plot r.jsonl --scripts \"$P\" --format svg,tsv --figures memory \"--out=$N\" && "
                     "test -s \"./$N/plain-memory.svg\" -a -s \"./$N/plain-memory.tsv\"");
}

static void scripts_of_any_name_are_run(void **state)
{
    struct scratch *scratch = *state;
    write_records(scratch, "r.jsonl", "plain");
    for (size_t i = 0; i < COUNT(names); i++) {
        if (!is_chosen(i, 2))
            continue;
        expect_drawn(scratch, names[i],
                     "rm -rf drawn; ln -s \"$P\" \"./$N\" && "
                     "$L plot r.jsonl --format svg --figures memory --out drawn \"--scripts=$N\" && "
                     "test -s drawn/plain-memory.svg");
        expect_drawn(scratch, names[i],
                     "rm -rf drawn; LONGBP_PLOTS=$N $L plot r.jsonl --format svg --figures memory --out drawn && "
                     "test -s drawn/plain-memory.svg");
    }
}

static void results_of_any_name_are_read(void **state)
{
    struct scratch *scratch = *state;
    for (size_t i = 0; i < COUNT(names); i++) {
        if (!is_chosen(i + 1, 2))
            continue;
        write_records(scratch, names[i], "plain");
        expect_drawn(
            scratch, names[i],
            "rm -rf drawn; $L plot --scripts \"$P\" --format svg --figures memory --out drawn -- \"$N\" && "
            "test -s drawn/plain-memory.svg");
    }
}

// A pipe can be read once.
static void results_are_read_once(void **state)
{
    struct scratch *scratch = *state;
    write_records(scratch, "r.jsonl", "plain");
    expect_drawn(scratch, "r.jsonl",
                 "cat r.jsonl | $L plot --scripts \"$P\" --figures memory --out drawn /dev/stdin && "
                 "test -s drawn/plain-memory.svg");
}

static void words_in_records_are_words(void **state)
{
    struct scratch *scratch = *state;
    for (size_t i = 0; i < COUNT(names); i++) {
        write_records(scratch, "r.jsonl", names[i]);
        expect_drawn(scratch, names[i], "rm -rf drawn; $L plot --scripts \"$P\" --format svg --out drawn r.jsonl");
    }
}

// A user's settings of gnuplot do not affect pictures.
static void settings_at_home_do_not_count(void **state)
{
    struct scratch *scratch = *state;
    write_records(scratch, "r.jsonl", "plain");
    const char *settings = "system 'touch x'\nset print '-'\nprint 'not in the picture'\n";
    scratch_file(scratch, ".gnuplot", settings, strlen(settings));
    expect_drawn(
        scratch, "",
        "HOME=$PWD $L plot --scripts \"$P\" --out drawn r.jsonl && ! grep 'not in' drawn/plain-memory.svg");
}

static void pictures_are_drawn_whole_or_not_at_all(void **state)
{
    struct scratch *scratch = *state;
    write_records(scratch, "r.jsonl", "plain");
    expect_drawn(scratch, "",
                 "$L plot --scripts \"$P\" --figures memory --out drawn r.jsonl && cp -r drawn before");
    expect_drawn(scratch, "", "cp -r \"$P\" broken && echo 'plot nothing_there' >> broken/memory.gp");
    assert_int_equal(run(scratch, "$L plot --scripts broken --figures memory --out drawn r.jsonl"), 2);
    assert_says(scratch, "err", "gnuplot could not draw broken/memory.gp");
    expect_drawn(scratch, "", "diff -r drawn before"); // neither half a picture nor one that is not complete
    expect_drawn(scratch, "", "ln -sf /dev/full drawn/plain-memory.svg");
    assert_int_equal(run(scratch, "$L plot --scripts \"$P\" --figures memory --out drawn r.jsonl"), 2);
    expect_drawn(scratch, "", "test -L drawn/plain-memory.svg");
}

// Numbers that axes cannot hold cost their own picture, and no other; what is far, but not beyond, is drawn.
static void what_no_axis_holds_is_told(void **state)
{
    struct scratch *scratch = *state;
    static const struct {
        const char *change;
        bool drawn;
    } cases[] = {{"s/5.0/1e200/", false}, {"s/5.0/1e-320/", false}, {"s/5.0/1e59/", true}, {"s/5.0/1e-59/", true}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char command[200];
        write_records(scratch, "r.jsonl", "plain");
        snprintf(command, sizeof command, "sed -i '1%s' r.jsonl", cases[i].change);
        expect_drawn(scratch, "", command);
        expect_drawn(scratch, "",
                     "rm -rf drawn; $L plot --scripts \"$P\" --format svg --out drawn r.jsonl 2> said && "
                     "test -s drawn/plain-memory.svg");
        assert_int_equal(run(scratch, "test -s drawn/plain-time.svg"), cases[i].drawn ? 0 : 1);
        assert_int_equal(run(scratch, "grep -q '^plain-time: no picture: a number is above 1e60' said"),
                         cases[i].drawn ? 1 : 0);
    }
}

// A machine's single point is in no other's curve, and that is told: once, and not of one that has a picture.
static void a_machine_without_a_picture_is_told(void **state)
{
    struct scratch *scratch = *state;
    write_records(scratch, "r.jsonl", "plain");
    expect_drawn(
        scratch, "",
        "sed '1d; s/\"cpu\":\"plain\"/\"cpu\":\"other\"/; s/2\",\"exp/3\",\"exp/' r.jsonl > o.jsonl && "
        "$L plot --scripts \"$P\" --figures time,memory --format tsv --out drawn r.jsonl o.jsonl 2> said && "
        "test -s drawn/plain-time.tsv && test -s drawn/plain-memory.tsv && "
        "test $(grep -c 'measured on' said) = 1");
    assert_says(scratch, "said",
                "plain: no picture of time measured on other, which would need times at two contexts");
}

// A series without a point has no curve and no entry in the legend, and is reported.
static void what_has_no_point_is_told(void **state)
{
    struct scratch *scratch = *state;
    expect_drawn(
        scratch, "",
        "cat > s.json <<'SPEC'\n{\"experiment\": \"mine\", \"model\": {\"layers\": 1, \"width\": 16, \"heads\": 2, "
        "\"ffn\": 32, \"vocab\": 32}, \"measure\": {\"samples\": 3, \"warmup\": 0, \"gradient\": \"none\"}, "
        "\"axes\": "
        "{\"context\": [64], \"method\": [{\"name\": \"seco\", \"chunk\": 16}, {\"name\": \"spaco\", \"chunk\": "
        "16, "
        "\"budget\": [1, 2]}, {\"name\": \"spaco\", \"chunk\": 16, \"sampler\": \"fixed\", \"drawn_chunks\": [0, "
        "1], "
        "\"budget\": [1, 2, 4]}]}}\nSPEC\n"
        "$L run s.json --quiet --out r.jsonl && $L plot --scripts \"$P\" --figures sparsity --format tsv,svg --out "
        "drawn r.jsonl 2> said && ! grep fixed drawn/mine-sparsity.tsv && ! grep fixed drawn/mine-sparsity.svg && "
        "! grep NaN.*NaN.*NaN drawn/mine-sparsity.tsv");
    assert_says(
        scratch, "said",
        "mine-sparsity: no point of \"spaco, chunk 16, budget 1, sampler fixed\", \"spaco, chunk 16, budget "
        "2, sampler fixed\", \"spaco, chunk 16, budget 4, sampler fixed\", which would need samples");
}

static void help_names_every_figure(void **state)
{
    struct scratch *scratch = *state;
    expect_drawn(scratch, "",
                 "$L plot --help | tr -s ' \n' ' ' > help && grep -q 'gradient-error, router-losses,' help && "
                 "grep -q 'frontier (default' help");
}

// The recorded ones, which $R names.
static void draw_gradient_errors(struct scratch *scratch)
{
    char *results = realpath("results/gradient-error.jsonl", NULL);
    assert_non_null(results);
    setenv("R", results, 1);
    free(results);
    expect_drawn(scratch, "", "$L plot --scripts \"$P\" --format svg --figures gradient-error --out drawn \"$R\"");
}

// One heading for figures that show different things would be wrong for all but one.
static void a_title_is_of_one_figure(void **state)
{
    struct scratch *scratch = *state;
    draw_gradient_errors(scratch);
    static const struct {
        const char *options;
        int code;
    } cases[] = {
        {"--title Mine \"$R\"", 2},
        {"--title Mine --figures memory,gradient-error \"$R\"", 2},
        {"--title Mine --figures gradient-error \"$R\"", 0},
        {"--title '' \"$R\"", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[300];
        snprintf(command, sizeof command, "$L plot --scripts \"$P\" --format svg --out titled %s",
                 cases[i].options);
        int code = run(scratch, command);
        char *err = text_of(scratch, "err");
        if (code != cases[i].code || !strstr(err, "--title is the heading of one figure") != (code == 0))
            fail_msg("%s: exit %d: %s", command, code, err);
        free(err);
    }
}

// An axis that cannot be set is not silently left.
static void axes_of_bars_are_left(void **state)
{
    struct scratch *scratch = *state;
    draw_gradient_errors(scratch);
    char *err = text_of(scratch, "err");
    assert_string_equal(err, "");
    free(err);
    expect_drawn(scratch, "",
                 "$L plot --scripts \"$P\" --format svg --figures gradient-error --log y --out drawn \"$R\"");
    assert_says(scratch, "err", "gradient-error: --log leaves its axes as they are");
}

// Decades in which nothing lies take no room: errors of f32 and f64 share a picture, and 0 has a place.
static void an_axis_is_broken_where_nothing_lies(void **state)
{
    struct scratch *scratch = *state;
    draw_gradient_errors(scratch);
    expect_drawn(
        scratch, "",
        "for tick in 0 1e-16 1e-14 1e-7 5e-7 1e-6 //; do grep -q \"[ >]$tick<\" drawn/gradient-error.svg || "
        "{ echo $tick; exit 1; }; done; ! grep -qE '1e-(8|9|1[0-3])<' drawn/gradient-error.svg");
}

// A logarithmic axis of dots is refused, too. The papers' claims are below a figure's heading.
static void longest_contexts_say_what_is_claimed(void **state)
{
    struct scratch *scratch = *state;
    char *results = realpath("results", NULL);
    assert_non_null(results);
    setenv("R", results, 1);
    free(results);
    expect_drawn(
        scratch, "",
        "for card in rtx-3090 a800-80g; do grep '\"profile\":\"'$card'\"' $R/max-context.jsonl | "
        "grep -E '\"data\":(1|3),' > $card.jsonl; done && grep '\"zero\":2' a800-80g.jsonl > zero.jsonl && "
        "grep '\"host_memory\":null' rtx-3090.jsonl | grep '\"weights\":null' | head -5 > one.jsonl && "
        "$L plot --scripts \"$P\" --format svg,tsv --log y --out drawn one.jsonl zero.jsonl");
    assert_says(scratch, "err", "max-context: --log leaves its axes as they are");
    expect_drawn(
        scratch, "",
        "grep -q 'Claimed by StreamBP: with ZeRO-2 on 3 to 8 cards' drawn/cards.svg && "
        "grep -q 'longest context (thousands of tokens)' drawn/cards.svg && "
        "for picture in drawn/cards.svg drawn/max-context.svg; do grep -q 'Longest planned context' $picture && "
        "grep -q 'planned, not measured, at revision' $picture || { echo $picture; exit 1; }; done && "
        "grep -q \"$(grep -o '\"context\":[0-9]*' zero.jsonl | tail -1 | cut -d: -f2)\" drawn/cards.tsv && "
        "! grep -q Claimed drawn/max-context.svg");
    // Each names its own files alone; others' sources in short.
    expect_drawn(
        scratch, "",
        "grep -q '>From one.jsonl[<;]' drawn/max-context.svg && grep -q '>From zero.jsonl<' drawn/cards.svg && "
        "! grep -q 'other file' drawn/*.svg && ! grep -q 'zero.jsonl' drawn/max-context.svg && "
        "for n in 3 4 5; do grep '\"data\":'$n, $R/max-context.jsonl > $n.jsonl; done && "
        "$L plot --scripts \"$P\" --format svg --out two 3.jsonl 4.jsonl 5.jsonl && "
        "grep -q '>From 3.jsonl and 2 other files<' two/cards.svg");
    // A panel alone, of published figures and of longest contexts; a word that is none draws nothing.
    expect_drawn(
        scratch, "",
        "$L plot --scripts \"$P\" --format svg,tsv --out panel --figures published-memory --panel 'other methods' "
        "$R/seco-figure6.jsonl && cut -f 5,6 panel/*-panel-other-methods.tsv | sort -u | grep -qx \"1\tother "
        "methods\" "
        "&& grep -q '>other methods<' panel/*.svg && ! grep -q '>spaco<' panel/*.svg && "
        "grep -E '\"profile\":\"h100-80g\".*\"host_memory\":19|host_memory\":19.*\"profile\":\"h100-80g\"' "
        "$R/max-context.jsonl > h100.jsonl && "
        "$L plot --scripts \"$P\" --format svg,tsv --out panel --panel qwen3-8b h100.jsonl && cut -f 6 "
        "panel/max-context-panel-qwen3-8b.tsv | grep -q ^qwen3-8b, && "
        "! grep -q llama panel/max-context-panel-qwen3-8b.tsv && "
        "grep llama-3-8b h100.jsonl > llama.jsonl && "
        "! $L plot --scripts \"$P\" --format svg --out no --panel qwen3-8 llama.jsonl 2> said && grep -q 'no "
        "figure has .qwen3-8.; .*; of these data "
        "\"llama-3-8b,' "
        "said && ! $L plot --scripts \"$P\" --out no --panel spac $R/seco-figure6.jsonl 2> said && "
        "grep -q 'did you mean \"spaco\"?' said && [ ! -e no ]");
    // Letters below 6 pt are told once, with the height that they take at that width; which is then enough.
    expect_drawn(
        scratch, "",
        "small() { $L plot --scripts \"$P\" --format tsv,svg,png --out small --size 85x$1mm one.jsonl 2>&1 | grep "
        "' pt; at this width 6 pt take a height of '; } && "
        "small 40 > said && [ $(wc -l < said) = 1 ] && grep -q '^max-context: letters of [0-5][.][0-9] pt' said && "
        "least=$(grep -oE '[0-9]+ mm$' said | cut -d' ' -f1) && ! small $least && small $((least - 3))");
    // Batches have a picture of their own; within a decade its axis begins at 0.
    expect_drawn(
        scratch, "",
        "$L plot --scripts \"$P\" --format svg,tsv --out batches $R/claims-batch.jsonl | grep -c max-batch | grep "
        "-qx 2 && "
        "for word in 'Claimed by StreamBP: what is gained in length carries over to batch' "
        "'batch (sequences)' 'Largest planned batch' 'planned, not measured' '>0<' '>40<' '>39<' '>21<' "
        "'sequences of 4000 tokens'; do "
        "grep -q \"$word\" batches/max-batch.svg || { echo \"$word\"; exit 1; }; done; "
        "cut -f7 batches/max-batch.tsv | paste -sd, | grep -qx max_batch,5,22,32,39,21");
    expect_drawn(
        scratch, "",
        "$L max-batch --model tiny --context 100 --memory-limit 40MiB --json > own.jsonl && $L plot --scripts "
        "\"$P\" --format svg --out own own.jsonl && ! grep -q Claimed own/max-batch.svg");
    // Rows in which nothing fits have 0; missing rows are reported.
    expect_drawn(scratch, "",
                 "sed 's/\"status\":\"ok\"/\"status\":\"oom\"/' $R/claims-batch.jsonl > none.jsonl && "
                 "$L plot --scripts \"$P\" --format svg --out none none.jsonl && "
                 "test $(grep -c '>0<' none/max-batch.svg) = 6");
    expect_drawn(
        scratch, "",
        "! $L plot --figures chunk,work $R/training.jsonl 2> said && grep -c '^  [a-z]*: ' said | grep -qx 2 && "
        "grep -q '^  chunk: three chunk sizes or more at one context' said");
    expect_drawn(scratch, "",
                 "! $L plot nowhere.jsonl 2> said && "
                 "grep -qx 'longbp plot: nowhere.jsonl: No such file or directory' said");
}

// Trials of several commits: their values over those at the first commit, and the commits at which they changed.
static void commits_are_held_against_each_other(void **state)
{
    struct scratch *scratch = *state;
    write_records(scratch, "r.jsonl", "plain");
    expect_drawn(
        scratch, "",
        "sed 's/\"revision\": *\"plain\"/\"revision\":\"other\"/; s/\"peak_bytes\": *1000/\"peak_bytes\":1500/' "
        "r.jsonl > later.jsonl && $L plot --scripts \"$P\" --figures history --format svg,tsv --out drawn r.jsonl "
        "later.jsonl && test -s drawn/plain-history.svg && cut -f 2,5- drawn/plain-history.tsv > table");
    char *table = text_of(scratch, "table");
    assert_string_equal(table, "method\tcommit\trevision\ttime_ratio\tpeak_ratio\ttime_changed\tpeak_changed\n"
                               "seco\t1\tplain\t1\t1\t0\t0\nseco\t2\tother\t1\t1.5\t0\t1\n"
                               "seco\t1\tplain\t1\t1\t0\t0\nseco\t2\tother\t1\t1\t0\t0\n");
    free(table);
    assert_int_equal(run(scratch, "$L plot --scripts \"$P\" --figures history --out drawn r.jsonl"), 2);
    assert_says(scratch, "err", "history: a trial that several commits have");
}

// Each claim's pictures are ones that this repository's records draw.
static void pictures_of_claims_are_there(void **state)
{
    struct scratch *scratch = *state;
    char *tree = realpath(".", NULL);
    assert_non_null(tree);
    setenv("R", tree, 1);
    free(tree);
    expect_drawn(scratch, "",
                 "for name in $(sed -n 's/.*\"pictures\": \\[\\(.*\\)\\],/\\1/p' $R/experiments/claims.json | tr "
                 "-d '\",'); do "
                 "for picture in $R/plots/pictures/$name*.svg; do " // one of each setting
                 "grep -q 'Claimed by' $picture || { echo $name; exit 1; }; done; done");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

// The candidates of advise's front have numbers, which a list says.
static void a_pareto_front_lists_its_candidates(void **state)
{
    expect_drawn(
        *state, "",
        "$L advise --model tiny --context 1024 --memory-limit 24MiB --like cpu --profile rtx-3090 --json > "
        "a.jsonl && "
        "$L plot --scripts \"$P\" --format svg,tsv --out front a.jsonl && f=front/advise-pareto-front && "
        "n=$(($(wc -l < $f.tsv) - 1)) && test $n -gt 2 && test $n = $(wc -l < a.jsonl) && "
        "for i in $(seq $n); do words=$(cut -f9 $f.tsv | sed -n $((i + 1))p) && "
        "grep -qF \">$i  $words: \" $f.svg && grep -q \">$i<\" $f.svg || { echo $i $words; exit 1; }; done");
}

// A line for each method and the furthest of all, for each size of the host's memory.
static void a_frontier_has_a_line_for_each_method(void **state)
{
    expect_drawn(*state, "",
                 "$L frontier --model tiny --methods full,seco --device-memory 1MiB,12MiB,24MiB --host-memory 2MiB "
                 "--json > f.jsonl && $L plot --scripts \"$P\" --format svg,tsv --out drawn f.jsonl && "
                 "cut -f3 drawn/frontier.tsv | uniq -c | tr -s ' ' | paste -sd\\| > said && "
                 "grep -qxF ' 1 label| 2 full| 2 seco| 2 full, host 2.00 MiB| 2 seco, host 2.00 MiB| 2 auto| "
                 "2 auto, host 2.00 MiB' said && "
                 "for c in $(grep '\"status\":\"ok\"' f.jsonl | grep -o '\"context\":[0-9]*' | cut -d: -f2); do "
                 "cut -f6 drawn/frontier.tsv | grep -qx $c || { echo $c; exit 1; }; done");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(folders_of_any_name_are_drawn_into),
        TEST(scripts_of_any_name_are_run),
        TEST(results_of_any_name_are_read),
        TEST(results_are_read_once),
        TEST(words_in_records_are_words),
        TEST(settings_at_home_do_not_count),
        TEST(pictures_are_drawn_whole_or_not_at_all),
        TEST(what_no_axis_holds_is_told),
        TEST(a_machine_without_a_picture_is_told),
        TEST(what_has_no_point_is_told),
        TEST(help_names_every_figure),
        TEST(a_title_is_of_one_figure),
        TEST(axes_of_bars_are_left),
        TEST(an_axis_is_broken_where_nothing_lies),
        TEST(longest_contexts_say_what_is_claimed),
        TEST(a_pareto_front_lists_its_candidates),
        TEST(a_frontier_has_a_line_for_each_method),
        TEST(commits_are_held_against_each_other),
        TEST(pictures_of_claims_are_there),
    };
    return cmocka_run_group_tests_name("plot_command", tests, NULL, NULL);
}
