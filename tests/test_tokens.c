// Tests of harness/tokens: each kind of source gives its ids in order, and what is wrong with a file is said.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/files/tokens.h"
#include "kernels/transformer/batch.h"
#include "tests/scratch.h"
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

static struct data_source source_of(enum data_kind kind, struct scratch_path *path)
{
    return (struct data_source){.kind = kind, .path = path->text};
}

static void expect_refused(enum data_kind kind, const char *path, size_t context, size_t sequences, size_t vocab,
                           const char *reason)
{
    struct data_source source = {.kind = kind, .path = (char *)path};
    struct status status = {0};
    int32_t *ids = tokens_read(&source, context, sequences, vocab, 1, &status);
    if (ids || status.code == STATUS_OK || !strstr(status.message, reason)) {
        fail_msg("expected \"%s\", got %s: %s", reason, status_name(status.code), status.message);
    }
    free(ids);
}

static void expect_ids(struct data_source source, size_t vocab, const int32_t expected[4])
{
    struct status status = {0};
    int32_t *ids = tokens_read(&source, 2, 2, vocab, 1, &status);
    if (!ids) {
        fail_msg("%s", status.message);
    }
    assert_memory_equal(ids, expected, 4 * sizeof *expected);
    free(ids);
}

static void each_kind_is_read_in_order(void **state)
{
    struct scratch *scratch = *state;
    struct scratch_path path = scratch_file(scratch, "text", "a\xff\0bXX", 6); // longer than needed
    expect_ids(source_of(DATA_BYTES, &path), 256, (int32_t[]){'a', 255, 0, 'b'});
    path = scratch_file(scratch, "u16", "\x01\x02\xff\xff\x00\x00\x03\x00", 8);
    expect_ids(source_of(DATA_U16, &path), 65536, (int32_t[]){0x201, 65535, 0, 3});
    path = scratch_file(scratch, "u32", "\x01\x02\x03\x04\xfe\xff\xff\x7f\x00\x00\x00\x00\x03\x00\x00\x00", 16);
    expect_ids(source_of(DATA_U32, &path), INT32_MAX, (int32_t[]){0x4030201, INT32_MAX - 1, 0, 3});
}

static void wrong_files_are_refused(void **state)
{
    struct scratch *scratch = *state;
    struct scratch_path text = scratch_file(scratch, "text", "abc", 3);
    expect_refused(DATA_BYTES, text.text, 2, 2, 256, "text: 2 x 2 tokens are needed (batch x context), found 3");
    expect_refused(DATA_BYTES, text.text, 3, 1, 98, "text: token 1 is 98, expected 0 to 97 (a vocabulary of 98)");
    expect_refused(DATA_U16, text.text, 1, 1, 256, "size of 3 bytes is not a multiple of 2");
    expect_refused(DATA_U32, text.text, 1, 1, 256, "size of 3 bytes is not a multiple of 4");
    struct scratch_path wide = scratch_file(scratch, "u32", "\0\0\0\0\xff\xff\xff\xff", 8);
    expect_refused(DATA_U32, wide.text, 2, 1, 300, "u32: token 1 is 4294967295, expected 0 to 299");
    expect_refused(DATA_U32, wide.text, 3, 1, 300, "found 2");
    expect_refused(DATA_BYTES, scratch_file(scratch, "nothing", "", 0).text, 1, 1, 256, "nothing: is empty");
    expect_refused(DATA_BYTES, scratch_path(scratch, "none").text, 1, 1, 256, "No such file");
    expect_refused(DATA_BYTES, scratch->folder, 1, 1, 256, "a folder, expected a file of bytes");
}

static void impossible_batches_are_refused(void **state)
{
    struct scratch *scratch = *state;
    struct scratch_path text = scratch_file(scratch, "text", "abc", 3);
    expect_refused(DATA_BYTES, text.text, 0, 1, 256, "1 sequences of 0 tokens are not a batch");
    expect_refused(DATA_BYTES, text.text, (size_t)1 << 40, (size_t)1 << 40, 256, "are not a batch");
    expect_refused(DATA_BYTES, text.text, (size_t)1 << 59, 1, 256, "found 3");
    expect_refused(DATA_RANDOM, NULL, 1, 1, 0, "a vocabulary of 0");
    expect_refused(DATA_RANDOM, NULL, 1, 1, (size_t)1 << 31, "a vocabulary of 2147483648");
}

static void random_ids_depend_on_the_seed_alone(void **state)
{
    (void)state;
    struct data_source source = {.kind = DATA_RANDOM};
    struct status status = {0};
    int32_t *a = tokens_read(&source, 500, 2, 11, 7, &status), *b = tokens_read(&source, 1000, 1, 11, 7, &status);
    int32_t *c = tokens_read(&source, 500, 2, 11, 8, &status);
    size_t seen[11] = {0}, differing = 0;
    assert_true(a && b && c);
    assert_memory_equal(a, b, 1000 * sizeof *a);
    for (size_t i = 0; i < 1000; i++) {
        assert_in_range(a[i], 0, 10);
        seen[a[i]]++;
        differing += a[i] != c[i];
    }
    for (size_t i = 0; i < 11; i++) {
        assert_in_range(seen[i], 45, 140); // 1000 / 11, give or take five deviations
    }
    assert_in_range(differing, 850, 970); // 10 of 11
    free(a);
    free(b);
    free(c);
}

static void labels_are_classes_or_none(void **state)
{
    struct scratch *scratch = *state;
    const int32_t labels[] = {NO_TARGET, 0, 255, 7, 99999};
    struct scratch_path path = scratch_file(scratch, "labels", labels, sizeof labels);
    struct status status = {0};
    int32_t *read = tokens_read_labels(path.text, 2, 2, 256, &status);
    assert_non_null(read);
    assert_memory_equal(read, labels, 4 * sizeof *labels);
    free(read);
    assert_null(tokens_read_labels(path.text, 5, 1, 256, &status));
    assert_non_null(
        strstr(status.message, "labels: label 4 is 99999, expected -100 or 0 to 255 (a vocabulary of 256)"));
    status = (struct status){0};
    assert_null(tokens_read_labels(path.text, 3, 2, 256, &status));
    assert_non_null(strstr(status.message, "2 x 3 labels are needed (batch x context), found 5"));
    const int32_t wrong[] = {-100, -1};
    path = scratch_file(scratch, "labels", wrong, sizeof wrong);
    status = (struct status){0};
    assert_null(tokens_read_labels(path.text, 2, 1, 256, &status));
    assert_non_null(strstr(status.message, "label 1 is -1, expected -100 or 0 to 255"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_kind_is_read_in_order, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(wrong_files_are_refused, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(impossible_batches_are_refused, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(random_ids_depend_on_the_seed_alone, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(labels_are_classes_or_none, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
