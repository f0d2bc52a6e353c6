// Every operation of a device, in bf16, f32 and f64, held to its cases (tests/cases).
// Usage: test_ops [DEVICE [LARGEST [DTYPE]]]; cases of more than LARGEST results (attention: scores) are left out.
#include "harness/machine/environment.h"
#include "kernels/cuda/workspace.h"
#include "tests/cases/cases.h"
#include <string.h>

int main(int argc, char **argv)
{
    environment_settle(argv);
    setvbuf(stdout, NULL, _IOLBF, 0); // a run that is cut off has said what it found
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_F32, DTYPE_F64}; // in order of worth
    static struct cases c;
    const char *name = argc > 1 ? argv[1] : "cuda";
    size_t failures = 0, left_out = 0, refused = 0, opened = 0, wanted = 0;
    double largest = argc > 2 ? strtod(argv[2], NULL) : 0;
    for (size_t d = 0; d < 3; d++) {
        if (argc > 3 && strcmp(argv[3], dtype_name(dtypes[d])) != 0)
            continue;
        struct status status = {0};
        wanted++;
        struct device *device = device_open(name, dtypes[d], 0, &status);
        if (!device) {
            fprintf(stderr, "%s\n", status.message);
            continue;
        }
        opened++;
        for (const char *const *operation = operation_names(); *operation; operation++) {
            c = (struct cases){.device = device,
                               .largest = largest,
                               .attention_roundings = 1,
                               .product_roundings = dtypes[d] == DTYPE_BF16,
                               .delta_rounds =
                                   strncmp(name, "cuda", 4) == 0 && cuda_delta_takes_tensor_cores(device)};
            cases_run(&c, *operation);
            printf("%-5s %-20s %4zu checks, %zu failed\n", dtype_name(dtypes[d]), *operation, c.checks, c.failures);
            // In f64 the longest heads find no tile on some cards.
            failures += c.failures + (dtypes[d] == DTYPE_F64 ? 0 : c.refused);
            refused += c.refused;
            left_out += c.left_out;
        }
        device_close(device);
    }
    if (left_out)
        printf("%zu cases left out: more than %g results\n", left_out, largest);
    if (refused)
        printf("%zu cases refused\n", refused);
    printf("operations: %s\n", opened == 0 ? "not run" : failures ? "FAILED" : "passed");
    return opened == 0 || opened < wanted || failures > 0;
}
