// Array: a tensor for a kernel under test, in memory of its exact size, beside the same values in f64 for the CPU
// device, whose operations are the reference.
#pragma once
#include "kernels/cuda/kernels/kernels.h"
#include <cuda_runtime.h>
#include <functional>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string>
#include <vector>
extern "C" {
#include "kernels/base/random.h"
#include "kernels/device/ops.h"
#include <cmocka.h>
}

class array
{
  public:
    struct tensor t; // of the kernel
    struct tensor r; // of the reference, f64

    // Random normals named by `name`, rounded to the dtype; NaN without a name. The data begins `offset` elements
    // behind an address that 16-byte accesses can take.
    array(size_t rows, size_t cols, enum dtype dtype, const char *name, size_t offset = 0);
    array(const array &) = delete;
    ~array() { free(memory); }
    // Sets all values; what each of them is.
    void set(const std::function<double(size_t)> &value);
    // Neither here nor there a tensor.
    void none() { t = r = tensor_none(); }
    double found(size_t i) const; // the kernel's
    double expected(size_t i) const { return reference[i]; }
    // Fails unless all found values are near the expected: growth times the unit roundoff of the sums' dtype, and
    // one rounding to the array's own, relative to the largest of them.
    void check(double growth, const char *what) const;
    std::vector<unsigned char> bytes() const;
    void restore(const std::vector<unsigned char> &bytes);

  private:
    std::vector<double> reference;
    void *memory;
};

// Runs a kernel with the threads of a block in one order and then, on the same inputs, in the other: its results
// must have the same bits.
void run_both_orders(const std::vector<array *> &changed, const std::function<void()> &call);
