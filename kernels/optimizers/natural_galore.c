// Natural GaLore: GaLore along the projected gradient times the inverse empirical Fisher matrix of a history of s
// projected gradients g_1 .. g_s, as vectors: (lambda + sum of g_i g_i^T)^-1 g_s. Das 2024, arXiv 2410.16029,
// section 4. By the push-through identity this is H (lambda + H^T H)^-1 e_s, H = [g_1 .. g_s]: of order s, and
// accurate in f32 for gradients of any length, unlike the paper's Woodbury identity. Deviations from its code:
// GaLore's one-sided projection. As there, the history outlives a change of directions. Memory: the history, s r S
// in the model's dtype for the longer side S, which the published figures, equal to GaLore's, cannot include.
#include "kernels/device/eigen.h"
#include "kernels/layers/projector.h"
#include "kernels/offload/host_work.h"
#include "kernels/optimizers/adam8bit.h"
#include "kernels/optimizers/galore.h"

struct natural_galore_options {
    struct galore_options galore;
    size_t history;
    double damping;
};

#define HISTORY_MAX 256 // the host solves its Gram matrix

static const struct option rows[] = {
    OPTIONS_GALORE,
    {OPTION("history", COUNT, struct natural_galore_options, history), .minimum = 1, .maximum = HISTORY_MAX,
     .initial = 20, .help = "number of projected gradients kept, including the current one"},
    {OPTION("damping", NUMBER, struct natural_galore_options, damping), .minimum = 1e-12, .maximum = 1e6,
     .initial = 1e-3, .help = "lambda, the damping of the Fisher matrix"},
    {0}};

// After the moments.
enum { HISTORY = ADAM8BIT_STATES };

// Rows in bf16 that together have f32's digits: parts of similar gradients nearly cancel.
#define BF16_PARTS 3

static void state(const struct trainer *trainer, const struct parameter *p, struct tensor state[PARAMETER_STATES])
{
    const struct natural_galore_options *options = trainer->optimizer_options;
    struct tensor shape = projected_shape(p->value.rows, p->value.cols, options->galore.rank);
    galore_state(trainer, p, state);
    if (galore_projector(trainer, p).rows > 0)
        state[HISTORY] = state_shape(options->history, tensor_count(shape), p->value.dtype);
}

// Coefficients of each gradient in the direction, (lambda + gram)^-1 e_s, as a sum of `parts` rows.
static void find_parts(struct trainer *trainer, struct tensor parts, struct tensor gram, size_t s)
{
    const struct natural_galore_options *options = trainer->optimizer_options;
    struct device *device = trainer->model->device;
    size_t count = gram.rows;
    struct tensor host = host_work_read(device, gram),
                  found = host_work_new(device, parts.rows, count, parts.dtype);
    if (host_work_wanted(device)) {
        double *numbers = calloc(count * count, sizeof *numbers),
               *rows_of = calloc(parts.rows * count, sizeof *rows_of);
        tensor_read(device, host, numbers);
        eigen_inverse_column(numbers, count, options->damping, s, rows_of, &device->status);
        for (size_t i = 0; i < count; i++) {
            double rest = rows_of[i];
            for (size_t part = 0; part < parts.rows; part++) {
                rows_of[part * count + i] = dtype_round(rest, parts.dtype);
                rest -= rows_of[part * count + i];
            }
        }
        tensor_write(device, found, rows_of);
        free(rows_of);
        free(numbers);
    }
    tensor_free(device, &host);
    host_work_write(device, parts, &found);
}

// Missing gradients of the history are zeros and do not contribute.
static struct tensor direction(struct trainer *trainer, struct parameter *p, struct tensor r)
{
    const struct natural_galore_options *options = trainer->optimizer_options;
    struct device *device = trainer->model->device;
    struct tensor history = p->state[HISTORY];
    enum dtype dtype = history.dtype, wide = master_dtype(trainer->model);
    size_t count = options->history, s = (trainer->model->update - 1) % count;
    op_copy(device, tensor_rows(history, s, 1), r);
    struct tensor turned = tensor_new(device, r.rows, r.cols, wide, CATEGORY_WORKSPACE);
    struct tensor gram = tensor_new(device, count, count, wide, CATEGORY_WORKSPACE);
    struct tensor parts =
        tensor_new(device, dtype == DTYPE_BF16 ? BF16_PARTS : 1, count, dtype, CATEGORY_WORKSPACE);
    op_gemm(device, gram, history, NO_TRANSPOSE, history, TRANSPOSE, 1, 0);
    find_parts(trainer, parts, gram, s);
    for (size_t part = 0; part < parts.rows; part++) {
        op_gemm(device, tensor_reshape(turned, 1, history.cols), tensor_rows(parts, part, 1), NO_TRANSPOSE, history,
                NO_TRANSPOSE, 1, part > 0);
    }
    tensor_free(device, &parts);
    tensor_free(device, &gram);
    return turned;
}

static void update(struct trainer *trainer, struct parameter *p)
{
    galore_update(trainer, p, direction);
}

const struct optimizer optimizer_natural_galore = {
    .name = "natural-galore",
    .summary = "GaLore along natural gradients, from a history of projected gradients",
    .source = "Das 2024, arXiv 2410.16029",
    .options = {rows, sizeof(struct natural_galore_options)},
    .lora = LORA_NEVER,
    .uneven = true,
    .check = galore_check,
    .state = state,
    .projector = galore_projector,
    .projects = galore_projects,
    .start = galore_start,
    .update = update,
};
