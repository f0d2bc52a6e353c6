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

#define AMX_FUNCTION   __attribute__((target("avx512f,avx512bw,amx-tile,amx-bf16")))
#define XSAVE_FUNCTION __attribute__((target("xsave")))

// The unit's registers: what a process asks the system to save of it before it may use them.
enum { REQUEST_STATE = 0x1023, REGISTERS = 18 };
// Of AVX-512 and of the unit, as XCR0 says what the system saves.
#define SAVED (7ull << 5 | 3ull << 17)

XSAVE_FUNCTION static bool find_unit(void)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    const unsigned xsave = 1u << 27, avx512 = 1u << 16 | 1u << 30; // F, BW
    const unsigned amx = 1u << 24 | 1u << 22;                      // tiles, products of bf16
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & xsave) || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return false;
    return (b & avx512) == avx512 && (d & amx) == amx && (_xgetbv(0) & SAVED) == SAVED &&
           syscall(SYS_arch_prctl, REQUEST_STATE, REGISTERS) == 0;
}

// As oneDNN reads it: the instructions that may be used, of which those before AMX have SSE's or AVX's names; what
// it does not know forbids nothing.
static bool is_forbidden(const char *allowed)
{
    return allowed && (strncasecmp(allowed, "SSE", 3) == 0 || strncasecmp(allowed, "AVX", 3) == 0) &&
           !strcasestr(allowed, "AMX");
}

bool amx_available(void)
{
    static int found; // 1: it is there, -1: it is not
    int known = __atomic_load_n(&found, __ATOMIC_RELAXED);
    if (!known) {
        known = find_unit() ? 1 : -1;
        __atomic_store_n(&found, known, __ATOMIC_RELAXED);
    }
    const char *allowed = getenv("ONEDNN_MAX_CPU_ISA");
    return known > 0 && !is_forbidden(allowed ? allowed : getenv("DNNL_MAX_CPU_ISA"));
}

// A register holds 16 rows of 64 bytes: 16 x 16 sums; of a left factor 16 rows of 32 terms; of a right one 32 terms
// of 16 columns, in pairs side by side. Of 32 terms the first is a pair with the 17th, and so on: vectors of f32
// become rows of pairs without crossing over. A factor is packed into the registers of the terms of its first 16
// rows (of a right one: columns), then those of the next.
enum { SIDE = AMX_ROWS, TERMS = AMX_TERMS, REGISTER = SIDE * TERMS, ROW_BYTES = 2 * TERMS };

// Cut to bf16, for the rest makes up for it.
AMX_FUNCTION static inline __m512i cut(__m512i x)
{
    return _mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000));
}

// In the upper half of each, rounded. Of an infinite number it is none: the product is no number, then.
AMX_FUNCTION static inline __m512i rest_of(__m512i x)
{
    __m512 rest = _mm512_castsi512_ps(x) - _mm512_castsi512_ps(cut(x));
    return _mm512_add_epi32(_mm512_castps_si512(rest), _mm512_set1_epi32(0x8000));
}

// The upper halves of (x_j, y_j) for each j of 16.
AMX_FUNCTION static inline __m512i pairs_of(__m512i x, __m512i y)
{
    return _mm512_mask_mov_epi16(_mm512_srli_epi32(x, 16), 0xaaaaaaaa, y);
}

AMX_FUNCTION static inline void store_pairs(struct amx_factor to, size_t at, __m512i x, __m512i y)
{
    _mm512_store_si512(to.numbers + at, pairs_of(x, y));
    if (to.rests)
        _mm512_store_si512(to.rests + at, pairs_of(rest_of(x), rest_of(y)));
}

// 16 numbers from column `first` on, zeros from column `count` on.
AMX_FUNCTION static inline __m512i load(const float *row, size_t first, size_t count)
{
    if (first + SIDE <= count)
        return _mm512_loadu_si512(row + first);
    return _mm512_maskz_loadu_epi32((__mmask16)(first < count ? (1u << (count - first)) - 1 : 0), row + first);
}

AMX_FUNCTION static void pack_rows(struct amx_factor to, struct amx_view a, size_t m, size_t k)
{
    for (size_t i = 0; i < m; i++) {
        const float *row = a.data + (ptrdiff_t)i * a.row;
        size_t at = i / SIDE * to.depth * REGISTER + i % SIDE * TERMS;
        for (size_t term = 0; term < k; term += TERMS, at += REGISTER)
            store_pairs(to, at, load(row, term, k), load(row, term + SIDE, k));
    }
}

// 16 columns of a row of x, whose rows are the terms; zeros if there is no such term.
AMX_FUNCTION static inline __m512i load_term(struct amx_view x, size_t term, size_t column, size_t k)
{
    return term < k ? _mm512_loadu_si512(x.data + (ptrdiff_t)term * x.row + column) : _mm512_setzero_si512();
}

AMX_FUNCTION void amx_pack_right(struct amx_factor to, struct amx_view b, size_t k, size_t n)
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

// Turns a register: pair j of row i becomes pair i of row j (Eklundh 1972).
AMX_FUNCTION static void transpose(uint16_t *numbers)
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
    for (int i = 0; i < SIDE; i += 4) // of four rows: x[i + j] has columns j, j + 4, j + 8, j + 12
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

AMX_FUNCTION void amx_pack_left(struct amx_factor to, struct amx_view a, size_t m, size_t k)
{
    CHECK(a.column == 1 || m % SIDE == 0);
    if (a.column == 1) {
        pack_rows(to, a, m, k);
        return;
    }
    amx_pack_right(to, (struct amx_view){a.data, a.column, 1}, k, m);
    for (size_t row = 0; row < m; row += SIDE)
        for (size_t term = 0; term < k; term += TERMS) {
            size_t at = row * to.depth * TERMS + term / TERMS * REGISTER;
            transpose(to.numbers + at);
            if (to.rests)
                transpose(to.rests + at);
        }
}

// Registers 0 to 3 have the sums of 32 rows and columns, 4 and 5 rows of the left factor, 6 and 7 columns of the
// right.
struct configuration {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

// Of a block of so many rows, at most 32.
AMX_FUNCTION static void configure(size_t rows)
{
    uint8_t first = (uint8_t)(rows < SIDE ? rows : SIDE), second = (uint8_t)(rows - first);
    const uint8_t of[8] = {first, first, second, second, first, second, SIDE, SIDE};
    struct configuration c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.rows[i] = of[i];
        c.row_bytes[i] = of[i] ? ROW_BYTES : 0;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(c)); // the compiler's own is said to read eight bytes
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

// The sums of at most 32 rows and columns; below: more than 16 rows, beside: more than 16 columns.
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
    if (a.rests)
        add_products(a.rests, a.depth, b.numbers, b.depth, count, below, beside);
    if (b.rests)
        add_products(a.numbers, a.depth, b.rests, b.depth, count, below, beside);
    store_sums(c, c_below, stride, below, beside);
}

AMX_FUNCTION void amx_multiply(float *c, ptrdiff_t c_row, bool accumulate, struct amx_factor a, struct amx_factor b,
                               size_t m, size_t n, size_t k)
{
    CHECK(n % SIDE == 0);
    __asm__ volatile("" ::: "memory"); // the compiler is not told what registers are loaded from
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
#else
bool amx_available(void)
{
    return false;
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

void amx_multiply(float *c, ptrdiff_t c_row, bool accumulate, struct amx_factor a, struct amx_factor b, size_t m,
                  size_t n, size_t k)
{
    (void)c, (void)c_row, (void)accumulate, (void)a, (void)b, (void)m, (void)n, (void)k;
    CHECK(!"available");
}
#endif
