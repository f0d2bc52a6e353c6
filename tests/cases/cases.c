#include "tests/cases/cases.h"
#include <stdarg.h>
#include <string.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

static const struct {
    const char *name;
    operation_cases *cases;
} operations[] = {
#define OPERATION(name) {#name, name##_cases},
    DEVICE_OPERATIONS(OPERATION)
#undef OPERATION
};
#define OPERATIONS (sizeof operations / sizeof *operations)

const char *const *operation_names(void)
{
    static const char *names[OPERATIONS + 1];
    for (size_t i = 0; i < OPERATIONS; i++)
        names[i] = operations[i].name;
    return names;
}

static bool device_has(const struct device_ops *ops, const char *operation)
{
#define OPERATION(name)                                                                                            \
    if (strcmp(operation, #name) == 0)                                                                             \
        return ops->name;
    DEVICE_OPERATIONS(OPERATION)
#undef OPERATION
    return false;
}

void cases_run(struct cases *c, const char *operation)
{
    for (size_t i = 0; i < OPERATIONS; i++) {
        c->operation = operations[i].name;
        // The front runs low_rank as GEMMs on a device that has it not.
        bool runs = device_has(c->device->ops, c->operation) ||
                    (operations[i].cases == low_rank_cases && c->device->ops->gemm);
        if (runs && (!operation || strcmp(operation, c->operation) == 0)) {
            c->offset = 0;
            operations[i].cases(c);
        }
    }
}

static void fail(struct cases *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct cases *c, const char *format, ...)
{
    c->failures++;
    if (!c->omit) {
        va_list arguments;
        va_start(arguments, format);
        fprintf(stderr, "FAIL %s %s: ", dtype_name(c->device->ops->dtype), c->operation);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
        va_end(arguments);
    }
}

bool case_is_too_large(struct cases *c, double results)
{
    bool too_large = c->largest > 0 && results > c->largest;
    c->left_out += too_large;
    return too_large;
}

// ---- operands

enum dtype case_sums(const struct cases *c)
{
    return c->device->ops->dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

size_t case_accumulators(const struct cases *c, enum dtype dtypes[2])
{
    dtypes[0] = case_sums(c);
    dtypes[1] = c->device->ops->dtype;
    return dtypes[0] == dtypes[1] ? 1 : 2;
}

static struct operand *operand_new(struct cases *c, enum dtype dtype, size_t rows, size_t cols)
{
    CHECK(c->operand_count < CASE_OPERANDS_MAX);
    struct operand *o = &c->operands[c->operand_count++];
    size_t offset = c->offset * dtype_bytes(dtype), bytes = rows * cols * dtype_bytes(dtype);
    size_t room = arena_rounded(offset + bytes + 1); // something lies behind all of them
    *o = (struct operand){.memory = tensor_new(c->device, 1, room / 2, DTYPE_BF16, CATEGORY_WORKSPACE),
                          .offset_bytes = offset,
                          .values = calloc(rows * cols + 1, sizeof(double)),
                          .given = malloc(room),
                          .found = malloc(room)};
    CHECK(o->values && o->given && o->found && o->memory.data);
    o->tensor = (struct tensor){.data = (char *)o->memory.data + offset,
                                .dtype = dtype,
                                .category = CATEGORY_WORKSPACE,
                                .rows = rows,
                                .cols = cols};
    memset(o->given, 0xff, room); // NaN in every dtype
    return o;
}

// Drawn once, for cases draw many: from a place of its own on each operand takes them, round and round. As many as
// a prime number: nothing strides over them evenly.
#define NORMALS ((size_t)65537)

static const double *normals(void)
{
    static double drawn[NORMALS];
    if (drawn[0] == 0) {
        struct random random = random_named(0, "cases");
        random_normals(&random, 0, NORMALS, 0, 1, drawn);
    }
    return drawn;
}

struct operand *case_random_in(struct cases *c, enum dtype dtype, size_t rows, size_t cols, double deviation,
                               const char *name)
{
    struct operand *o = operand_new(c, dtype, rows, cols);
    struct random random = random_named(rows * 1000003 + cols, name);
    const double *drawn = normals();
    size_t from = random_below(&random, 0, NORMALS);
    for (size_t i = 0; i < rows * cols; from = 0)
        for (size_t end = i + NORMALS - from; i < rows * cols && i < end; i++, from++)
            o->values[i] = deviation * drawn[from];
    return o;
}

struct operand *case_output_in(struct cases *c, enum dtype dtype, size_t rows, size_t cols)
{
    struct operand *o = operand_new(c, dtype, rows, cols);
    for (size_t i = 0; i < rows * cols; i++)
        o->values[i] = NAN;
    return o;
}

struct operand *case_random(struct cases *c, size_t rows, size_t cols, double deviation, const char *name)
{
    return case_random_in(c, c->device->ops->dtype, rows, cols, deviation, name);
}

struct operand *case_output(struct cases *c, size_t rows, size_t cols)
{
    return case_output_in(c, c->device->ops->dtype, rows, cols);
}

struct operand *case_integers(struct cases *c, size_t count, int32_t first, int32_t bound)
{
    struct operand *o = operand_new(c, DTYPE_I32, count, 1);
    struct random random = random_named(count, "integers");
    for (size_t i = 0; i < count; i++)
        o->values[i] = (double)first + (double)random_below(&random, i, (uint64_t)((int64_t)bound - first));
    return o;
}

// Rounds the values to those of the dtype, and puts them into data.
static void put(void *restrict data, enum dtype dtype, double *restrict values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        switch (dtype) {
        case DTYPE_F64:
            ((double *)data)[i] = values[i];
            break;
        case DTYPE_F32:
            values[i] = (double)(((float *)data)[i] = (float)values[i]);
            break;
        case DTYPE_BF16:
            values[i] = (double)dtype_from_bf16(((uint16_t *)data)[i] = dtype_bf16((float)values[i]));
            break;
        default:
            values[i] = (double)(((int32_t *)data)[i] = (int32_t)values[i]);
        }
    }
}

static double get(const void *data, enum dtype dtype, size_t i)
{
    return dtype == DTYPE_F64    ? ((const double *)data)[i]
           : dtype == DTYPE_F32  ? (double)((const float *)data)[i]
           : dtype == DTYPE_BF16 ? (double)dtype_from_bf16(((const uint16_t *)data)[i])
                                 : (double)((const int32_t *)data)[i];
}

double *case_found(const struct operand *o)
{
    size_t count = tensor_count(o->tensor);
    double *found = malloc((count + 1) * sizeof *found);
    CHECK(found);
    for (size_t i = 0; i < count; i++)
        found[i] = get(o->found + o->offset_bytes, o->tensor.dtype, i);
    return found;
}

// ---- running

// On devices in host memory, AddressSanitizer sees reads around an operand.
static void hide_surroundings(const struct cases *c, bool hidden)
{
#ifdef __SANITIZE_ADDRESS__
    for (size_t i = 0; i < c->operand_count && c->reorder; i++) {
        const struct operand *o = &c->operands[i];
        char *begin = o->memory.data, *end = (char *)o->tensor.data + tensor_bytes(o->tensor);
        if (hidden)
            __asan_poison_memory_region(end, (size_t)(begin + tensor_bytes(o->memory) - end));
        else
            __asan_unpoison_memory_region(begin, tensor_bytes(o->memory));
    }
#else
    (void)c, (void)hidden;
#endif
}

static void give(struct cases *c, bool another)
{
    for (size_t i = 0; i < c->operand_count; i++)
        op_upload(c->device, c->operands[i].memory, c->operands[i].given);
    if (c->reorder)
        c->reorder(another);
    hide_surroundings(c, true);
}

// Into `found`. Whether the bits are those that were there, up to those of a NaN.
static bool take(struct cases *c)
{
    bool same = true;
    hide_surroundings(c, false);
    if (c->reorder)
        c->reorder(false);
    for (size_t i = 0; i < c->operand_count; i++) {
        struct operand *o = &c->operands[i];
        unsigned char *now = malloc(tensor_bytes(o->memory));
        CHECK(now);
        op_download(c->device, now, o->memory);
        same &= memcmp(now, o->found, tensor_bytes(o->memory)) == 0;
        free(o->found);
        o->found = now;
    }
    return same;
}

bool case_runs(struct cases *c, int pass)
{
    if (pass == 0) {
        for (size_t i = 0; i < c->operand_count; i++) {
            struct operand *o = &c->operands[i];
            put(o->given + o->offset_bytes, o->tensor.dtype, o->values, tensor_count(o->tensor));
            o->checked = false;
        }
        give(c, false);
        if (c->omit)
            take(c);
        return !c->omit;
    }
    struct status status = c->device->status;
    c->device->status = (struct status){0}; // sticky: nothing would be read
    bool same = take(c);
    if (status.code == STATUS_UNSUPPORTED) {
        c->is_refused = true;
        c->refusal = status;
        return false;
    }
    if (status.code != STATUS_OK)
        fail(c, "%s", status.message);
    if (pass == 1 && c->reorder) {
        give(c, true);
        return true;
    }
    if (pass == 2 && !same)
        fail(c, "another order of threads changes the bits");
    return false;
}

// ---- checking

void case_check(struct cases *c, struct operand *o, double roundings, double growth, const char *format, ...)
{
    if (c->is_refused)
        return;
    double tolerance = roundings * dtype_epsilon(c->device->ops->dtype) + growth * dtype_epsilon(case_sums(c));
    double largest = 1, difference = 0; // differences of numbers about 1 may cancel
    double *found = case_found(o);
    size_t count = tensor_count(o->tensor), worst = 0;
    for (size_t i = 0; i < count; i++) {
        double d = found[i] == o->values[i] ? 0 : fabs(found[i] - o->values[i]); // infinity, too
        largest = fabs(o->values[i]) > largest && !isinf(o->values[i]) ? fabs(o->values[i]) : largest;
        if (!isnan(difference) && !(d <= difference)) { // NaN too, which stays
            difference = d;
            worst = i;
        }
    }
    if (!(difference <= tolerance * largest)) {
        char what[256];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(what, sizeof what, format, arguments);
        va_end(arguments);
        fail(c, "%s [%zu, %zu]: element %zu is %.9g, expected %.9g; off by %.2e of the largest, %.2e allowed", what,
             o->tensor.rows, o->tensor.cols, worst, found[worst], o->values[worst], difference / largest,
             tolerance);
    }
    free(found);
    o->checked = true;
    c->checks++;
}

void case_expect(struct cases *c, bool condition, const char *what)
{
    c->checks++;
    if (!condition && !c->is_refused)
        fail(c, "%s", what);
}

static bool is_as_given(const struct operand *o, size_t first, size_t end)
{
    return memcmp(o->found + first, o->given + first, end - first) == 0;
}

void case_end(struct cases *c)
{
    for (size_t i = 0; i < c->operand_count; i++) {
        struct operand *o = &c->operands[i];
        size_t end = o->offset_bytes + tensor_bytes(o->tensor), room = tensor_bytes(o->memory);
        if (!is_as_given(o, 0, o->offset_bytes) || !is_as_given(o, end, room))
            fail(c, "something was written around operand %zu of [%zu, %zu]", i, o->tensor.rows, o->tensor.cols);
        if ((!o->checked || c->is_refused) && !is_as_given(o, o->offset_bytes, end))
            fail(c, "operand %zu of [%zu, %zu] was written, which must stay", i, o->tensor.rows, o->tensor.cols);
        tensor_free(c->device, &o->memory);
        free(o->values);
        free(o->given);
        free(o->found);
    }
    c->operand_count = 0;
    c->refused += c->is_refused;
    c->is_refused = false;
    c->ended++;
    c->passed += c->failures == c->failures_before;
    c->failures_before = c->failures;
}
