#define _GNU_SOURCE // tdestroy
#include "kernels/cpu/onednn.h"
#include "kernels/base/status.h"
// Not under AddressSanitizer, whose leak search crashes in threads of a library that generates code.
#if __has_include(<dnnl_version.h>) && !defined(__SANITIZE_ADDRESS__)
#include <dnnl_version.h>
#endif
#if DNNL_VERSION_MAJOR == 2 // other versions have other functions
#include "kernels/base/host_memory.h"
#include <dlfcn.h>
#include <dnnl.h>
#include <pthread.h>
#include <search.h>
#include <string.h>

// The functions used from the library.
// clang-format off
#define FUNCTIONS(X) \
    X(version) X(get_effective_cpu_isa) X(engine_create) X(engine_destroy) X(stream_create) X(stream_destroy) \
    X(stream_wait) X(memory_desc_init_by_strides) X(memory_create) X(memory_destroy) X(matmul_desc_init) \
    X(primitive_attr_create) X(primitive_attr_destroy) X(primitive_attr_set_scratchpad_mode) \
    X(primitive_attr_set_output_scales) X(primitive_attr_set_post_ops) X(post_ops_create) X(post_ops_destroy) \
    X(post_ops_append_sum) X(primitive_desc_create) X(primitive_desc_destroy) X(primitive_desc_query_md) \
    X(memory_desc_get_size) X(primitive_create) X(primitive_destroy) X(primitive_execute) X(sgemm)
// clang-format on

struct functions {
#define X(name) __typeof__(&dnnl_##name) name;
    FUNCTIONS(X)
#undef X
};

// The parameters of a primitive. All of one type, so that they compare as bytes.
struct problem {
    uint64_t m, n, k, a_stride, b_stride, c_stride, transpose_a, transpose_b, c_dtype;
    double alpha, beta;
};

struct product {
    struct problem problem;
    dnnl_memory_desc_t a, b, c, scratch;
    dnnl_primitive_t primitive; // NULL: oneDNN does not support it
    size_t scratch_bytes;       // per thread
    __typeof__(&dnnl_primitive_destroy) destroy;
};

struct onednn {
    void *library;
    struct functions call;
    dnnl_engine_t engine;
    pthread_mutex_t lock; // for products
    void *products;       // a tree (tsearch) of struct product
    char description[64];
};

enum { PART_ROWS = 192, LONG_ROW = 1024 };

// A refusal for lack of memory says nothing about the product, and another implementation would give other bits.
static bool served(dnnl_status_t status)
{
    if (status == dnnl_out_of_memory)
        host_memory_exhausted("oneDNN made a product");
    return status == dnnl_success;
}

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

// oneDNN 2.6.3 does not check its small allocations and the generation of kernels at a product's first call.
// Allocating more than they need first ends the program cleanly.
static void ask_for_memory(void)
{
    enum { OBJECTS_BYTES = 4 << 20 };
    void *volatile room = malloc(OBJECTS_BYTES);
    if (!room)
        host_memory_exhausted("oneDNN made a product");
    free(room);
}

static void out_of_memory(void)
{
    host_memory_exhausted("oneDNN asked for some");
}

// Makes C++'s new end the program without memory, because no code here could catch an exception. Call before
// creating the library's objects.
static void set_new_handler(void)
{
    void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void (*(*set)(void (*)(void)))(void) = NULL;
    if (library)
        *(void **)&set = dlsym(library, "_ZSt15set_new_handlerPFvvE");
    if (set)
        set(out_of_memory);
}

static bool load_functions(struct onednn *onednn)
{
    set_new_handler();
    // It stays loaded, because threads keep state of its own.
    onednn->library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!onednn->library)
        return false;
#define X(name)                                                                                                    \
    onednn->call.name = (__typeof__(&dnnl_##name))dlsym(onednn->library, "dnnl_" #name);                           \
    if (!onednn->call.name)                                                                                        \
        return false;
    FUNCTIONS(X)
#undef X
    return true;
}

struct onednn *onednn_open(enum dtype dtype)
{
    struct onednn *onednn = calloc(1, sizeof *onednn);
    pthread_mutex_init(&onednn->lock, NULL);
    if (!load_functions(onednn)) {
        onednn_close(onednn);
        return NULL;
    }
    unsigned isa = onednn->call.get_effective_cpu_isa();
    unsigned wanted = dtype == DTYPE_BF16 ? dnnl_cpu_isa_avx512_core_bf16 : dnnl_cpu_isa_avx512_core;
    if ((isa & wanted) != wanted || !served(onednn->call.engine_create(&onednn->engine, dnnl_cpu, 0))) {
        onednn_close(onednn);
        return NULL;
    }
    ask_for_memory(); // for sgemm
    const dnnl_version_t *version = onednn->call.version();
    unsigned amx = dnnl_cpu_isa_avx512_core_amx;
    const char *instructions = dtype != DTYPE_BF16 ? "AVX-512" : (isa & amx) == amx ? "AMX" : "AVX-512 BF16";
    snprintf(onednn->description, sizeof onednn->description, "oneDNN %d.%d.%d, %s", version->major, version->minor,
             version->patch, instructions);
    return onednn;
}

const char *onednn_description(const struct onednn *onednn)
{
    return onednn->description;
}

static void product_free(void *data)
{
    struct product *product = data;
    if (product->primitive)
        product->destroy(product->primitive);
    free(product);
}

void onednn_close(struct onednn *onednn)
{
    if (!onednn)
        return;
    tdestroy(onednn->products, product_free);
    if (onednn->engine)
        onednn->call.engine_destroy(onednn->engine);
    if (onednn->library)
        dlclose(onednn->library);
    pthread_mutex_destroy(&onednn->lock);
    free(onednn);
}

static int compare(const void *a, const void *b)
{
    return memcmp(&((const struct product *)a)->problem, &((const struct product *)b)->problem,
                  sizeof(struct problem));
}

static bool lay_out(const struct functions *call, dnnl_memory_desc_t *matrix, uint64_t rows, uint64_t cols,
                    uint64_t stride, bool transpose, dnnl_data_type_t type)
{
    dnnl_dims_t sizes = {(dnnl_dim_t)rows, (dnnl_dim_t)cols}, strides = {(dnnl_dim_t)stride, 1};
    if (transpose)
        strides[0] = 1, strides[1] = (dnnl_dim_t)stride;
    return served(call->memory_desc_init_by_strides(matrix, 2, sizes, type, strides));
}

// alpha scales the product, beta the old c.
static bool set_factors(const struct functions *call, dnnl_primitive_attr_t attributes, dnnl_post_ops_t sum,
                        const struct problem *p)
{
    float alpha = (float)p->alpha;
    return served(call->primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user)) &&
           (p->alpha == 1 || served(call->primitive_attr_set_output_scales(attributes, 1, 0, &alpha))) &&
           (p->beta == 0 || (served(call->post_ops_append_sum(sum, (float)p->beta)) &&
                             served(call->primitive_attr_set_post_ops(attributes, sum))));
}

// Leaves product->primitive NULL if oneDNN refuses.
static void product_make(struct onednn *onednn, struct product *product)
{
    const struct functions *call = &onednn->call;
    const struct problem *p = &product->problem;
    dnnl_data_type_t c_type = p->c_dtype == DTYPE_F32 ? dnnl_f32 : dnnl_bf16;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_post_ops_t sum = NULL;
    dnnl_primitive_desc_t made = NULL;
    dnnl_matmul_desc_t matmul;
    ask_for_memory();
    if (lay_out(call, &product->a, p->m, p->k, p->a_stride, p->transpose_a, dnnl_bf16) &&
        lay_out(call, &product->b, p->k, p->n, p->b_stride, p->transpose_b, dnnl_bf16) &&
        lay_out(call, &product->c, p->m, p->n, p->c_stride, false, c_type) &&
        served(call->matmul_desc_init(&matmul, &product->a, &product->b, NULL, &product->c)) &&
        served(call->primitive_attr_create(&attributes)) && served(call->post_ops_create(&sum)) &&
        set_factors(call, attributes, sum, p) &&
        served(call->primitive_desc_create(&made, &matmul, attributes, onednn->engine, NULL))) {
        product->scratch = *call->primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0);
        product->scratch_bytes = call->memory_desc_get_size(&product->scratch);
        if (!served(call->primitive_create(&product->primitive, made)))
            product->primitive = NULL;
    }
    if (made)
        call->primitive_desc_destroy(made);
    if (sum)
        call->post_ops_destroy(sum);
    if (attributes)
        call->primitive_attr_destroy(attributes);
}

static const struct product *product_of(struct onednn *onednn, const struct gemm_tile *tile)
{
    struct product wanted = {.problem = {
                                 .m = tile->m,
                                 .n = tile->n,
                                 .k = tile->k,
                                 .a_stride = tile->a.stride,
                                 .b_stride = tile->b.stride,
                                 .c_stride = tile->c_stride,
                                 .transpose_a = tile->a.transpose,
                                 .transpose_b = tile->b.transpose,
                                 .c_dtype = tile->c_dtype,
                                 .alpha = tile->alpha,
                                 .beta = tile->beta,
                             }};
    pthread_mutex_lock(&onednn->lock);
    struct product *const *found = tfind(&wanted, &onednn->products, compare);
    struct product *product = found ? *found : NULL;
    if (!product) {
        product = malloc(sizeof *product);
        *product = wanted;
        product->destroy = onednn->call.primitive_destroy;
        product_make(onednn, product);
        CHECK(tsearch(product, &onednn->products, compare));
    }
    pthread_mutex_unlock(&onednn->lock);
    return product;
}

// Memory for a thread's products, released when the thread ends. Like the BLAS's buffers it belongs to the library,
// not to the arena.
struct scratch {
    size_t bytes; // size of the data, which begins at the next page
};
#define SCRATCH_PAGE 4096

static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;

static void make_scratch_key(void)
{
    CHECK(pthread_key_create(&scratch_key, free) == 0);
}

static void *scratch_of_thread(size_t bytes)
{
    pthread_once(&scratch_once, make_scratch_key);
    struct scratch *scratch = pthread_getspecific(scratch_key);
    if (!scratch || scratch->bytes < bytes) {
        free(scratch);
        size_t rounded = (bytes + SCRATCH_PAGE - 1) / SCRATCH_PAGE * SCRATCH_PAGE;
        void *made = NULL;
        CHECK(posix_memalign(&made, SCRATCH_PAGE, SCRATCH_PAGE + rounded) == 0 &&
              pthread_setspecific(scratch_key, made) == 0);
        scratch = made;
        scratch->bytes = rounded;
    }
    return (char *)scratch + SCRATCH_PAGE;
}

bool onednn_gemm(struct onednn *onednn, const struct gemm_tile *tile)
{
    if (tile->m == 0 || tile->n == 0 || tile->k == 0)
        return false;
    const struct functions *call = &onednn->call;
    const struct product *product = product_of(onednn, tile);
    if (!product->primitive)
        return false;
    enum { A, B, C, SCRATCH, OPERANDS };
    const dnnl_memory_desc_t *shapes[OPERANDS] = {&product->a, &product->b, &product->c, &product->scratch};
    void *data[OPERANDS] = {(void *)tile->a.data, (void *)tile->b.data, tile->c,
                            scratch_of_thread(product->scratch_bytes)};
    const int names[OPERANDS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
    dnnl_exec_arg_t operands[OPERANDS];
    dnnl_stream_t stream;
    CHECK(served(call->stream_create(&stream, onednn->engine, dnnl_stream_default_flags)));
    for (int i = 0; i < OPERANDS; i++) {
        operands[i].arg = names[i];
        CHECK(served(call->memory_create(&operands[i].memory, shapes[i], onednn->engine, data[i])));
    }
    CHECK(served(call->primitive_execute(product->primitive, stream, OPERANDS, operands)));
    CHECK(served(call->stream_wait(stream)));
    for (int i = 0; i < OPERANDS; i++)
        call->memory_destroy(operands[i].memory);
    call->stream_destroy(stream);
    return true;
}

static void sgemm_part(struct onednn *onednn, const struct gemm_tile *tile, size_t row, size_t rows, size_t term,
                       size_t terms)
{
    const float *a = tile->a.data, *b = tile->b.data;
    a += tile->a.transpose ? term * tile->a.stride + row : row * tile->a.stride + term;
    b += tile->b.transpose ? term : term * tile->b.stride;
    CHECK(served(onednn->call.sgemm(
        tile->a.transpose ? 'T' : 'N', tile->b.transpose ? 'T' : 'N', (dnnl_dim_t)rows, (dnnl_dim_t)tile->n,
        (dnnl_dim_t)terms, (float)tile->alpha, a, (dnnl_dim_t)tile->a.stride, b, (dnnl_dim_t)tile->b.stride,
        term > 0 ? 1 : (float)tile->beta, (float *)tile->c + row * tile->c_stride, (dnnl_dim_t)tile->c_stride)));
}

void onednn_sgemm(struct onednn *onednn, const struct gemm_tile *tile)
{
    size_t rows = tile->m, terms = tile->k;
    // For a transposed right factor oneDNN copies panels only if both sides are below bounds (200 rows, 1,200
    // terms); without copies long rows are slow.
    if (tile->b.transpose && tile->k > LONG_ROW) {
        rows = PART_ROWS;
        terms = (tile->k + LONG_ROW - 1) / LONG_ROW;
        terms = (tile->k + terms - 1) / terms;
    }
    for (size_t row = 0; row < tile->m; row += rows)
        for (size_t term = 0; term < tile->k; term += terms)
            sgemm_part(onednn, tile, row, min(rows, tile->m - row), term, min(terms, tile->k - term));
}
#else
struct onednn *onednn_open(enum dtype dtype)
{
    (void)dtype;
    return NULL;
}

void onednn_close(struct onednn *onednn)
{
    (void)onednn;
}

const char *onednn_description(const struct onednn *onednn)
{
    (void)onednn;
    return "";
}

bool onednn_gemm(struct onednn *onednn, const struct gemm_tile *tile)
{
    (void)onednn, (void)tile;
    return false;
}

void onednn_sgemm(struct onednn *onednn, const struct gemm_tile *tile)
{
    (void)onednn, (void)tile;
}
#endif
