// cuBLASLt on the CPU, as far as kernels/cuda/plugin/gemm.c calls it: matrices are column-major as there, a product
// is OpenBLAS's, bf16 with sums in f32, tf32 with factors of 10 bits. An algorithm serves the types, layouts and
// alignments that it was chosen for and no others, and does not leave the workspace as it was. Candidate n adds the
// sums of n + 1 parts of the terms; with EMULATED_FASTEST=n all others take 20 ms longer.
#include "kernels/base/dtype.h"
#include "kernels/base/status.h"
#include "tests/emulator/stream.h"
#include <cblas.h>
#include <cublasLt.h>
#include <math.h>
#include <string.h>
#include <time.h>

// All of one type: compared and hashed as bytes.
struct layout {
    uint64_t type, rows, cols, stride;
};

struct how {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    cublasOperation_t op_a, op_b;
};

// The problem that an algorithm was chosen for; lies in cublasLtMatmulAlgo_t.
struct algorithm {
    uint64_t hash;
    uint32_t alignment[4];
    uint32_t candidate;
    size_t workspace;
};
_Static_assert(sizeof(struct algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm is the caller's to keep");

#define CANDIDATES 3

struct preference {
    uint32_t alignment[4]; // of a, b, c, d
    size_t workspace;
};

struct cublasLtContext {
    char something;
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = malloc(sizeof **handle);
    CHECK(*handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS         ? "success"
           : status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported"
                                                   : "invalid value";
}

// ---- descriptors

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *made, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    struct how *how = malloc(sizeof *how);
    CHECK(how);
    *how = (struct how){compute, scale, CUBLAS_OP_N, CUBLAS_OP_N};
    *made = (cublasLtMatmulDesc_t)how;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t how)
{
    free(how);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    struct how *how = (struct how *)desc;
    CHECK(bytes == sizeof(cublasOperation_t) &&
          (attribute == CUBLASLT_MATMUL_DESC_TRANSA || attribute == CUBLASLT_MATMUL_DESC_TRANSB));
    memcpy(attribute == CUBLASLT_MATMUL_DESC_TRANSA ? &how->op_a : &how->op_b, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, cudaDataType_t type, uint64_t rows,
                                          uint64_t cols, int64_t stride)
{
    if (rows == 0 || cols == 0 || stride < (int64_t)rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    struct layout *layout = malloc(sizeof *layout);
    CHECK(layout);
    *layout = (struct layout){(uint64_t)type, rows, cols, (uint64_t)stride};
    *made = (cublasLtMatrixLayout_t)layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *made)
{
    struct preference *preference = malloc(sizeof *preference);
    CHECK(preference);
    *preference = (struct preference){{256, 256, 256, 256}, 0};
    *made = (cublasLtMatmulPreference_t)preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t desc,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    struct preference *preference = (struct preference *)desc;
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    for (size_t i = 0; i < 4; i++) {
        if (attribute == alignments[i]) {
            CHECK(bytes == sizeof preference->alignment[i]);
            memcpy(&preference->alignment[i], value, bytes);
            return CUBLAS_STATUS_SUCCESS;
        }
    }
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) { // there is but one
        CHECK(bytes == sizeof(uint32_t));
        return CUBLAS_STATUS_SUCCESS;
    }
    CHECK(attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == sizeof preference->workspace);
    memcpy(&preference->workspace, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

// ---- products

// One product, as asked for: what the descriptors say when the call is made.
struct product {
    struct how how;
    struct layout layouts[4]; // of a, b, c, d
    const void *a, *b, *from; // C
    void *c, *workspace;      // D, which may be C
    double alpha, beta;
    size_t candidate;
    size_t workspace_bytes;
};

static uint64_t hash(const struct product *p)
{
    uint64_t h = 1469598103934665603u;
    const struct {
        const void *at;
        size_t bytes;
    } parts[] = {{&p->how, sizeof p->how}, {p->layouts, sizeof p->layouts}};
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < parts[i].bytes; j++)
            h = (h ^ ((const unsigned char *)parts[i].at)[j]) * 1099511628211u;
    return h;
}

static void describe(struct product *p, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a,
                     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d)
{
    const void *layouts[4] = {a, b, c, d};
    *p = (struct product){0};
    memcpy(&p->how, how, sizeof p->how);
    for (size_t i = 0; i < 4; i++)
        memcpy(&p->layouts[i], layouts[i], sizeof p->layouts[i]);
}

// The combinations of types that cuBLASLt documents for cublasLtMatmul, of those that this program has.
static bool types_fit(const struct product *p)
{
    uint64_t a = p->layouts[0].type, c = p->layouts[2].type;
    if (p->layouts[1].type != a || p->layouts[3].type != c)
        return false;
    switch (p->how.compute) {
    case CUBLAS_COMPUTE_64F:
        return p->how.scale == CUDA_R_64F && a == CUDA_R_64F && c == CUDA_R_64F;
    case CUBLAS_COMPUTE_32F:
        return p->how.scale == CUDA_R_32F && ((a == CUDA_R_32F && c == CUDA_R_32F) ||
                                              (a == CUDA_R_16BF && (c == CUDA_R_16BF || c == CUDA_R_32F)));
    case CUBLAS_COMPUTE_32F_FAST_TF32:
        return p->how.scale == CUDA_R_32F && a == CUDA_R_32F && c == CUDA_R_32F;
    default:
        return false;
    }
}

static bool sizes_fit(const struct product *p)
{
    const struct layout *a = &p->layouts[0], *b = &p->layouts[1], *c = &p->layouts[2];
    bool ta = p->how.op_a == CUBLAS_OP_T, tb = p->how.op_b == CUBLAS_OP_T;
    return (ta ? a->cols : a->rows) == c->rows && (tb ? b->rows : b->cols) == c->cols &&
           (ta ? a->rows : a->cols) == (tb ? b->cols : b->rows) && memcmp(c, &p->layouts[3], sizeof *c) == 0;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t how,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t desc, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *found)
{
    const struct preference *preference = (const struct preference *)desc;
    struct product p;
    CHECK(handle && wanted > 0);
    describe(&p, how, a, b, c, d);
    *found = 0;
    if (!types_fit(&p) || !sizes_fit(&p))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    struct algorithm algorithm = {.hash = hash(&p), .workspace = preference->workspace};
    memcpy(algorithm.alignment, preference->alignment, sizeof algorithm.alignment);
    for (; *found < wanted && *found < CANDIDATES; ++*found) {
        algorithm.candidate = (uint32_t)*found;
        results[*found] = (cublasLtMatmulHeuristicResult_t){.workspaceSize = preference->workspace};
        memcpy(&results[*found].algo, &algorithm, sizeof algorithm);
    }
    return CUBLAS_STATUS_SUCCESS;
}

static float tf32(float value)
{
    uint32_t bits;
    if (isnan(value))
        return value;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0xfff + (bits >> 13 & 1)) & ~(uint32_t)0x1fff;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Elements from the first to the last.
static size_t extent(const struct layout *layout)
{
    return (layout->cols - 1) * layout->stride + layout->rows;
}

// A matrix in f32; its own memory, the layout's stride.
static float *widened(const struct layout *layout, const void *from, bool in_tf32)
{
    size_t count = extent(layout);
    float *to = malloc(count * sizeof *to);
    CHECK(to);
    for (size_t i = 0; i < count; i++) {
        to[i] =
            layout->type == CUDA_R_16BF ? dtype_from_bf16(((const uint16_t *)from)[i]) : ((const float *)from)[i];
        to[i] = in_tf32 ? tf32(to[i]) : to[i];
    }
    return to;
}

// D = C, where they are two.
static void copy_from(const struct product *p)
{
    const struct layout *c = &p->layouts[2];
    size_t element = c->type == CUDA_R_64F ? 8 : c->type == CUDA_R_32F ? 4 : 2;
    for (size_t j = 0; j < c->cols && p->from != p->c && p->beta != 0; j++) {
        memcpy((char *)p->c + j * c->stride * element, (const char *)p->from + j * c->stride * element,
               c->rows * element);
    }
}

static void multiply(void *data)
{
    struct product *p = data;
    copy_from(p);
    const struct layout *a = &p->layouts[0], *b = &p->layouts[1], *c = &p->layouts[2];
    enum CBLAS_TRANSPOSE ta = p->how.op_a == CUBLAS_OP_T ? CblasTrans : CblasNoTrans;
    enum CBLAS_TRANSPOSE tb = p->how.op_b == CUBLAS_OP_T ? CblasTrans : CblasNoTrans;
    int m = (int)c->rows, n = (int)c->cols;
    size_t k = ta == CblasTrans ? a->rows : a->cols, parts = p->candidate + 1;
    size_t step_a = ta == CblasTrans ? 1 : a->stride, step_b = tb == CblasTrans ? b->stride : 1;
    const char *fastest = getenv("EMULATED_FASTEST");
    if (fastest && strtoul(fastest, NULL, 10) != p->candidate)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    if (c->type == CUDA_R_64F) {

        for (size_t part = 0; part < parts; part++) {
            size_t first = k * part / parts, end = k * (part + 1) / parts;
            cblas_dgemm(CblasColMajor, ta, tb, m, n, (int)(end - first), p->alpha,
                        (const double *)p->a + first * step_a, (int)a->stride,
                        (const double *)p->b + first * step_b, (int)b->stride, part ? 1 : p->beta, p->c,
                        (int)c->stride);
        }
    } else {
        bool in_tf32 = p->how.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
        float *wide_a = widened(a, p->a, in_tf32), *wide_b = widened(b, p->b, in_tf32);
        float *wide_c = widened(c, p->c, false);
        for (size_t part = 0; part < parts; part++) {
            size_t first = k * part / parts, end = k * (part + 1) / parts;
            cblas_sgemm(CblasColMajor, ta, tb, m, n, (int)(end - first), (float)p->alpha, wide_a + first * step_a,
                        (int)a->stride, wide_b + first * step_b, (int)b->stride, part ? 1 : (float)p->beta, wide_c,
                        (int)c->stride);
        }
        for (size_t j = 0; j < c->cols; j++) {
            for (size_t i = 0; i < c->rows; i++) {
                size_t at = j * c->stride + i;
                if (c->type == CUDA_R_16BF)
                    ((uint16_t *)p->c)[at] = dtype_bf16(wide_c[at]);
                else
                    ((float *)p->c)[at] = wide_c[at];
            }
        }
        free(wide_a);
        free(wide_b);
        free(wide_c);
    }
    memset(p->workspace, 0xff, p->workspace_bytes < 65536 ? p->workspace_bytes : 65536);
    free(p);
}

// With EMULATED_REFUSALS the card has no memory for the first so many products since it was set.
static bool refuses(void)
{
    static unsigned long refused;
    const char *max = getenv("EMULATED_REFUSALS");
    refused = max ? refused + 1 : 0;
    return max && refused <= strtoul(max, NULL, 10);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t how, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t layout_a, const void *b, cublasLtMatrixLayout_t layout_b,
                              const void *beta, const void *c, cublasLtMatrixLayout_t layout_c, void *d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t *chosen, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    struct product *p = malloc(sizeof *p);
    struct algorithm algorithm;
    CHECK(handle && p);
    if (refuses()) {
        free(p);
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    memcpy(&algorithm, chosen, sizeof algorithm);
    describe(p, how, layout_a, layout_b, layout_c, layout_d);
    const void *addresses[4] = {a, b, c, d};
    bool fits =
        algorithm.hash == hash(p) && algorithm.workspace <= workspace_bytes && (uintptr_t)workspace % 16 == 0;
    for (size_t i = 0; i < 4; i++) {
        size_t element = p->layouts[i].type == CUDA_R_64F ? 8 : p->layouts[i].type == CUDA_R_32F ? 4 : 2;
        fits = fits && (uintptr_t)addresses[i] % algorithm.alignment[i] == 0;
        CHECK(extent(&p->layouts[i]) * element <= emulator_room(addresses[i]));
    }
    CHECK(workspace_bytes <= emulator_room(workspace));
    if (!fits) {
        free(p);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    bool f64 = p->how.scale == CUDA_R_64F;
    p->alpha = f64 ? *(const double *)alpha : *(const float *)alpha;
    p->beta = f64 ? *(const double *)beta : *(const float *)beta;
    p->a = a;
    p->b = b;
    p->from = c;
    p->c = d;
    p->candidate = algorithm.candidate;
    p->workspace = workspace;
    p->workspace_bytes = workspace_bytes;
    emulator_ask(stream, multiply, p);
    return CUBLAS_STATUS_SUCCESS;
}
