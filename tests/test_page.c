// Tests of harness/page as far as they need no browser (tests/check_page has one): words that would be HTML,
// markdown of reports, claims that records decide, and messages about records of no kind and bad files.
#define _GNU_SOURCE // nftw, mkdtemp, asprintf
#include "harness/page/html.h"
#include "harness/page/markdown.h"
#include "harness/page/page.h"
#include "tests/program.h"
#include "tests/quoted.h"

#define HOSTILE "</script><script>taken()</script>"

static void write_quoted(const struct scratch *scratch, const char *name, const char *text)
{
    char *json = quoted(text);
    scratch_file(scratch, name, json, strlen(json));
    free(json);
}

static void write_records(const struct scratch *scratch, const char *experiment, int peak)
{
    char *text;
    assert_true(
        asprintf(
            &text,
            "{'schema': 2, 'id': '0123456789abcdef0123456789abcdef', 'experiment': '%s', 'status': 'ok', "
            "'reason': '', 'trial': {'dtype': 'f32', 'device': 'cpu', 'batch': 1, 'context': 64, 'model': '%s', "
            "'method': {'name': 'full', 'chunk': 8}}, 'peak_bytes': %d, 'median_ms': 12, 'samples_ms': [11, 12, "
            "13], 'command': 'longbp run %s', 'provenance': {'revision': '%s', 'cpu': '%s'}}\n",
            experiment, experiment, peak, experiment, experiment, experiment) > 0);
    write_quoted(scratch, "r.jsonl", text);
    free(text);
}

static char *page_of(const struct scratch *scratch, const char *options)
{
    char command[400];
    snprintf(command, sizeof command, "$L report r.jsonl --html page.html %s", options);
    assert_int_equal(run(scratch, command), 0);
    return text_of(scratch, "page.html");
}

static size_t times(const char *text, const char *word)
{
    size_t count = 0;
    for (; (text = strstr(text, word)); text++)
        count++;
    return count;
}

static char *html_of(void (*write)(const char *text, FILE *stream), const char *text)
{
    char *html = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&html, &bytes);
    write(text, stream);
    assert_int_equal(fclose(stream), 0);
    return html;
}

static void escape(const char *text, FILE *stream)
{
    html_text(stream, text);
}

static void test_words_stay_words(void **state)
{
    (void)state;
    char *html = html_of(escape, "<a href=\"x\" title='y'>&amp;</a> 2 µs");
    assert_string_equal(html, "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt; 2 µs");
    free(html);
}

static void test_markdown(void **state)
{
    (void)state;
    char *html =
        html_of(markdown_to_html, "## a <b>\n\n**c**\n\nd & e\n\n| x     |  y |\n|:------|---:|\n| p\\|q  | -1 |\n"
                                  "|   part |  - |\nend");
    assert_non_null(strstr(html, "<h3>a &lt;b&gt;</h3>"));
    assert_non_null(strstr(html, "<h4>c</h4>"));
    assert_non_null(strstr(html, "<p>d &amp; e</p>"));
    assert_non_null(strstr(html, "<th scope=\"col\">x</th><th scope=\"col\" class=\"n\">y</th>"));
    assert_non_null(strstr(html, "<th scope=\"row\">p|q</th><td class=\"n\">-1</td>"));
    assert_non_null(strstr(html, "<th scope=\"row\" class=\"indent1\">part</th><td class=\"n none\">–</td>"));
    assert_non_null(strstr(html, "<p>end</p>"));
    assert_null(strstr(html, "sortable")); // rows have parts
    free(html);
    html = html_of(markdown_to_html, "| x | y |\n|:--|--:|\n| a | 1 |\n| b | two |\n");
    assert_non_null(strstr(html, "<table class=\"sortable\">"));
    assert_non_null(strstr(html, "<td>1</td>")); // not a column of numbers
    free(html);
}

static void test_hostile_names(void **state)
{
    struct scratch *scratch = *state;
    write_records(scratch, "plain", 1000);
    char *page = page_of(scratch, "");
    size_t scripts = times(page, "<script");
    free(page);
    write_records(scratch, HOSTILE, 1000);
    page = page_of(scratch, "");
    assert_int_equal(times(page, "<script"), scripts);
    assert_null(strstr(page, HOSTILE));
    assert_true(times(page, "&lt;/script&gt;&lt;script&gt;taken()") >= 4); // experiment, command, revision, machine
    assert_null(strstr(page, "{{"));
    free(page);
}

// Nothing that a browser would fetch.
static void test_needs_no_network(void **state)
{
    static const char *const fetched[] = {
        " src=\"", " src='", "@import", "url(http", "<link rel=\"stylesheet\"", "xlink:href=\"http"};
    struct scratch *scratch = *state;
    write_records(scratch, "plain", 1000);
    char *page = page_of(scratch, "");
    for (size_t i = 0; i < sizeof fetched / sizeof *fetched; i++)
        assert_null(strstr(page, fetched[i]));
    free(page);
}

static void test_claims_of_these_records(void **state)
{
    struct scratch *scratch = *state;
    write_records(scratch, "plain", 1000);
    write_quoted(
        scratch, "c.json",
        "{'claims': [{'id': 'a', 'paper': 'P', 'claim': 'few bytes', 'published': '900', 'source': 'S', 'figures': "
        "[{'against': 'none', 'take': 'min', 'field': 'peak_bytes', 'records': ['elsewhere/r.jsonl']}], "
        "'holds': {'at most': 1100}, 'verdict': 'not reproduced', 'cause': 'none <b>'}, {'id': 'b', 'paper': "
        "'Q', 'claim': 'other', 'published': '1', 'source': 'T', 'figures': [{'against': 'none', 'take': "
        "'min', 'field': 'peak_bytes', 'records': ['not-here.jsonl']}], 'holds': {'at most': 1}, 'verdict': "
        "'not run'}]}");
    char *page = page_of(scratch, "--claims c.json");
    assert_null(strstr(page, "Figure: ")); // one record makes none
    assert_non_null(strstr(page, "<span class=\"verdict reproduced\">reproduced"));
    assert_non_null(strstr(page, "few bytes"));
    assert_non_null(strstr(page, "none &lt;b&gt;"));
    assert_null(strstr(page, ">other"));
    assert_non_null(strstr(page, "1 more claim is decided by other records"));
    free(page);
    write_records(scratch, "plain", 2000);
    page = page_of(scratch, "--claims c.json");
    assert_non_null(strstr(page, "<span class=\"verdict not-reproduced\">not reproduced"));
    free(page);
}

static void test_columns_and_order(void **state)
{
    struct scratch *scratch = *state;
    write_records(scratch, "plain", 1000);
    char *page = page_of(scratch, "--columns method,peak_bytes");
    assert_non_null(strstr(page, "title=\"peak_bytes\">peak</th><th scope=\"col\" class=\"command\">"));
    assert_non_null(strstr(page, "<th scope=\"row\">full</th><td class=\"n\" data-v=\"1000\">1000 B</td>"));
    free(page);
}

static void test_no_records(void **state)
{
    struct scratch *scratch = *state;
    scratch_file(scratch, "r.jsonl", "", 0);
    char *page = page_of(scratch, "");
    assert_non_null(strstr(page, "No records"));
    free(page);
}

static void test_wrong_use(void **state)
{
    struct scratch *scratch = *state;
    write_records(scratch, "plain", 1000);
    const struct {
        const char *command, *says;
    } wrong[] = {{"$L report r.jsonl --html page.html --format csv", "--html is a format of its own"},
                 {"$L report r.jsonl --claims c.json", "--claims are those of a page"},
                 {"$L report r.jsonl --html page.html --columns nothing", "no field \"nothing\""},
                 {"$L report r.jsonl --html page.html --claims c.json", "c.json"},
                 {"$L report missing.jsonl --html page.html", "missing.jsonl"},
                 {"$L report r.jsonl --html nowhere/page.html", "nowhere"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(run(scratch, wrong[i].command), 2);
        assert_says(scratch, "err", wrong[i].says);
        assert_int_equal(access(scratch_path(scratch, "page.html").text, F_OK), -1);
    }
}

static void test_without_gnuplot(void **state)
{
    struct scratch *scratch = *state;
    write_records(scratch, "plain", 1000);
    assert_int_equal(run(scratch,
                         "sed 's/01234/11234/; s/\"context\": 64/\"context\": 128/' r.jsonl > s.jsonl && cat "
                         "s.jsonl >> r.jsonl && mkdir none && PATH=$PWD/none $L report r.jsonl --html "
                         "page.html"),
                     0);
    assert_says(scratch, "err", "the page has no figures: gnuplot was not found");
    char *page = text_of(scratch, "page.html");
    assert_non_null(strstr(page, "Left out: gnuplot was not found"));
    assert_non_null(strstr(page, "<table class=\"records sortable\""));
    free(page);
}

// The figures, too, are of the records that the page has read: what is wrong with a file is told once.
static void test_records_are_read_once(void **state)
{
    struct scratch *scratch = *state;
    write_records(scratch, "plain", 1000);
    assert_int_equal(run(scratch, "cat r.jsonl >> r.jsonl.more && cat r.jsonl.more >> r.jsonl && $L report r.jsonl "
                                  "--html page.html --where method=full"),
                     0);
    char *said = text_of(scratch, "err");
    assert_int_equal(times(said, "warning: 1 record is left out"), 1);
    free(said);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_words_stay_words),
                                       TEST(test_markdown),
                                       TEST(test_hostile_names),
                                       TEST(test_needs_no_network),
                                       TEST(test_claims_of_these_records),
                                       TEST(test_columns_and_order),
                                       TEST(test_no_records),
                                       TEST(test_records_are_read_once),
                                       TEST(test_wrong_use),
                                       TEST(test_without_gnuplot)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
