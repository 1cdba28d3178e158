/*
 * The words of kernels/mma.cuh on the processor. Included by it alone. Copies are done at once: a
 * kernel that forgets to wait for them is not found out here.
 */
#ifndef NEAP_CUDA_EMULATION_MMA_H
#define NEAP_CUDA_EMULATION_MMA_H

/* Rows of the four matrices, from the lanes that name them. */
static inline void load_matrices(unsigned x[4], const void *row)
{
    const unsigned char *rows[32];
    unsigned lane = neap_emulated_thread.x % 32;
    neap_emulated_exchange(&row, sizeof row, rows);
    for (unsigned m = 0; m < 4; m++)
        memcpy(&x[m], rows[8 * m + lane / 4] + lane % 4 * 4, 4);
}

static inline void load_matrices_transposed(unsigned x[4], const void *row)
{
    const unsigned char *rows[32];
    unsigned lane = neap_emulated_thread.x % 32;
    neap_emulated_exchange(&row, sizeof row, rows);
    for (unsigned m = 0; m < 4; m++) {
        unsigned short pair[2];
        for (unsigned i = 0; i < 2; i++)
            memcpy(&pair[i], rows[8 * m + lane % 4 * 2 + i] + lane / 4 * 2, 2);
        x[m] = pair[0] | (unsigned)pair[1] << 16;
    }
}

typedef struct emulated_factors {
    unsigned a[4], b[2];
} emulated_factors;

static inline float emulated_half(unsigned pair, unsigned which)
{
    return bits_float(which ? pair & 0xffff0000u : pair << 16);
}

static inline void multiply_bf16(float c[4], const unsigned a[4], unsigned b0, unsigned b1)
{
    emulated_factors mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}}, all[32];
    unsigned lane = neap_emulated_thread.x % 32;
    neap_emulated_exchange(&mine, sizeof mine, all);
    for (unsigned i = 0; i < 4; i++) {
        unsigned column = lane % 4 * 2 + i % 2;
        for (unsigned k = 0; k < 16; k++)
            c[i] += emulated_half(all[lane / 4 * 4 + k % 8 / 2].a[i / 2 + k / 8 * 2], k % 2) *
                    emulated_half(all[column * 4 + k % 8 / 2].b[k / 8], k % 2);
    }
}

/* The hardware ignores the bits that tf32 does not have. */
static inline float emulated_tf32(unsigned bits)
{
    return bits_float(bits & 0xffffe000u);
}

static inline void multiply_tf32(float c[4], const unsigned a[4], unsigned b0, unsigned b1)
{
    emulated_factors mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}}, all[32];
    unsigned lane = neap_emulated_thread.x % 32;
    neap_emulated_exchange(&mine, sizeof mine, all);
    for (unsigned i = 0; i < 4; i++) {
        unsigned column = lane % 4 * 2 + i % 2;
        for (unsigned k = 0; k < 8; k++)
            c[i] += emulated_tf32(all[lane / 4 * 4 + k % 4].a[i / 2 + k / 4 * 2]) *
                    emulated_tf32(all[column * 4 + k % 4].b[k / 4]);
    }
}

static inline unsigned round_tf32(float x)
{
    unsigned bits = float_bits(x);
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : (bits + 0x1000u) & 0xffffe000u;
}

static inline void copy_cell(void *to, const void *from, bool there)
{
    if (there)
        memcpy(to, from, 16);
    else
        memset(to, 0, 16);
}

static inline void copy_number(float *to, const float *from, bool there)
{
    *to = there ? *from : 0;
}

static inline void wait_copies(void) {}

#endif
