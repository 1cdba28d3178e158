/* See view.h. */
#include "onnx/view.h"

#include <string.h>

void neap_onnx_view_init(onnx_view *view, uint32_t root, bool of_initializer, uint32_t rank,
                         const int64_t *dims)
{
    *view = (onnx_view){.root = root, .of_initializer = of_initializer, .rank = rank};
    for (uint32_t d = 0; d < rank; d++) {
        if (dims[d] == 1)
            continue;
        uint32_t atom = view->n_atoms++;
        view->extents[atom] = dims[d];
        view->fixed[atom] = -1;
        view->order[view->n_order++] = (uint8_t)atom;
        view->counts[d] = 1;
    }
}

/* The place in `order` where the atoms of a dimension begin. */
static uint32_t begin_of(const onnx_view *view, uint32_t dim)
{
    uint32_t begin = 0;
    for (uint32_t d = 0; d < dim; d++)
        begin += view->counts[d];
    return begin;
}

int64_t neap_onnx_view_extent(const onnx_view *view, uint32_t dim)
{
    int64_t extent = 1;
    uint32_t begin = begin_of(view, dim);
    for (uint32_t i = 0; i < view->counts[dim]; i++)
        extent *= view->extents[view->order[begin + i]];
    return extent;
}

void neap_onnx_view_dims(const onnx_view *view, int64_t dims[NEAP_MAX_RANK])
{
    for (uint32_t d = 0; d < view->rank; d++)
        dims[d] = neap_onnx_view_extent(view, d);
}

void neap_onnx_view_transpose(onnx_view *view, const uint32_t *perm)
{
    onnx_view turned = *view;
    turned.n_order = 0;
    for (uint32_t d = 0; d < view->rank; d++) {
        uint32_t begin = begin_of(view, perm[d]), count = view->counts[perm[d]];
        memcpy(turned.order + turned.n_order, view->order + begin, count);
        turned.counts[d] = (uint8_t)count;
        turned.n_order += count;
    }
    *view = turned;
}

/* Cuts an atom into an outer factor and the rest. False: no room. */
static bool cut_atom(onnx_view *view, uint32_t atom, int64_t outer)
{
    if (view->n_atoms == VIEW_MOST_ATOMS)
        return false;
    for (uint32_t i = view->n_atoms; i > atom + 1; i--) {
        view->extents[i] = view->extents[i - 1];
        view->fixed[i] = view->fixed[i - 1];
    }
    view->n_atoms++;
    view->extents[atom + 1] = view->extents[atom] / outer;
    view->fixed[atom + 1] = -1;
    view->extents[atom] = outer;
    for (uint32_t i = 0; i < view->n_order; i++)
        if (view->order[i] > atom)
            view->order[i]++;
    uint32_t place = 0;
    while (view->order[place] != atom)
        place++;
    memmove(view->order + place + 2, view->order + place + 1, view->n_order - place - 1);
    view->order[place + 1] = (uint8_t)(atom + 1);
    view->n_order++;
    return true;
}

bool neap_onnx_view_reshape(onnx_view *view, uint32_t rank, const int64_t *dims)
{
    onnx_view changed = *view;
    uint32_t next = 0;
    if (rank > NEAP_MAX_RANK)
        return false;
    changed.rank = rank;
    memset(changed.counts, 0, sizeof changed.counts);
    for (uint32_t d = 0; d < rank; d++) {
        int64_t left = dims[d];
        while (left > 1) {
            if (next == changed.n_order)
                return false;
            uint32_t atom = changed.order[next];
            int64_t extent = changed.extents[atom];
            if (left % extent != 0) {
                if (extent % left != 0 || !cut_atom(&changed, atom, left))
                    return false;
                extent = left;
            }
            left /= extent;
            changed.counts[d]++;
            next++;
        }
        if (left != 1)
            return false;
    }
    if (next != changed.n_order)
        return false;
    *view = changed;
    return true;
}

void neap_onnx_view_select(onnx_view *view, uint32_t dim, int64_t index)
{
    uint32_t begin = begin_of(view, dim), count = view->counts[dim];
    for (uint32_t i = count; i-- > 0;) {
        uint32_t atom = view->order[begin + i];
        view->fixed[atom] = index % view->extents[atom];
        index /= view->extents[atom];
    }
    memmove(view->order + begin, view->order + begin + count, view->n_order - begin - count);
    view->n_order -= count;
    view->rank--;
    for (uint32_t d = dim; d < view->rank; d++)
        view->counts[d] = view->counts[d + 1];
}

bool neap_onnx_view_part(onnx_view *view, uint32_t dim, int64_t begin, int64_t end)
{
    int64_t dims[NEAP_MAX_RANK + 1], extent = neap_onnx_view_extent(view, dim);
    int64_t length = end - begin;
    if (begin == 0 && length == extent)
        return true;
    if (length < 1 || extent % length != 0 || begin % length != 0 || view->rank >= NEAP_MAX_RANK)
        return false;
    onnx_view changed = *view;
    neap_onnx_view_dims(view, dims);
    memmove(dims + dim + 1, dims + dim, (view->rank - dim) * sizeof *dims);
    dims[dim] = extent / length;
    dims[dim + 1] = length;
    if (!neap_onnx_view_reshape(&changed, view->rank + 1, dims))
        return false;
    neap_onnx_view_select(&changed, dim, begin / length);
    *view = changed;
    return true;
}

/* The dimension of a place in `order`. */
static uint32_t dim_of(const onnx_view *view, uint32_t place)
{
    uint32_t dim = 0, end = view->counts[0];
    while (place >= end)
        end += view->counts[++dim];
    return dim;
}

/* Joins atom + 1 to atom. */
static void join_atoms(onnx_view *view, uint32_t atom, uint32_t place)
{
    if (view->fixed[atom] >= 0)
        view->fixed[atom] = view->fixed[atom] * view->extents[atom + 1] + view->fixed[atom + 1];
    else
        view->counts[dim_of(view, place + 1)]--;
    view->extents[atom] *= view->extents[atom + 1];
    for (uint32_t i = atom + 1; i + 1 < view->n_atoms; i++) {
        view->extents[i] = view->extents[i + 1];
        view->fixed[i] = view->fixed[i + 1];
    }
    view->n_atoms--;
    if (view->fixed[atom] < 0) {
        memmove(view->order + place + 1, view->order + place + 2, view->n_order - place - 2);
        view->n_order--;
    }
    for (uint32_t i = 0; i < view->n_order; i++)
        if (view->order[i] > atom)
            view->order[i]--;
}

/* Whether atom + 1 follows atom in the view; in which place atom is. */
static bool follows(const onnx_view *view, uint32_t atom, uint32_t *place)
{
    if (view->fixed[atom] >= 0 || view->fixed[atom + 1] >= 0)
        return view->fixed[atom] >= 0 && view->fixed[atom + 1] >= 0;
    for (*place = 0; *place + 1 < view->n_order; ++*place)
        if (view->order[*place] == atom)
            return view->order[*place + 1] == atom + 1;
    return false;
}

void neap_onnx_view_simplify(onnx_view *view)
{
    for (uint32_t atom = 0; atom + 1 < view->n_atoms;) {
        uint32_t place = 0;
        bool same = follows(view, atom, &place) &&
                    (view->fixed[atom] >= 0 || dim_of(view, place) == dim_of(view, place + 1));
        if (same)
            join_atoms(view, atom, place);
        else
            atom++;
    }
}

bool neap_onnx_view_is_complete(const onnx_view *view)
{
    return view->n_order == view->n_atoms;
}

bool neap_onnx_view_is_whole(const onnx_view *view)
{
    for (uint32_t i = 0; i < view->n_order; i++)
        if (view->order[i] != i)
            return false;
    return neap_onnx_view_is_complete(view);
}

/* As few atoms as the order of the elements needs, whatever the dimensions. */
static void flatten(onnx_view *view)
{
    int64_t all = 1;
    for (uint32_t i = 0; i < view->n_order; i++)
        all *= view->extents[view->order[i]];
    neap_onnx_view_reshape(view, 1, &all);
    neap_onnx_view_simplify(view);
}

bool neap_onnx_view_is_alike(const onnx_view *a, const onnx_view *b)
{
    onnx_view left = *a, right = *b;
    if (!neap_onnx_view_is_complete(a) || !neap_onnx_view_is_complete(b))
        return false;
    flatten(&left);
    flatten(&right);
    return left.n_atoms == right.n_atoms &&
           memcmp(left.extents, right.extents, left.n_atoms * sizeof *left.extents) == 0 &&
           memcmp(left.order, right.order, left.n_order) == 0;
}

bool neap_onnx_view_keeps_last(const onnx_view *view, int64_t extent)
{
    if (view->rank == 0 || !neap_onnx_view_is_complete(view) ||
        neap_onnx_view_extent(view, view->rank - 1) != extent)
        return false;
    uint32_t count = view->counts[view->rank - 1];
    for (uint32_t i = 0; i < count; i++)
        if (view->order[view->n_order - 1 - i] != view->n_atoms - 1 - i)
            return false;
    return true;
}

bool neap_onnx_view_change_last(onnx_view *view, int64_t now, uint32_t root)
{
    onnx_view changed = *view;
    uint32_t count = view->counts[view->rank - 1];
    changed.root = root;
    changed.of_initializer = false;
    changed.n_atoms -= count;
    changed.n_order -= count;
    changed.counts[view->rank - 1] = 0;
    if (now != 1) {
        if (changed.n_atoms == VIEW_MOST_ATOMS)
            return false;
        changed.extents[changed.n_atoms] = now;
        changed.fixed[changed.n_atoms] = -1;
        changed.order[changed.n_order++] = (uint8_t)changed.n_atoms++;
        changed.counts[view->rank - 1] = 1;
    }
    *view = changed;
    return true;
}
