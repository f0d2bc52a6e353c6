// GaLore's options, state and update, for optimizers that replace the projected gradient by another direction.
#pragma once
#include "kernels/optimizers/adamw.h"

struct galore_options {
    struct adamw_options adamw;
    size_t rank, interval;
    double scale;
    int sums;
};

// The direction of a matrix's update instead of its projected gradient r, with r's shape and at least its dtype: a
// new workspace tensor.
typedef struct tensor galore_direction(struct trainer *trainer, struct parameter *parameter, struct tensor r);

// In the order of the names below.
enum { GALORE_STATE_8BIT = STATE_BF16 + 1 };

// Rows for galore_options, or for a struct that begins with one.
#define OPTIONS_GALORE                                                                                             \
    {OPTION_RATE(struct adamw_options, 1e-3)}, {OPTION_DECAY(struct adamw_options, 0)},                            \
        {OPTION_BETA1(struct adamw_options)}, {OPTION_BETA2(struct adamw_options)},                                \
        {OPTION_EPSILON(struct adamw_options)}, {OPTION_FORM(struct adamw_options, ADAM_HF)},                      \
        {OPTION("state", CHOICE, struct adamw_options, state),                                                     \
         .choices = OPTION_CHOICES("gradient", "f32", "bf16", "8bit"),                                             \
         .help = "dtype of the moments: the gradient's accumulator dtype, f32 (f64 in f64), bf16 in bf16, or 8 "   \
                 "bits as in adam8bit, also for the embedding"},                                                   \
        {OPTION("rank", COUNT, struct galore_options, rank), .minimum = 1, .maximum = OPTION_COUNT_MAX,            \
         .initial = 128, .help = "directions kept of a matrix's shorter side, at most all"},                       \
        {OPTION("interval", COUNT, struct galore_options, interval), .minimum = 1, .maximum = OPTION_COUNT_MAX,    \
         .initial = 200,                                                                                           \
         .help = "updates between computations of the directions; a plan covers the first, which computes them"},  \
        {OPTION("scale", NUMBER, struct galore_options, scale), .maximum = 1e6, .initial = 0.25,                   \
         .help = "factor of the rate for projected matrices"},                                                     \
        {OPTION("sums", CHOICE, struct galore_options, sums), .choices = OPTION_CHOICES("whole", "projected"),     \
         .help = "sum of a matrix's gradient: whole; or projected, and whole only in the update that computes "    \
                 "its directions, one matrix per update"},                                                         \
        {OPTION_ROUND(struct adamw_options)}, {OPTION_SEED(struct adamw_options)},                                 \
    {                                                                                                              \
        OPTION_WHEN(struct adamw_options, UPDATE_AT_END)                                                           \
    }

// Hooks of struct optimizer; the model's optimizer_options begin with struct galore_options.
bool galore_check(const void *options, const struct config *config, enum dtype dtype, struct status *status);
void galore_state(const struct trainer *trainer, const struct parameter *parameter,
                  struct tensor state[PARAMETER_STATES]);
struct tensor galore_projector(const struct trainer *trainer, const struct parameter *parameter);
bool galore_projects(const struct trainer *trainer, const struct parameter *parameter, size_t t);
void galore_start(struct trainer *trainer, struct parameter *parameter);
// direction NULL: the projected gradient.
void galore_update(struct trainer *trainer, struct parameter *parameter, galore_direction *direction);
