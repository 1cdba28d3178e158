/* Copies, constants and transpositions. Elements are words without a type: T does not matter here. */
#include "copy.h"
#include "walk.cuh"

typedef struct ALIGNED(16) ANY_TYPE word16 {
    u64 bits, more;
} word16;
typedef struct ANY_TYPE word8 {
    u64 bits;
} word8;
typedef struct ANY_TYPE word4 {
    u32 bits;
} word4;
typedef struct ANY_TYPE word2 {
    u16 bits;
} word2;
typedef struct ANY_TYPE word1 {
    u8 bits;
} word1;

/* ---- Boxes ---- */

DEVICE word16 value_word16(u64 value)
{
    word16 word;
    word.bits = word.more = value;
    return word;
}

#define VALUE(type, bits_type)                                                                     \
    DEVICE type value_##type(u64 value)                                                            \
    {                                                                                              \
        type word;                                                                                 \
        word.bits = (bits_type)value;                                                              \
        return word;                                                                               \
    }

VALUE(word8, u64)
VALUE(word4, u32)
VALUE(word2, u16)
VALUE(word1, u8)

#define COPY(type)                                                                                 \
    DEVICE void copy_##type(const copy_box *b)                                                     \
    {                                                                                              \
        type x[WALK_UNROLL];                                                                       \
        i64 at[WALK_UNROLL][2];                                                                    \
        u32 first = walk_first();                                                                  \
        UNROLL                                                                                     \
        for (int j = 0; j < WALK_UNROLL; j++)                                                      \
            if (first + j * blockDim.x < b->walk.units) {                                          \
                walk_find(&b->walk, 2, first + j * blockDim.x, at[j]);                             \
                x[j] = value_##type(b->value);                                                     \
                if (b->from)                                                                       \
                    x[j] = *(const type *)((const u8 *)b->from + at[j][1]);                        \
            }                                                                                      \
        UNROLL                                                                                     \
        for (int j = 0; j < WALK_UNROLL; j++)                                                      \
            if (first + j * blockDim.x < b->walk.units)                                            \
                *(type *)((u8 *)b->to + at[j][0]) = x[j];                                          \
    }

COPY(word16)
COPY(word8)
COPY(word4)
COPY(word2)
COPY(word1)

DEVICE void copy_words(const copy_box *b)
{
    switch (b->word) {
    case 16:
        copy_word16(b);
        break;
    case 8:
        copy_word8(b);
        break;
    case 4:
        copy_word4(b);
        break;
    case 2:
        copy_word2(b);
        break;
    default:
        copy_word1(b);
    }
}

KERNEL(copy_one, copy_box)
{
    copy_words(&p);
}

/* Boxes that end before the longest leave their last blocks idle. */
KERNEL(copy_many, copy_boxes)
{
    copy_words(&p.box[blockIdx.y]);
}

/* ---- Transposition: through the block's memory, so that both sides are neighbours ---- */

#define TILE      32
#define TILE_STEP 8 /* rows of a tile at a time: blocks of TILE * TILE_STEP threads */

DEVICE void tile_begin(const tile_params *p, i64 *at, u32 *row, u32 *column, u32 side)
{
    u32 matrix = walk_divide(blockIdx.x, p->by_tiles), tile = blockIdx.x - matrix * p->tiles;
    u32 down = walk_divide(tile, p->by_across);
    walk_find(&p->matrices, 2, matrix, at);
    *row = down * side;
    *column = (tile - down * p->tiles_across) * side;
}

#define TRANSPOSE(name, type)                                                                      \
    KERNEL_SYNC(name, tile_params)                                                                 \
    {                                                                                              \
        SHARED type tile[TILE][TILE + 1];                                                          \
        u32 x = threadIdx.x % TILE, y = threadIdx.x / TILE, row, column;                           \
        i64 at[2];                                                                                 \
        tile_begin(&p, at, &row, &column, TILE);                                                   \
        const type *from = (const type *)p.from + at[1];                                           \
        type *to = (type *)p.to + at[0];                                                           \
        UNROLL                                                                                     \
        for (u32 i = y; i < TILE; i += TILE_STEP)                                                  \
            if (row + i < p.rows && column + x < p.columns)                                        \
                tile[i][x] = from[(row + i) * p.from_row + column + x];                            \
        __syncthreads();                                                                           \
        UNROLL                                                                                     \
        for (u32 i = y; i < TILE; i += TILE_STEP)                                                  \
            if (column + i < p.columns && row + x < p.rows)                                        \
                to[(column + i) * p.to_column + row + x] = tile[x][i];                             \
    }

TRANSPOSE(transpose_1, word1)
TRANSPOSE(transpose_2, word2)
TRANSPOSE(transpose_4, word4)
TRANSPOSE(transpose_8, word8)

/* Elements of 2 bytes, of which there is an even number in everything: two at a time. */
KERNEL_SYNC(transpose_pairs, tile_params)
{
    SHARED u32 tile[2 * TILE][TILE + 1];
    u32 x = threadIdx.x % TILE, y = threadIdx.x / TILE, row, column;
    i64 at[2];
    tile_begin(&p, at, &row, &column, 2 * TILE);
    const u16 *from = (const u16 *)p.from + at[1];
    u16 *to = (u16 *)p.to + at[0];
    UNROLL
    for (u32 i = y; i < 2 * TILE; i += TILE_STEP)
        if (row + i < p.rows && column + 2 * x < p.columns)
            tile[i][x] =
                ((const word4 *)(from + (row + i) * p.from_row + column + 2 * x))->bits;
    __syncthreads();
    UNROLL
    for (u32 i = y; i < TILE; i += TILE_STEP)
        if (column + 2 * i < p.columns && row + 2 * x < p.rows) {
            u32 upper = tile[2 * x][i], lower = tile[2 * x + 1][i];
            u16 *left = to + (column + 2 * i) * p.to_column + row + 2 * x;
            ((word4 *)left)->bits = (upper & 0xffff) | lower << 16;
            ((word4 *)(left + p.to_column))->bits = upper >> 16 | (lower & 0xffff0000u);
        }
}

#undef COPY
#undef VALUE
#undef TRANSPOSE
