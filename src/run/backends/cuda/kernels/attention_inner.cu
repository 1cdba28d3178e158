#include "attention_common.cuh"

/* do . o of every row, by 8 threads each. The order of sums does not depend on alignment. */
KERNEL_SYNC(attention_inner, attention_params)
{
    i64 row = global_thread() / 8, rows = (i64)p.batch * p.queries * p.heads;
    int lane = (int)threadIdx.x % 8, width = row < rows ? p.width : 0;
    u32 index = row < rows ? (u32)row : 0, line = index / (u32)p.heads;
    int query = (int)(line % (u32)p.queries);
    attention_place at = {(i32)(line / (u32)p.queries), (i32)(index % (u32)p.heads), 0, 0};
    const T *o = attention_head(&p, &p.o, &at) + query * p.o.row;
    const T *d_o = attention_head(&p, &p.d_o, &at) + query * p.d_o.row;
    float sum = 0;
    for (int d = lane * VECTOR; d < width; d += 8 * VECTOR) {
        vector a, b;
        if (p.o.vectors && p.d_o.vectors) {
            a = *(const vector *)(o + d);
            b = *(const vector *)(d_o + d);
        } else {
            UNROLL for (int e = 0; e < VECTOR; e++)
            {
                a.e[e] = d + e < width ? o[(d + e) * p.o.step] : to_t(0);
                b.e[e] = d + e < width ? d_o[(d + e) * p.d_o.step] : to_t(0);
            }
        }
        UNROLL for (int e = 0; e < VECTOR; e++)
            sum += from_t(a.e[e]) * from_t(b.e[e]);
    }
    for (int mask = 4; mask > 0; mask /= 2)
        sum += shuffle_xor(sum, mask);
    if (lane == 0 && row < rows)
        p.inner[attention_inner_index(&p, &at, query)] = sum;
}
