// The fronts of a mixture of experts. All that they count is a function of shapes, whatever experts tokens choose.
// A grouped product of a block of R of N permuted rows is charged the matrices of as many of E experts as rows that
// are spread evenly would need, min(E, R, ceil(E R / N) + 1): over all blocks never fewer than are read. A
// product with some of the E experts is charged their share of all that.
#include "kernels/device/front.h"
#include "kernels/device/ops.h"

static bool is_i32(struct tensor t, size_t rows, size_t cols)
{
    return t.dtype == DTYPE_I32 && t.rows == rows && t.cols == cols;
}

static bool is_statistic(const struct device *device, struct tensor t, size_t rows, size_t cols)
{
    return t.dtype == dtype_statistic(device->ops->dtype) && t.rows == rows && t.cols == cols;
}

static bool is_totals(struct tensor t, const struct routing *routing, size_t n)
{
    return t.dtype == DTYPE_F64 && t.cols == router_totals(routing) && t.rows > 0 && n % t.rows == 0;
}

static void check_routing(const struct routing *r)
{
    CHECK(r->experts > 0 && r->experts <= ROUTING_EXPERTS_MAX && r->chosen > 0 && r->chosen <= r->experts);
    CHECK(r->groups <= ROUTING_GROUPS_MAX);
    CHECK(r->groups == 0 ||
          (r->experts % r->groups == 0 && r->top_groups > 0 && r->top_groups <= r->groups && r->group_best > 0 &&
           r->group_best <= r->experts / r->groups && r->chosen <= r->top_groups * (r->experts / r->groups)));
}

void op_route_forward(struct device *device, struct routing routing, struct tensor choices, struct tensor weights,
                      struct tensor logits, struct tensor bias, bool kept)
{
    if (failed(device))
        return;
    size_t n = logits.rows;
    check_routing(&routing);
    CHECK(is_statistic(device, logits, n, routing.experts) && is_statistic(device, weights, n, routing.chosen) &&
          is_i32(choices, n, routing_words(&routing)) &&
          (!bias.data || is_statistic(device, bias, 1, routing.experts)));
    RUN(device, WORK_ROUTING, route_forward, bytes(logits) + bytes(bias) + bytes(choices) + bytes(weights), routing,
        choices, weights, logits, bias, kept);
}

void op_route_backward(struct device *device, struct routing routing, struct tensor logits, struct tensor choices,
                       struct tensor grad_weights, struct router_terms terms, struct tensor totals,
                       struct tensor repeats)
{
    if (failed(device))
        return;
    size_t n = logits.rows;
    check_routing(&routing);
    CHECK(is_statistic(device, logits, n, routing.experts) && is_i32(choices, n, routing_words(&routing)) &&
          is_statistic(device, grad_weights, n, routing.chosen));
    CHECK(terms.balance == 0 || is_totals(totals, &routing, n));
    CHECK(!repeats.data || is_i32(repeats, n, 1));
    RUN(device, WORK_ROUTING, route_backward,
        2 * bytes(logits) + bytes(choices) + bytes(grad_weights) + bytes(totals) + bytes(repeats), routing, logits,
        choices, grad_weights, terms, totals, repeats);
}

void op_route_count(struct device *device, struct routing routing, struct tensor totals, struct tensor choices,
                    struct tensor logits, bool softmax, struct tensor repeats, struct tensor row_sums)
{
    if (failed(device))
        return;
    size_t n = logits.rows;
    check_routing(&routing);
    CHECK(is_totals(totals, &routing, n) && is_i32(choices, n, routing_words(&routing)) &&
          is_statistic(device, logits, n, routing.experts) && (!repeats.data || is_i32(repeats, n, 1)) &&
          is_statistic(device, row_sums, n, 2));
    RUN(device, WORK_ROUTING, route_count,
        2 * bytes(totals) + bytes(choices) + 2 * bytes(logits) + bytes(repeats) + 2 * bytes(row_sums), routing,
        totals, choices, logits, softmax, repeats, row_sums);
}

void op_permute_slots(struct device *device, struct routing routing, struct tensor rows, struct tensor slots,
                      struct tensor starts, struct tensor choices)
{
    if (failed(device))
        return;
    size_t n = choices.rows;
    check_routing(&routing);
    CHECK(is_i32(choices, n, routing_words(&routing)) && is_i32(rows, n, routing.chosen) &&
          is_i32(slots, n * routing.chosen, 1) && is_i32(starts, routing.experts + 1, 1));
    if (slots.rows > INT32_MAX) {
        status_set(&device->status, STATUS_UNSUPPORTED,
                   "experts take at most %d rows at a time, not %zu tokens that take %zu experts each; give a "
                   "smaller chunk, or a method that has one",
                   INT32_MAX, n, routing.chosen);
        return;
    }
    RUN(device, WORK_ROUTING, permute_slots, bytes(choices) + bytes(rows) + bytes(slots) + bytes(starts), routing,
        rows, slots, starts, choices);
}

void op_gather_slots(struct device *device, struct tensor dst, struct tensor src, struct tensor slots,
                     size_t chosen, size_t first)
{
    if (failed(device))
        return;
    CHECK(dst.dtype == src.dtype && dst.cols == src.cols && is_i32(slots, src.rows * chosen, 1) &&
          first + dst.rows <= slots.rows);
    RUN(device, WORK_ROUTING, gather_slots, 2 * bytes(dst) + 4.0 * dst.rows, dst, src, slots, chosen, first);
}

void op_scatter_slots(struct device *device, struct tensor dst, struct tensor src, struct tensor rows,
                      struct tensor weights, size_t first)
{
    if (failed(device))
        return;
    CHECK(is_statistic(device, dst, rows.rows, src.cols) && rows.dtype == DTYPE_I32 &&
          first + src.rows <= tensor_count(rows) &&
          (!weights.data || is_statistic(device, weights, rows.rows, rows.cols)));
    RUN(device, WORK_ROUTING, scatter_slots, 2 * bytes(dst) + bytes(src) + bytes(rows) + bytes(weights), dst, src,
        rows, weights, first);
}

void op_grouped_gemm(struct device *device, struct expert_rows experts, struct tensor c, struct tensor a,
                     enum transpose transpose_a, struct tensor b, enum transpose transpose_b, double alpha)
{
    if (failed(device))
        return;
    bool onto = transpose_a;
    size_t count = experts.starts.rows - 1, rows = a.rows, all = experts.experts ? experts.experts : count;
    struct tensor matrices = onto ? c : b;
    size_t out = matrices.rows / count, in = matrices.cols;
    CHECK(is_i32(experts.starts, count + 1, 1) && count > 0 && count <= all && matrices.rows == count * out &&
          experts.first + rows <= experts.rows && !(transpose_a && transpose_b));
    CHECK(onto          ? a.cols == out && b.cols == in && b.rows == rows
          : transpose_b ? a.cols == in && c.cols == out && c.rows == rows && alpha == 1
                        : a.cols == out && c.cols == in && c.rows == rows && alpha == 1);
    CHECK(a.dtype == device->ops->dtype && b.dtype == a.dtype && (onto || c.dtype == a.dtype));
    if (rows == 0 || !holds(device, tensor_rows(matrices, 0, out), "grouped_gemm") ||
        !holds(device, a, "grouped_gemm") || !holds(device, onto ? b : c, "grouped_gemm"))
        return;
    size_t even = (all * rows + experts.rows - 1) / experts.rows + 1, own = (rows * count + all - 1) / all;
    double read = (double)smaller(smaller(all, rows), even) * out * in * dtype_bytes(matrices.dtype);
    double share = (double)count / (double)all;
    struct range range = operation(WORK_GEMM, "grouped_gemm"); // timed as one product of the block's rows
    range.m = onto ? out : own, range.n = transpose_b ? out : in, range.k = onto ? own : transpose_b ? in : out;
    range.transpose_a = transpose_a == TRANSPOSE, range.transpose_b = transpose_b == TRANSPOSE;
    if (begin(device, range, 2.0 * rows * out * in * share,
              (bytes(a) + bytes(onto ? b : c) + read * (onto ? 2 : 1)) * share)) {
        device->ops->grouped_gemm(device, experts, c, a, transpose_a, b, transpose_b, alpha);
        range_pop(device);
    }
}

void op_expert_act_forward(struct device *device, struct tensor y, struct tensor gate_up, struct expert_act act)
{
    if (failed(device))
        return;
    CHECK(y.rows == gate_up.rows && 2 * y.cols == gate_up.cols && y.dtype == gate_up.dtype);
    RUN(device, WORK_SWIGLU, expert_act_forward, bytes(y) + bytes(gate_up), y, gate_up, act);
}

void op_expert_act_backward(struct device *device, struct tensor gate_up, struct tensor grad,
                            struct tensor grad_weights, struct tensor weights, struct tensor slots, size_t first,
                            struct expert_act act)
{
    if (failed(device))
        return;
    CHECK(grad.rows == gate_up.rows && 2 * grad.cols == gate_up.cols && grad.dtype == gate_up.dtype);
    CHECK(is_statistic(device, weights, weights.rows, weights.cols) &&
          is_statistic(device, grad_weights, weights.rows, weights.cols) &&
          is_i32(slots, tensor_count(weights), 1) && first + grad.rows <= slots.rows);
    double per_row = 4 + 2 * dtype_bytes(weights.dtype);
    RUN(device, WORK_SWIGLU, expert_act_backward, 2 * (bytes(gate_up) + bytes(grad)) + per_row * grad.rows, gate_up,
        grad, grad_weights, weights, slots, first, act);
}
