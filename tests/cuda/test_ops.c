// Every operation of a device, in bf16, f32 and f64, against the CPU's in f64 on the same numbers, over
// sizes of one tile, several, and tiles with a remainder; outputs are poisoned first. Tolerances are relative to
// the largest expected number: f64 1e-12, f32 1e-5, bf16 the roundings that an operation cannot avoid, in units of
// bf16's epsilon: 1 where only the result is rounded, 2 where an intermediate of the same size is (attention's P
// and dS, in-place gradients). Usage: test_ops [DEVICE [LARGEST [DTYPE]]]; operations with more than LARGEST
// results (attention: scores) are left out. DEVICE cpu holds the CPU's own operations in that dtype.
#include "harness/run/environment.h"
#include "kernels/cuda/workspace.h"
#include "tests/cuda/compare.h"
#include <math.h>
#include <string.h>

static double largest = INFINITY;
static size_t left_out;

static bool too_large(size_t results)
{
    left_out += (double)results > largest;
    return (double)results > largest;
}

static double bf16_or(const struct compare *c, double bf16, double wider)
{
    return c->dtype == DTYPE_BF16 ? bf16 : wider;
}

// Of a result in the dtype under test, and of one in the dtype of sums. f32 and f64 have their own ceilings in
// both_check: a sum's length decides below them.
static double in_sums(size_t length)
{
    return 8 * sqrt((double)length) + 64;
}

static double summed(const struct compare *c, size_t length)
{
    return bf16_or(c, 1, in_sums(length));
}

// Relative to the largest, of what is no more exact in bf16 than `bf16`, though its own dtype is wider.
static double within(const struct compare *c, double bf16)
{
    return c->dtype == DTYPE_F64 ? 1e-12 : c->dtype == DTYPE_F32 ? 1e-5 : bf16;
}

static void check_copies(struct compare *c)
{
    static const size_t counts[] = {1, 7, 4096, 100003};
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !too_large(counts[i]); i++) {
        struct both narrow = both_random(c, 1, counts[i], 1, "narrow"), same = both_poisoned(c, 1, counts[i]);
        struct both wide = both_poisoned_sums(c, 1, counts[i]), sums = both_random_sums(c, 1, counts[i], "sums");
        op_copy(c->cuda, same.cuda, narrow.cuda);
        op_copy(c->cpu, same.cpu, narrow.cpu);
        both_check(c, &same, 0, "copy");
        op_copy(c->cuda, wide.cuda, narrow.cuda);
        op_copy(c->cpu, wide.cpu, narrow.cpu);
        both_check(c, &wide, 0, "copy to sums");
        op_copy(c->cuda, same.cuda, sums.cuda);
        op_copy(c->cpu, same.cpu, sums.cpu);
        both_check(c, &same, 1, "copy from sums");
        op_scale(c->cuda, sums.cuda, -2.5);
        op_scale(c->cpu, sums.cpu, -2.5);
        both_check(c, &sums, 2, "scale");
        op_zero(c->cuda, narrow.cuda);
        op_zero(c->cpu, narrow.cpu);
        both_check(c, &narrow, 0, "zero");
        both_free(c, &narrow);
        both_free(c, &same);
        both_free(c, &wide);
        both_free(c, &sums);
    }
}

// Bit by bit what the CPU draws; the CPU's f64 holds what the dtype under test does.
static void check_random(struct compare *c)
{
    static const size_t counts[] = {1, 7, 4096, 100003};
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !too_large(counts[i]); i++) {
        struct both t = both_poisoned(c, 1, counts[i]);
        struct random random = random_named(counts[i], "weights");
        op_random_normal(c->cuda, t.cuda, random, 1, 0.1, c->dtype);
        op_random_normal(c->cpu, t.cpu, random, 1, 0.1, c->dtype);
        both_check(c, &t, 0, "random_normal");
        both_free(c, &t);
    }
}

// Factors of 10 bits; f32 alone knows it.
static void check_tf32(struct compare *c)
{
    struct both a = both_random(c, 300, 70, 1, "a"), b = both_random(c, 70, 260, 1, "b");
    struct both to = both_poisoned(c, 300, 260);
    c->cuda->tf32 = true;
    op_gemm(c->cuda, to.cuda, a.cuda, NO_TRANSPOSE, b.cuda, NO_TRANSPOSE, 1, 0);
    op_gemm(c->cpu, to.cpu, a.cpu, NO_TRANSPOSE, b.cpu, NO_TRANSPOSE, 1, 0);
    both_check_within(c, &to, bf16_or(c, dtype_epsilon(DTYPE_BF16), 0x1p-10), "gemm in tf32");
    c->cuda->tf32 = false;
    both_free(c, &a);
    both_free(c, &b);
    both_free(c, &to);
}

static void check_gemm(struct compare *c)
{
    static const size_t shapes[][3] = {{1, 1, 1},        {3, 5, 7},      {64, 33, 129},  {300, 260, 70},
                                       {1030, 790, 5},   {17, 400, 600}, {256, 8, 4096}, {8, 4096, 256},
                                       {2048, 512, 512}, {1, 4096, 64}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        size_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
        for (int variant = 0; variant < 16 && !too_large(m * n); variant++) {
            enum transpose ta = variant & 1, tb = variant >> 1 & 1;
            double alpha = variant & 4 ? 0.5 : 1, beta = variant & 8 ? 1 : 0;
            struct both a = both_random(c, ta ? k : m, ta ? m : k, 1, "a");
            struct both b = both_random(c, tb ? n : k, tb ? k : n, 1, "b");
            struct both to = beta == 0 ? both_poisoned(c, m, n) : both_random(c, m, n, 1, "c");
            struct both sum = beta == 0 ? both_poisoned_sums(c, m, n) : both_random_sums(c, m, n, "c");
            c->cuda->reverse_sums = variant == 5 || variant == 10;
            op_gemm(c->cuda, to.cuda, a.cuda, ta, b.cuda, tb, alpha, beta);
            op_gemm(c->cpu, to.cpu, a.cpu, ta, b.cpu, tb, alpha, beta);
            both_check(c, &to, summed(c, k) * (c->cuda->reverse_sums ? 2 : 1), "gemm k=%zu variant %d", k, variant);
            op_gemm(c->cuda, sum.cuda, a.cuda, ta, b.cuda, tb, alpha, beta);
            op_gemm(c->cpu, sum.cpu, a.cpu, ta, b.cpu, tb, alpha, beta);
            both_check(c, &sum, in_sums(k), "gemm to sums k=%zu variant %d", k, variant);
            c->cuda->reverse_sums = false;
            both_free(c, &a);
            both_free(c, &b);
            both_free(c, &to);
            both_free(c, &sum);
        }
    }
    // Rows of a larger matrix, at an address that no vector access divides.
    struct both all = both_random(c, 70, 33, 1, "all"), b = both_random(c, 33, 65, 1, "b");
    struct both to = both_poisoned(c, 40, 65), view = {tensor_rows(all.cuda, 7, 40), tensor_rows(all.cpu, 7, 40)};
    op_gemm(c->cuda, to.cuda, view.cuda, NO_TRANSPOSE, b.cuda, NO_TRANSPOSE, 1, 0);
    op_gemm(c->cpu, to.cpu, view.cpu, NO_TRANSPOSE, b.cpu, NO_TRANSPOSE, 1, 0);
    both_check(c, &to, summed(c, 33), "gemm of a view");
    both_free(c, &all);
    both_free(c, &b);
    both_free(c, &to);
}

static void check_rows(struct compare *c)
{
    static const size_t shapes[][2] = {{1, 1}, {3, 65}, {500, 70}, {5, 64}, {300, 130}, {64, 4096}, {7, 5120}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        size_t n = shapes[s][0], d = shapes[s][1];
        if (too_large(n * d)) {
            continue;
        }
        struct both y = both_random(c, n, d, 1, "y"), bias = both_random(c, 1, d, 1, "bias");
        struct both grad_bias = both_random_sums(c, 1, d, "grad_bias");
        op_bias_backward(c->cuda, grad_bias.cuda, y.cuda);
        op_bias_backward(c->cpu, grad_bias.cpu, y.cpu);
        both_check(c, &grad_bias, in_sums(n), "bias_backward");
        op_bias_forward(c->cuda, y.cuda, bias.cuda);
        op_bias_forward(c->cpu, y.cpu, bias.cpu);
        both_check(c, &y, 2, "bias_forward");
        both_free(c, &y);
        both_free(c, &bias);
        both_free(c, &grad_bias);
        // grad_x apart; in grad_y's place; in x's place; accumulated, without grad_gain.
        for (int variant = 0; variant < 4; variant++) {
            struct both x = both_random(c, n, d, 1, "x"), gain = both_random(c, 1, d, 1, "gain");
            struct both grad_y = both_random(c, n, d, 1, "grad_y"),
                        grad_gain = both_random_sums(c, 1, d, "grad_gain");
            struct both rstd = both_poisoned_sums(c, n, 1), to = both_poisoned(c, n, d);
            struct both grad_x = variant == 3 ? both_random(c, n, d, 1, "grad_x") : both_poisoned(c, n, d);
            struct both none = {0}, *out = variant == 1 ? &grad_y : variant == 2 ? &x : &grad_x;
            op_rmsnorm_forward(c->cuda, to.cuda, rstd.cuda, x.cuda, gain.cuda, 1e-5);
            op_rmsnorm_forward(c->cpu, to.cpu, rstd.cpu, x.cpu, gain.cpu, 1e-5);
            both_check(c, &to, bf16_or(c, 1, 64), "rmsnorm_forward");
            both_check(c, &rstd, 64, "rmsnorm_forward's rstd");
            struct both *gains = variant == 3 ? &none : &grad_gain;
            op_rmsnorm_backward(c->cuda, out->cuda, variant == 3, gains->cuda, grad_y.cuda, x.cuda, gain.cuda,
                                rstd.cuda);
            op_rmsnorm_backward(c->cpu, out->cpu, variant == 3, gains->cpu, grad_y.cpu, x.cpu, gain.cpu, rstd.cpu);
            both_check(c, out, bf16_or(c, 1, 64), "rmsnorm_backward variant %d", variant);
            both_check(c, &grad_gain, in_sums(n), "rmsnorm_backward's grad_gain variant %d", variant);
            struct both *all[] = {&x, &gain, &grad_y, &grad_gain, &rstd, &to, &grad_x};
            for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
                both_free(c, all[i]);
            }
        }
    }
}

static void check_rope(struct compare *c)
{
    static const size_t starts[] = {0, 1, 4095, 131072}, halves[] = {1, 3, 16, 32, 64};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        for (size_t j = 0; j < sizeof halves / sizeof *halves; j++) {
            size_t half = halves[j], batch = 2, heads = 3, rows = 70 * batch;
            double frequency[64];
            for (size_t f = 0; f < half; f++) {
                frequency[f] = pow(500000, -(double)f / (double)half);
            }
            struct both frequencies = both_values(c, 1, half, DTYPE_F64, frequency);
            struct both x = both_random(c, rows, heads * 2 * half, 1, "x");
            for (int direction = 1; direction >= -1; direction -= 2) {
                op_rope(c->cuda, x.cuda, frequencies.cuda, starts[i], batch, direction);
                op_rope(c->cpu, x.cpu, frequencies.cpu, starts[i], batch, direction);
                // There and back.
                both_check(c, &x, bf16_or(c, 1 + (direction < 0), 1e4), "rope start %zu direction %d", starts[i],
                           direction);
            }
            both_free(c, &x);
            both_free(c, &frequencies);
        }
    }
}

static void check_swiglu(struct compare *c)
{
    static const size_t shapes[][2] = {{1, 1}, {3, 7}, {40, 1030}, {64, 14336}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        size_t n = shapes[s][0], f = shapes[s][1];
        if (too_large(n * f)) {
            continue;
        }
        struct both gate = both_random(c, n, f, 4, "gate"), up = both_random(c, n, f, 1, "up");
        struct both grad = both_random(c, n, f, 1, "grad"), y = both_poisoned(c, n, f);
        op_swiglu_forward(c->cuda, y.cuda, gate.cuda, up.cuda);
        op_swiglu_forward(c->cpu, y.cpu, gate.cpu, up.cpu);
        both_check(c, &y, bf16_or(c, 1, 64), "swiglu_forward");
        op_swiglu_backward(c->cuda, gate.cuda, up.cuda, grad.cuda);
        op_swiglu_backward(c->cpu, gate.cpu, up.cpu, grad.cpu);
        both_check(c, &gate, bf16_or(c, 1, 64), "swiglu_backward's gate");
        both_check(c, &up, bf16_or(c, 1, 64), "swiglu_backward's up");
        both_check(c, &grad, bf16_or(c, 1, 64), "swiglu_backward's product");
        both_free(c, &gate);
        both_free(c, &up);
        both_free(c, &grad);
        both_free(c, &y);
    }
}

static void check_head(struct compare *c)
{
    static const size_t shapes[][3] = {
        {1, 1, 1}, {9, 4, 70}, {700, 30, 65}, {256, 50000, 64}}; // rows, vocab, width
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        size_t n = shapes[s][0], vocab = shapes[s][1], d = shapes[s][2];
        if (too_large(n * vocab)) {
            continue;
        }
        struct both ids = both_integers(c, n, 0, (int32_t)vocab), table = both_random(c, vocab, d, 1, "table");
        struct both y = both_poisoned(c, n, d), grad = both_random(c, n, d, 1, "grad");
        struct both grad_table = both_random_sums(c, vocab, d, "grad_table");
        op_embedding_forward(c->cuda, y.cuda, table.cuda, ids.cuda);
        op_embedding_forward(c->cpu, y.cpu, table.cpu, ids.cpu);
        both_check(c, &y, 0, "embedding_forward");
        op_embedding_backward(c->cuda, grad_table.cuda, grad.cuda, ids.cuda);
        op_embedding_backward(c->cpu, grad_table.cpu, grad.cpu, ids.cpu);
        both_check(c, &grad_table, in_sums(n), "embedding_backward");
        struct both targets = both_integers(c, n, -1, (int32_t)vocab),
                    logits = both_random(c, n, vocab, 8, "logits");
        struct both loss = both_values(c, 1, 1, DTYPE_F64, (const double[]){2.5});
        op_cross_entropy(c->cuda, logits.cuda, targets.cuda, loss.cuda, 0.25, 3);
        op_cross_entropy(c->cpu, logits.cpu, targets.cpu, loss.cpu, 0.25, 3);
        both_check(c, &logits, bf16_or(c, 1, 1e4), "cross_entropy");
        both_check_within(c, &loss, within(c, 1e-5), "cross_entropy's loss");
        struct both scores = both_random(c, n, vocab, 2, "scores"), weights = both_random_sums(c, n, 1, "weights");
        struct both log_prob = both_poisoned_sums(c, n, 1), logsumexp = both_poisoned_sums(c, n, 1);
        op_log_prob(c->cuda, log_prob.cuda, logsumexp.cuda, scores.cuda, targets.cuda);
        op_log_prob(c->cpu, log_prob.cpu, logsumexp.cpu, scores.cpu, targets.cpu);
        both_check(c, &log_prob, 64, "log_prob");
        both_check(c, &logsumexp, 64, "log_prob's logsumexp");
        op_objective_rows(c->cuda, ROW_DFT, log_prob.cuda, loss.cuda, log_prob.cuda, weights.cuda, targets.cuda,
                          0.25, 3);
        op_objective_rows(c->cpu, ROW_DFT, log_prob.cpu, loss.cpu, log_prob.cpu, weights.cpu, targets.cpu, 0.25, 3);
        both_check(c, &log_prob, 1024, "objective_rows");
        both_check_within(c, &loss, within(c, 1e-5), "objective_rows' loss");
        op_log_prob_backward(c->cuda, scores.cuda, logsumexp.cuda, targets.cuda, log_prob.cuda);
        op_log_prob_backward(c->cpu, scores.cpu, logsumexp.cpu, targets.cpu, log_prob.cpu);
        both_check(c, &scores, bf16_or(c, 1, 1e4), "log_prob_backward");
        struct both *all[] = {&ids,    &table, &y,      &grad,    &grad_table, &targets,
                              &logits, &loss,  &scores, &weights, &log_prob,   &logsumexp};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            both_free(c, all[i]);
        }
    }
}

static void check_adamw(struct compare *c)
{
    struct both w = both_random(c, 37, 501, 1, "w"), g = both_random_sums(c, 37, 501, "g");
    struct both m = both_random_sums(c, 37, 501, "m"), v = both_random_sums(c, 37, 501, "v");
    op_zero(c->cuda, v.cuda); // never negative
    op_zero(c->cpu, v.cpu);
    for (size_t t = 1; t <= 3; t++) {
        op_adamw(c->cuda, w.cuda, g.cuda, m.cuda, v.cuda, 0.01, 0.9, 0.999, 1e-8, 0.1, t);
        op_adamw(c->cpu, w.cpu, g.cpu, m.cpu, v.cpu, 0.01, 0.9, 0.999, 1e-8, 0.1, t);
    }
    both_check(c, &w, bf16_or(c, 2, 1e4), "adamw");
    both_check(c, &m, 64, "adamw's first moment");
    both_check(c, &v, 64, "adamw's second moment");
    both_free(c, &w);
    both_free(c, &g);
    both_free(c, &m);
    both_free(c, &v);
}

// ---- attention

struct span {
    size_t start, count; // count 0: there is none
};

static void check_attention(struct compare *c, struct attention_shape s, struct span first, struct span second)
{
    if (too_large(s.batch * s.heads * s.queries * (s.start + s.queries))) {
        return;
    }
    size_t rows = s.queries * s.batch, keys = (s.start + s.queries) * s.batch;
    size_t q_cols = s.heads * s.head_dim, k_cols = s.kv_heads * s.head_dim;
    struct both q = both_random(c, rows, q_cols, 1, "q"), k = both_random(c, keys, k_cols, 1, "k");
    struct both v = both_random(c, keys, k_cols, 1, "v"), o = both_poisoned(c, rows, q_cols);
    struct both logsumexp = both_poisoned_sums(c, rows, s.heads);
    struct both grad = both_random(c, rows, q_cols, 1, "grad_o"), grads[4] = {0};
    struct key_segment cuda[2], cpu[2];
    size_t count = 0;
    char what[200];
    snprintf(what, sizeof what, "queries %zu start %zu batch %zu heads %zu:%zu of %zu%s%s", s.queries, s.start,
             s.batch, s.heads, s.kv_heads, s.head_dim, c->cuda->deterministic ? " deterministic" : "",
             c->cuda->reverse_sums ? " reversed" : "");
    for (struct span *span = (struct span[]){first, second, {0, 0}}; span->count; span++, count++) {
        struct both *pair = &grads[2 * count];
        pair[0] = both_random_sums(c, span->count * s.batch, k_cols, "grad_k");
        pair[1] = both_random_sums(c, span->count * s.batch, k_cols, "grad_v");
        cuda[count] = (struct key_segment){span->start, span->count, pair[0].cuda, pair[1].cuda};
        cpu[count] = (struct key_segment){span->start, span->count, pair[0].cpu, pair[1].cpu};
    }
    op_attention_forward(c->cuda, s, o.cuda, logsumexp.cuda, q.cuda, k.cuda, v.cuda);
    op_attention_forward(c->cpu, s, o.cpu, logsumexp.cpu, q.cpu, k.cpu, v.cpu);
    both_check(c, &o, bf16_or(c, 2, 1e4), "attention_forward %s", what);
    both_check_within(c, &logsumexp, within(c, 1e-4), "attention_forward's logsumexp %s", what);
    both_adopt(c, &o); // the backward is checked on its own
    both_adopt(c, &logsumexp);
    op_attention_backward(c->cuda, s, grad.cuda, cuda, count, grad.cuda, o.cuda, logsumexp.cuda, q.cuda, k.cuda,
                          v.cuda);
    op_attention_backward(c->cpu, s, grad.cpu, cpu, count, grad.cpu, o.cpu, logsumexp.cpu, q.cpu, k.cpu, v.cpu);
    both_check(c, &grad, bf16_or(c, 2, 1e4), "attention_backward's grad_q %s", what);
    for (size_t i = 0; i < 2 * count; i++) {
        both_check_within(c, &grads[i], within(c, 2 * dtype_epsilon(DTYPE_BF16)),
                          "attention_backward's grad_%s of segment %zu %s", i % 2 ? "v" : "k", i / 2, what);
        both_free(c, &grads[i]);
    }
    struct both *all[] = {&q, &k, &v, &o, &logsumexp, &grad};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        both_free(c, all[i]);
    }
}

static void check_attentions(struct compare *c)
{
    static const size_t heads[][3] = {{4, 2, 32}, {8, 2, 128}, {4, 4, 64}, {14, 2, 64}, {3, 1, 40}, {4, 2, 6}};
    static const size_t spans[][2] = {{1, 0}, {1, 70}, {5, 3}, {64, 0}, {129, 63}, {300, 211}, {513, 1}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        for (size_t j = 0; j < sizeof spans / sizeof *spans; j++) {
            size_t queries = spans[j][0], start = spans[j][1];
            struct attention_shape s = {queries, start, 1 + j % 3, heads[i][0], heads[i][1], heads[i][2]};
            check_attention(c, s, (struct span){0, start + queries}, (struct span){0});
            check_attention(c, s, (struct span){start, queries}, (struct span){0});
            if (start > 2) { // a gap, and a segment that ends among the queries
                check_attention(c, s, (struct span){1, start / 2}, (struct span){start - 1, 1 + (queries + 1) / 2});
            }
            if (j % 2) {
                c->cuda->deterministic = true;
                check_attention(c, s, (struct span){0, start + queries}, (struct span){0});
                c->cuda->deterministic = false;
                c->cuda->reverse_sums = true;
                check_attention(c, s, (struct span){start, queries}, (struct span){0});
                c->cuda->reverse_sums = false;
            }
        }
    }
    // Beyond one block of queries and one of keys.
    enum { Q = CUDA_ATTENTION_QUERIES, K = CUDA_ATTENTION_KEYS };
    static const size_t longer[][2] = {
        {Q, K}, {Q + Q / 4 - 1, 0}, {Q + 1, Q - 1}, {Q / 4, 2 * K - Q / 4 + 1}, {2 * Q + 1, 100}};
    for (size_t j = 0; j < sizeof longer / sizeof *longer; j++) {
        size_t queries = longer[j][0], start = longer[j][1];
        struct attention_shape s = {queries, start, 1, 4, 2, 64};
        check_attention(c, s, (struct span){0, start + queries}, (struct span){0});
        check_attention(c, s, (struct span){start / 3, start / 3}, (struct span){start, queries});
    }
}

int main(int argc, char **argv)
{
    environment_settle(argv);
    setvbuf(stdout, NULL, _IOLBF, 0); // a run that is cut off has said what it found
    const char *name = argc > 1 ? argv[1] : "cuda";
    largest = argc > 2 ? strtod(argv[2], NULL) : INFINITY;
    static const struct {
        const char *name;
        void (*run)(struct compare *compare);
    } checks[] = {{"copies", check_copies},       {"random", check_random}, {"gemm", check_gemm},
                  {"tf32", check_tf32},           {"rows", check_rows},     {"rope", check_rope},
                  {"swiglu", check_swiglu},       {"head", check_head},     {"adamw", check_adamw},
                  {"attention", check_attentions}};
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_F32, DTYPE_F64}; // in order of worth
    size_t failures = 0, opened = 0, wanted = 0;
    for (size_t d = 0; d < 3; d++) {
        struct compare compare;
        if (argc > 3 && strcmp(argv[3], dtype_name(dtypes[d])) != 0) {
            continue;
        }
        wanted++;
        if (!compare_open(&compare, name, dtypes[d])) {
            continue;
        }
        opened++;
        for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
            size_t failed = compare.failures, checked = compare.checks;
            checks[i].run(&compare);
            printf("%-5s %-10s %4zu checks, %zu failed\n", dtype_name(dtypes[d]), checks[i].name,
                   compare.checks - checked, compare.failures - failed);
        }
        failures += compare.failures;
        compare_close(&compare);
    }
    if (left_out) {
        printf("%zu operations left out: more than %g results\n", left_out, largest);
    }
    printf("operations: %s\n", opened == 0 ? "not run" : failures ? "FAILED" : "passed");
    return opened == 0 || opened < wanted || failures > 0;
}
