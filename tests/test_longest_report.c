// Tests of harness/longest_contexts and longest_report: what is planned and what others report, beside each other.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/results/report.h"
#include "tests/quoted.h"
#include "tests/scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void write_text(struct scratch *scratch, const char *name, const char *text)
{
    scratch_file(scratch, name, text, strlen(text));
}

// Words of the report, with every run of spaces as one.
static char *squeezed(char *text)
{
    char *out = text;
    for (const char *in = text; *in; in++)
        if (*in != ' ' || (out > text && out[-1] != ' '))
            *out++ = *in;
    *out = 0;
    return text;
}

static void expect_words(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (!strstr(text, *words))
            fail_msg("\"%s\" is not in\n%s", *words, text);
}

// With what fits, in FLOPs of a forward pass, and what does not; at the end what nothing of ours stands beside.
static void longest_contexts_are_tables(void **state)
{
    struct scratch *scratch = *state;
    char *one =
        quoted("{'setting': {'model': 'small', 'dtype': 'bf16', 'device': 'plan-cuda', 'batch': 1, 'lora': null, "
               "'kv_gradient_dtype': 'f32', 'profile': 'card'}, 'limit_bytes': 1073741824, 'host_limit_bytes': "
               "1048576, 'revision': 'abc', 'methods': [{'method': {'name': 'auto'}, 'max_context': 4567, "
               "'flops': 1, 'forward_flops': 10, 'reason': '8 MiB for weights do not fit on the host: 3'}], "
               "'choice': {'method': {'name': 'streambp', 'chunk': 64, 'stages': 3, 'keep': 'lean'}, 'flops': 48, "
               "'kv_gradient_dtype': 'bf16'}}");
    write_text(scratch, "e-max-context.csv",
               "# P2\nseries,method,model,training,profile,host,mark,setting,kilotokens\n"
               "S,streambp,small,full,card,yes,,,1.5\n"
               "Theirs,,small,full,card,yes,sparse,eight cards,9\n"
               "Without a host,,small,full,card,,,,8\n");
    write_text(scratch, "card.json", one);
    struct scratch_path bar = scratch_path(scratch, "card.json");
    const char *paths[] = {bar.text};
    struct report_request request = {
        .max_context_paths = paths, .max_context_count = 1, .published = scratch->folder, .markdown = true};
    char *text;
    size_t bytes;
    struct status status = {0};
    FILE *stream = open_memstream(&text, &bytes);
    if (!report_write(&request, stream, &status))
        fail_msg("%s", status.message);
    assert_int_equal(fclose(stream), 0);
    static const char *const words[] = {
        "planned at revision abc; published: P2\n",
        "**small, bf16, all weights trained, dKV f32, on card: 1.00 GiB usable, and 1.00 MiB of the host**\n",
        "| auto: streambp, chunk 64, stages 3, dKV bf16 |",
        " 4,567 |",
        " 4.80 |",
        " 1,500 |",
        "| 8 MiB for weights do not fit on the host |\n",
        " 9,000, sparse |",
        " eight cards |\n",
        "**reported of what nothing here is planned for**\n",
        "| Without a host |",
        NULL};
    expect_words(squeezed(text), words);
    free(text);
    free(one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(longest_contexts_are_tables, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests_name("longest report", tests, NULL, NULL);
}
