#include "graph/strides.h"

#include "graph/network_internal.h"

void neap_strides_plain(uint32_t rank, const int64_t *shape, int64_t *strides)
{
    int64_t stride = 1;
    for (uint32_t d = rank; d-- > 0;) {
        strides[d] = stride;
        stride = neap_count_mul(stride, shape[d]);
    }
}

/*
 * Dimensions old and new are taken in groups of equal products, from the first on; the old ones of
 * a group must be evenly spaced, and the new ones divide that space.
 */
bool neap_strides_reshape(uint32_t rank, const int64_t *shape, const int64_t *strides,
                          uint32_t new_rank, const int64_t *new_shape, int64_t *new_strides)
{
    uint32_t from = 0, to = 0;
    while (from < rank || to < new_rank) {
        uint32_t first_from = from, first_to = to;
        int64_t have = 1, want = 1;
        if (from < rank)
            have = shape[from++];
        if (to < new_rank)
            want = new_shape[to++];
        while (have != want) {
            if (have < want && from < rank)
                have = neap_count_mul(have, shape[from++]);
            else if (to < new_rank)
                want = neap_count_mul(want, new_shape[to++]);
            else
                return false;
        }
        int64_t stride = 1, expected = -1;
        for (uint32_t d = from; d-- > first_from;) {
            if (shape[d] == 1)
                continue;
            if (expected < 0)
                stride = strides[d];
            else if (strides[d] != expected)
                return false;
            expected = neap_count_mul(strides[d], shape[d]);
        }
        for (uint32_t d = to; d-- > first_to;) {
            new_strides[d] = stride;
            stride = neap_count_mul(stride, new_shape[d]);
        }
    }
    return true;
}
