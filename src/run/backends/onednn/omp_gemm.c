/*
 * Register tiles: a few rows of C times two vectors stay in registers over the whole depth, and
 * each step multiplies one element of A a row with two vectors of B.
 *
 * The width of vectors and the number of registers decide the tile, so every kind of processor has
 * its own: 8 x 32 with 32 registers of 16 floats, 4 x 16 with 16 of 8, 4 x 8 with 16 of 4.
 */
#include "run/backends/onednn/omp_gemm.h"

#define ROWS_4(ROW) ROW(0) ROW(1) ROW(2) ROW(3)
#define ROWS_8(ROW) ROWS_4(ROW) ROW(4) ROW(5) ROW(6) ROW(7)

/* Two vectors a row. */
#define BEGIN_2(i) vec p##i = {0}, q##i = {0};
#define LOAD_2(i)                                                                                  \
    p##i = *(const loose *)(c + i * c_row);                                                        \
    q##i = *(const loose *)(c + i * c_row + lanes);
#define STEP_2(i)                                                                                  \
    p##i += b0 * a[i * a_row];                                                                     \
    q##i += b1 * a[i * a_row];
#define STORE_2(i)                                                                                 \
    *(loose *)(c + i * c_row) = p##i;                                                              \
    *(loose *)(c + i * c_row + lanes) = q##i;

/* One vector a row. */
#define BEGIN_1(i) vec p##i = {0};
#define LOAD_1(i)  p##i = *(const loose *)(c + i * c_row);
#define STEP_1(i)  p##i += b0 * a[i * a_row];
#define STORE_1(i) *(loose *)(c + i * c_row) = p##i;

/* `vec` lives in registers, `loose` in memory, aligned as a float is. */
#define TYPES(bytes)                                                                               \
    enum { lanes = (bytes) / 4 };                                                                  \
    typedef float vec __attribute__((vector_size(bytes)));                                         \
    typedef float loose __attribute__((vector_size(bytes), aligned(4), may_alias));

#define PARAMETERS                                                                                 \
    const float *a, int64_t a_row, int64_t a_column, const float *b, int64_t b_row, float *c,      \
        int64_t c_row, bool add, int64_t depth

#define TILE_2(name, attributes, bytes, ROWS)                                                      \
    attributes static void name(PARAMETERS)                                                        \
    {                                                                                              \
        TYPES(bytes)                                                                               \
        ROWS(BEGIN_2)                                                                              \
        if (add) {                                                                                 \
            ROWS(LOAD_2)                                                                           \
        }                                                                                          \
        for (int64_t k = 0; k < depth; k++, a += a_column, b += b_row) {                           \
            vec b0 = *(const loose *)b, b1 = *(const loose *)(b + lanes);                          \
            ROWS(STEP_2)                                                                           \
        }                                                                                          \
        ROWS(STORE_2)                                                                              \
    }

#define TILE_1(name, attributes, bytes, ROWS)                                                      \
    attributes static void name(PARAMETERS)                                                        \
    {                                                                                              \
        TYPES(bytes)                                                                               \
        ROWS(BEGIN_1)                                                                              \
        if (add) {                                                                                 \
            ROWS(LOAD_1)                                                                           \
        }                                                                                          \
        for (int64_t k = 0; k < depth; k++, a += a_column, b += b_row) {                           \
            vec b0 = *(const loose *)b;                                                            \
            ROWS(STEP_1)                                                                           \
        }                                                                                          \
        ROWS(STORE_1)                                                                              \
    }

/* All tiles of a product, `wide` columns at a time where there are so many left, else `narrow`. */
#define PRODUCT(name, tile_rows, wide, wide_tile, narrow, narrow_tile)                             \
    static void name(omp_gemm_a a, omp_gemm_b b, omp_gemm_c c, int64_t rows, int64_t columns,      \
                     int64_t depth)                                                                \
    {                                                                                              \
        for (int64_t j = 0, n; j < columns; j += n) {                                              \
            const float *strip = b.at + j / OMP_GEMM_STRIP * b.strip + j % OMP_GEMM_STRIP;         \
            n = columns - j >= (wide) ? (wide) : (narrow);                                         \
            for (int64_t i = 0; i < rows; i += (tile_rows))                                        \
                (n == (wide) ? wide_tile : narrow_tile)(a.at + i * a.row, a.row, a.column, strip,  \
                                                        b.row, c.at + i * c.row + j, c.row, c.add, \
                                                        depth);                                    \
        }                                                                                          \
    }

TILE_2(plain_tile, , 16, ROWS_4)
PRODUCT(plain_product, 4, 8, plain_tile, 8, plain_tile)

#if defined(__x86_64__)
#define AVX2   __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx512f,fma")))
TILE_2(avx2_tile, AVX2, 32, ROWS_4)
PRODUCT(avx2_product, 4, 16, avx2_tile, 16, avx2_tile)
TILE_2(avx512_tile, AVX512, 64, ROWS_8)
TILE_1(avx512_half, AVX512, 64, ROWS_8)
PRODUCT(avx512_product, 8, 32, avx512_tile, 16, avx512_half)
#endif

omp_gemm *neap_omp_gemm_choose(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return avx512_product;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return avx2_product;
#endif
    return plain_product;
}
