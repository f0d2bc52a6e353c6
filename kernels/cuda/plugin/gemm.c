// GEMM: cuBLASLt is column-major, so a row-major c = op(a) op(b) is asked for as c^T = op(b)^T op(a)^T: the
// operands exchanged, each read as it lies. The algorithm is chosen once per shape (cuBLASLt's first choice within
// the fixed workspace) and kept with its descriptors. A choice depends on the shape and the addresses' alignment
// alone, and split sums are added in a fixed order, so the same call has the same bits.
#define _GNU_SOURCE // tdestroy
#include "kernels/cuda/plugin/gemm.h"
#include "kernels/cuda/plugin/backend.h"
#include "kernels/cuda/plugin/kernels.h"
#include "kernels/cuda/workspace.h"
#include <cublasLt.h>
#include <search.h>
#include <string.h>

// What an algorithm is chosen for. All of one type: compared as bytes. Strides: elements between rows.
struct problem {
    uint64_t m, n, k, transpose_a, transpose_b, stride_a, stride_b, stride_c, dtype, dtype_c, tf32;
    uint64_t alignment_a, alignment_b, alignment_c, alignment_d;
};

struct choice {
    struct problem problem;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
};

struct gemm {
    cublasLtHandle_t handle;
    cudaStream_t stream;
    void *choices; // a tree (tsearch) of struct choice
};

static int compare(const void *a, const void *b)
{
    return memcmp(&((const struct choice *)a)->problem, &((const struct choice *)b)->problem,
                  sizeof(struct problem));
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

struct gemm *gemm_open(cudaStream_t stream, struct status *status)
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
    return gemm;
}

void gemm_close(struct gemm *gemm)
{
    if (gemm) {
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

// The largest power of 2, up to 256, that divides the address: what an algorithm may rely on.
static uint64_t alignment(const void *address)
{
    uint64_t bits = (uint64_t)(uintptr_t)address | 256;
    return bits & -bits;
}

#define TRY(call)                                                                                                  \
    do {                                                                                                           \
        cublasStatus_t try_status = (call);                                                                        \
        if (try_status != CUBLAS_STATUS_SUCCESS) {                                                                 \
            return try_status;                                                                                     \
        }                                                                                                          \
    } while (0)

// A matrix as it lies, row-major [rows, cols], is cuBLASLt's [cols, rows].
static cublasStatus_t lay_out(cublasLtMatrixLayout_t *layout, enum dtype dtype, uint64_t rows, uint64_t cols,
                              uint64_t stride)
{
    return cublasLtMatrixLayoutCreate(layout, data_type(dtype), cols, rows, (int64_t)stride);
}

static cublasStatus_t choose(struct gemm *gemm, struct choice *choice)
{
    const struct problem *p = &choice->problem;
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
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; // parts of a sum are added as they were summed: in f32
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
    cublasLtMatmulHeuristicResult_t result;
    int found = 0;
    if (status == CUBLAS_STATUS_SUCCESS) {
        status = cublasLtMatmulAlgoGetHeuristic(gemm->handle, choice->how, choice->b, choice->a, choice->c,
                                                choice->c, preference, 1, &result, &found);
    }
    cublasLtMatmulPreferenceDestroy(preference);
    if (status == CUBLAS_STATUS_SUCCESS && (found == 0 || result.state != CUBLAS_STATUS_SUCCESS)) {
        status = CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (status == CUBLAS_STATUS_SUCCESS) {
        choice->algorithm = result.algo;
    }
    return status;
}

// The choice for a problem, made when it first comes up. NULL and a status if cuBLASLt has no algorithm for it.
static const struct choice *choice_for(struct gemm *gemm, struct problem p, struct status *status)
{
    struct choice wanted = {.problem = p};
    void *found = tfind(&wanted, &gemm->choices, compare);
    if (found) {
        return *(struct choice **)found;
    }
    struct choice *made = calloc(1, sizeof *made);
    CHECK(made);
    made->problem = p;
    cublasStatus_t done = choose(gemm, made);
    if (done != CUBLAS_STATUS_SUCCESS) {
        choice_free(made);
        status_set(status, STATUS_UNSUPPORTED,
                   "cuBLASLt has no algorithm for a product of %llu x %llu x %llu in %s: %s",
                   (unsigned long long)p.m, (unsigned long long)p.n, (unsigned long long)p.k,
                   dtype_name((enum dtype)p.dtype), cublasLtGetStatusString(done));
        return NULL;
    }
    CHECK(tsearch(made, &gemm->choices, compare));
    return made;
}

// One product of op(a): [m, k] and op(b): [k, n], whose rows lie `stride`s apart: d = alpha * that + beta * c,
// whose rows lie alike. c may be d.
static bool multiply(struct device *device, struct problem p, const void *a, const void *b, const void *c, void *d,
                     double alpha, double beta)
{
    struct gemm *gemm = backend(device)->gemm;
    p.alignment_a = alignment(a);
    p.alignment_b = alignment(b);
    p.alignment_c = alignment(c);
    p.alignment_d = alignment(d);
    const struct choice *choice = choice_for(gemm, p, &device->status);
    if (!choice) {
        return false;
    }
    float alpha32 = (float)alpha, beta32 = (float)beta;
    bool f64 = p.dtype == DTYPE_F64;
    cublasStatus_t done;
    int attempt = 0;
    do {
        done = cublasLtMatmul(gemm->handle, choice->how, f64 ? (void *)&alpha : (void *)&alpha32, b, choice->b, a,
                              choice->a, f64 ? (void *)&beta : (void *)&beta32, c, choice->c, d, choice->c,
                              &choice->algorithm, cuda_workspace(device, gemm->stream), CUDA_WORKSPACE_BYTES,
                              gemm->stream);
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
    struct problem p = {.m = c.rows,
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
    if (c.rows == 0 || c.cols == 0) {
        return;
    }
    if (k == 0) { // of which cuBLASLt has no layout
        if (c.data != d.data) {
            cuda_copy(device, d, c);
        }
        beta == 0 ? cuda_zero(device, d) : cuda_scale(device, d, beta);
        return;
    }
    if (!device->reverse_sums || k < 2) {
        multiply(device, p, a.data, b.data, c.data, d.data, alpha, beta);
        return;
    }
    size_t half = k / 2;
    const char *second_a = (const char *)a.data + (transpose_a ? half * a.cols : half) * bytes;
    const char *second_b = (const char *)b.data + (transpose_b ? half : half * b.cols) * bytes;
    p.k = k - half;
    if (multiply(device, p, second_a, second_b, c.data, d.data, alpha, beta)) {
        p.k = half;
        multiply(device, p, a.data, b.data, d.data, d.data, alpha, 1);
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
