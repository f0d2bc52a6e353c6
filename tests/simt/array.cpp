#include "tests/simt/array.h"

static void put(struct tensor t, size_t i, double value)
{
    switch (t.dtype) {
    case DTYPE_F64:
        ((double *)t.data)[i] = value;
        break;
    case DTYPE_F32:
        ((float *)t.data)[i] = (float)value;
        break;
    case DTYPE_BF16:
        ((uint16_t *)t.data)[i] = dtype_bf16((float)value);
        break;
    default:
        CHECK(!"a dtype that arrays hold");
    }
}

array::array(size_t rows, size_t cols, enum dtype dtype, const char *name, size_t offset)
    : reference(rows * cols), memory(malloc((rows * cols + offset) * dtype_bytes(dtype)))
{
    t = {(char *)memory + offset * dtype_bytes(dtype), dtype, CATEGORY_WORKSPACE, rows, cols, PLACE_DEVICE};
    r = {reference.data(), DTYPE_F64, CATEGORY_WORKSPACE, rows, cols, PLACE_DEVICE};
    struct random random = random_named(rows * 1000 + cols, name ? name : "poison");
    set([&](size_t i) { return name ? random_normal(&random, i) : NAN; });
}

void array::set(const std::function<double(size_t)> &value)
{
    for (size_t i = 0; i < reference.size(); i++) {
        reference[i] = dtype_round(value(i), t.dtype);
        put(t, i, reference[i]);
    }
}

double array::found(size_t i) const
{
    switch (t.dtype) {
    case DTYPE_F64:
        return ((double *)t.data)[i];
    case DTYPE_F32:
        return (double)((float *)t.data)[i];
    default:
        return (double)dtype_from_bf16(((uint16_t *)t.data)[i]);
    }
}

void array::check(double growth, const char *what) const
{
    double largest = 1, sums = dtype_epsilon(t.dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32);
    for (double value : reference)
        largest = fmax(largest, fabs(value));
    double tolerance = (dtype_epsilon(t.dtype) + growth * sums) * largest;
    for (size_t i = 0; i < reference.size(); i++)
        if (!(fabs(found(i) - reference[i]) <= tolerance))
            fail_msg("%s, %s, [%zu, %zu]: element %zu is %.9g, expected %.9g +- %.3g", what, dtype_name(t.dtype),
                     t.rows, t.cols, i, found(i), reference[i], tolerance);
}

std::vector<unsigned char> array::bytes() const
{
    const unsigned char *begin = (const unsigned char *)t.data;
    return std::vector<unsigned char>(begin, begin + tensor_bytes(t));
}

void array::restore(const std::vector<unsigned char> &bytes)
{
    if (!bytes.empty())
        memcpy(t.data, bytes.data(), bytes.size());
}

void run_both_orders(const std::vector<array *> &changed, const std::function<void()> &call)
{
    std::vector<std::vector<unsigned char>> before, after;
    for (array *a : changed)
        before.push_back(a->bytes());
    call();
    for (size_t i = 0; i < changed.size(); i++) {
        after.push_back(changed[i]->bytes());
        changed[i]->restore(before[i]);
    }
    simt::descending = true;
    call();
    simt::descending = false;
    for (size_t i = 0; i < changed.size(); i++)
        if (changed[i]->bytes() != after[i])
            fail_msg("the order of threads changes the bits of array %zu: a barrier is missing", i);
}
