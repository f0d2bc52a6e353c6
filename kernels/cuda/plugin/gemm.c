// GEMM: cuBLASLt is column-major, so a row-major c = op(a) op(b) is computed as c^T = op(b)^T op(a)^T: the operands
// are exchanged, each in its memory layout. The algorithm is chosen once per shape and kept with its descriptors:
// cuBLASLt's first choice within the fixed workspace or, with device->gemm_algorithms, the file's candidate, or the
// fastest one, which is timed and added to the file. Timing aside, the choice depends only on the shape, the
// addresses' alignment and the file, and split sums are added in a fixed order, so equal calls give equal bits.
#define _GNU_SOURCE // tdestroy
#include "kernels/cuda/plugin/gemm.h"
#include "kernels/cuda/kernels/check.h"
#include "kernels/cuda/kernels/kernels.h"
#include "kernels/cuda/plugin/backend.h"
#include "kernels/cuda/plugin/gemm_algorithms.h"
#include "kernels/cuda/workspace.h"
#include <cublasLt.h>
#include <math.h>
#include <search.h>
#include <string.h>

#define TIMED_ROUNDS 3 // over all candidates, after one that loads them

struct choice {
    struct gemm_problem problem;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
};

struct gemm {
    cublasLtHandle_t handle;
    cudaStream_t stream;
    char library[320];                  // cuBLASLt's version and the card
    struct gemm_algorithms *algorithms; // NULL: not read yet, or the device has no file
    void *choices;                      // a tree (tsearch) of struct choice
};

// Operands of one product, D = alpha A B + beta C.
struct operands {
    const void *a, *b, *c;
    void *d;
    double alpha, beta;
};

static int compare(const void *a, const void *b)
{
    return memcmp(&((const struct choice *)a)->problem, &((const struct choice *)b)->problem,
                  sizeof(struct gemm_problem));
}

static void choice_free(void *data)
{
    struct choice *choice = data;
    cublasLtMatmulDescDestroy(choice->how);
    cublasLtMatrixLayoutDestroy(choice->a);
    cublasLtMatrixLayoutDestroy(choice->b);
    cublasLtMatrixLayoutDestroy(choice->c);
    free(choice);
}

struct gemm *gemm_open(cudaStream_t stream, const char *card, struct status *status)
{
    struct gemm *gemm = calloc(1, sizeof *gemm);
    CHECK(gemm);
    gemm->stream = stream;
    cublasStatus_t created = cublasLtCreate(&gemm->handle);
    if (created != CUBLAS_STATUS_SUCCESS) {
        status_set(status, STATUS_UNSUPPORTED, "device cuda cannot use cuBLASLt: %s (error %d)",
                   cublasLtGetStatusString(created), (int)created);
        free(gemm);
        return NULL;
    }
    snprintf(gemm->library, sizeof gemm->library, "cuBLASLt %zu, %.256s", gemm_library_version(), card);
    return gemm;
}

void gemm_close(struct gemm *gemm)
{
    if (gemm) {
        gemm_algorithms_close(gemm->algorithms);
        tdestroy(gemm->choices, choice_free);
        cublasLtDestroy(gemm->handle);
        free(gemm);
    }
}

size_t gemm_library_version(void)
{
    return cublasLtGetVersion();
}

static cudaDataType_t data_type(enum dtype dtype)
{
    CHECK(dtype == DTYPE_F64 || dtype == DTYPE_F32 || dtype == DTYPE_BF16);
    return dtype == DTYPE_F64 ? CUDA_R_64F : dtype == DTYPE_F32 ? CUDA_R_32F : CUDA_R_16BF;
}

// The largest power of 2, up to 256, that divides the address: the alignment that algorithms may assume.
static uint64_t alignment(const void *address)
{
    uint64_t bits = (uint64_t)(uintptr_t)address | 256;
    return bits & -bits;
}

#define TRY(call)                                                                                                  \
    do {                                                                                                           \
        cublasStatus_t try_status = (call);                                                                        \
        if (try_status != CUBLAS_STATUS_SUCCESS)                                                                   \
            return try_status;                                                                                     \
    } while (0)

// A row-major matrix [rows, cols] is cuBLASLt's [cols, rows].
static cublasStatus_t lay_out(cublasLtMatrixLayout_t *layout, enum dtype dtype, uint64_t rows, uint64_t cols,
                              uint64_t stride)
{
    return cublasLtMatrixLayoutCreate(layout, data_type(dtype), cols, rows, (int64_t)stride);
}

// cuBLASLt's candidates in its order of preference; at least one.
static cublasStatus_t ask(struct gemm *gemm, struct choice *choice, cublasLtMatmulHeuristicResult_t *results,
                          int wanted, int *found)
{
    const struct gemm_problem *p = &choice->problem;
    enum dtype dtype = (enum dtype)p->dtype, dtype_c = (enum dtype)p->dtype_c;
    cudaDataType_t scale = dtype == DTYPE_F64 ? CUDA_R_64F : CUDA_R_32F;
    // CUBLAS_COMPUTE_32F keeps f32 products in f32.
    cublasComputeType_t compute = dtype == DTYPE_F64 ? CUBLAS_COMPUTE_64F
                                  : p->tf32          ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                     : CUBLAS_COMPUTE_32F;
    cublasOperation_t first = p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    TRY(cublasLtMatmulDescCreate(&choice->how, compute, scale));
    TRY(cublasLtMatmulDescSetAttribute(choice->how, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    TRY(cublasLtMatmulDescSetAttribute(choice->how, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    TRY(lay_out(&choice->a, dtype, p->transpose_a ? p->k : p->m, p->transpose_a ? p->m : p->k, p->stride_a));
    TRY(lay_out(&choice->b, dtype, p->transpose_b ? p->n : p->k, p->transpose_b ? p->k : p->n, p->stride_b));
    TRY(lay_out(&choice->c, dtype_c, p->m, p->n, p->stride_c));

    cublasLtMatmulPreference_t preference;
    TRY(cublasLtMatmulPreferenceCreate(&preference));
    size_t workspace = CUDA_WORKSPACE_BYTES;
    uint32_t reductions =
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; // parts of a sum are added in the type of the sum, f32
    const struct {
        cublasLtMatmulPreferenceAttributes_t attribute;
        uint32_t bytes;
    } alignments[] = {{CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)p->alignment_b},
                      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)p->alignment_a},
                      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, (uint32_t)p->alignment_c},
                      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, (uint32_t)p->alignment_d}};
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                      &reductions, sizeof reductions);
    }
    for (size_t i = 0; i < 4 && status == CUBLAS_STATUS_SUCCESS; i++) {
        status = cublasLtMatmulPreferenceSetAttribute(preference, alignments[i].attribute, &alignments[i].bytes,
                                                      sizeof alignments[i].bytes);
    }
    *found = 0;
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatmulAlgoGetHeuristic(gemm->handle, choice->how, choice->b, choice->a, choice->c,
                                                choice->c, preference, wanted, results, found);
    }
    cublasLtMatmulPreferenceDestroy(preference);
    if (status == CUBLAS_STATUS_SUCCESS && (*found == 0 || results[0].state != CUBLAS_STATUS_SUCCESS))
        status = CUBLAS_STATUS_NOT_SUPPORTED;
    return status;
}

// d = alpha op(a) op(b) + beta c; d may be c.
static cublasStatus_t run(struct device *device, const struct choice *choice, const cublasLtMatmulAlgo_t *algorithm,
                          const struct operands *o, void *d)
{
    struct gemm *gemm = backend(device)->gemm;
    float alpha = (float)o->alpha, beta = (float)o->beta;
    bool f64 = choice->problem.dtype == DTYPE_F64;
    return cublasLtMatmul(gemm->handle, choice->how, f64 ? (const void *)&o->alpha : (const void *)&alpha, o->b,
                          choice->b, o->a, choice->a, f64 ? (const void *)&o->beta : (const void *)&beta, o->c,
                          choice->c, d, choice->c, algorithm, cuda_workspace(device, gemm->stream),
                          CUDA_WORKSPACE_BYTES, gemm->stream);
}

// Milliseconds of one product; infinite: cuBLASLt does not run it with this algorithm.
static double time_of(struct device *device, const struct choice *choice, const cublasLtMatmulAlgo_t *algorithm,
                      const struct operands *o, void *d, cudaEvent_t events[2])
{
    float ms;
    CUDA_CHECK(cudaEventRecord(events[0], backend(device)->gemm->stream));
    cublasStatus_t done = run(device, choice, algorithm, o, d);
    CUDA_CHECK(cudaEventRecord(events[1], backend(device)->gemm->stream));
    cuda_wait(device, events[1]);
    CUDA_CHECK(cudaEventElapsedTime(&ms, events[0], events[1]));
    return done == CUBLAS_STATUS_SUCCESS ? ms : INFINITY;
}

// The candidate with the fastest round; d, which may be c, is not changed. Returns false and a status (oom) if
// there is no memory for a second d.
static bool time_candidates(struct device *device, const struct choice *choice,
                            const cublasLtMatmulHeuristicResult_t *results, int found, const struct operands *o,
                            size_t *fastest)
{
    const struct gemm_problem *p = &choice->problem;
    struct backend *b = backend(device);
    size_t bytes = p->m * p->stride_c * dtype_bytes((enum dtype)p->dtype_c);
    double best_ms[GEMM_CANDIDATES];
    cudaEvent_t events[2];
    void *d;
    if (cudaMallocFromPoolAsync(&d, bytes, b->pool, b->gemm->stream) != cudaSuccess) {
        (void)cudaGetLastError(); // handled
        return status_set(&device->status, STATUS_OOM,
                          "no memory to time GEMM's algorithms with: a product of %zu bytes a second time; choose "
                          "them in a run of a shorter context or a lower memory limit",
                          bytes);
    }
    CUDA_CHECK(cudaEventCreate(&events[0]));
    CUDA_CHECK(cudaEventCreate(&events[1]));
    *fastest = 0;
    for (int round = 0; round <= TIMED_ROUNDS; round++) {
        for (int i = 0; i < found; i++) {
            double ms = results[i].state == CUBLAS_STATUS_SUCCESS
                            ? time_of(device, choice, &results[i].algo, o, d, events)
                            : INFINITY;
            best_ms[i] = round <= 1 || ms < best_ms[i] ? ms : best_ms[i];
        }
    }
    for (int i = 1; i < found; i++)
        *fastest = best_ms[i] < best_ms[*fastest] ? (size_t)i : *fastest;
    CUDA_CHECK(cudaEventDestroy(events[0]));
    CUDA_CHECK(cudaEventDestroy(events[1]));
    CUDA_CHECK(cudaFreeAsync(d, b->gemm->stream));
    return true;
}

// The file's candidate, or else the fastest, which is added to the file; in a deterministic run, the first.
static bool choose_candidate(struct device *device, const struct choice *choice,
                             const cublasLtMatmulHeuristicResult_t *results, int found, const struct operands *o,
                             size_t *candidate)
{
    struct gemm_algorithms *algorithms = backend(device)->gemm->algorithms;
    const struct gemm_problem *p = &choice->problem;
    *candidate = 0;
    if (!algorithms)
        return true;
    if (gemm_algorithms_find(algorithms, p, candidate)) {
        return (*candidate < (size_t)found && results[*candidate].state == CUBLAS_STATUS_SUCCESS) ||
               status_set(&device->status, STATUS_BAD_INPUT,
                          "%s names candidate %zu for a product of %llu x %llu x %llu, and cuBLASLt has %d; remove "
                          "the file, and the next run chooses again",
                          device->gemm_algorithms, *candidate, (unsigned long long)p->m, (unsigned long long)p->n,
                          (unsigned long long)p->k, found);
    }
    return device->deterministic || (time_candidates(device, choice, results, found, o, candidate) &&
                                     gemm_algorithms_add(algorithms, p, *candidate, &device->status));
}

static bool choose(struct device *device, struct choice *choice, const struct operands *o)
{
    struct gemm *gemm = backend(device)->gemm;
    const struct gemm_problem *p = &choice->problem;
    cublasLtMatmulHeuristicResult_t results[GEMM_CANDIDATES];
    size_t candidate;
    int found;
    if (device->gemm_algorithms && !gemm->algorithms) {
        gemm->algorithms = gemm_algorithms_open(device->gemm_algorithms, gemm->library, &device->status);
        if (!gemm->algorithms)
            return false;
    }
    cublasStatus_t asked = ask(gemm, choice, results, gemm->algorithms ? GEMM_CANDIDATES : 1, &found);
    if (asked != CUBLAS_STATUS_SUCCESS) {
        return status_set(&device->status, STATUS_UNSUPPORTED,
                          "cuBLASLt has no algorithm for a product of %llu x %llu x %llu in %s: %s",
                          (unsigned long long)p->m, (unsigned long long)p->n, (unsigned long long)p->k,
                          dtype_name((enum dtype)p->dtype), cublasLtGetStatusString(asked));
    }
    if (!choose_candidate(device, choice, results, found, o, &candidate))
        return false;
    choice->algorithm = results[candidate].algo;
    return true;
}

// The choice for a problem, made on first use. Returns NULL and a status if there is none.
static const struct choice *choice_for(struct device *device, struct gemm_problem p, const struct operands *o)
{
    struct gemm *gemm = backend(device)->gemm;
    struct choice wanted = {.problem = p};
    void *found = tfind(&wanted, &gemm->choices, compare);
    if (found)
        return *(struct choice **)found;
    struct choice *made = calloc(1, sizeof *made);
    CHECK(made);
    made->problem = p;
    if (!choose(device, made, o)) {
        choice_free(made);
        return NULL;
    }
    CHECK(tsearch(made, &gemm->choices, compare));
    return made;
}

// One product of op(a): [m, k] and op(b): [k, n], whose matrices are `stride`s apart: d = alpha * that + beta * c,
// with equal strides. c may be d.
static bool multiply(struct device *device, struct gemm_problem p, struct operands o)
{
    p.alignment_a = alignment(o.a);
    p.alignment_b = alignment(o.b);
    p.alignment_c = alignment(o.c);
    p.alignment_d = alignment(o.d);
    const struct choice *choice = choice_for(device, p, &o);
    if (!choice)
        return false;
    cublasStatus_t done;
    int attempt = 0;
    do {
        done = run(device, choice, &choice->algorithm, &o, o.d);
    } while (done == CUBLAS_STATUS_ALLOC_FAILED && cuda_make_room(device, attempt++));
    return done == CUBLAS_STATUS_SUCCESS ||
           status_set(&device->status, STATUS_FAILED, "cuBLASLt could not multiply: %s",
                      cublasLtGetStatusString(done));
}

// d = alpha * op(a) * op(b) + beta * c
static void gemm(struct device *device, struct tensor d, struct tensor c, struct tensor a,
                 enum transpose transpose_a, struct tensor b, enum transpose transpose_b, double alpha, double beta)
{
    CHECK(a.dtype == b.dtype && (c.dtype == a.dtype || (a.dtype == DTYPE_BF16 && c.dtype == DTYPE_F32)));
    size_t k = transpose_a ? a.rows : a.cols, bytes = dtype_bytes(a.dtype);
    struct gemm_problem p = {.m = c.rows,
                             .n = c.cols,
                             .k = k,
                             .transpose_a = transpose_a,
                             .transpose_b = transpose_b,
                             .stride_a = a.cols,
                             .stride_b = b.cols,
                             .stride_c = c.cols,
                             .dtype = a.dtype,
                             .dtype_c = c.dtype,
                             .tf32 = device->tf32 && a.dtype == DTYPE_F32};
    if (c.rows == 0 || c.cols == 0)
        return;
    if (k == 0) { // cuBLASLt has no layout for it
        if (c.data != d.data)
            cuda_copy(device, d, c);
        beta == 0 ? cuda_zero(device, d) : cuda_scale(device, d, beta);
        return;
    }
    if (!device->reverse_sums || k < 2) {
        multiply(device, p, (struct operands){a.data, b.data, c.data, d.data, alpha, beta});
        return;
    }
    size_t half = k / 2;
    const char *second_a = (const char *)a.data + (transpose_a ? half * a.cols : half) * bytes;
    const char *second_b = (const char *)b.data + (transpose_b ? half : half * b.cols) * bytes;
    p.k = k - half;
    if (multiply(device, p, (struct operands){second_a, second_b, c.data, d.data, alpha, beta})) {
        p.k = half;
        multiply(device, p, (struct operands){a.data, b.data, d.data, d.data, alpha, 1});
    }
}

void cuda_gemm(struct device *device, struct tensor c, struct tensor a, enum transpose transpose_a, struct tensor b,
               enum transpose transpose_b, double alpha, double beta)
{
    gemm(device, c, c, a, transpose_a, b, transpose_b, alpha, beta);
}

void cuda_gemm_onto(struct device *device, struct tensor d, struct tensor c, struct tensor a,
                    enum transpose transpose_a, struct tensor b, enum transpose transpose_b)
{
    gemm(device, d, c, a, transpose_a, b, transpose_b, 1, 1);
}
