// Every own kernel of the CUDA device that computes an operation, run on the CPU by tests/simt, in f64, f32 and
// bf16, held to the operation's cases (tests/cases), with the threads of a block in one order and in the other.
#include "tests/cases/cases.h"
#include "tests/simt/device.h"
#include <cuda_runtime.h>
#include <memory>
#include <setjmp.h>
#include <stdarg.h>
extern "C" {
#include "kernels/cuda/workspace.h"
#include "tests/chosen_tests.h"
#include "tests/sanitized.h"
#include <cmocka.h>
}

namespace
{

const enum dtype dtypes[] = {DTYPE_F64, DTYPE_F32, DTYPE_BF16};
// Shared memory of a block on sm_86, 89 and 120; sm_80; sm_90 and 100.
constexpr size_t SMALL_CARD = 99 << 10, CARDS[] = {SMALL_CARD, 163 << 10, 227 << 10};

void set_order(bool descending)
{
    simt::descending = descending;
}

// Whether a library or the runtime computes the operation.
bool is_missing(enum dtype dtype, const char *operation)
{
    return (dtype != DTYPE_BF16 && strcmp(operation, "low_rank") == 0) || strncmp(operation, "gemm", 4) == 0 ||
           strcmp(operation, "zero") == 0;
}

void check(enum dtype dtype, const char *operation, double largest)
{
    struct device *device = simt_device_open(dtype);
    auto c = std::make_unique<struct cases>();
    c->device = device;
    c->largest = largest;
    c->delta_rounds = cuda_delta_takes_tensor_cores(device);
    // Tiles of other sizes have the same order, and f32's code is f64's.
    bool has_own_order = simt::card_shared_bytes == SMALL_CARD && (dtype != DTYPE_F32 || exhaustive());
    c->reorder = has_own_order ? set_order : nullptr;
    cases_run(c.get(), operation);
    assert_int_equal(c->failures, 0);
    // Heads so long that f64's smallest tile is larger than a block's shared memory.
    bool refuses =
        simt::card_shared_bytes == SMALL_CARD && dtype == DTYPE_F64 && strcmp(operation, "attention_backward") == 0;
    assert_true(refuses ? c->refused > 0 : c->refused == 0);
    assert_int_equal(c->ended == 0, is_missing(dtype, operation));
    if (refuses)
        assert_non_null(strstr(c->refusal.message,
                               "in f64: a block of this card has 99 KiB of shared memory; in f32 "
                               "and bf16 a tile takes half"));
    simt_device_close(device);
}

// The most results of a case.
double largest(double always, double at_length)
{
    return (exhaustive() ? at_length : always) / CASES_FEWER;
}

// Rows so long that a thread takes several steps in them.
const char *const LONG_ROWS = "cross_entropy";
// Operations with two forms in bf16, of which that of scalar units is not the default, and what asks for it.
const struct {
    const char *variable, *operation;
} SCALAR[] = {{"LONGBP_DELTA", "delta_rule_forward"},
              {"LONGBP_DELTA", "delta_rule_backward"},
              {"LONGBP_DELTA", "delta_transition"},
              {"LONGBP_GROUPED", "grouped_gemm"}};
const char *const TILED[] = {"attention_forward", "attention_backward"};
const char *asked; // of the operations this one alone

bool is_asked(const char *operation)
{
    return !asked || strcmp(operation, asked) == 0;
}

void test_scalar_units(void **)
{
    for (const auto &of : SCALAR) {
        setenv(of.variable, "simt", 1);
        if (is_asked(of.operation))
            check(DTYPE_BF16, of.operation, largest(1e4, 1e5));
        unsetenv(of.variable);
    }
}

void test_operations(void **)
{
    for (enum dtype dtype : dtypes)
        for (const char *const *operation = operation_names(); *operation; operation++)
            if (is_asked(*operation) && strcmp(*operation, TILED[0]) != 0 && strcmp(*operation, TILED[1]) != 0)
                check(dtype, *operation, largest(strcmp(*operation, LONG_ROWS) == 0 ? 1e5 : 2.5e4, 1e5));
}

// Tiles are the card's; what does not depend on them is seen on one.
void test_attention(void **)
{
    for (size_t card = 0; card < sizeof CARDS / sizeof *CARDS; card += STRIDE) {
        size_t bytes = CARDS[card];
        simt::card_shared_bytes = bytes;
        for (enum dtype dtype : dtypes)
            for (const char *operation : TILED)
                if (is_asked(operation) && (bytes == SMALL_CARD || is_chosen(card + dtype, 2)))
                    check(dtype, operation, bytes == SMALL_CARD ? largest(5e3, 3e4) : largest(2.5e3, 1e4));
    }
}

} // namespace

// OPERATION: that one alone.
int main(int argc, char **argv)
{
    asked = argc > 1 ? argv[1] : nullptr;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_operations), cmocka_unit_test(test_scalar_units),
                                       cmocka_unit_test(test_attention)};
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
