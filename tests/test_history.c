// Tests of `longbp history`: the commit of a change, the order of commits, values without a change, and the output
// as table, markdown, JSON and page. JSON is written with ' for ".
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "tests/program.h"
#include "tests/quoted.h"
#include <jansson.h>
#include <stdbool.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct point {
    char id;
    const char *revision, *time;
    bool dirty;
    int peak_bytes, launches;
    const char *hash;
    double ms;
};

static const struct point points[] = {
    {'0', "aaaaaaaaaaaa", "2026-01-03T00:00:00Z", false, 1000, 7, "0000000000000001", 10},
    {'0', "bbbbbbbbbbbb", "2026-01-02T00:00:00Z", false, 1000, 7, "0000000000000001", 10},
    {'0', "cccccccccccc", "2026-01-04T00:00:00Z", false, 1500, 7, "0000000000000002", 10},
    {'0', "cccccccccccc", "2026-01-04T01:00:00Z", true, 900, 7, "0000000000000002", 20},
    // Not at b and c: what it is at c with changes is held against a.
    {'1', "aaaaaaaaaaaa", "2026-01-03T00:00:01Z", false, 2000, 7, "0000000000000003", 10},
    {'1', "cccccccccccc", "2026-01-04T01:00:01Z", true, 2000, 9, "0000000000000003", 20},
};

// Twelve samples, a thousandth apart, and each round's as much.
static void write_samples(const struct point *point, int round, FILE *stream)
{
    for (int i = 0; i < 12; i++)
        fprintf(stream, "%s%.4f", i ? ", " : "", point->ms * (1 + 0.001 * (i + round)));
}

static void write_point(const struct point *point, int round, FILE *stream)
{
    fprintf(
        stream,
        "{'schema': 2, 'id': '%c123456789abcdef0123456789abcdef', 'experiment': 'e', 'status': 'ok', 'reason': '', "
        "'trial': {'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': 64, 'method': {'name': 'seco', 'chunk': "
        "%d}}, 'peak_bytes': %d, 'launches': %d, 'gradient': {'hash': '%s', 'worst_tensor': null, 'tensors': {'w': "
        "{'hash': '%s', 'relative_l2': 0, 'max_abs': 0}}}, 'median_ms': %g, 'samples_ms': [",
        point->id, point->id == '0' ? 8 : 16, point->peak_bytes, point->launches, point->hash, point->hash,
        point->ms);
    write_samples(point, round, stream);
    fprintf(stream, "], 'provenance': {'revision': '%s', 'time': '%s', 'dirty': %s, 'cpu': 'x', 'threads': 1}}\n",
            point->revision, point->time, point->dirty ? "true" : "false");
}

static void write_rounds(const struct scratch *scratch, const struct point *shown, size_t count, int rounds)
{
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < count; i++)
            write_point(&shown[i], round, stream);
    assert_int_equal(fclose(stream), 0);
    char *json = quoted(text);
    scratch_file(scratch, "h.jsonl", json, strlen(json));
    free(json);
    free(text);
}

static void write_points(const struct scratch *scratch, const struct point *shown, size_t count)
{
    write_rounds(scratch, shown, count, 1);
}

static json_t *history_of(const struct scratch *scratch)
{
    assert_int_equal(run(scratch, "$L history h.jsonl --format json"), 0);
    char *out = text_of(scratch, "out");
    json_t *list = json_loads(out, 0, NULL);
    assert_int_equal(json_array_size(list), 1);
    json_t *history = json_incref(json_array_get(list, 0));
    json_decref(list);
    free(out);
    return history;
}

static const char *revision_at(const json_t *history, size_t at)
{
    return json_string_value(json_object_get(json_array_get(json_object_get(history, "commits"), at), "revision"));
}

// "peak_bytes 1500 900 better", of the first trial that changed at a commit.
static const json_t *changed_at(const json_t *history, size_t commit, size_t trial)
{
    const json_t *comparison =
        json_object_get(json_array_get(json_object_get(history, "commits"), commit), "comparison");
    return json_array_get(json_object_get(comparison, "changed"), trial);
}

static void assert_quantity(const json_t *trial, const char *name, double base, double new)
{
    const json_t *quantity = json_array_get(json_object_get(trial, "quantities"), 0);
    assert_string_equal(json_string_value(json_object_get(quantity, "name")), name);
    assert_float_equal(json_number_value(json_object_get(quantity, "base")), base, 0);
    assert_float_equal(json_number_value(json_object_get(quantity, "new")), new, 0);
}

static void test_changes_are_told_of_their_commit(void **state)
{
    struct scratch *scratch = *state;
    write_rounds(scratch, points, COUNT(points), 2);
    json_t *history = history_of(scratch);
    // Without a repository that has them: by time; b was recorded first.
    static const char *const order[] = {"bbbbbbbbbbbb", "aaaaaaaaaaaa", "cccccccccccc", "cccccccccccc"};
    assert_string_equal(json_string_value(json_object_get(history, "order")), "time");
    for (size_t i = 0; i < COUNT(order); i++)
        assert_string_equal(revision_at(history, i), order[i]);
    assert_int_equal(json_array_size(json_object_get(history, "commits")), COUNT(order));
    assert_null(changed_at(history, 0, 0));
    assert_null(changed_at(history, 1, 0)); // as at b
    const json_t *grown = changed_at(history, 2, 0);
    assert_quantity(grown, "peak_bytes", 1000, 1500);
    assert_string_equal(json_string_value(json_object_get(grown, "verdict")), "worse");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(grown, "gradient_bits"), "changed")), 1);
    assert_quantity(changed_at(history, 3, 0), "peak_bytes", 1500, 900);
    assert_quantity(changed_at(history, 3, 1), "launches", 7, 9); // against a
    // Both trials took twice as long.
    const json_t *comparison =
        json_object_get(json_array_get(json_object_get(history, "commits"), 3), "comparison");
    assert_string_equal(json_string_value(json_object_get(json_object_get(comparison, "time"), "verdict")),
                        "worse");
    json_decref(history);
}

// A commit that was measured again after the next one keeps its place, and each change is held against the commit
// before, whichever was measured last.
static void test_a_commit_is_measured_again(void **state)
{
    struct scratch *scratch = *state;
    static const struct point again[] = {
        {'0', "aaaaaaaaaaaa", "2026-01-03T00:00:00Z", false, 1000, 7, "0000000000000001", 10},
        {'0', "cccccccccccc", "2026-01-04T00:00:00Z", false, 900, 7, "0000000000000001", 10},
        {'0', "bbbbbbbbbbbb", "2026-01-02T00:00:00Z", false, 1500, 7, "0000000000000001", 10},
        {'0', "aaaaaaaaaaaa", "2026-01-01T00:00:00Z", false, 1000, 7, "0000000000000001", 10},
        {'0', "aaaaaaaaaaaa", "2026-01-05T00:00:00Z", false, 1000, 7, "0000000000000001", 12},
        {'0', "bbbbbbbbbbbb", "2026-01-06T00:00:00Z", false, 1500, 7, "0000000000000001", 10}};
    static const char *const order[] = {"aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"};
    write_points(scratch, again, COUNT(again));
    json_t *history = history_of(scratch);
    assert_int_equal(json_array_size(json_object_get(history, "commits")), COUNT(order));
    for (size_t i = 0; i < COUNT(order); i++)
        assert_string_equal(revision_at(history, i), order[i]);
    const json_t *first = json_array_get(json_object_get(history, "commits"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "time")), "2026-01-01T00:00:00Z");
    assert_quantity(changed_at(history, 1, 0), "peak_bytes", 1000, 1500);
    assert_quantity(changed_at(history, 2, 0), "peak_bytes", 1500, 900);
    const json_t *trial = json_array_get(json_object_get(history, "trials"), 0),
                 *points_of = json_object_get(trial, "points");
    assert_int_equal(json_array_size(points_of), COUNT(order));
    assert_float_equal(json_number_value(json_object_get(json_array_get(points_of, 0), "time_ms")), 12, 0.5);
    json_decref(history);
}

// Times of one round per commit cannot be judged, and leave no verdict open.
static void test_times_of_one_round_are_left_out(void **state)
{
    struct scratch *scratch = *state;
    write_points(scratch, points, COUNT(points));
    json_t *history = history_of(scratch);
    const json_t *comparison =
        json_object_get(json_array_get(json_object_get(history, "commits"), 3), "comparison");
    assert_string_equal(json_string_value(json_object_get(json_object_get(comparison, "time"), "verdict")),
                        "not judged");
    assert_string_equal(json_string_value(json_object_get(changed_at(history, 3, 0), "verdict")), "better");
    json_decref(history);
}

static void test_every_point_is_there(void **state)
{
    struct scratch *scratch = *state;
    write_points(scratch, points, COUNT(points));
    json_t *history = history_of(scratch);
    const json_t *trials = json_object_get(history, "trials"), *first = json_array_get(trials, 0);
    const json_t *all = json_object_get(first, "points"), *last = json_array_get(all, 3);
    assert_int_equal(json_array_size(trials), 2);
    assert_int_equal(json_array_size(all), 4);
    assert_float_equal(json_number_value(json_object_get(last, "peak_bytes")), 900, 0);
    assert_string_equal(json_string_value(json_object_get(last, "gradient_hash")), "0000000000000002");
    assert_float_equal(json_number_value(json_object_get(last, "time_ms")), 20, 1);
    assert_true(json_number_value(json_object_get(last, "spread_ms")) > 0);
    assert_int_equal(json_array_size(json_object_get(json_array_get(trials, 1), "points")), 2);
    json_decref(history);
}

static void test_tables(void **state)
{
    struct scratch *scratch = *state;
    write_points(scratch, points, COUNT(points));
    assert_int_equal(run(scratch, "$L history h.jsonl"), 0);
    assert_says(scratch, "out",
                "4 commits in the order of their records' times, 2 trials, 2 of them at several commits");
    assert_says(scratch, "out", "cccccccccccc with changes");
    assert_says(scratch, "out", "changed: peak_bytes in 1 of 2 trials, launches in 1 of 2 trials");
    // Instructions that are a hundredth apart are those of one build.
    assert_int_equal(run(scratch,
                         "awk '{ n = /median_ms\": 20/ ? 2000 : 1000 + 10 * NR; "
                         "sub(/\"median_ms/, \"\\\"instructions\\\": \" n \", &\"); print }' h.jsonl > i.jsonl && "
                         "$L history i.jsonl && head -3 i.jsonl > three.jsonl && $L history three.jsonl > three"),
                     0);
    assert_says(scratch, "out", "instructions in 2 of 2 trials");
    assert_says(scratch, "three", "instructions in 0 of 1 trials");
    assert_int_equal(run(scratch, "$L history h.jsonl --format markdown --where chunk=8"), 0);
    assert_says(scratch, "out", "## e\n");
    assert_says(scratch, "out", "4 commits in the order of their records' times, 1 trial,");
    assert_says(scratch, "out", "cccccccccccc, cccccccccccc |"); // where its peak changed
    // An experiment of one commit has no part in it.
    assert_int_equal(run(scratch,
                         "sed -n '1s/\"e\"/\"alone\"/; 1s/0123/2123/p' h.jsonl > alone.jsonl && $L report h.jsonl "
                         "alone.jsonl --html page.html"),
                     0);
    assert_says(scratch, "page.html", "<section id=\"history\">\n<h2>From commit to commit</h2>\n<h3>e</h3>");
    char *both = text_of(scratch, "page.html");
    assert_null(strstr(both, "<h3>alone</h3>"));
    free(both);
    write_points(scratch, points, 1);
    assert_int_equal(run(scratch, "$L history h.jsonl"), 0);
    assert_says(scratch, "out", "1 commit in");
    assert_int_equal(run(scratch, "$L report h.jsonl --html page.html"), 0);
    char *page = text_of(scratch, "page.html");
    assert_null(strstr(page, "<section id=\"history\">"));
    free(page);
    assert_int_equal(run(scratch, "$L history missing.jsonl"), 2);
    assert_refused(scratch, ": > empty.jsonl; $L history empty.jsonl");
    assert_refused(scratch, "head -c 100 h.jsonl > torn.jsonl; $L history torn.jsonl --format json");
    assert_int_equal(run(scratch, "$L history h.jsonl --format csv"), 2);
    assert_int_equal(run(scratch, "$L history"), 2);
}

// A step's loss changes beyond rounding, that of a training run beyond how much it scatters.
static void test_losses(void **state)
{
    struct scratch *scratch = *state;
    write_points(scratch, points, 3);
    // By time: the second, the first, the third.
    assert_int_equal(
        run(scratch,
            "awk '{ loss = NR == 3 ? 3.25 : 3.125; last = NR == 3 ? 9 : 3 + NR / 10; "
            "sub(/\"median_ms/, \"\\\"loss\\\": \" loss \", \\\"curve\\\": {\\\"loss\\\": [4, 3, 4, "
            "3, 4, 3, 4, \" last \"]}, &\"); print }' h.jsonl > l.jsonl && $L history l.jsonl --format markdown"),
        0);
    assert_says(scratch, "out", "6.5 |        1.806 | cccccccccccc |");
    assert_says(scratch, "out", "loss in 1 of 1 trials, last_loss in 1 of 1 trials");
    json_t *history;
    assert_int_equal(run(scratch, "mv l.jsonl h.jsonl"), 0);
    history = history_of(scratch);
    assert_int_equal(json_array_size(json_object_get(changed_at(history, 1, 0), "quantities")), 0); // 3.6, 3.55
    const json_t *points_of = json_object_get(json_array_get(json_object_get(history, "trials"), 0), "points");
    assert_float_equal(json_number_value(json_object_get(json_array_get(points_of, 2), "last_loss")), 6.5, 0);
    json_decref(history);
}

// Ten commits of which each adds 2.9 % of instructions, less than is told of one: told of at every second.
static void test_creeping_growth_is_told(void **state)
{
    struct scratch *scratch = *state;
    static const char *const revisions[] = {"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"};
    struct point creeping[COUNT(revisions)];
    char times[COUNT(revisions)][24];
    for (size_t i = 0; i < COUNT(revisions); i++) {
        snprintf(times[i], sizeof times[i], "2026-01-0%zuT00:00:00Z", i + 1 > 9 ? 9 : i + 1);
        creeping[i] = points[0];
        creeping[i].revision = revisions[i];
        creeping[i].time = times[i];
    }
    times[9][12] = '1';
    write_points(scratch, creeping, COUNT(creeping));
    assert_int_equal(run(scratch,
                         "awk '{ sub(/\"median_ms/, \"\\\"instructions\\\": \" int(1e9 * 1.029 ^ (NR - 1)) \", "
                         "&\"); print }' h.jsonl > i.jsonl && $L history i.jsonl"),
                     0);
    assert_says(scratch, "out", "instructions in 1 of 1 trials");
    assert_says(scratch, "out", "a2, a4, a6, a8");
    // On another processor it begins anew.
    assert_int_equal(run(scratch, "awk 'NR > 5 { sub(/\"cpu\": \"x/, \"&y\") } 1' i.jsonl > moved.jsonl && "
                                  "$L history moved.jsonl"),
                     0);
    assert_says(scratch, "out", "a2, a4, a7, a9");
}

// Two commits of a repository, recorded the other way round.
static void test_order_of_git(void **state)
{
    struct scratch *scratch = *state;
    static const char commit[] =
        "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git rev-parse "
        "--short=12 HEAD";
    char command[300], *out, revisions[2][16];
    assert_int_equal(run(scratch, "git init -q ."), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command, "%s", commit);
        assert_int_equal(run(scratch, command), 0);
        out = text_of(scratch, "out");
        snprintf(revisions[i], sizeof revisions[i], "%.12s", out);
        free(out);
    }
    struct point reversed[2] = {points[0], points[0]};
    reversed[0].revision = revisions[1];
    reversed[0].time = "2026-01-01T00:00:00Z";
    reversed[1].revision = revisions[0];
    reversed[1].time = "2026-01-02T00:00:00Z";
    write_points(scratch, reversed, 2);
    json_t *history = history_of(scratch);
    assert_string_equal(json_string_value(json_object_get(history, "order")), "git");
    assert_string_equal(revision_at(history, 0), revisions[0]);
    assert_string_equal(revision_at(history, 1), revisions[1]);
    json_decref(history);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_changes_are_told_of_their_commit),
                                       TEST(test_a_commit_is_measured_again),
                                       TEST(test_every_point_is_there),
                                       TEST(test_tables),
                                       TEST(test_times_of_one_round_are_left_out),
                                       TEST(test_creeping_growth_is_told),
                                       TEST(test_order_of_git),
                                       TEST(test_losses)};
    return cmocka_run_group_tests_name("history", tests, NULL, NULL);
}
