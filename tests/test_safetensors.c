// Tests of harness/safetensors: written tensors are read back; each kind of damage is refused with its reason.
#define _GNU_SOURCE // nftw, mkdtemp
#include "harness/tensors/safetensors.h"
#include "tests/scratch.h"
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

// A file of this header and `data` bytes that count up from 0.
static struct scratch_path make(const struct scratch *scratch, const char *header, size_t header_bytes, size_t data)
{
    unsigned char *bytes = malloc(8 + header_bytes + data);
    uint64_t length = header_bytes;
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, header_bytes);
    for (size_t i = 0; i < data; i++)
        bytes[8 + header_bytes + i] = (unsigned char)i;
    struct scratch_path path = scratch_file(scratch, "x.safetensors", bytes, 8 + header_bytes + data);
    free(bytes);
    return path;
}

static void expect_refused(const char *path, enum status_code code, const char *reason)
{
    struct safetensors file;
    struct status status = {0};
    bool ok = safetensors_open(&file, path, &status);
    safetensors_close(&file);
    if (ok || status.code != code || !strstr(status.message, reason) || !strstr(status.message, path)) {
        fail_msg("%s: expected %s with \"%s\", got %s: %s", path, status_name(code), reason,
                 status_name(status.code), status.message);
    }
}

#define ONE(dtype, shape, offsets) "{\"w\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define TWO(first, second)                                                                                         \
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" first "},"                                         \
    "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" second "}}"

static const struct {
    const char *header;
    size_t data;
    const char *reason;
} hostile[] = {
    {"", 0, "the header is not JSON"},
    {"    ", 0, "the header is not JSON"},
    {"hello", 0, "the header is not JSON"},
    {"{\"w\":", 0, "the header is not JSON"},
    {"{}{}", 0, "the header is not JSON"},
    {"[]", 0, "not a JSON object"},
    {"null", 0, "not JSON"},
    {"{\"\xff\":{}}", 0, "is not UTF-8"},
    {"{\"a\\u0000b\":{}}", 0, "zero byte"},
    {"{\"a\\u001b[2J\":{}}", 0, "control characters"},
    {"{\"w\":{},\"w\":{}}", 0, "has a key twice"},
    {"{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F64\"}}", 0, "has a key twice"},
    {"{\"w\":1}", 0, "tensor w: its entry is not an object"},
    {"{\"w\":{}}", 0, "tensor w: \"dtype\" is missing"},
    {ONE("32", "[1]", "[0,4]"), 4, "tensor w: \"dtype\" is missing or not a string"},
    {ONE("\"F33\"", "[1]", "[0,4]"), 4, "tensor w: unknown dtype \"F33\""},
    {ONE("\"f32\"", "[1]", "[0,4]"), 4, "tensor w: unknown dtype \"f32\""},
    {ONE("\"\\u0007\"", "[1]", "[0,4]"), 4, "tensor w: unknown dtype \"?\""},
    {ONE("\"F32\"", "1", "[0,4]"), 4, "tensor w: \"shape\" is missing or not an array"},
    {ONE("\"F32\"", "[-1]", "[0,4]"), 4, "tensor w: dimension 0 of its shape"},
    {ONE("\"F32\"", "[1,1.0]", "[0,4]"), 4, "tensor w: dimension 1 of its shape"},
    {ONE("\"F32\"", "[1,\"1\"]", "[0,4]"), 4, "tensor w: dimension 1 of its shape"},
    {ONE("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "tensor w: has 9 dimensions"},
    {ONE("\"F32\"", "[4294967296,4294967296]", "[0,4]"), 4, "tensor w: its shape overflows"},
    {ONE("\"F32\"", "[4294967296,4294967296,0]", "[0,0]"), 0, "tensor w: its shape overflows"},
    {ONE("\"F64\"", "[2305843009213693952]", "[0,0]"), 0, "tensor w: its shape overflows"},
    {ONE("\"F32\"", "[99999999999999999999]", "[0,4]"), 4, "number that is too large"},
    {ONE("\"F4\"", "[3]", "[0,2]"), 2, "tensor w: does not fill whole bytes"},
    {ONE("\"F32\"", "[1]", "{}"), 4, "tensor w: \"data_offsets\" must be"},
    {ONE("\"F32\"", "[1]", "[0]"), 4, "tensor w: \"data_offsets\" must be"},
    {ONE("\"F32\"", "[1]", "[0,4,8]"), 4, "tensor w: \"data_offsets\" must be"},
    {ONE("\"F32\"", "[1]", "[-4,0]"), 4, "tensor w: \"data_offsets\" must be"},
    {ONE("\"F32\"", "[1]", "[0,4.0]"), 4, "tensor w: \"data_offsets\" must be"},
    {ONE("\"F32\"", "[1]", "[4,0]"), 4, "tensor w: begins at 4, after its end at 0"},
    {ONE("\"F32\"", "[2]", "[0,8]"), 4, "tensor w: ends at byte 8 of the data, but the file holds 4"},
    {ONE("\"U8\"", "[5]", "[0,5]"), 4, "tensor w: ends at byte 5 of the data, but the file holds 4"},
    {ONE("\"F32\"", "[1]", "[9223372036854775803,9223372036854775807]"), 4, "but the file holds 4"},
    {ONE("\"F32\"", "[3]", "[0,8]"), 8, "tensor w: [3] of F32 needs 12 bytes, but its offsets give 8"},
    {ONE("\"F32\"", "[]", "[0,8]"), 8, "tensor w: [] of F32 needs 4 bytes, but its offsets give 8"},
    {ONE("\"F32\"", "[1]", "[4,8]"), 8, "tensor w: 4 bytes before it belong to no tensor"},
    {ONE("\"F32\"", "[1]", "[0,4]"), 5, "1 byte after the last tensor belongs to no tensor"},
    {TWO("[0,4]", "[0,4]"), 8, "overlaps tensor"},
    {TWO("[0,4]", "[2,6]"), 8, "tensor b: overlaps tensor a"},
    {TWO("[0,4]", "[3,7]"), 8, "tensor b: overlaps tensor a"},
    {TWO("[0,4]", "[8,12]"), 12, "tensor b: 4 bytes before it belong to no tensor"},
    {"{}", 3, "3 bytes after the last tensor belong to no tensor"},
};

static void hostile_headers_are_refused(void **state)
{
    struct scratch *scratch = *state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        struct scratch_path path = make(scratch, hostile[i].header, strlen(hostile[i].header), hostile[i].data);
        expect_refused(path.text, STATUS_BAD_INPUT, hostile[i].reason);
    }
}

static void deep_nesting_is_refused(void **state)
{
    struct scratch *scratch = *state;
    char *header = malloc(200000);
    for (int i = 0; i < 100000; i++)
        memcpy(header + 2 * i, "[[", 2);
    expect_refused(make(scratch, header, 200000, 0).text, STATUS_BAD_INPUT, "nested too deeply");
    free(header);
}

static void hostile_files_are_refused(void **state)
{
    struct scratch *scratch = *state;
    expect_refused(scratch_path(scratch, "none").text, STATUS_IO, "No such file");
    expect_refused(scratch->folder, STATUS_BAD_INPUT, "a folder, not a file");
    expect_refused(scratch_file(scratch, "x", "", 0).text, STATUS_BAD_INPUT, "is empty");
    expect_refused(scratch_file(scratch, "x", "1234567", 7).text, STATUS_BAD_INPUT, "7 bytes are too few");
    expect_refused(scratch_file(scratch, "x", "1", 1).text, STATUS_BAD_INPUT, "1 byte is too few");
    expect_refused(scratch_file(scratch, "x", "\x03\0\0\0\0\0\0\0{}", 10).text, STATUS_BAD_INPUT,
                   "a header of 3 bytes, but only 2 follow");
    expect_refused(scratch_file(scratch, "x", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10).text, STATUS_BAD_INPUT,
                   "a header of 18446744073709551615 bytes");
    expect_refused(scratch_file(scratch, "x", "\0\0\0\0\0\0\0\x80{}", 10).text, STATUS_BAD_INPUT, "a header of");
    struct scratch_path pipe = scratch_path(scratch, "pipe");
    assert_int_equal(mkfifo(pipe.text, 0600), 0);
    expect_refused(pipe.text, STATUS_BAD_INPUT, "a device or pipe, not a file");

    // Every truncation of a good file is refused.
    const char *good = ONE("\"F32\"", "[2]", "[0,8]");
    struct scratch_path whole = make(scratch, good, strlen(good), 8);
    for (size_t bytes = 0; bytes < 8 + strlen(good) + 8; bytes++) {
        assert_int_equal(truncate(whole.text, (off_t)bytes), 0);
        expect_refused(whole.text, STATUS_BAD_INPUT, "");
        whole = make(scratch, good, strlen(good), 8);
    }
}

static void every_byte_flip_is_survived(void **state)
{
    struct scratch *scratch = *state;
    const char *good = TWO("[0,4]", "[4,8]");
    size_t bytes = 8 + strlen(good) + 8, refused = 0;
    unsigned char *content = malloc(bytes);
    uint64_t length = strlen(good);
    for (size_t i = 0; i < 8 * (8 + strlen(good)); i++) {
        memset(content, 1, bytes);
        memcpy(content, &length, 8);
        memcpy(content + 8, good, strlen(good));
        content[i / 8] ^= (unsigned char)(1 << i % 8);
        struct scratch_path path = scratch_file(scratch, "x", content, bytes);
        struct safetensors file;
        struct status status = {0};
        bool ok = safetensors_open(&file, path.text, &status);
        assert_int_equal(ok, status.code == STATUS_OK);
        for (size_t j = 0; ok && j < file.count; j++) {
            double values[4];
            assert_true(file.tensors[j].count <= 4);
            if (file.tensors[j].readable)
                safetensors_values(&file.tensors[j], 0, file.tensors[j].count, values);
        }
        refused += !ok;
        safetensors_close(&file);
    }
    assert_in_range(refused, 500, 8 * bytes);
    free(content);
}

// The values that are hard for a dtype: ends of its range, subnormals, ties.
static const double values[] = {0,      -0.0,     1,          -1.5,         0x1p-24,          65504,
                                -65504, 0x1p-14,  1 + 0x1p-8, 1 + 0x1.8p-7, 3.14159265358979, 1e-30,
                                -1e30,  0x1p-149, 1e300};
#define VALUES (sizeof values / sizeof *values)

static void written_values_come_back(void **state)
{
    struct scratch *scratch = *state;
    struct scratch_path path = scratch_path(scratch, "x.safetensors");
    const struct safetensors_item items[] = {
        {"a.weight", DTYPE_F64, 2, {5, 3}}, {"b", DTYPE_F32, 1, {VALUES}},
        {"empty", DTYPE_F32, 2, {0, 7}},    {"scalar \"\xc3\xa4\"", DTYPE_F64, 0, {0}},
        {"c", DTYPE_BF16, 3, {3, 1, 5}},
    };
    struct status status = {0};
    struct safetensors_writer writer;
    assert_true(safetensors_create(&writer, path.text, items, 5, &status));
    // In pieces that do not end where the tensors end.
    double all[3 * VALUES + 1];
    memcpy(all, values, sizeof values);
    memcpy(all + VALUES, values, sizeof values);
    all[2 * VALUES] = 42;
    memcpy(all + 2 * VALUES + 1, values, sizeof values);
    for (size_t i = 0; i < 3 * VALUES + 1; i += 4) {
        size_t rest = 3 * VALUES + 1 - i;
        assert_true(safetensors_append(&writer, all + i, rest < 4 ? rest : 4, &status));
    }
    assert_int_equal(access(path.text, F_OK), -1); // not before it is whole
    assert_true(safetensors_commit(&writer, &status));
    assert_int_equal(scratch_entries(scratch), 1);

    struct safetensors file;
    if (!safetensors_open(&file, path.text, &status))
        fail_msg("%s", status.message);
    assert_int_equal(file.count, 5);
    uint64_t header;
    memcpy(&header, file.map, 8);
    assert_int_equal(header % 8, 0);
    assert_memory_equal(file.map + 8, "{\"__metadata__\":{\"format\":\"pt\"}", 31);
    const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
    const char *names[] = {"a.weight", "b", "c"};
    for (int i = 0; i < 3; i++) {
        const struct safetensors_tensor *t = safetensors_get(&file, names[i], &status);
        double read[VALUES];
        assert_non_null(t);
        assert_int_equal(t->dtype, dtypes[i]);
        assert_int_equal(t->count, VALUES);
        safetensors_values(t, 0, 1, read);
        safetensors_values(t, 1, VALUES - 1, read + 1);
        for (size_t j = 0; j < VALUES; j++) {
            double expected = dtype_round(values[j], dtypes[i]);
            assert_memory_equal(&read[j], &expected, sizeof expected);
        }
    }
    assert_int_equal(safetensors_find(&file, "c")->rank, 3);
    assert_int_equal(safetensors_find(&file, "c")->shape[2], 5);
    assert_int_equal(safetensors_find(&file, "empty")->count, 0);
    assert_non_null(safetensors_find(&file, "scalar \"\xc3\xa4\""));
    assert_null(safetensors_find(&file, "d"));
    assert_null(safetensors_get(&file, "d", &status));
    assert_non_null(strstr(status.message, "has no tensor d"));
    safetensors_close(&file);
}

// Every one of the 2^16 numbers, against their definition.
static void f16_is_read_exactly(void **state)
{
    (void)state;
    uint16_t bits;
    for (uint32_t i = 0; i < 1 << 16; i++) {
        bits = (uint16_t)i;
        struct safetensors_tensor t = {.readable = true, .dtype = DTYPE_F16, .count = 1, .data = (void *)&bits};
        double found, expected;
        int exponent = i >> 10 & 31, fraction = i & 1023;
        safetensors_values(&t, 0, 1, &found);
        if (exponent == 31)
            expected = fraction ? NAN : INFINITY;
        else
            expected = exponent ? ldexp(1 + fraction / 1024.0, exponent - 15) : ldexp(fraction / 1024.0, -14);
        expected = i >> 15 ? -expected : expected;
        assert_true(isnan(expected) ? isnan(found) : found == expected && signbit(found) == signbit(expected));
    }
}

static void other_dtypes_are_listed_but_not_read(void **state)
{
    struct scratch *scratch = *state;
    const char *header =
        "{\"__metadata__\":{\"any\":\"thing\"},\"ids\":{\"dtype\":\"I64\",\"shape\":[2],"
        "\"data_offsets\":[0,16]},\"f4\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[16,18]}}   ";
    struct scratch_path path = make(scratch, header, strlen(header), 18);
    struct safetensors file;
    struct status status = {0};
    assert_true(safetensors_open(&file, path.text, &status));
    assert_int_equal(file.count, 2);
    assert_false(safetensors_find(&file, "ids")->readable);
    assert_null(safetensors_get(&file, "ids", &status));
    assert_int_equal(status.code, STATUS_UNSUPPORTED);
    assert_non_null(strstr(status.message, "tensor ids: expected F64, F32, BF16 or F16, found I64"));
    safetensors_close(&file);
}

static const struct safetensors_item big = {"w", DTYPE_F64, 1, {1 << 16}};

static void a_full_disk_leaves_nothing(void **state)
{
    struct scratch *scratch = *state;
    struct scratch_path path = scratch_file(scratch, "x.safetensors", "old", 3);
    // A limit on the size of files fails a write as a full disk does.
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    struct status status = {0};
    struct safetensors_writer writer;
    double *zeros = calloc(big.shape[0], sizeof *zeros);
    bool created = safetensors_create(&writer, path.text, &big, 1, &status);
    bool ok = created && safetensors_append(&writer, zeros, big.shape[0], &status);
    bool again = safetensors_append(&writer, zeros, 1, &status);
    ok = safetensors_commit(&writer, &status) || ok;
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    free(zeros);
    assert_true(created);
    assert_false(ok);
    assert_false(again);
    assert_int_equal(status.code, STATUS_IO);
    assert_non_null(strstr(status.message, "x.safetensors: cannot write: File too large"));
    assert_int_equal(scratch_entries(scratch), 1); // the old file, as it was
    safetensors_discard(&writer);
}

static void unwritable_places_are_refused(void **state)
{
    struct scratch *scratch = *state;
    struct safetensors_writer writer;
    struct status status = {0};
    assert_false(safetensors_create(&writer, scratch_path(scratch, "none/x").text, &big, 1, &status));
    assert_int_equal(status.code, STATUS_IO);
    assert_non_null(strstr(status.message, "none/x: cannot write to its folder"));

    struct scratch_path taken = scratch_path(scratch, "taken");
    assert_int_equal(mkdir(taken.text, 0700), 0);
    status = (struct status){0};
    assert_false(safetensors_create(&writer, taken.text, &big, 1, &status));
    assert_int_equal(status.code, STATUS_IO);
    assert_non_null(strstr(status.message, "taken: cannot write to it: Is a directory"));
    assert_int_equal(scratch_entries(scratch), 1);

    status = (struct status){0};
    assert_true(safetensors_create(&writer, scratch_path(scratch, "x").text, &big, 1, &status));
    assert_int_equal(scratch_entries(scratch), 2);
    safetensors_discard(&writer);
    assert_int_equal(scratch_entries(scratch), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hostile_headers_are_refused, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(deep_nesting_is_refused, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(hostile_files_are_refused, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(every_byte_flip_is_survived, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(written_values_come_back, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(f16_is_read_exactly, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(other_dtypes_are_listed_but_not_read, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_nothing, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(unwritable_places_are_refused, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
