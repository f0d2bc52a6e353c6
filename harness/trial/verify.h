// Verify: compares every method's gradient on small awkward shapes with `full` in f64.
#pragma once
#include "harness/spec/trial.h"
#include "harness/step/gradient_error.h"

struct verify_request {
    const struct config *config; // NULL: small ones of every kind of decoder
    const char *folder;          // of the model's weights; NULL: random ones
    const char *shape;           // NULL: all; else shapes whose name contains it
    const char *device;
    const struct trial
        *like; // source of objective, reference and factors, and of its batch file, which is then the shape
    enum dtype dtype, kv_gradient_dtype, gradient_dtype;
    bool kv_gradient_stochastic;
};

// One method on one shape, or why it has no gradient.
struct verify_case {
    const struct method *method;
    char shape[96], options[96];
    bool good;
    struct gradient_error error;
    char reason[256]; // "" if there is a gradient
};

// Error limits: f64 relative L2 1e-13 and max abs 1e-12, f32 1e-5, bf16 3e-2.
struct verify_bounds {
    double relative_l2, max_abs;
};
struct verify_bounds verify_bounds(enum dtype dtype);
// Calls `found` for every case. Methods that estimate run with options that make them exact; methods without a
// gradient (null) are skipped. Returns false and a status if a reference could not be computed, or no shape has
// that name.
bool verify(const struct verify_request *request, void (*found)(const struct verify_case *result, void *context),
            void *context, struct status *status);
