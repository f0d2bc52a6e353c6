// GaLore: Adam on the gradients of attention's and the MLP's matrices, projected to their leading singular
// directions, which are recomputed every interval of updates; plain Adam on embedding, head, gains and biases. Zhao
// et al. 2024, arXiv 2403.03507, algorithm 2, with its code's projection ("std") of the shorter side: R = G in P; N
// = Adam's step of R; W -= rate scale (N back from P), then decay as "form" says. Moments are not rotated with the
// directions. Deviation: singular vectors come from the Gram matrix in f64.
#include "kernels/optimizers/galore.h"
#include "kernels/layers/projector.h"
#include "kernels/model/unit_parameters.h"
#include "kernels/optimizers/adam8bit.h"

static const struct option rows[] = {OPTIONS_GALORE, {0}};

static void moments_shape(const struct trainer *trainer, struct tensor of, struct tensor state[PARAMETER_STATES])
{
    const struct galore_options *options = trainer->optimizer_options;
    if (options->adamw.state == GALORE_STATE_8BIT) {
        adam8bit_shape(trainer, of, tensor_count(of), state);
    } else {
        state[FIRST_MOMENT] = state[SECOND_MOMENT] =
            state_shape(of.rows, of.cols, state_dtype(trainer->model, options->adamw.state));
    }
}

bool galore_check(const void *options, const struct config *config, enum dtype dtype, struct status *status)
{
    for (size_t l = 0; l < config->layers; l++) {
        if (config_mlp(config, l)->chooses)
            return status_set(status, STATUS_UNSUPPORTED,
                              "galore does not project matrices of experts; choose adamw or bcd");
    }
    return adamw_check(options, config, dtype, status);
}

void galore_state(const struct trainer *trainer, const struct parameter *p, struct tensor state[PARAMETER_STATES])
{
    const struct galore_options *options = trainer->optimizer_options;
    struct tensor w = p->value;
    moments_shape(trainer, is_layer_matrix(trainer->model, p) ? projected_shape(w.rows, w.cols, options->rank) : w,
                  state);
}

struct tensor galore_projector(const struct trainer *trainer, const struct parameter *p)
{
    const struct galore_options *options = trainer->optimizer_options;
    struct tensor shape = projector_shape(p->value.rows, p->value.cols, options->rank);
    return is_layer_matrix(trainer->model, p) ? state_shape(shape.rows, shape.cols, p->value.dtype) : tensor_none();
}

// Index of this matrix in the rank's order of direction updates, longest first, because a plan covers the first
// update.
static size_t place_of(const struct trainer *trainer, const struct parameter *p, size_t *matrices)
{
    size_t before = 0;
    *matrices = 0;
    for (const struct parameter *q = trainer->model->embedding; q < trainer->model->final_norm; q++) {
        size_t count = tensor_count(q->value), own = tensor_count(p->value);
        bool counts = is_layer_matrix(trainer->model, q) && model_has(trainer->model, q);
        *matrices += counts;
        before += counts && (count > own || (count == own && q < p));
    }
    return before;
}

// Tells whether update t recomputes the matrix's directions. With whole sums, all matrices' at once; with projected
// sums, one matrix's per update, whose sums alone are then whole, and each at most once per cycle over all.
static bool finds(const struct trainer *trainer, const struct parameter *p, size_t t)
{
    const struct galore_options *options = trainer->optimizer_options;
    if (options->sums == SUMS_WHOLE)
        return (t - 1) % options->interval == 0;
    size_t matrices, place = place_of(trainer, p, &matrices);
    return (t - 1) % (matrices > options->interval ? matrices : options->interval) == place;
}

bool galore_projects(const struct trainer *trainer, const struct parameter *p, size_t t)
{
    const struct galore_options *options = trainer->optimizer_options;
    return options->sums == SUMS_PROJECTED && !finds(trainer, p, t);
}

// Initial directions are random, about orthonormal, and different from random weights of the same seed.
void galore_start(struct trainer *trainer, struct parameter *p)
{
    const struct galore_options *options = trainer->optimizer_options;
    if (p->projector.data && options->sums == SUMS_PROJECTED) {
        size_t shorter = p->value.rows < p->value.cols ? p->value.rows : p->value.cols;
        char name[sizeof p->name + sizeof " directions"];
        snprintf(name, sizeof name, "%s directions", p->name);
        op_random_normal(trainer->model->device, p->projector, random_named(options->adamw.weights.seed, name), 0,
                         1 / sqrt((double)shorter), p->projector.dtype);
    }
}

// Updates W by a step of Adam with rate 1, which is -N, in blocks of rows that are whole groups of random bits
// (kernels/device/update.h).
static void move(struct trainer *trainer, struct parameter *p, struct tensor n)
{
    const struct galore_options *options = trainer->optimizer_options;
    struct device *device = trainer->model->device;
    struct adam_step adam = adamw_step(trainer, p);
    size_t rows = p->value.rows, cols = p->value.cols, max = device->ops->rules->block_rows(device, cols) / 8 * 8;
    double after = adam.form == ADAM_TORCH ? 1 : 1 - adam.rate * adam.decay; // for decay after the step
    struct sgd_step step = {.rate = adam.rate, .decay = adam.decay, .decoupled = true, .rounding = adam.rounding};
    for (size_t row = 0; row < rows && device->status.code == STATUS_OK; row += max) {
        size_t count = max < rows - row ? max : rows - row;
        struct tensor grad = tensor_new(device, count, cols, master_dtype(trainer->model), CATEGORY_WORKSPACE);
        projector_back(device, grad, p->projector, n, rows, row, -options->scale * after);
        step.rounding.first = adam.rounding.first + row * cols / 8;
        op_sgd(device, tensor_rows(p->value, row, count), tensor_none(), grad, tensor_none(), &step);
        tensor_free(device, &grad);
    }
}

static void adam(struct trainer *trainer, struct tensor w, struct tensor grad,
                 struct tensor state[PARAMETER_STATES], const struct adam_step *step)
{
    const struct galore_options *options = trainer->optimizer_options;
    if (options->adamw.state == GALORE_STATE_8BIT)
        adam8bit_move(trainer->model->device, w, grad, state, step);
    else
        op_adamw(trainer->model->device, w, tensor_none(), grad, state[FIRST_MOMENT], state[SECOND_MOMENT], step);
}

static void update_projected(struct trainer *trainer, struct parameter *p, galore_direction *direction)
{
    const struct galore_options *options = trainer->optimizer_options;
    struct device *device = trainer->model->device;
    struct tensor shape = projected_shape(p->value.rows, p->value.cols, options->rank), own = {0}, r = p->grad;
    struct adam_step step = adamw_step(trainer, p);
    if (!p->projected) {
        if (finds(trainer, p, trainer->model->update))
            projector_find(device, p->projector, p->grad);
        r = own = tensor_new(device, shape.rows, shape.cols, trainer->model->gradient_dtype, CATEGORY_WORKSPACE);
        projector_project(device, r, p->projector, p->grad);
    }
    struct tensor turned = direction ? direction(trainer, p, r) : tensor_none();
    struct tensor n = tensor_new(device, r.rows, r.cols, p->value.dtype, CATEGORY_WORKSPACE);
    op_zero(device, n);
    step.rate = 1;
    step.decay = 0;
    step.rounding = (struct bf16_rounding){0};
    adam(trainer, n, direction ? turned : r, p->state, &step);
    tensor_free(device, &turned);
    tensor_free(device, &own);
    move(trainer, p, n);
    tensor_free(device, &n);
}

void galore_update(struct trainer *trainer, struct parameter *p, galore_direction *direction)
{
    if (is_layer_matrix(trainer->model, p)) {
        update_projected(trainer, p, direction);
    } else {
        struct adam_step step = adamw_step(trainer, p);
        adam(trainer, p->value, p->grad, p->state, &step);
    }
}

static void update(struct trainer *trainer, struct parameter *p)
{
    galore_update(trainer, p, NULL);
}

const struct optimizer optimizer_galore = {
    .name = "galore",
    .summary = "Adam on gradients projected to their leading singular directions",
    .source = "Zhao et al. 2024, arXiv 2403.03507",
    .options = {rows, sizeof(struct galore_options)},
    .lora = LORA_NEVER,
    .uneven = true,
    .check = galore_check,
    .state = galore_state,
    .projector = galore_projector,
    .projects = galore_projects,
    .start = galore_start,
    .update = update,
};
