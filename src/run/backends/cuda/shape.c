/*
 * Ops that move elements: concat, slice_bw, transpose, permute, expand, broadcast, sum_axes_bw,
 * pad, pad2d, pad2d_bw. Each is a list of boxes, which together cover the result: a box is copied
 * from one operand, or set to a value.
 *
 * A box whose rows in the source are columns in the result is transposed in tiles. Others are
 * walked, several boxes in a launch, in words as wide as rows, strides and addresses allow.
 */
#include "base/fail.h"
#include "base/half.h"
#include "base/memory.h"
#include "run/axes.h"
#include "run/backends/cuda/kernels/copy.h"
#include "run/backends/cuda/walk.h"

#include <string.h>

#define LEAST_SIDE 16 /* a matrix of fewer rows or columns leaves too much of its tiles empty */

typedef struct box {
    walk walk;          /* the result, the source; in elements */
    int64_t to, from;   /* where the box begins, in elements */
    uint32_t source;    /* which operand */
    bool constant;      /* no source, but a value */
    u64 value;          /* its bits, as often as they fit */
    bool turned;        /* transposed in tiles, as `tiles` says */
    bool pairs;         /* two elements of 2 bytes at a time, if addresses allow it */
    tile_params tiles;  /* without addresses */
    tile_params paired; /* if pairs */
} box;

typedef struct boxes {
    const cuda_function *one, *many, *transpose, *pairs;
    int64_t size; /* bytes of an element */
    uint32_t count, room;
    box *items;
} boxes;

/* ---- Tiles ---- */

static void count_tiles(tile_params *t, int64_t side)
{
    t->tiles_across = (u32)((t->columns + side - 1) / side);
    t->tiles = (u32)((t->rows + side - 1) / side) * t->tiles_across;
    t->by_across = neap_cuda_divisor(t->tiles_across);
    t->by_tiles = neap_cuda_divisor(t->tiles);
}

static bool is_even(const tile_params *t)
{
    bool even =
        t->rows % 2 == 0 && t->columns % 2 == 0 && t->from_row % 2 == 0 && t->to_column % 2 == 0;
    for (int d = 0; d < t->matrices.rank; d++)
        even = even && (t->matrices.extent[d] == 1 ||
                        (t->matrices.stride[d][0] % 2 == 0 && t->matrices.stride[d][1] % 2 == 0));
    return even;
}

/* Takes out the two dimensions of a matrix; what is left counts matrices. */
static walk without(const walk *w, int a, int b)
{
    walk rest = {0};
    for (int d = 0; d < w->rank; d++) {
        if (d == a || d == b)
            continue;
        rest.extent[rest.rank] = w->extent[d];
        memcpy(rest.stride[rest.rank++], w->stride[d], sizeof w->stride[d]);
    }
    if (rest.rank == 0)
        rest.extent[rest.rank++] = 1;
    neap_cuda_walk_finish(&rest);
    return rest;
}

/* Neighbours in the result are far from each other in the source, and the other way round. */
static void plan_tiles(box *b, int64_t size)
{
    const walk *w = &b->walk;
    int column = 0; /* the dimension whose elements are neighbours in the source */
    while (column < w->rank && w->stride[column][1] != 1)
        column++;
    if (b->constant || w->stride[0][0] != 1 || column == 0 || column == w->rank ||
        w->extent[0] < LEAST_SIDE || w->extent[column] < LEAST_SIDE)
        return;
    b->tiles = (tile_params){.rows = w->extent[0],
                             .columns = w->extent[column],
                             .from_row = w->stride[0][1],
                             .to_column = w->stride[column][0],
                             .matrices = without(w, 0, column)};
    count_tiles(&b->tiles, 32);
    b->turned = b->tiles.matrices.units * (int64_t)b->tiles.tiles < INT32_MAX &&
                b->tiles.rows < INT32_MAX && b->tiles.columns < INT32_MAX;
    b->pairs = b->turned && size == 2 && is_even(&b->tiles);
    if (b->pairs) {
        b->paired = b->tiles;
        count_tiles(&b->paired, 64);
    }
}

static neap_status launch_tiles(cuda_backend *backend, const boxes *list, const box *b,
                                const void *from, void *to, neap_diag *diag)
{
    bool pairs = b->pairs && ((uintptr_t)from | (uintptr_t)to) % 4 == 0;
    tile_params t = pairs ? b->paired : b->tiles;
    t.from = from;
    t.to = to;
    cuda_dims dims = {.blocks = (uint32_t)t.matrices.units * t.tiles, .threads = 256};
    return CUDA_LAUNCH(backend, pairs ? list->pairs : list->transpose, dims, &t, diag);
}

/* ---- Words ---- */

/* The widest words that a box can be copied in. */
static copy_box in_words(const box *b, int64_t size, const void *from, void *to)
{
    uintptr_t addresses = (uintptr_t)to | (uintptr_t)from; /* 0 from values */
    copy_box words = {.to = to, .from = from, .value = b->value};
    int64_t word = 16;
    uint32_t operands = b->constant ? 1 : 2;
    for (; word > size; word /= 2) {
        words.walk = b->walk;
        if (addresses % (uintptr_t)word == 0 && b->walk.extent[0] % (word / size) == 0 &&
            neap_cuda_walk_widen(&words.walk, operands, word / size, 0))
            break;
    }
    if (word <= size) {
        word = size;
        words.walk = b->walk;
    }
    for (uint32_t k = 0; k < operands; k++)
        neap_cuda_walk_scale(&words.walk, k, size);
    words.word = (i32)word;
    return words;
}

/* In parts, if one launch is too little. */
static neap_status launch_box(cuda_backend *backend, const boxes *list, const copy_box *b,
                              neap_diag *diag)
{
    neap_status status = NEAP_OK;
    int64_t begin = 0, at[WALK_OPERANDS];
    copy_box part = *b;
    if (neap_cuda_walk_fits(&b->walk))
        return CUDA_LAUNCH(backend, list->one, neap_cuda_walk_dims(&b->walk), b, diag);
    while (status == NEAP_OK && neap_cuda_walk_cut(&b->walk, &begin, &part.walk, at)) {
        part.to = (char *)b->to + at[0];
        part.from = b->from ? (const char *)b->from + at[1] : NULL;
        status = launch_box(backend, list, &part, diag);
    }
    return status;
}

/* Boxes that wait to be launched together. */
typedef struct batch {
    copy_boxes params;
    uint32_t count, largest;
} batch;

static neap_status launch_batch(cuda_backend *backend, const boxes *list, batch *waiting,
                                neap_diag *diag)
{
    uint32_t count = waiting->count;
    waiting->count = 0;
    if (count == 0)
        return NEAP_OK;
    if (count == 1)
        return launch_box(backend, list, &waiting->params.box[0], diag);
    cuda_dims dims = neap_cuda_walk_dims(&waiting->params.box[waiting->largest].walk);
    dims.blocks_y = count;
    return CUDA_LAUNCH(backend, list->many, dims, &waiting->params, diag);
}

static neap_status add_to_batch(cuda_backend *backend, const boxes *list, batch *waiting,
                                const copy_box *b, neap_diag *diag)
{
    neap_status status = NEAP_OK;
    if (!neap_cuda_walk_fits(&b->walk))
        return launch_box(backend, list, b, diag);
    if (waiting->count == COPY_MOST_BOXES)
        status = launch_batch(backend, list, waiting, diag);
    if (waiting->count == 0 || b->walk.units > waiting->params.box[waiting->largest].walk.units)
        waiting->largest = waiting->count;
    waiting->params.box[waiting->count++] = *b;
    return status;
}

static neap_status run(cuda_backend *backend, const void *plan, const run_args *args,
                       neap_diag *diag)
{
    const boxes *list = plan;
    neap_status status = NEAP_OK;
    batch waiting = {.count = 0};
    for (uint32_t i = 0; i < list->count && status == NEAP_OK; i++) {
        const box *b = &list->items[i];
        void *to = (char *)args->out[0] + b->to * list->size;
        const void *from =
            b->constant ? NULL : (const char *)args->in[b->source] + b->from * list->size;
        if (b->turned) {
            status = launch_tiles(backend, list, b, from, to, diag);
        } else {
            copy_box words = in_words(b, list->size, from, to);
            status = add_to_batch(backend, list, &waiting, &words, diag);
        }
    }
    return status == NEAP_OK ? launch_batch(backend, list, &waiting, diag) : status;
}

/* ---- Plans ---- */

static void plan_copy(boxes *list, const run_array *to, int64_t to_begin, const run_array *from,
                      int64_t from_begin, uint32_t source)
{
    box *b = &list->items[list->count++];
    neap_cuda_walk_plan(&b->walk, 2, (run_array[]){*to, *from});
    b->to = to_begin;
    b->from = from_begin;
    b->source = source;
    plan_tiles(b, list->size);
}

/* A value from `begin` on, `extent` long on an axis. */
static void plan_value(boxes *list, const run_array *to, int64_t to_begin, uint32_t axis,
                       int64_t begin, int64_t extent, u64 value)
{
    if (extent <= 0)
        return;
    box *b = &list->items[list->count++];
    run_array part = neap_run_array_cut(to, axis, extent);
    neap_cuda_walk_plan(&b->walk, 1, &part);
    b->to = to_begin + begin * to->strides[axis];
    b->constant = true;
    b->value = value;
}

static void plan_zeros(boxes *list, const run_array *to, int64_t to_begin, uint32_t axis,
                       int64_t begin, int64_t extent)
{
    plan_value(list, to, to_begin, axis, begin, extent, 0);
}

static void plan_expand(const run_spec *spec, boxes *list)
{
    run_array repeated = neap_run_array_repeat(&spec->in[0], &spec->out[0]);
    plan_copy(list, &spec->out[0], 0, &repeated, 0, 0);
}

/* Repeated to the result's shape. */
static void plan_broadcast(const run_spec *spec, boxes *list)
{
    run_spread spread = neap_run_spread_of(spec, &spec->in[0], &spec->out[0]);
    run_array repeated = neap_run_spread_repeat(&spread, &spec->out[0]);
    plan_copy(list, &spec->out[0], 0, &repeated, 0, 0);
}

static void plan_sum_axes_bw(const run_spec *spec, boxes *list)
{
    plan_broadcast(spec, list);
}

static void plan_permute(const run_spec *spec, boxes *list)
{
    run_array turned = neap_run_array_permute(spec, &spec->in[0]);
    plan_copy(list, &spec->out[0], 0, &turned, 0, 0);
}

static void plan_transpose(const run_spec *spec, boxes *list)
{
    int64_t a = neap_run_spec_int(spec, "axis_a", 0), b = neap_run_spec_int(spec, "axis_b", 0);
    run_array turned = spec->in[0];
    turned.shape[a] = spec->in[0].shape[b];
    turned.shape[b] = spec->in[0].shape[a];
    turned.strides[a] = spec->in[0].strides[b];
    turned.strides[b] = spec->in[0].strides[a];
    plan_copy(list, &spec->out[0], 0, &turned, 0, 0);
}

static void plan_concat(const run_spec *spec, boxes *list)
{
    uint32_t axis = (uint32_t)neap_run_spec_int(spec, "axis", 0);
    int64_t begin = 0;
    for (uint32_t i = 0; i < spec->op->n_inputs; i++) {
        int64_t extent = spec->in[i].shape[axis];
        run_array part = neap_run_array_cut(&spec->out[0], axis, extent);
        plan_copy(list, &part, begin * spec->out[0].strides[axis], &spec->in[i], 0, i);
        begin += extent;
    }
}

static void plan_slice_bw(const run_spec *spec, boxes *list)
{
    const run_array *dx = &spec->out[0];
    uint32_t axis = (uint32_t)neap_run_spec_int(spec, "axis", 0);
    int64_t begin = neap_run_spec_int(spec, "begin", 0), extent = spec->in[0].shape[axis];
    run_array part = neap_run_array_cut(dx, axis, extent);
    plan_zeros(list, dx, 0, axis, 0, begin);
    plan_copy(list, &part, begin * dx->strides[axis], &spec->in[0], 0, 0);
    plan_zeros(list, dx, 0, axis, begin + extent, dx->shape[axis] - begin - extent);
}

static void plan_pad2d(const run_spec *spec, boxes *list)
{
    const run_array *x = &spec->in[0], *y = &spec->out[0];
    int64_t top = neap_run_spec_int(spec, "top", 0), left = neap_run_spec_int(spec, "left", 0);
    int64_t below = top + x->shape[2], begin = top * y->strides[2];
    run_array middle = neap_run_array_cut(y, 2, x->shape[2]),
              inner = neap_run_array_cut(&middle, 3, x->shape[3]);
    plan_zeros(list, y, 0, 2, 0, top);
    plan_zeros(list, &middle, begin, 3, 0, left);
    plan_copy(list, &inner, begin + left * y->strides[3], x, 0, 0);
    plan_zeros(list, &middle, begin, 3, left + x->shape[3], y->shape[3] - left - x->shape[3]);
    plan_zeros(list, y, 0, 2, below, y->shape[2] - below);
}

/* The bits of a number of the given type, repeated. */
static u64 bits_of(double number, neap_dtype type)
{
    float single = (float)number;
    uint32_t bits;
    u64 both;
    memcpy(&bits, &single, sizeof bits);
    if (type == NEAP_BF16)
        bits = neap_to_bf16(single) * 0x10001u;
    both = bits | (u64)bits << 32;
    if (type == NEAP_F16)
        both = neap_to_f16(single) * 0x1000100010001ull;
    if (type == NEAP_F64)
        memcpy(&both, &number, sizeof both);
    return both;
}

/* Dimension by dimension: what is before and after, within what is left of those before it. */
static void plan_pad(const run_spec *spec, boxes *list)
{
    run_array to = spec->out[0], from = spec->in[0];
    u64 value = bits_of(neap_run_spec_real(spec, "value", 0), to.dtype);
    int64_t to_begin = 0, from_begin = 0;
    for (uint32_t d = 0; d < to.rank; d++) {
        run_padding pad = neap_run_padding_of(spec, d);
        plan_value(list, &to, to_begin, d, 0, pad.before, value);
        plan_value(list, &to, to_begin, d, pad.before + pad.kept, pad.after, value);
        to = neap_run_array_cut(&to, d, pad.kept);
        from = neap_run_array_cut(&from, d, pad.kept);
        to_begin += pad.before * to.strides[d];
        from_begin += pad.skipped * from.strides[d];
    }
    plan_copy(list, &to, to_begin, &from, from_begin, 0);
}

static void plan_pad2d_bw(const run_spec *spec, boxes *list)
{
    const run_array *dy = &spec->in[0], *dx = &spec->out[0];
    int64_t top = neap_run_spec_int(spec, "top", 0), left = neap_run_spec_int(spec, "left", 0);
    run_array rows = neap_run_array_cut(dy, 2, dx->shape[2]),
              inner = neap_run_array_cut(&rows, 3, dx->shape[3]);
    plan_copy(list, dx, 0, &inner, top * dy->strides[2] + left * dy->strides[3], 0);
}

/* ---- Ops ---- */

/* Elements are moved, not converted. */
static neap_status check(const run_spec *spec, neap_diag *diag)
{
    for (uint32_t i = 0; i < spec->op->n_inputs; i++)
        if (spec->in[i].dtype != spec->out[0].dtype)
            return neap_fail(diag, NEAP_UNSUPPORTED,
                             "op \"%s\" (%s): the cuda backend moves elements of one type at a "
                             "time; backend ref may do",
                             spec->op->name, spec->op->type);
    return NEAP_OK;
}

static neap_status find_kernels(cuda_backend *backend, int64_t size, boxes *list, neap_diag *diag)
{
    const char *transpose = size == 1   ? "transpose_1"
                            : size == 2 ? "transpose_2"
                            : size == 4 ? "transpose_4"
                                        : "transpose_8";
    neap_status status = neap_cuda_find(backend, "copy_one", NEAP_F32, &list->one, diag);
    if (status == NEAP_OK)
        status = neap_cuda_find(backend, "copy_many", NEAP_F32, &list->many, diag);
    if (status == NEAP_OK)
        status = neap_cuda_find(backend, transpose, NEAP_F32, &list->transpose, diag);
    if (status == NEAP_OK)
        status = neap_cuda_find(backend, "transpose_pairs", NEAP_F32, &list->pairs, diag);
    list->size = size;
    return status;
}

/* Pads have two boxes a dimension and one; a concat has one for each operand. */
static neap_status plan_boxes(cuda_backend *backend, const run_spec *spec,
                              void (*fill)(const run_spec *spec, boxes *list), boxes *list,
                              neap_diag *diag)
{
    neap_status status = find_kernels(backend, neap_dtype_bytes(spec->out[0].dtype), list, diag);
    if (status == NEAP_OK)
        status = NEAP_NEW(backend->base.allocator, spec->op->n_inputs + 2 * NEAP_MAX_RANK,
                          &list->items, diag);
    if (status != NEAP_OK)
        return status;
    list->room = spec->op->n_inputs + 2 * NEAP_MAX_RANK;
    fill(spec, list);
    return NEAP_OK;
}

static void clear(cuda_backend *backend, void *plan)
{
    boxes *list = plan;
    NEAP_DELETE(backend->base.allocator, list->room, list->items);
}

#define SHAPE_OP(type)                                                                             \
    static neap_status prepare_boxes_##type(cuda_backend *backend, const run_spec *spec,           \
                                            void *plan, neap_diag *diag)                           \
    {                                                                                              \
        return plan_boxes(backend, spec, plan_##type, plan, diag);                                 \
    }                                                                                              \
    CUDA_OP(type, {.plan_bytes = sizeof(boxes),                                                    \
                   .plan = prepare_boxes_##type,                                                   \
                   .run = run,                                                                     \
                   .clear = clear,                                                                 \
                   .check = check})

SHAPE_OP(concat)
SHAPE_OP(slice_bw)
SHAPE_OP(transpose)
SHAPE_OP(permute)
SHAPE_OP(expand)
SHAPE_OP(broadcast)
SHAPE_OP(sum_axes_bw)
SHAPE_OP(pad)
SHAPE_OP(pad2d)
SHAPE_OP(pad2d_bw)

/* Views: nobody runs them. */
RUN_NO_KERNEL(cuda, slice)
RUN_NO_KERNEL(cuda, split)
RUN_NO_KERNEL(cuda, reshape)
