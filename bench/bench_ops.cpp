// Speed of single operations of the CPU device, through the same fronts the methods use. FLOPs and bytes are those
// the device counts itself; `of_peak` is the share of what BLAS reaches on all threads with one large GEMM,
// measured when the program starts. Filter with --benchmark_filter=attention.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers" // {0} is complete in C
extern "C" {
#include "harness/run/environment.h"
#include "kernels/base/ops.h"
}
#pragma GCC diagnostic pop
#include <algorithm>
#include <benchmark/benchmark.h>
#include <cblas.h>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <omp.h>
#include <string>
#include <vector>

namespace
{

double peak_flops[DTYPE_COUNT]; // per second

double measured_peak(enum dtype dtype)
{
    const int n = dtype == DTYPE_F32 ? 2048 : 1536;
    std::vector<float> f32[3];
    std::vector<double> f64[3];
    for (int i = 0; i < 3; i++)
        dtype == DTYPE_F32 ? f32[i].assign((size_t)n * n, 0.5f) : f64[i].assign((size_t)n * n, 0.5);
    double best = 0;
    for (int sample = 0; sample < 6; sample++) {
        auto begin = std::chrono::steady_clock::now();
        if (dtype == DTYPE_F32)
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n, n, 1, f32[0].data(), n, f32[1].data(), n, 0,
                        f32[2].data(), n);
        else
            cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n, n, 1, f64[0].data(), n, f64[1].data(), n, 0,
                        f64[2].data(), n);
        std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
        best = std::max(best, 2.0 * n * n * n / seconds.count());
    }
    return best;
}

// A device with tensors of random values, which live as long as it does.
class Bench
{
  public:
    explicit Bench(enum dtype dtype) : dtype(dtype)
    {
        struct status status = {};
        device = device_open("cpu", dtype, 0, &status);
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
    struct tensor make(size_t rows, size_t cols, enum dtype of, const std::function<double()> &value)
    {
        struct tensor t = tensor_new(device, rows, cols, of, CATEGORY_ACTIVATIONS);
        tensors.push_back(t);
        if (t.data) {
            std::vector<double> values(rows * cols);
            std::generate(values.begin(), values.end(), value);
            tensor_write(device, t, values.data());
        }
        return t;
    }

    // Times `operation`, after `prepare` outside the timed region.
    void measure(
        benchmark::State &state, const std::function<void()> &operation,
        const std::function<void()> &prepare = [] {})
    {
        prepare();
        device->counters = {};
        operation();
        struct counters once = device->counters;
        for (auto _ : state) {
            state.PauseTiming();
            prepare();
            state.ResumeTiming();
            operation();
        }
        if (device->status.code != STATUS_OK)
            state.SkipWithError(device->status.message);
        using benchmark::Counter;
        if (once.flops > 0) {
            state.counters["GFLOP/s"] = Counter(once.flops * 1e-9, Counter::kIsIterationInvariantRate);
            state.counters["of_peak"] = Counter(once.flops / peak_flops[dtype], Counter::kIsIterationInvariantRate);
        } else {
            state.counters["GB/s"] = Counter(once.bytes_moved * 1e-9, Counter::kIsIterationInvariantRate);
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

void add(const std::string &name, const std::function<void(benchmark::State &, Bench &)> &body)
{
    for (enum dtype dtype : {DTYPE_F32, DTYPE_F64})
        benchmark::RegisterBenchmark((name + "/" + dtype_name(dtype)).c_str(),
                                     [body, dtype](benchmark::State &state) {
                                         Bench bench(dtype);
                                         body(state, bench);
                                     })
            ->UseRealTime()
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
        struct tensor x = b.random(tokens, in), grad_w = b.random(out, in), grad_y = b.random(tokens, out);
        b.measure(state, [&] { op_gemm(b.device, grad_w, grad_y, TRANSPOSE, x, NO_TRANSPOSE, 1, 1); });
    });
}

void add_attention(struct attention_shape s)
{
    std::string shape = "/queries=" + std::to_string(s.queries) + "/start=" + std::to_string(s.start) +
                        "/heads=" + std::to_string(s.heads) + ":" + std::to_string(s.kv_heads) +
                        "/head_dim=" + std::to_string(s.head_dim);
    size_t rows = s.queries * s.batch, keys = (s.start + s.queries) * s.batch;
    size_t q_cols = s.heads * s.head_dim, k_cols = s.kv_heads * s.head_dim;
    add("attention_forward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor q = b.random(rows, q_cols), k = b.random(keys, k_cols), v = b.random(keys, k_cols);
        struct tensor o = b.random(rows, q_cols), logsumexp = b.random(rows, s.heads);
        b.measure(state, [&] { op_attention_forward(b.device, s, o, logsumexp, q, k, v); });
    });
    add("attention_backward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor q = b.random(rows, q_cols), k = b.random(keys, k_cols), v = b.random(keys, k_cols);
        struct tensor o = b.random(rows, q_cols), logsumexp = b.random(rows, s.heads);
        struct tensor grad_o = b.random(rows, q_cols), grad_q = b.random(rows, q_cols);
        struct key_segment all = {0, s.start + s.queries, b.random(keys, k_cols), b.random(keys, k_cols)};
        op_attention_forward(b.device, s, o, logsumexp, q, k, v);
        b.measure(state,
                  [&] { op_attention_backward(b.device, s, grad_q, &all, 1, grad_o, o, logsumexp, q, k, v); });
    });
}

void add_rows(size_t tokens, size_t d)
{
    std::string shape = "/tokens=" + std::to_string(tokens) + "/width=" + std::to_string(d);
    add("rmsnorm_forward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor x = b.random(tokens, d), y = b.random(tokens, d), gain = b.random(1, d);
        struct tensor rstd = b.random(tokens, 1);
        b.measure(state, [&] { op_rmsnorm_forward(b.device, y, rstd, x, gain, 1e-6); });
    });
    add("rmsnorm_backward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor x = b.random(tokens, d), y = b.random(tokens, d), gain = b.random(1, d);
        struct tensor rstd = b.random(tokens, 1), grad_x = b.random(tokens, d), grad_gain = b.random(1, d);
        op_rmsnorm_forward(b.device, y, rstd, x, gain, 1e-6);
        b.measure(state, [&] { op_rmsnorm_backward(b.device, grad_x, false, grad_gain, y, x, gain, rstd); });
    });
    add("swiglu_forward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor gate = b.random(tokens, d), up = b.random(tokens, d), y = b.random(tokens, d);
        b.measure(state, [&] { op_swiglu_forward(b.device, y, gate, up); });
    });
    add("swiglu_backward" + shape, [=](benchmark::State &state, Bench &b) {
        struct tensor inputs[3] = {b.random(tokens, d), b.random(tokens, d), b.random(tokens, d)};
        struct tensor gate = b.random(tokens, d), up = b.random(tokens, d), grad_y = b.random(tokens, d);
        b.measure(
            state, [&] { op_swiglu_backward(b.device, gate, up, grad_y); },
            [&] { // it works in place
                op_copy(b.device, gate, inputs[0]);
                op_copy(b.device, up, inputs[1]);
                op_copy(b.device, grad_y, inputs[2]);
            });
    });
    add("rope" + shape, [=](benchmark::State &state, Bench &b) {
        const size_t head_dim = 64;
        size_t pair = 0;
        struct tensor x = b.random(tokens, d);
        struct tensor frequencies = b.make(1, head_dim / 2, DTYPE_F64,
                                           [&] { return std::pow(1e4, -2.0 * (double)pair++ / (double)head_dim); });
        b.measure(state, [&] { op_rope(b.device, x, frequencies, 4096, 1, 1); });
    });
}

// The head on one block of tokens: logits, loss and their gradient in place, dh, dW.
void add_head(size_t tokens, size_t d, size_t vocabulary)
{
    std::string shape = "/tokens=" + std::to_string(tokens) + "/width=" + std::to_string(d) +
                        "/vocabulary=" + std::to_string(vocabulary);
    struct inputs {
        struct tensor h, w, logits, targets, loss;
    };
    auto make = [=](Bench &b) {
        size_t token = 0;
        struct inputs in = {b.random(tokens, d), b.random(vocabulary, d), b.random(tokens, vocabulary), {}, {}};
        in.targets = b.make(tokens, 1, DTYPE_I32, [&] { return (double)(token++ * 7919 % vocabulary); });
        in.loss = b.make(1, 1, DTYPE_F64, [] { return 0; });
        return in;
    };
    add("cross_entropy" + shape, [=](benchmark::State &state, Bench &b) {
        struct inputs in = make(b);
        b.measure(state, [&] { op_cross_entropy(b.device, in.logits, in.targets, in.loss, 1, 1); });
    });
    add("head" + shape, [=](benchmark::State &state, Bench &b) {
        struct inputs in = make(b);
        struct tensor grad_h = b.random(tokens, d), grad_w = b.random(vocabulary, d);
        b.measure(state, [&] {
            op_gemm(b.device, in.logits, in.h, NO_TRANSPOSE, in.w, TRANSPOSE, 1, 0);
            op_cross_entropy(b.device, in.logits, in.targets, in.loss, 1, 1);
            op_gemm(b.device, grad_h, in.logits, NO_TRANSPOSE, in.w, NO_TRANSPOSE, 1, 0);
            op_gemm(b.device, grad_w, in.logits, TRANSPOSE, in.h, NO_TRANSPOSE, 1, 1);
        });
    });
}

} // namespace

int main(int argc, char **argv)
{
    environment_settle(argv);
    char short_run[] = "--benchmark_min_time=0.2"; // the caller's own, later, wins
    std::vector<char *> arguments(argv, argv + argc);
    arguments.insert(arguments.begin() + 1, short_run);
    int count = (int)arguments.size();
    benchmark::Initialize(&count, arguments.data());
    if (benchmark::ReportUnrecognizedArguments(count, arguments.data()))
        return 2;
    for (enum dtype dtype : {DTYPE_F32, DTYPE_F64}) {
        peak_flops[dtype] = measured_peak(dtype);
        benchmark::AddCustomContext(std::string("peak_") + dtype_name(dtype),
                                    std::to_string(peak_flops[dtype] * 1e-9) + " GFLOP/s");
    }
    benchmark::AddCustomContext("blas", openblas_get_config());
    benchmark::AddCustomContext("threads", std::to_string(omp_get_max_threads()));

    add_gemm(2048, 512, 512); // a small model's projections and feed-forward
    add_gemm(2048, 512, 1408);
    add_gemm(512, 4096, 1024);                // a chunk through Llama-3-8B's key projection
    add_attention({2048, 0, 1, 8, 4, 64});    // a whole context
    add_attention({2048, 0, 1, 8, 8, 64});    // as many key heads as query heads
    add_attention({256, 4096, 1, 8, 2, 128}); // a chunk against a long prefix
    add_rows(2048, 1408);
    add_head(256, 512, 32000);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
