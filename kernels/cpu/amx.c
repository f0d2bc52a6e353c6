#define _GNU_SOURCE // strcasestr, syscall
#include "kernels/cpu/amx.h"
#include "kernels/base/status.h"
#if defined(__x86_64__) && __has_include(<amxbf16intrin.h>)
#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AMX_FUNCTION    __attribute__((target("avx512f,avx512bw,amx-tile,amx-bf16")))
#define VECTOR_FUNCTION __attribute__((target("avx512f,avx512bw,avx512bf16")))
#define PACK_FUNCTION   __attribute__((target("avx512f,avx512bw")))
#define XSAVE_FUNCTION  __attribute__((target("xsave")))

// Constants for requesting the unit's register state from the system, which a process must do before use.
enum { REQUEST_STATE = 0x1023, REGISTERS = 18 };
// Bits of XCR0 for registers that the system saves: AVX-512's and the unit's.
#define SAVED_VECTORS (7ull << 5)
#define SAVED_TILES   (3ull << 17)

XSAVE_FUNCTION static enum bf16_unit find_unit(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    const unsigned xsave = 1u << 27, avx512 = 1u << 16 | 1u << 30; // F, BW
    const unsigned amx = 1u << 24 | 1u << 22, dot_products = 1u << 5;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & xsave) || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return BF16_NONE;
    unsigned long long saved = _xgetbv(0);
    if ((b & avx512) != avx512 || (saved & SAVED_VECTORS) != SAVED_VECTORS)
        return BF16_NONE;
    if ((d & amx) == amx && (saved & SAVED_TILES) == SAVED_TILES &&
        syscall(SYS_arch_prctl, REQUEST_STATE, REGISTERS) == 0)
        return BF16_AMX;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & dot_products) ? BF16_AVX512 : BF16_NONE;
}

// The instructions that ONEDNN_MAX_CPU_ISA allows, as oneDNN reads it: names of SSE and AVX levels exclude AMX;
// unknown names exclude nothing.
static enum bf16_unit allowed_unit(void)
{
    const char *allowed = getenv("ONEDNN_MAX_CPU_ISA");
    allowed = allowed ? allowed : getenv("DNNL_MAX_CPU_ISA");
    if (!allowed || strcasestr(allowed, "AMX") ||
        (strncasecmp(allowed, "SSE", 3) != 0 && strncasecmp(allowed, "AVX", 3) != 0))
        return BF16_AMX;
    bool later =
        strcasestr(allowed, "BF16") || strcasestr(allowed, "FP16") || strncasecmp(allowed, "AVX10", 5) == 0;
    return later ? BF16_AVX512 : BF16_NONE;
}

enum bf16_unit bf16_unit(void)
{
    static int found = -1; // -1: not determined yet
    int known = __atomic_load_n(&found, __ATOMIC_RELAXED);
    if (known < 0) {
        known = (int)find_unit();
        __atomic_store_n(&found, known, __ATOMIC_RELAXED);
    }
    enum bf16_unit allowed = allowed_unit();
    return (enum bf16_unit)known < allowed ? (enum bf16_unit)known : allowed;
}

// A register holds 16 rows of 64 bytes: 16 x 16 sums; 16 rows of 32 terms of a left factor; or 32 terms of 16
// columns of a right one, as pairs. Term i is paired with term i + 16, so that f32 vectors become rows of pairs
// without lane crossings. A factor is packed by groups of 16 rows (right: columns), each with all its terms.
enum { SIDE = AMX_ROWS, TERMS = AMX_TERMS, REGISTER = SIDE * TERMS, ROW_BYTES = 2 * TERMS };

// Stores the upper halves of (x_j, y_j) for each j of 16.
PACK_FUNCTION static inline void store_pairs(struct amx_factor to, size_t at, __m512i x, __m512i y)
{
    _mm512_store_si512(to.numbers + at, _mm512_mask_mov_epi16(_mm512_srli_epi32(x, 16), 0xaaaaaaaa, y));
}

// Loads 16 numbers from column `first` on, with zeros from column `count` on.
PACK_FUNCTION static inline __m512i load(const float *row, size_t first, size_t count)
{
    if (first + SIDE <= count)
        return _mm512_loadu_si512(row + first);
    return _mm512_maskz_loadu_epi32((__mmask16)(first < count ? (1u << (count - first)) - 1 : 0), row + first);
}

PACK_FUNCTION static void pack_rows(struct amx_factor to, struct amx_view a, size_t m, size_t k)
{
    for (size_t i = 0; i < m; i++) {
        const float *row = a.data + (ptrdiff_t)i * a.row;
        size_t at = i / SIDE * to.depth * REGISTER + i % SIDE * TERMS;
        for (size_t term = 0; term < k; term += TERMS, at += REGISTER)
            store_pairs(to, at, load(row, term, k), load(row, term + SIDE, k));
    }
}

// Loads 16 columns of term `term` of x, whose rows are terms; zeros beyond the last term.
PACK_FUNCTION static inline __m512i load_term(struct amx_view x, size_t term, size_t column, size_t k)
{
    return term < k ? _mm512_loadu_si512(x.data + (ptrdiff_t)term * x.row + column) : _mm512_setzero_si512();
}

PACK_FUNCTION void amx_pack_right(struct amx_factor to, struct amx_view b, size_t k, size_t n)
{
    CHECK(n % SIDE == 0);
    size_t pairs = (k + TERMS - 1) / TERMS * SIDE;
    for (size_t column = 0; column < n; column += SIDE)
        for (size_t pair = 0; pair < pairs; pair++) {
            size_t term = pair / SIDE * TERMS + pair % SIDE;
            store_pairs(to, column * to.depth * TERMS + pair * TERMS, load_term(b, term, column, k),
                        load_term(b, term + SIDE, column, k));
        }
}

// Transposes a register: pair j of row i becomes pair i of row j (Eklundh 1972).
PACK_FUNCTION static void transpose(uint16_t *numbers)
{
    __m512i x[SIDE], y[SIDE];
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++)
        x[i] = _mm512_load_si512(numbers + i * TERMS);
#pragma GCC unroll 8
    for (int i = 0; i < SIDE; i += 2) { // pairs of rows i, i + 1
        y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < SIDE; i += 4) // for four rows: x[i + j] has columns j, j + 4, j + 8, j + 12
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            x[i + 2 * j] = _mm512_unpacklo_epi64(y[i + j], y[i + 2 + j]);
            x[i + 2 * j + 1] = _mm512_unpackhi_epi64(y[i + j], y[i + 2 + j]);
        }
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        __m512i even_low = _mm512_shuffle_i32x4(x[j], x[4 + j], 0x88),
                odd_low = _mm512_shuffle_i32x4(x[j], x[4 + j], 0xdd);
        __m512i even_high = _mm512_shuffle_i32x4(x[8 + j], x[12 + j], 0x88),
                odd_high = _mm512_shuffle_i32x4(x[8 + j], x[12 + j], 0xdd);
        _mm512_store_si512(numbers + j * TERMS, _mm512_shuffle_i32x4(even_low, even_high, 0x88));
        _mm512_store_si512(numbers + (8 + j) * TERMS, _mm512_shuffle_i32x4(even_low, even_high, 0xdd));
        _mm512_store_si512(numbers + (4 + j) * TERMS, _mm512_shuffle_i32x4(odd_low, odd_high, 0x88));
        _mm512_store_si512(numbers + (12 + j) * TERMS, _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd));
    }
}

PACK_FUNCTION void amx_pack_left(struct amx_factor to, struct amx_view a, size_t m, size_t k)
{
    CHECK(a.column == 1 || m % SIDE == 0);
    if (a.column == 1) {
        pack_rows(to, a, m, k);
        return;
    }
    amx_pack_right(to, (struct amx_view){a.data, a.column, 1}, k, m);
    for (size_t row = 0; row < m; row += SIDE)
        for (size_t term = 0; term < k; term += TERMS)
            transpose(amx_factor_at(to, row, term).numbers);
}

// Registers 0 to 3 hold the sums of 32 rows and columns, 4 and 5 rows of the left factor, 6 and 7 columns of the
// right one.
struct configuration {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

// Configures the registers for a block of at most 32 rows.
AMX_FUNCTION static void configure(size_t rows)
{
    uint8_t first = (uint8_t)(rows < SIDE ? rows : SIDE), second = (uint8_t)(rows - first);
    const uint8_t of[8] = {first, first, second, second, first, second, SIDE, SIDE};
    struct configuration c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.rows[i] = of[i];
        c.row_bytes[i] = of[i] ? ROW_BYTES : 0;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(c)); // the compiler's intrinsic is declared to read only eight bytes
}

// Adds the products of `count` registers of terms.
AMX_FUNCTION static inline void add_products(const uint16_t *left, size_t left_depth, const uint16_t *right,
                                             size_t right_depth, size_t count, bool below, bool beside)
{
    for (size_t i = 0; i < count; i++, left += REGISTER, right += REGISTER) {
        _tile_loadd(4, left, ROW_BYTES);
        _tile_loadd(6, right, ROW_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        if (beside) {
            _tile_loadd(7, right + right_depth * REGISTER, ROW_BYTES);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (below) {
            _tile_loadd(5, left + left_depth * REGISTER, ROW_BYTES);
            _tile_dpbf16ps(2, 5, 6);
            if (beside)
                _tile_dpbf16ps(3, 5, 7);
        }
    }
}

AMX_FUNCTION static inline void zero_sums(bool below, bool beside)
{
    _tile_zero(0);
    if (beside)
        _tile_zero(1);
    if (below)
        _tile_zero(2);
    if (below && beside)
        _tile_zero(3);
}

AMX_FUNCTION static inline void load_sums(const float *c, const float *c_below, ptrdiff_t stride, bool below,
                                          bool beside)
{
    _tile_loadd(0, c, stride);
    if (beside)
        _tile_loadd(1, c + SIDE, stride);
    if (below)
        _tile_loadd(2, c_below, stride);
    if (below && beside)
        _tile_loadd(3, c_below + SIDE, stride);
}

AMX_FUNCTION static inline void store_sums(float *c, float *c_below, ptrdiff_t stride, bool below, bool beside)
{
    _tile_stored(0, c, stride);
    if (beside)
        _tile_stored(1, c + SIDE, stride);
    if (below)
        _tile_stored(2, c_below, stride);
    if (below && beside)
        _tile_stored(3, c_below + SIDE, stride);
}

// Sums of at most 32 rows and columns; below: more than 16 rows, beside: more than 16 columns.
AMX_FUNCTION static void multiply_block(float *c, ptrdiff_t c_row, bool accumulate, struct amx_factor a,
                                        struct amx_factor b, size_t count, bool below, bool beside)
{
    ptrdiff_t stride = c_row * (ptrdiff_t)sizeof *c;
    float *c_below = c + SIDE * c_row;
    if (accumulate)
        load_sums(c, c_below, stride, below, beside);
    else
        zero_sums(below, beside);
    add_products(a.numbers, a.depth, b.numbers, b.depth, count, below, beside);
    store_sums(c, c_below, stride, below, beside);
}

AMX_FUNCTION static void multiply_by_tiles(float *c, ptrdiff_t c_row, bool accumulate, struct amx_factor a,
                                           struct amx_factor b, size_t m, size_t n, size_t k)
{
    __asm__ volatile("" ::: "memory"); // the compiler does not know which memory the registers are loaded from
    size_t configured = 0, count = (k + TERMS - 1) / TERMS;
    for (size_t row = 0; row < m; row += 2 * SIDE) {
        size_t height = m - row < 2 * SIDE ? m - row : 2 * SIDE;
        if (height != configured)
            configure(configured = height);
        for (size_t column = 0; column < n; column += 2 * SIDE)
            multiply_block(c + (ptrdiff_t)row * c_row + column, c_row, accumulate, amx_factor_at(a, row, 0),
                           amx_factor_at(b, column, 0), count, height > SIDE, n - column > SIDE);
    }
    __asm__ volatile("" ::: "memory");
    _tile_release();
}

// Rows and vectors of columns whose sums are held in registers at once.
enum { HELD_ROWS = 8, HELD_VECTORS = 3 };

// left: the first row within its register; right: the first column.
VECTOR_FUNCTION static inline __attribute__((always_inline)) void
multiply_held(int rows, int vectors, float *c, ptrdiff_t c_row, bool accumulate, const uint16_t *left,
              struct amx_factor right, size_t count)
{
    __m512 sum[HELD_ROWS][HELD_VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int j = 0; j < vectors; j++)
            sum[i][j] = accumulate ? _mm512_loadu_ps(c + i * c_row + j * SIDE) : _mm512_setzero_ps();
    for (size_t pair = 0; pair < count * SIDE; pair++) {
        const uint16_t *of_left = left + pair / SIDE * REGISTER + pair % SIDE * 2;
        const uint16_t *of_right = right.numbers + pair * TERMS;
        __m512i columns[HELD_VECTORS];
#pragma GCC unroll 3
        for (int j = 0; j < vectors; j++)
            columns[j] = _mm512_load_si512(of_right + (size_t)j * right.depth * REGISTER);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            int two;
            memcpy(&two, of_left + i * TERMS, sizeof two);
            __m512i terms = _mm512_set1_epi32(two);
#pragma GCC unroll 3
            for (int j = 0; j < vectors; j++)
                sum[i][j] = _mm512_dpbf16_ps(sum[i][j], (__m512bh)terms, (__m512bh)columns[j]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int j = 0; j < vectors; j++)
            _mm512_storeu_ps(c + i * c_row + j * SIDE, sum[i][j]);
}

// All rows of one strip of columns.
VECTOR_FUNCTION static inline __attribute__((always_inline)) void
multiply_strip(int vectors, float *c, ptrdiff_t c_row, bool accumulate, struct amx_factor a,
               struct amx_factor right, size_t m, size_t count)
{
    size_t row = 0;
    for (; row + HELD_ROWS <= m; row += HELD_ROWS)
        multiply_held(HELD_ROWS, vectors, c + (ptrdiff_t)row * c_row, c_row, accumulate,
                      amx_factor_at(a, row / SIDE * SIDE, 0).numbers + row % SIDE * TERMS, right, count);
    for (; row < m; row++)
        multiply_held(1, vectors, c + (ptrdiff_t)row * c_row, c_row, accumulate,
                      amx_factor_at(a, row / SIDE * SIDE, 0).numbers + row % SIDE * TERMS, right, count);
}

VECTOR_FUNCTION static void multiply_by_vectors(float *c, ptrdiff_t c_row, bool accumulate, struct amx_factor a,
                                                struct amx_factor b, size_t m, size_t n, size_t k)
{
    size_t count = (k + TERMS - 1) / TERMS, column = 0;
    for (; column + HELD_VECTORS * SIDE <= n; column += HELD_VECTORS * SIDE)
        multiply_strip(HELD_VECTORS, c + column, c_row, accumulate, a, amx_factor_at(b, column, 0), m, count);
    if (column + 2 * SIDE == n)
        multiply_strip(2, c + column, c_row, accumulate, a, amx_factor_at(b, column, 0), m, count);
    else if (column < n)
        multiply_strip(1, c + column, c_row, accumulate, a, amx_factor_at(b, column, 0), m, count);
}

void amx_multiply(enum bf16_unit unit, float *c, ptrdiff_t c_row, bool accumulate, struct amx_factor a,
                  struct amx_factor b, size_t m, size_t n, size_t k)
{
    CHECK(n % SIDE == 0);
    (unit == BF16_AMX ? multiply_by_tiles : multiply_by_vectors)(c, c_row, accumulate, a, b, m, n, k);
}
#else
enum bf16_unit bf16_unit(void)
{
    return BF16_NONE;
}

void amx_pack_left(struct amx_factor to, struct amx_view a, size_t m, size_t k)
{
    (void)to, (void)a, (void)m, (void)k;
    CHECK(!"available");
}

void amx_pack_right(struct amx_factor to, struct amx_view b, size_t k, size_t n)
{
    (void)to, (void)b, (void)k, (void)n;
    CHECK(!"available");
}

void amx_multiply(enum bf16_unit unit, float *c, ptrdiff_t c_row, bool accumulate, struct amx_factor a,
                  struct amx_factor b, size_t m, size_t n, size_t k)
{
    (void)unit, (void)c, (void)c_row, (void)accumulate, (void)a, (void)b, (void)m, (void)n, (void)k;
    CHECK(!"available");
}
#endif

const char *bf16_unit_name(void)
{
    static const char *const names[] = {[BF16_AVX512] = "AVX-512 BF16", [BF16_AMX] = "AMX"};
    return names[bf16_unit()];
}
