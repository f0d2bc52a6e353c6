#include "kernels/framework/mixture.h"
#include "kernels/framework/aten.h"
#include "kernels/framework/parameters.h"

static struct value weight_of(const struct framework_run *run, size_t l, const char *name)
{
    return parameters_weight(run, parameters_of_layer(run, l, name)->weight);
}

// The experts that each token chooses, and their weights. Qwen3 and OLMoE have weights in the model's dtype,
// Mixtral in f32.
struct choices {
    struct value logits, experts, weights;
};

static struct choices route(struct framework_run *run, size_t l, struct value x)
{
    struct tape *tape = &run->tape;
    const struct routing *routing = &run->model->config.experts.routing;
    struct choices chosen;
    chosen.logits = aten_linear(tape, x, weight_of(run, l, "mlp.gate"), (struct value){0}, CATEGORY_ACTIVATIONS);
    struct value wide = aten_to(tape, chosen.logits, DTYPE_F32, CATEGORY_ACTIVATIONS);
    struct value scores = aten_softmax(tape, wide);
    tape_drop(tape, &wide);
    struct value top = aten_topk(tape, scores, routing->chosen, &chosen.experts);
    if (routing->normalised)
        tape_rebind(tape, &top, aten_normalise(tape, top));
    chosen.weights = aten_to(tape, top, run->model->config.qk_norm ? x.dtype : DTYPE_F32, CATEGORY_ACTIVATIONS);
    tape_drop(tape, &top);
    tape_drop(tape, &scores);
    return chosen;
}

// down(act(gate(x)) * up(x)) of each row by its expert's weights.
static struct value by_experts(struct framework_run *run, size_t l, struct value rows, struct value ends)
{
    struct tape *tape = &run->tape;
    struct value both = aten_grouped_mm(tape, rows, weight_of(run, l, "mlp.experts.gate_up_proj"), ends,
                                        2 * run->model->config.experts.width);
    struct value parts[2];
    aten_halves(tape, both, parts);
    struct value active = aten_activation(tape, parts[0]), product = aten_mul(tape, active, parts[1]);
    tape_drop(tape, &active);
    tape_drop(tape, &parts[0]);
    tape_drop(tape, &parts[1]);
    tape_rebind(tape, &both, product);
    tape_rebind(
        tape, &both,
        aten_grouped_mm(tape, both, weight_of(run, l, "mlp.experts.down_proj"), ends, run->model->config.width));
    return both;
}

struct value mixture_forward(struct framework_run *run, size_t l, struct value x)
{
    struct tape *tape = &run->tape;
    const struct routing *routing = &run->model->config.experts.routing;
    size_t pairs = x.rows * routing->chosen;
    struct choices chosen = route(run, l, x);
    struct value sorted = tape_new(tape, "sort", pairs, 1, DTYPE_I64, CATEGORY_ACTIVATIONS);
    struct value order = tape_new(tape, "sort", pairs, 1, DTYPE_I64, CATEGORY_ACTIVATIONS);
    struct value tokens = tape_new(tape, "floor_divide", pairs, 1, DTYPE_I64, CATEGORY_ACTIVATIONS);
    struct value rows = aten_index(tape, x, tokens, pairs);
    tape_drop(tape, &tokens);
    struct value flat = chosen.weights;
    flat.rows = pairs;
    flat.cols = 1;
    struct value weights = aten_index(tape, flat, order, pairs);
    struct value numbers = tape_new(tape, "to", pairs, 1, DTYPE_I32, CATEGORY_ACTIVATIONS);
    struct value counts = tape_new(tape, "histc", routing->experts, 1, DTYPE_I32, CATEGORY_ACTIVATIONS);
    struct value ends = tape_new(tape, "cumsum", routing->experts, 1, DTYPE_I32, CATEGORY_ACTIVATIONS);
    struct value given = by_experts(run, l, rows, ends);
    struct value weighted = aten_mul(tape, given, weights);
    struct value back = tape_new(tape, "empty_like", pairs, 1, DTYPE_I64, CATEGORY_ACTIVATIONS);
    struct value numbered = tape_new(tape, "arange", pairs, 1, DTYPE_I64, CATEGORY_ACTIVATIONS);
    tape_drop(tape, &numbered);
    tape_rebind(tape, &weighted, aten_index(tape, weighted, back, pairs));
    struct value sum = aten_sum_rows(tape, weighted, routing->chosen);
    tape_rebind(tape, &sum, aten_to(tape, sum, x.dtype, CATEGORY_ACTIVATIONS));
    struct value *const names[] = {&sorted,        &order,          &rows,          &weights, &numbers,
                                   &counts,        &ends,           &given,         &back,    &weighted,
                                   &chosen.logits, &chosen.experts, &chosen.weights};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        tape_drop(tape, names[i]);
    return sum;
}
