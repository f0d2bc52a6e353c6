// Speed of single operations of a device, through the same fronts the methods use: bench_ops [DEVICE [small]].
// Timed by the device's own clock, where it has one, around a batch of calls. Rates are of the FLOPs and bytes that
// the device counts itself (counted FLOPs: methods/README.md). `of_ceiling` is the share of what this machine
// reaches at best, measured before a dtype's first operation: the rate of a large GEMM in the same dtype for what
// computes, that of a large copy for what moves. Filter with --benchmark_filter=attention.
// --benchmark_out=FILE is whole JSON after every benchmark, whenever this is stopped. small: shapes that show that
// everything runs, and no rate.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers" // {0} is complete in C
extern "C" {
#include "harness/machine/environment.h"
#include "harness/machine/watch.h"
#include "kernels/cuda/workspace.h"
#include "kernels/device/ops.h"
#include "kernels/measure/timer.h"
}
#pragma GCC diagnostic pop
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cblas.h>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <omp.h>
#include <string>
#include <vector>

namespace
{

const char *chosen = "cpu"; // device
bool on_cuda, small;
struct ceilings {
    double flops_per_s, bytes_per_s;
} ceilings[DTYPE_COUNT];
constexpr size_t BLOCK = (size_t)1 << 22; // of random numbers, again and again: more take minutes to draw

// A device with tensors of random values, which live as long as it does.
class Bench
{
  public:
    explicit Bench(enum dtype dtype) : dtype(dtype)
    {
        struct status status = {};
        device = device_open(chosen, dtype, 0, &status);
        if (!device) {
            fprintf(stderr, "%s\n", status.message);
            exit(2);
        }
    }
    ~Bench()
    {
        for (struct tensor &t : tensors)
            tensor_free(device, &t);
        device_close(device);
    }
    Bench(const Bench &) = delete;

    struct tensor random(size_t rows, size_t cols)
    {
        return make(rows, cols, dtype, [this] { return next(); });
    }
    struct tensor sums(size_t rows, size_t cols) // accumulators: f32 above bf16
    {
        return make(rows, cols, dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32, [this] { return next(); });
    }
    struct tensor make(size_t rows, size_t cols, enum dtype of, const std::function<double()> &value)
    {
        struct tensor t = tensor_new(device, rows, cols, of, CATEGORY_ACTIVATIONS);
        tensors.push_back(t);
        if (t.data) {
            size_t done = std::min(rows, std::max<size_t>(BLOCK / cols, 1));
            std::vector<double> values(done * cols);
            std::generate(values.begin(), values.end(), value);
            tensor_write(device, tensor_rows(t, 0, done), values.data());
            for (size_t count; done < rows; done += count) { // by the device itself, twice as much every time
                count = std::min(done, rows - done);
                op_copy(device, tensor_rows(t, done, count), tensor_rows(t, 0, count));
            }
        }
        return t;
    }

    // Milliseconds per call of `operation`, over `calls` in a row.
    double time_ms(const std::function<void()> &operation, int calls)
    {
        device_timer_start(device);
        for (int i = 0; i < calls; i++)
            operation();
        return device_timer_stop_ms(device) / calls;
    }

    // prepare: what has to be done before every call, untimed; then calls are timed one by one.
    void measure(benchmark::State &state, const std::function<void()> &operation,
                 const std::function<void()> &prepare = {})
    {
        const double batch_ms = on_cuda ? 2 : 20;
        if (prepare)
            prepare();
        device->counters = {};
        operation(); // algorithms are chosen, graphs built
        struct counters once = device->counters;
        int calls = prepare ? 1 : std::clamp((int)(batch_ms / (time_ms(operation, 1) + 1e-3)), 1, 100);
        for (auto _ : state) {
            if (prepare)
                prepare();
            state.SetIterationTime(time_ms(operation, calls) * 1e-3);
        }
        if (device->status.code != STATUS_OK)
            state.SkipWithError(device->status.message);
        using benchmark::Counter;
        const struct ceilings &best = ceilings[dtype];
        if (once.flops > 0) {
            state.counters["GFLOP/s"] = Counter(once.flops * 1e-9, Counter::kIsIterationInvariantRate);
            state.counters["of_ceiling"] =
                Counter(once.flops / best.flops_per_s, Counter::kIsIterationInvariantRate);
        } else {
            state.counters["GB/s"] = Counter(once.bytes_moved * 1e-9, Counter::kIsIterationInvariantRate);
            state.counters["of_ceiling"] =
                Counter(once.bytes_moved / best.bytes_per_s, Counter::kIsIterationInvariantRate);
        }
    }

    const enum dtype dtype;
    struct device *device;

  private:
    double next() // in (-1, 1)
    {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        return (double)(int64_t)random_state * 0x1p-63;
    }
    uint64_t random_state = 1;
    std::vector<struct tensor> tensors;
};

struct ceilings measure_ceilings(enum dtype dtype)
{
    Bench b(dtype);
    struct ceilings best = {};
    size_t n = small ? 128 : !on_cuda ? 2048 : dtype == DTYPE_BF16 ? 8192 : 4096;
    {
        struct tensor x = b.random(n, n), w = b.random(n, n), y = b.random(n, n);
        for (int i = 0; i < 5; i++) {
            double ms =
                b.time_ms([&] { op_gemm(b.device, y, x, NO_TRANSPOSE, w, TRANSPOSE, 1, 0); }, on_cuda ? 10 : 1);
            best.flops_per_s = std::max(best.flops_per_s, 2.0 * (double)(n * n * n) / ms * 1e3);
        }
    }
    size_t bytes = (size_t)1 << (small ? 20 : on_cuda ? 30 : 28); // far above any cache, unless small
    struct tensor from = b.random(bytes / dtype_bytes(dtype) / 1024, 1024);
    struct tensor to = tensor_new(b.device, from.rows, from.cols, dtype, CATEGORY_ACTIVATIONS);
    for (int i = 0; i < 5; i++) {
        double ms = b.time_ms([&] { op_copy(b.device, to, from); }, on_cuda ? 5 : 1);
        best.bytes_per_s = std::max(best.bytes_per_s, 2.0 * (double)bytes / ms * 1e3);
    }
    tensor_free(b.device, &to);
    return best;
}

// Measures the ceilings of a dtype when it is first asked for, and notes them and the device.
void find_ceilings(enum dtype dtype)
{
    if (ceilings[dtype].flops_per_s > 0)
        return;
    ceilings[dtype] = measure_ceilings(dtype);
    benchmark::AddCustomContext(std::string("ceiling_") + dtype_name(dtype),
                                std::to_string(ceilings[dtype].flops_per_s * 1e-9) + " GFLOP/s, " +
                                    std::to_string(ceilings[dtype].bytes_per_s * 1e-9) + " GB/s");
}

enum dtype added; // the dtype that benchmarks are added for

void add(const std::string &name, const std::function<void(benchmark::State &, Bench &)> &body)
{
    benchmark::RegisterBenchmark((name + "/" + dtype_name(added)).c_str(),
                                 [body, dtype = added](benchmark::State &state) {
                                     find_ceilings(dtype);
                                     Bench bench(dtype);
                                     body(state, bench);
                                 })
        ->UseManualTime()
        ->Iterations(5) // of a batch of calls each; more would fill the tensors anew
        ->Unit(benchmark::kMillisecond);
}

// The three products of a linear layer: y = x W^T, grad_x = grad_y W, grad_W += grad_y^T x.  W: [out, in].
void add_gemm(size_t tokens, size_t in, size_t out)
{
    std::string shape =
        "/tokens=" + std::to_string(tokens) + "/in=" + std::to_string(in) + "/out=" + std::to_string(out);
    add("gemm_forward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor x = b.random(tokens, in), w = b.random(out, in), y = b.random(tokens, out);
        b.measure(state, [&] { op_gemm(b.device, y, x, NO_TRANSPOSE, w, TRANSPOSE, 1, 0); });
    });
    add("gemm_grad_x" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor grad_x = b.random(tokens, in), w = b.random(out, in), grad_y = b.random(tokens, out);
        b.measure(state, [&] { op_gemm(b.device, grad_x, grad_y, NO_TRANSPOSE, w, NO_TRANSPOSE, 1, 0); });
    });
    add("gemm_grad_weight" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor x = b.random(tokens, in), grad_w = b.sums(out, in), grad_y = b.random(tokens, out);
        b.measure(state, [&] { op_gemm(b.device, grad_w, grad_y, TRANSPOSE, x, NO_TRANSPOSE, 1, 1); });
    });
}

// LoRA's two products over x, as GEMMs and in one pass: u = x A^T, grad_A += grad_u^T x.  A: [rank, in].
void add_low_rank(size_t tokens, size_t in, size_t rank)
{
    for (bool unfused : {true, false}) {
        std::string name = std::string(unfused ? "low_rank_by_gemm" : "low_rank") +
                           "/tokens=" + std::to_string(tokens) + "/in=" + std::to_string(in) +
                           "/rank=" + std::to_string(rank);
        add(name, [=](benchmark::State &state, Bench &b) {
            struct tensor x = b.random(tokens, in), a = b.random(rank, in), grad_a = b.sums(rank, in);
            struct tensor u = b.random(tokens, rank), grad_u = b.random(tokens, rank);
            b.device->unfused = unfused;
            b.measure(state, [&] { op_low_rank(b.device, u, grad_a, x, a, TRANSPOSE, grad_u, 1); });
        });
    }
}

// A large product for as long as a card needs to reach its power limit: what it sustains, at which clock and power.
void add_sustained(size_t n, double seconds)
{
    add("gemm_sustained/n=" + std::to_string(n), [=](benchmark::State &state, Bench &b) {
        struct tensor x = b.random(n, n), w = b.random(n, n), y = b.random(n, n);
        std::function<void()> product = [&] { op_gemm(b.device, y, x, NO_TRANSPOSE, w, TRANSPOSE, 1, 0); };
        int calls = (int)(seconds * 1e3 / (b.time_ms(product, 10) + 1e-3)) + 1;
        struct watch *watch = watch_open(b.device);
        struct watch_report seen = {};
        for (auto _ : state) { // the last iteration's sensors
            watch_start(watch);
            double ms = b.time_ms(product, calls);
            watch_stop(watch, &seen);
            state.SetIterationTime(ms * 1e-3);
            if (watch && seen.sm_clock_median_mhz > 0) // else the file would have NaN, which JSON has not
                state.counters["MHz"] = seen.sm_clock_median_mhz;
            if (watch && seen.energy_j > 0)
                state.counters["W"] = seen.energy_j / (ms * 1e-3 * calls);
        }
        watch_close(watch);
        using benchmark::Counter;
        state.counters["GFLOP/s"] = Counter(2e-9 * (double)(n * n * n), Counter::kIsIterationInvariantRate);
        state.counters["of_ceiling"] =
            Counter(2 * (double)(n * n * n) / ceilings[b.dtype].flops_per_s, Counter::kIsIterationInvariantRate);
    });
}

void add_attention(struct attention_shape s, bool every_key)
{
    std::string shape =
        "/queries=" + std::to_string(s.queries) + "/start=" + std::to_string(s.start) +
        "/heads=" + std::to_string(s.heads) + ":" + std::to_string(s.kv_heads) +
        "/head_dim=" + std::to_string(s.head_dim) + (s.keys ? "/keys=" + std::to_string(s.keys) : "") +
        (s.mask.window ? "/window=" + std::to_string(s.mask.window) : "") + (every_key ? "" : "/own_keys");
    size_t rows = s.queries * s.batch, keys = attention_keys(s) * s.batch;
    size_t q_cols = s.heads * s.head_dim, k_cols = s.kv_heads * s.head_dim;
    if (every_key)
        add("attention_forward" + shape, [=](benchmark::State &state, Bench &b) {
            struct tensor q = b.random(rows, q_cols), k = b.random(keys, k_cols), v = b.random(keys, k_cols);
            struct tensor o = b.random(rows, q_cols), logsumexp = b.sums(rows, s.heads);
            b.measure(state, [&] { op_attention_forward(b.device, s, o, logsumexp, q, k, v); });
        });
    add("attention_backward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor q = b.random(rows, q_cols), k = b.random(keys, k_cols), v = b.random(keys, k_cols);
        struct tensor o = b.random(rows, q_cols), logsumexp = b.sums(rows, s.heads);
        struct tensor grad_o = b.random(rows, q_cols), grad_q = b.random(rows, q_cols);
        size_t first = every_key ? 0 : s.start, count = attention_keys(s) - first;
        struct key_segment taking = {
            first, count, b.sums(count * s.batch, k_cols), b.sums(count * s.batch, k_cols), {}};
        op_attention_forward(b.device, s, o, logsumexp, q, k, v);
        b.measure(state, [&] {
            op_attention_backward(b.device, s, grad_q, false, &taking, 1, grad_o, o, logsumexp, q, k, v);
        });
    });
}

// Gated DeltaNet's rule, its convolution and its gates.
void add_delta(size_t tokens, size_t key_heads, size_t heads, size_t dim)
{
    struct delta_shape s = {{tokens, 0, 1, {}}, key_heads, heads, dim, dim};
    std::string shape = "/tokens=" + std::to_string(tokens) + "/heads=" + std::to_string(heads) + ":" +
                        std::to_string(key_heads) + "/head_dim=" + std::to_string(dim);
    size_t width = (2 * key_heads + heads) * dim, values = heads * dim;
    // A tenth is forgotten in a token, at most.
    auto decays = [=](Bench &b) {
        return b.make(tokens, heads, b.sums(1, 1).dtype,
                      [i = 0]() mutable { return -0.1 * (double)(i++ * 7919 % 1000) * 1e-3; });
    };
    auto betas = [=](Bench &b) { return b.make(tokens, heads, b.sums(1, 1).dtype, [] { return 0.5; }); };
    add("delta_rule_forward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor qkv = b.random(tokens, width), o = b.random(tokens, values), decay = decays(b);
        struct tensor beta = betas(b), carry = b.sums(heads, dim * dim);
        b.measure(state, [&] { op_delta_rule_forward(b.device, s, o, carry, tensor_none(), qkv, decay, beta); });
    });
    add("delta_rule_backward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor qkv = b.random(tokens, width), grad_o = b.random(tokens, values), decay = decays(b);
        struct tensor beta = betas(b), carry = b.sums(heads, dim * dim), grad_carry = b.sums(heads, dim * dim);
        struct tensor grad_qkv = b.random(tokens, width), grad_decay = betas(b), grad_beta = betas(b);
        b.measure(state, [&] {
            op_delta_rule_backward(b.device, s, grad_qkv, grad_decay, grad_beta, grad_carry, tensor_none(), grad_o,
                                   carry, tensor_none(), qkv, decay, beta);
        });
    });
    add("short_conv_forward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor x = b.random(tokens, width), y = b.random(tokens, width), tail = b.random(3, width);
        struct tensor weight = b.random(width, 4);
        b.measure(state, [&] { op_short_conv_forward(b.device, s.run, y, x, tail, tensor_none(), weight); });
    });
    add("short_conv_backward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor x = b.random(tokens, width), grad_y = b.random(tokens, width), tail = b.random(3, width);
        struct tensor grad_x = b.random(tokens, width), grad_tail = b.sums(3, width);
        struct tensor weight = b.random(width, 4), grad_weight = b.sums(width, 4);
        b.measure(state, [&] {
            op_short_conv_backward(b.device, s.run, grad_x, grad_tail, tensor_none(), grad_weight, grad_y, x, tail,
                                   tensor_none(), weight);
        });
    });
    add("delta_gates_forward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor x = b.random(tokens, heads), of_b = b.random(tokens, heads), decay = decays(b);
        struct tensor beta = betas(b), a_log = b.random(1, heads), dt_bias = b.random(1, heads);
        b.measure(state, [&] { op_delta_gates_forward(b.device, decay, beta, x, of_b, a_log, dt_bias, 1); });
    });
    add("delta_gates_backward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor x = b.random(tokens, heads), of_b = b.random(tokens, heads), decay = decays(b);
        struct tensor beta = betas(b), a_log = b.random(1, heads), dt_bias = b.random(1, heads);
        struct tensor grad_a = b.random(tokens, heads), grad_b = b.random(tokens, heads);
        struct tensor grad_a_log = b.sums(1, heads), grad_dt_bias = b.sums(1, heads);
        b.measure(state, [&] {
            op_delta_gates_backward(b.device, grad_a, grad_b, grad_a_log, grad_dt_bias, decay, beta, x, of_b, a_log,
                                    dt_bias, 1);
        });
    });
}

void add_rows(size_t tokens, size_t d)
{
    std::string shape = "/tokens=" + std::to_string(tokens) + "/width=" + std::to_string(d);
    add("rmsnorm_forward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor x = b.random(tokens, d), y = b.random(tokens, d), gain = b.random(1, d);
        struct tensor rstd = b.sums(tokens, 1);
        b.measure(state, [&] { op_rmsnorm_forward(b.device, y, rstd, x, gain, {0, 1e-6, false}); });
    });
    add("rmsnorm_backward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor x = b.random(tokens, d), y = b.random(tokens, d), gain = b.random(1, d);
        struct tensor rstd = b.sums(tokens, 1), grad_x = b.random(tokens, d), grad_gain = b.sums(1, d);
        op_rmsnorm_forward(b.device, y, rstd, x, gain, {0, 1e-6, false});
        b.measure(state, [&] {
            op_rmsnorm_backward(b.device, grad_x, false, grad_gain, y, x, gain, {0, 1e-6, false}, rstd);
        });
    });
    add("swiglu_forward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor gate = b.random(tokens, d), up = b.random(tokens, d), y = b.random(tokens, d);
        b.measure(state, [&] { op_swiglu_forward(b.device, y, gate, up, ACTIVATION_SILU); });
    });
    add("swiglu_backward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor inputs[3] = {b.random(tokens, d), b.random(tokens, d), b.random(tokens, d)};
        struct tensor gate = b.random(tokens, d), up = b.random(tokens, d), grad_y = b.random(tokens, d);
        b.measure(
            state, [&] { op_swiglu_backward(b.device, gate, up, grad_y, ACTIVATION_SILU); },
            [&] { // it works in place, again and again towards numbers that are slow to compute with
                op_copy(b.device, gate, inputs[0]);
                op_copy(b.device, up, inputs[1]);
                op_copy(b.device, grad_y, inputs[2]);
            });
    });
    add("rope" + shape, [=](benchmark::State &state, Bench &b) {
        const size_t head_dim = 128;
        size_t pair = 0;
        struct tensor x = b.random(tokens, d);
        struct tensor frequencies = b.make(1, head_dim / 2, DTYPE_F64,
                                           [&] { return std::pow(5e5, -2.0 * (double)pair++ / (double)head_dim); });
        b.measure(state, [&] { op_rope(b.device, x, frequencies, {head_dim, false, 1}, 4096, 1, documents{}, 1); });
    });
    add("copy_from_sums" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor from = b.sums(tokens, d), to = b.random(tokens, d);
        b.measure(state, [&] { op_copy(b.device, to, from); });
    });
}

void add_head(size_t tokens, size_t d, size_t vocabulary)
{
    std::string shape = "/tokens=" + std::to_string(tokens) + "/width=" + std::to_string(d) +
                        "/vocabulary=" + std::to_string(vocabulary);
    add("cross_entropy" + shape, [=](benchmark::State &state, Bench &b) {
        size_t token = 0;
        struct tensor logits = b.random(tokens, vocabulary);
        struct tensor targets = b.make(tokens, 1, DTYPE_I32, [&] { return (double)(token++ * 7919 % vocabulary); });
        struct tensor loss = b.make(1, 1, DTYPE_F64, [] { return 0; });
        b.measure(state, [&] { op_cross_entropy(b.device, logits, targets, loss, 1, 1, 0); });
    });
    add("embedding_backward" + shape, [=](benchmark::State &state, Bench &b) {
        size_t token = 0;
        struct tensor grad_table = b.sums(vocabulary, d), grad_y = b.random(tokens, d);
        struct tensor ids = b.make(tokens, 1, DTYPE_I32, [&] { return (double)(token++ * 7919 % vocabulary); });
        b.measure(state, [&] { op_embedding_backward(b.device, grad_table, grad_y, ids, -1); });
    });
    add("adamw/count=" + std::to_string(tokens * d), [=](benchmark::State &state, Bench &b) {
        struct tensor w = b.random(tokens, d), g = b.sums(tokens, d), m = b.sums(tokens, d);
        struct tensor v = b.make(tokens, d, g.dtype, [] { return 0.5; });
        const struct adam_step step = {1e-4, 0.9, 0.999, 1e-8, 0.1, 1, ADAM_TORCH, {}, false};
        b.measure(state, [&] { op_adamw(b.device, w, tensor_none(), g, m, v, &step); });
    });
}

void add_small()
{
    add_gemm(64, 32, 48);
    add_low_rank(64, 32, 8);
    add_sustained(64, 1e-3);
    add_attention({32, 0, 1, 4, 2, 16, 0, {}, 0, 0}, true);
    add_attention({16, 48, 1, 4, 2, 16, 0, {}, 0, 0}, false);
    add_attention({16, 48, 1, 4, 2, 16, 0, {20, {}}, 0, 0}, true);
    add_attention({16, 48, 1, 4, 2, 16, 48, {}, 0, 0}, true);
    add_delta(80, 1, 2, 32);
    add_rows(32, 256);
    add_head(16, 32, 100);
}

void add_cpu()
{
    add_gemm(2048, 512, 512); // a small model's projections and feed-forward
    add_gemm(2048, 512, 1408);
    add_gemm(512, 4096, 1024);                                   // a chunk through Llama-3-8B's key projection
    add_attention({2048, 0, 1, 8, 4, 64, 0, {}, 0, 0}, true);    // a whole context
    add_attention({2048, 0, 1, 8, 8, 64, 0, {}, 0, 0}, true);    // as many key heads as query heads
    add_attention({256, 4096, 1, 8, 2, 128, 0, {}, 0, 0}, true); // a chunk against a long prefix
    add_delta(2048, 2, 4, 128);
    add_rows(2048, 1408);
    add_head(256, 512, 32000);
}

// Llama-3-8B, chunks of 2048 tokens and of 512.
void add_cuda()
{
    add_gemm(2048, 4096, 14336);
    add_gemm(2048, 4096, 1024);
    add_gemm(512, 4096, 4096);
    add_gemm(1024, 4096, 8); // LoRA
    if (added == DTYPE_BF16) {
        add_sustained(8192, 0.4); // five times
        add_gemm(128, 4096, 4096);
        add_gemm(128, 4096, 14336);
        add_gemm(2048, 4096, 8); // LoRA
        add_gemm(2048, 8, 4096);
        add_low_rank(128, 4096, 8);
        add_low_rank(2048, 4096, 8);
        add_low_rank(2048, 14336, 32);
        for (size_t rows = 256; rows <= 2048; rows *= 2) // blocks of logits
            if (rows != 512)
                add_gemm(rows, 4096, 128256);
        add_attention({128, 32640, 1, 32, 8, 128, 0, {}, 0, 0}, true);
        add_attention({256, 32512, 1, 32, 8, 128, 0, {}, 0, 0}, true);
        add_attention({2048, 0, 1, 32, 8, 128, 0, {}, 0, 0}, true); // the first chunk of a context
        add_attention({2048, 30720, 1, 32, 8, 128, 0, {}, 0, 0}, true);
        add_attention({2048, 129024, 1, 32, 8, 128, 0, {}, 0, 0}, true); // the last one
        add_attention({2048, 30720, 1, 32, 8, 128, 0, {}, 0, 0}, false); // spaco: gradients for its own keys alone
        add_attention({512, 32256, 1, 32, 8, 128, 0, {}, 0, 0}, true);
        add_attention({32768, 0, 1, 32, 8, 128, 0, {}, 0, 0}, true);            // a context at once
        add_attention({2048, 30720, 1, 32, 8, 128, 0, {4096, {}}, 0, 0}, true); // Mistral's window
        add_attention({2048, 30720, 1, 8, 4, 256, 0, {}, 0, 0}, true);          // Gemma's heads
        add_attention({2048, 32768, 1, 32, 8, 128, 32768, {}, 0, 0}, true);     // another rank's keys
        add_delta(2048, 16, 32, 128);                                           // Qwen3.5-9B's chunk, and 27B's
        add_delta(8192, 16, 48, 128);
    } else {
        add_attention({1024, 3072, 1, 8, 2, 128, 0, {}, 0, 0}, true);
    }
    if (added != DTYPE_F64) {
        add_rows(8192, 4096);
        add_head(1024, 4096, 128256);
    }
}

void describe_machine()
{
    Bench b(on_cuda ? DTYPE_F32 : DTYPE_BF16);
    benchmark::AddCustomContext("device", b.device->description);
    if (on_cuda) { // in bf16
        benchmark::AddCustomContext("masked_attention",
                                    cuda_masks_by_own_kernels(b.device) ? "own kernels" : "cuDNN");
        benchmark::AddCustomContext("head_sums", b.device->unfused ? "cuDNN" : "own kernels");
        benchmark::AddCustomContext("attention_keys", "ranges");
        Bench narrow(DTYPE_BF16);
        benchmark::AddCustomContext("delta_rule",
                                    cuda_delta_takes_tensor_cores(narrow.device) ? "tensor cores" : "scalar units");
    } else {
        benchmark::AddCustomContext("blas", openblas_get_config());
        benchmark::AddCustomContext("threads", std::to_string(omp_get_max_threads()));
    }
}

// The results so far, in a file that is replaced as a whole after every benchmark.
class Written : public benchmark::ConsoleReporter
{
  public:
    explicit Written(const std::string &path) : ConsoleReporter(OO_None), path(path) {}
    bool ReportContext(const Context &of) override
    {
        context = &of; // lives as long as the benchmarks run
        return ConsoleReporter::ReportContext(of);
    }
    void ReportRuns(const std::vector<Run> &report) override
    {
        ConsoleReporter::ReportRuns(report);
        all.push_back(report);
        std::ofstream file(path + ".new");
        benchmark::JSONReporter json;
        json.SetOutputStream(&file);
        json.ReportContext(*context);
        for (const std::vector<Run> &runs : all)
            json.ReportRuns(runs);
        json.Finalize();
        file.close();
        if (!file || rename((path + ".new").c_str(), path.c_str()) != 0) {
            perror(path.c_str());
            exit(2);
        }
    }

  private:
    const std::string path;
    const Context *context = nullptr;
    std::vector<std::vector<Run>> all;
};

// The value of --benchmark_out, which is taken out of the arguments: the library's own file ends when all does.
std::string take_out(int *argc, char **argv)
{
    const std::string flag = "--benchmark_out=";
    std::string path;
    int kept = 0;
    for (int i = 0; i < *argc; i++) {
        if (strncmp(argv[i], flag.c_str(), flag.size()) == 0)
            path = argv[i] + flag.size();
        else
            argv[kept++] = argv[i];
    }
    argv[ *argc = kept] = nullptr;
    return path;
}

} // namespace

int main(int argc, char **argv)
{
    environment_settle(argv);
    std::string out = take_out(&argc, argv);
    benchmark::Initialize(&argc, argv);
    chosen = argc > 1 ? argv[1] : "cpu";
    on_cuda = strncmp(chosen, "cuda", 4) == 0;
    small = argc > 2 && strcmp(argv[2], "small") == 0;
    if (argc > 3 || (argc > 2 && !small) || (!on_cuda && strcmp(chosen, "cpu") != 0)) {
        fprintf(stderr,
                "usage: bench_ops [cpu|cuda|cuda:1 [small]] [--benchmark_filter=...] [--benchmark_out=FILE]\n");
        return 2;
    }
    describe_machine();
    for (enum dtype dtype : {DTYPE_BF16, DTYPE_F32, DTYPE_F64}) { // in order of worth
        added = dtype;
        small ? add_small() : on_cuda ? add_cuda() : add_cpu();
    }
    if (out.empty()) {
        benchmark::RunSpecifiedBenchmarks();
    } else {
        Written written(out);
        benchmark::RunSpecifiedBenchmarks(&written);
    }
    benchmark::Shutdown();
    return 0;
}
