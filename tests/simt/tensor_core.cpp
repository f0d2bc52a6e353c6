// Tensor core: what a warp computes of its lanes' registers together. Each lane leaves its own and, once the last
// lane has computed for all, takes its part.
#include <cuda_runtime.h>

namespace simt
{

namespace
{

constexpr uint32_t ALL = 0xffffffffu;

typedef float columns __attribute__((vector_size(32))); // of a row of b and of the sums

struct registers {
    uint32_t a[4], b[2], x[4];
    float sum[4];
    const unsigned char *row;
};
registers lanes[MAX_THREADS];

float number(uint32_t pair, unsigned upper)
{
    uint32_t bits = upper ? pair & 0xffff0000u : pair << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Lane 4 g + t has of every fragment two neighbours: in row g, from column 2 t on, in that of b transposed.
// Fragments of a and the sums follow each other by 8 rows, then a's by 8 columns; b's by 8 rows.
void multiply(unsigned first)
{
    float a[16][16];
    columns b[16], sum[16];
    for (unsigned lane = 0; lane < WARP; lane++) {
        const registers &own = lanes[first + lane];
        unsigned g = lane / 4, at = lane % 4 * 2;
        for (unsigned n = 0; n < 2; n++) {
            for (unsigned i = 0; i < 4; i++)
                a[g + i % 2 * 8][at + i / 2 * 8 + n] = number(own.a[i], n);
            for (unsigned i = 0; i < 2; i++) {
                b[at + i * 8 + n][g] = number(own.b[i], n);
                sum[g + i * 8][at + n] = own.sum[2 * i + n];
            }
        }
    }
    for (unsigned row = 0; row < 16; row++)
        for (unsigned k = 0; k < 16; k++)
            sum[row] += a[row][k] * b[k];
    for (unsigned lane = 0; lane < WARP; lane++)
        for (unsigned i = 0; i < 4; i++)
            lanes[first + lane].sum[i] = sum[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
}

void transpose(unsigned first)
{
    for (unsigned lane = 0; lane < WARP; lane++) {
        unsigned column = lane / 4, row = lane % 4 * 2;
        uint32_t upper = lanes[first + 4 * row + column / 2].x[0];
        uint32_t lower = lanes[first + 4 * (row + 1) + column / 2].x[0];
        lanes[first + lane].x[1] = (upper >> 16 * (column % 2) & 0xffff) | (lower >> 16 * (column % 2) & 0xffff)
                                                                               << 16;
    }
}

template <bool TRANSPOSED> void read_matrices(unsigned first)
{
    for (unsigned i = 0; i < 4; i++) {
        const registers *rows = lanes + first + 8 * i;
        unsigned banks = 0; // of 16 bytes
        for (unsigned j = 0; j < 8; j++)
            banks |= 1u << (uintptr_t)rows[j].row % 128 / 16;
        if (banks != 0xff)
            fail("ldmatrix reads two rows of a matrix from the same banks");
        for (unsigned lane = 0; lane < WARP; lane++) {
            unsigned g = lane / 4, t = lane % 4;
            uint16_t pair[2];
            for (unsigned j = 0; j < 2; j++)
                memcpy(&pair[j], TRANSPOSED ? rows[2 * t + j].row + 2 * g : rows[g].row + 2 * (2 * t + j), 2);
            lanes[first + lane].x[i] = pair[0] | (uint32_t)pair[1] << 16;
        }
    }
}

} // namespace

void mma_m16n8k16(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    registers &own = lanes[current];
    memcpy(own.a, a, sizeof own.a);
    memcpy(own.b, b, sizeof own.b);
    memcpy(own.sum, sum, sizeof own.sum);
    meet(ALL, multiply);
    memcpy(sum, own.sum, sizeof own.sum);
}

uint32_t movmatrix(uint32_t x)
{
    registers &own = lanes[current];
    own.x[0] = x;
    meet(ALL, transpose);
    return own.x[1];
}

void ldmatrix(uint32_t (&to)[4], const unsigned char *row, bool transposed)
{
    registers &own = lanes[current];
    own.row = row;
    meet(ALL, transposed ? read_matrices<true> : read_matrices<false>);
    memcpy(to, own.x, sizeof own.x);
}

} // namespace simt
