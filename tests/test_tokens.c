// Tests of harness/tokens: each kind of source gives its ids in order, and errors of a file are reported.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/data/tokens.h"
#include "kernels/objectives/batch.h"
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
    if (ids || status.code == STATUS_OK || !strstr(status.message, reason))
        fail_msg("expected \"%s\", got %s: %s", reason, status_name(status.code), status.message);
    free(ids);
}

static void expect_ids(struct data_source source, size_t vocab, const int32_t expected[4])
{
    struct status status = {0};
    int32_t *ids = tokens_read(&source, 2, 2, vocab, 1, &status);
    if (!ids)
        fail_msg("%s", status.message);
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
    expect_refused(DATA_BYTES, scratch->folder, 1, 1, 256, "a folder, expected a file of tokens");
}

// --- files that say themselves what they hold

static struct scratch_path npy_file(struct scratch *scratch, const char *dict, const void *values, size_t bytes)
{
    char file[512] = "\x93NUMPY\1";
    size_t length = strlen(dict);
    assert_in_range(10 + length + bytes, 10, sizeof file);
    file[8] = (char)length;
    snprintf(file + 10, sizeof file - 10, "%s", dict);
    memcpy(file + 10 + length, values, bytes);
    return scratch_file(scratch, "array.npy", file, 10 + length + bytes);
}

static struct scratch_path described(struct scratch *scratch, const char *dtype, const void *values, size_t bytes)
{
    char dict[200];
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (4,), }  \n", dtype);
    return npy_file(scratch, dict, values, bytes);
}

static void numpy_arrays_of_any_integers_are_read(void **state)
{
    const struct {
        const char *dtype, *values;
        size_t bytes;
    } cases[] = {
        {"|u1", "\1\xc8\0\3", 4},
        {"|i1", "\1\x48\0\3", 4},
        {"<u2", "\1\0\xc8\0\0\0\3\0", 8},
        {">i2", "\0\1\0\xc8\0\0\0\3", 8},
        {"<i4", "\1\0\0\0\xc8\0\0\0\0\0\0\0\3\0\0\0", 16},
        {">u4", "\0\0\0\1\0\0\0\xc8\0\0\0\0\0\0\0\3", 16},
        {"<i8", "\1\0\0\0\0\0\0\0\xc8\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0", 32},
        {">u8", "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\xc8\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\3", 32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scratch_path path = described(*state, cases[i].dtype, cases[i].values, cases[i].bytes);
        enum data_kind kind;
        size_t count;
        struct status status = {0};
        assert_true(tokens_kind(path.text, 50000, &kind, &status) && kind == DATA_ARRAY);
        struct data_source source = source_of(kind, &path);
        assert_true(tokens_count(&source, 50000, &count, &status) && count == 4);
        expect_ids(source, 50000,
                   (int32_t[]){1, cases[i].dtype[1] == 'i' && cases[i].bytes == 4 ? 0x48 : 200, 0, 3});
    }
    struct scratch_path path = described(*state, "<u2", "\1\0\xc8\0\0\0\3\0", 8);
    expect_ids(source_of(DATA_U16, &path), 50000, (int32_t[]){1, 200, 0, 3}); // the dtype that was asked for
    expect_refused(DATA_U32, path.text, 2, 1, 50000, "uint16 (.npy), not u32");
    expect_refused(DATA_BYTES, path.text, 2, 1, 50000, "uint16 (.npy), not bytes");
    path = described(*state, "<i8",
                     "\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32);
    expect_refused(DATA_ARRAY, path.text, 2, 2, 50000, "token 0 is -1,");
    path = described(*state, "<u8", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32);
    expect_refused(DATA_ARRAY, path.text, 2, 2, 50000, "token 1 is 9223372036854775807");
}

// From version 2 on a header's length has four bytes; NumPy pads headers to multiples of 64 bytes.
static void headers_of_every_version_are_read(void **state)
{
    static const char dict[] = "{'descr': '<u2', 'fortran_order': False, 'shape': (4,), }";
    for (char version = 1; version <= 3; version++) {
        char file[256] = "\x93NUMPY";
        size_t begin = version == 1 ? 10 : 12, length = 128 - begin;
        file[6] = version;
        file[8] = (char)length;
        snprintf(file + begin, sizeof file - begin, "%-*s\n", (int)length - 1, dict);
        memcpy(file + 128, "\1\0\xc8\0\0\0\3\0", 8);
        struct scratch_path path = scratch_file(*state, "array.npy", file, 136);
        expect_ids(source_of(DATA_ARRAY, &path), 50000, (int32_t[]){1, 200, 0, 3});
    }
    struct scratch_path path = described(*state, ">i2", "\0\0\xff\x38\0\0\0\0", 8);
    expect_refused(DATA_ARRAY, path.text, 2, 2, 50000, "token 1 is -200,");
}

static void other_arrays_are_refused(void **state)
{
    static const char values[64] = {0};
    const struct {
        const char *dict, *reason;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", "'<f4', not of integers"},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (16,), }", "'|b1', not of integers"},
        {"{'descr': [('ids', '<i4')], 'fortran_order': False, 'shape': (4,), }", "not of integers"},
        {"{'descr': '<u4', 'fortran_order': False, 'shape': (2, 2), }", "shape (2, 2), expected one dimension"},
        {"{'descr': '<u4', 'fortran_order': False, 'shape': (), }", "shape (), expected one dimension"},
        {"{'descr': '<u4', 'fortran_order': False, 'shape': (5,), }", "cut short"},
        {"{'descr': '<u4', 'fortran_order': False, 'shape': (3,), }", "save one array alone"},
        {"{}", "is a NumPy array of nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scratch_path path = npy_file(*state, cases[i].dict, values, 16);
        expect_refused(DATA_ARRAY, path.text, 1, 1, 256, cases[i].reason);
    }
    struct scratch_path path = scratch_file(*state, "array.npy", "\x93NUMPY\1\0\x80\0{'descr'", 18);
    expect_refused(DATA_ARRAY, path.text, 1, 1, 256, "cut short");
}

static void files_of_llm_c_are_read(void **state)
{
    struct {
        int32_t header[256];
        uint16_t ids[4];
    } gpt2 = {{20240520, 1, 4}, {1, 50256, 0, 3}};
    struct {
        int32_t header[256];
        uint32_t ids[4];
    } llama3 = {{20240801, 7, 4}, {1, 128000, 0, 3}};
    struct scratch_path path = scratch_file(*state, "bin", &gpt2, sizeof gpt2);
    expect_ids(source_of(DATA_ARRAY, &path), 50257, (int32_t[]){1, 50256, 0, 3});
    expect_ids(source_of(DATA_U16, &path), 50257, (int32_t[]){1, 50256, 0, 3});
    expect_refused(DATA_U32, path.text, 1, 1, 50257, "u16 (llm.c, GPT-2), not u32");
    path = scratch_file(*state, "bin", &llama3, sizeof llama3);
    expect_ids(source_of(DATA_ARRAY, &path), 128256, (int32_t[]){1, 128000, 0, 3});
    llama3.header[1] = 8;
    path = scratch_file(*state, "bin", &llama3, sizeof llama3);
    expect_refused(DATA_ARRAY, path.text, 1, 1, 128256, "of version 8; version 7");
    llama3.header[1] = 7;
    llama3.header[2] = 5;
    path = scratch_file(*state, "bin", &llama3, sizeof llama3);
    expect_refused(DATA_ARRAY, path.text, 1, 1, 128256, "cut short");
}

// --- files that hold no plain integers, or others

static void known_formats_are_refused_by_name(void **state)
{
    static const struct {
        char bytes[64];
        const char *name;
        bool as_bytes; // may be the text of a model of bytes
    } cases[] = {
        {"\x1f\x8b\x08\0\0\0\0\0", "a gzip archive", false},
        {"PK\3\4............ids.npy", "an .npz archive", false},
        {"PK\3\4............archive/data.pkl", "a file of torch.save", false},
        {"PK\3\4............a.txt", "a zip archive", false},
        {"\x28\xb5\x2f\xfd", "a zstd archive", false},
        {"\xfd"
         "7zXZ\0",
         "an xz archive", false},
        {"BZh91AY&SY..", "a bzip2 archive", false},
        {"PAR1\x15\4", "a Parquet file", false},
        {"ARROW1\0\0", "an Arrow (Feather) file", false},
        {"\xff\xff\xff\xff\x30\1\0\0\x10\0\0\0", "an Arrow stream", false},
        {"\x10\0\0\0\0\0\0\0{\"ids\":{}}......", "--batch FILE", false},
        {"\x89HDF\r\n\x1a\n", "an HDF5 file", false},
        {"\x80\4\x95\x20\0\0\0\0\0\0\0]", "a pickle", false},
        {"GGUF\3\0\0\0", "a GGUF model", false},
        {"SQLite format 3\0", "an SQLite database", false},
        {"\x7f"
         "ELF\2\1\1\0",
         "a program (ELF)", false},
        {"%PDF-1.7\n", "a PDF", false},
        {"MMIDIDX\0\0", "an index of Megatron", false},
        {"\x8a\xd8\x34\x01\1\0\0\0", "an evaluation file of llm.c", false},
        {"\x0a\x0e\x0a\x05<unk>\x15\0\0", "a SentencePiece tokenizer", false},
        {"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS", false},
        {"<!DOCTYPE html>\n<html><body>", "an HTML page", true},
        {"{\"prompt\": \"a\", \"completion\": \"b\"}\n", "JSON", true},
        {" [{\"role\": \"user\", \"content\"", "JSON", true},
        {"{\"version\": \"1.0\", \"added_tokens\": []", "a tokenizer", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length = sizeof cases[i].bytes;
        while (length > 16 && cases[i].bytes[length - 1] == '\0')
            length--;
        struct scratch_path path = scratch_file(*state, "file", cases[i].bytes, length);
        for (enum data_kind kind = DATA_BYTES; kind <= DATA_ARRAY; kind++)
            if (kind != DATA_BYTES || !cases[i].as_bytes)
                expect_refused(kind, path.text, 1, 1, 256, cases[i].name);
        struct status status = {0};
        assert_null(tokens_read_labels(path.text, 1, 1, 256, &status));
        assert_non_null(strstr(status.message, cases[i].name));
    }
}

static void raw_files_need_a_dtype_that_fits(void **state)
{
    uint16_t u16[32];
    uint32_t u32[32];
    uint64_t u64[32];
    for (size_t i = 0; i < 32; i++) {
        u16[i] = (uint16_t)(1 + 7 * i);
        u64[i] = u32[i] = (uint32_t)(i % 2 ? 128000 - i : i);
    }
    struct scratch_path path = scratch_file(*state, "ids", u32, sizeof u32);
    expect_refused(DATA_U16, path.text, 1, 1, 128256, "32-bit values");
    path = scratch_file(*state, "ids", u64, sizeof u64);
    expect_refused(DATA_U16, path.text, 1, 1, 128256, "64-bit values");
    expect_refused(DATA_U32, path.text, 1, 1, 128256, "64-bit values");
    expect_refused(DATA_BYTES, path.text, 1, 1, 128256, "64-bit values");
    path = scratch_file(*state, "ids", u16, sizeof u16);
    expect_refused(DATA_BYTES, path.text, 1, 1, 256, "16-bit values");
    expect_refused(DATA_ARRAY, path.text, 1, 1, 50257, "--token-dtype u16");
    path = scratch_file(*state, "ids", "In the beginning God created", 28);
    expect_refused(DATA_U16, path.text, 1, 1, 50257, "is text, not u16");
    expect_refused(DATA_U32, path.text, 1, 1, 50257, "is text, not u32");
    expect_refused(DATA_ARRAY, path.text, 1, 1, 50257, "tools/tokens");
    path = scratch_file(
        *state, "ids",
        "\xe5\xa4\xaa\xe5\x88\x9d\xe6\x9c\x89\xe9\x81\x93\xe9\x81\x93\xe8\x88\x87\xe7\xa5\x9e\xe5\x90\x8c", 24);
    expect_refused(DATA_U16, path.text, 1, 1, 65536, "is text, not u16");
    struct status status = {0};
    enum data_kind kind;
    assert_true(tokens_kind(path.text, 256, &kind, &status) && kind == DATA_BYTES);
}

static void distinct_ids_are_counted(void **state)
{
    struct scratch_path path = scratch_file(*state, "text", "abracadabra\xff", 12);
    struct data_source source = source_of(DATA_BYTES, &path);
    struct token_stream stream;
    struct status status = {0};
    size_t distinct = 0;
    assert_true(token_stream_open(&stream, &source, 255, 1, &status));
    assert_true(token_stream_survey(&stream, 3, &distinct, &status) && distinct == 3);
    assert_true(token_stream_survey(&stream, 11, &distinct, &status) && distinct == 5);
    assert_false(token_stream_survey(&stream, SIZE_MAX, &distinct, &status));
    assert_non_null(strstr(status.message, "token 11 is 255"));
    token_stream_close(&stream);
    // More than are read at once, the last of them new.
    enum { MANY = (1 << 16) + 3 };
    char *text = malloc(MANY);
    assert_non_null(text);
    memset(text, 'a', MANY);
    text[MANY - 1] = 'b';
    path = scratch_file(*state, "text", text, MANY);
    free(text);
    status = (struct status){0};
    assert_true(token_stream_open(&stream, &source, 255, 1, &status));
    assert_true(token_stream_survey(&stream, MANY - 1, &distinct, &status) && distinct == 1);
    assert_true(token_stream_survey(&stream, SIZE_MAX, &distinct, &status) && distinct == 2);
    token_stream_close(&stream);
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
    for (size_t i = 0; i < 11; i++)
        assert_in_range(seen[i], 45, 140); // 1000 / 11, give or take five deviations
    assert_in_range(differing, 850, 970);  // 10 of 11
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
        cmocka_unit_test_setup_teardown(numpy_arrays_of_any_integers_are_read, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(headers_of_every_version_are_read, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(other_arrays_are_refused, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(files_of_llm_c_are_read, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(known_formats_are_refused_by_name, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(raw_files_need_a_dtype_that_fits, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(distinct_ids_are_counted, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(impossible_batches_are_refused, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(random_ids_depend_on_the_seed_alone, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(labels_are_classes_or_none, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
