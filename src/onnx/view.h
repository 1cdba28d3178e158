/*
 * Views: a tensor seen through reshapes, transposes and selections, without moving an element.
 *
 * Exporters spell out what frameworks do with strides: a query is a third of a projection, cut into
 * heads, with two dimensions exchanged. Followed as views, such chains end in what they mean, and
 * cost nothing.
 *
 * The elements of the root, in row-major order, are indexed by *atoms*: factors of its extents, the
 * first one outermost. An atom is free, or fixed at one index. The view's dimensions are groups of
 * free atoms, one after another in `order`. A dimension of extent 1 has no atoms.
 */
#ifndef NEAP_ONNX_VIEW_H
#define NEAP_ONNX_VIEW_H

#include <neap/network.h>

/* A view with more atoms than this is not made; its users fall back to copying. */
#define VIEW_MOST_ATOMS 16

typedef struct onnx_view {
    uint32_t root;       /* a neap_tensor, or an initializer */
    bool of_initializer; /* which of the two */
    uint32_t n_atoms;    /* in the order of the root's elements */
    int64_t extents[VIEW_MOST_ATOMS];
    int64_t fixed[VIEW_MOST_ATOMS]; /* an index; -1: free */
    uint32_t n_order;               /* the free atoms, in the order of the view's elements */
    uint8_t order[VIEW_MOST_ATOMS];
    uint32_t rank;
    uint8_t counts[NEAP_MAX_RANK]; /* atoms of each dimension */
} onnx_view;

/* All of a root with these extents. */
void neap_onnx_view_init(onnx_view *view, uint32_t root, bool of_initializer, uint32_t rank,
                         const int64_t *dims);
int64_t neap_onnx_view_extent(const onnx_view *view, uint32_t dim);
void neap_onnx_view_dims(const onnx_view *view, int64_t dims[NEAP_MAX_RANK]);

/* perm[i] is the dimension that becomes dimension i. */
void neap_onnx_view_transpose(onnx_view *view, const uint32_t *perm);
/* The same elements in other extents. False, and the view is as before, where an atom would have to
   be cut at no factor of it. */
bool neap_onnx_view_reshape(onnx_view *view, uint32_t rank, const int64_t *dims);
/* One index of a dimension, which disappears. */
void neap_onnx_view_select(onnx_view *view, uint32_t dim, int64_t index);
/* Elements begin..end-1 of a dimension. False, and the view is as before, unless they are one of
   equal parts. */
bool neap_onnx_view_part(onnx_view *view, uint32_t dim, int64_t begin, int64_t end);

/* Joins atoms that follow each other in the root and in the view. Equal views are then equal in
   all their members. */
void neap_onnx_view_simplify(onnx_view *view);
/* Whether the view's elements are those of the root in their order. */
bool neap_onnx_view_is_whole(const onnx_view *view);
/* Whether all of the root is in it, in whatever order. */
bool neap_onnx_view_is_complete(const onnx_view *view);
/* Whether two complete views have their elements in the same order of their roots', which have
   the same number of elements. */
bool neap_onnx_view_is_alike(const onnx_view *a, const onnx_view *b);
/* Whether the last dimension is the innermost `extent` elements of the root, in their order, and
   the others are complete. */
bool neap_onnx_view_keeps_last(const onnx_view *view, int64_t extent);
/* The same view of a root whose innermost extent is another: the view keeps its last one. False if
   it would need too many atoms. */
bool neap_onnx_view_change_last(onnx_view *view, int64_t now, uint32_t root);

#endif
