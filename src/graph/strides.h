/* Strides of views: where in a storage the elements of a tensor are. */
#ifndef NEAP_GRAPH_STRIDES_H
#define NEAP_GRAPH_STRIDES_H

#include <stdbool.h>
#include <stdint.h>

/* Those of a row-major tensor without gaps. */
void neap_strides_plain(uint32_t rank, const int64_t *shape, int64_t *strides);

/*
 * Strides for another shape of the same elements, in row-major order of the old shape. Returns
 * false if no strides express it: old dimensions that are merged must be evenly spaced in memory.
 */
bool neap_strides_reshape(uint32_t rank, const int64_t *shape, const int64_t *strides,
                          uint32_t new_rank, const int64_t *new_shape, int64_t *new_strides);

#endif
