/*
 * Resize. Images by nearest pixels or bilinear interpolation have ops of their own. All others go
 * axis by axis: nearest elements by their numbers, interpolation as a product with a matrix of
 * weights, whose row i is what element i of the result takes of each element.
 */
#include "onnx/ops.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

/* The scales as constants: like other floats of the file they could have been trained. */
static neap_status find_scales(const onnx_import *im, const onnx_node *node,
                               const onnx_constant **scales)
{
    const onnx_value *value = neap_onnx_input(im, node, 2);
    *scales = neap_onnx_input_constant(im, node, 2);
    if (*scales || !value || value->initializer == NEAP_NONE)
        return NEAP_OK;
    *scales = neap_onnx_constant_of(im->arena, &im->proto->initializers[value->initializer]);
    return *scales ? NEAP_OK : neap_fail_no_memory(im->diag);
}

/* The axes that the node gives scales or sizes for: all, or those of the attribute. */
static neap_status read_listed(const onnx_import *im, const onnx_node *node, uint32_t rank,
                               uint32_t listed[NEAP_MAX_RANK], uint32_t *count)
{
    size_t n_axes;
    const int64_t *axes = neap_onnx_ints(node, "axes", &n_axes);
    *count = axes ? 0 : rank;
    for (uint32_t d = 0; d < rank; d++)
        listed[d] = d;
    if (n_axes > rank)
        return neap_onnx_fail(im, node, "%zu axes of %u dimensions", n_axes, rank);
    for (size_t i = 0; i < n_axes; i++)
        NEAP_TRY(neap_onnx_axis(im, node, axes[i], rank, &listed[(*count)++]));
    return NEAP_OK;
}

/* What becomes of each axis. */
typedef struct resize_plan {
    double scales[NEAP_MAX_RANK]; /* that the node gives; 0 where it gives sizes */
    int64_t sizes[NEAP_MAX_RANK];
} resize_plan;

/* One scale for all listed axes, so that none is larger, or smaller, than asked for. */
static void keep_ratio(const onnx_shape *from, const uint32_t *listed, uint32_t count, bool larger,
                       resize_plan *plan)
{
    double best = 0;
    for (uint32_t i = 0; i < count; i++) {
        double scale = (double)plan->sizes[listed[i]] / (double)from->dims[listed[i]];
        best = i == 0 ? scale : larger ? fmax(best, scale) : fmin(best, scale);
    }
    for (uint32_t i = 0; i < count; i++) {
        plan->sizes[listed[i]] = (int64_t)floor(best * (double)from->dims[listed[i]] + 0.5);
        plan->scales[listed[i]] = best;
    }
}

static neap_status read_sizes(const onnx_import *im, const onnx_node *node, const onnx_shape *from,
                              const uint32_t *listed, uint32_t count, resize_plan *plan)
{
    const char *policy = neap_onnx_string(node, "keep_aspect_ratio_policy", "stretch");
    const int64_t *sizes;
    size_t n_sizes;
    NEAP_TRY(neap_onnx_integers(im, node, 3, &sizes, &n_sizes));
    if (n_sizes != count)
        return neap_onnx_fail(im, node, "it has %zu sizes for %u dimensions", n_sizes, count);
    for (uint32_t i = 0; i < count; i++) {
        if (sizes[i] < 1 || sizes[i] > INT32_MAX)
            return neap_onnx_fail(im, node, "a size of %lld", (long long)sizes[i]);
        plan->sizes[listed[i]] = sizes[i];
        plan->scales[listed[i]] = 0;
    }
    if (strcmp(policy, "stretch") != 0)
        keep_ratio(from, listed, count, strcmp(policy, "not_smaller") == 0, plan);
    return NEAP_OK;
}

static neap_status plan_resize(const onnx_import *im, const onnx_node *node, resize_plan *plan)
{
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    const onnx_constant *given;
    uint32_t listed[NEAP_MAX_RANK], count;
    NEAP_TRY(find_scales(im, node, &given));
    NEAP_TRY(read_listed(im, node, from->rank, listed, &count));
    for (uint32_t d = 0; d < from->rank; d++) {
        plan->sizes[d] = from->dims[d];
        plan->scales[d] = 1;
    }
    if (!neap_onnx_input(im, node, 2) || (given && given->elements == 0))
        return read_sizes(im, node, from, listed, count, plan);
    if (!given || given->elements != count)
        return neap_onnx_fail_unsupported(im, node, "it needs a constant scale for each dimension");
    for (uint32_t i = 0; i < count; i++) {
        double scale = neap_onnx_get_real(given, i);
        double extent = floor((double)from->dims[listed[i]] * scale);
        if (!(scale > 0 && extent >= 1 && extent <= INT32_MAX))
            return neap_onnx_fail(im, node, "a scale of %g", scale);
        plan->scales[listed[i]] = scale;
        plan->sizes[listed[i]] = (int64_t)extent;
    }
    return NEAP_OK;
}

static neap_status infer_resize(onnx_import *im, const onnx_node *node)
{
    resize_plan plan;
    NEAP_TRY(neap_onnx_need(im, node, 1));
    onnx_shape shape = neap_onnx_input(im, node, 0)->shape;
    NEAP_TRY(plan_resize(im, node, &plan));
    memcpy(shape.dims, plan.sizes, shape.rank * sizeof *shape.dims);
    return neap_onnx_set_shape(im, node, 0, &shape);
}

/* ---- Places ---- */

/* One axis: where its elements come from. */
typedef struct axis_plan {
    onnx_picks picks;
    int64_t from, to;
    double scale;
    const char *place, *pick; /* coordinate_transformation_mode, nearest_mode */
    bool cubic, antialias, exclude;
    double a; /* of the cubic */
} axis_plan;

/* The place of element i of the result among those of the input. */
static double place_of(const axis_plan *p, int64_t i)
{
    double x = (double)i, from = (double)p->from, to = (double)p->to;
    if (strcmp(p->place, "align_corners") == 0)
        return p->to == 1 ? 0 : x * (from - 1) / (to - 1);
    if (strcmp(p->place, "asymmetric") == 0)
        return x / p->scale;
    if (strcmp(p->place, "tf_half_pixel_for_nn") == 0)
        return (x + 0.5) / p->scale;
    if (strcmp(p->place, "pytorch_half_pixel") == 0 && p->to == 1)
        return 0;
    double half = (x + 0.5) / p->scale - 0.5;
    if (strcmp(p->place, "half_pixel_symmetric") == 0)
        half += from / 2 * (1 - to / (p->scale * from));
    return half;
}

static int64_t inside(int64_t index, int64_t extent)
{
    return index < 0 ? 0 : index >= extent ? extent - 1 : index;
}

static int64_t nearest(const onnx_picks *picks, int64_t i)
{
    const axis_plan *p = (const axis_plan *)picks;
    double x = place_of(p, i);
    if (strcmp(p->pick, "floor") == 0)
        x = floor(x);
    else if (strcmp(p->pick, "ceil") == 0)
        x = ceil(x);
    else if (strcmp(p->pick, "round_prefer_ceil") == 0)
        x = floor(x + 0.5);
    else
        x = ceil(x - 0.5);
    return inside((int64_t)x, p->from);
}

/* ---- Weights ---- */

/* The weight of an element at a distance, in its own units. */
static double kernel_at(const axis_plan *p, double distance)
{
    double x = fabs(distance), a = p->a;
    if (!p->cubic)
        return x < 1 ? 1 - x : 0;
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Row i: elements that would be beyond the ends count for the last ones, or not at all. With
   antialiasing the kernel is as wide as what one element of the result stands for. */
static void fill_row(const axis_plan *p, int64_t i, float *row)
{
    double place = place_of(p, i), width = p->antialias && p->scale < 1 ? p->scale : 1, sum = 0;
    double reach = (p->cubic ? 2 : 1) / width;
    int64_t first = (int64_t)floor(place - reach), last = (int64_t)ceil(place + reach);
    for (int pass = 0; pass < 2; pass++)
        for (int64_t k = first; k <= last; k++) {
            double weight = kernel_at(p, ((double)k - place) * width);
            if (p->exclude && (k < 0 || k >= p->from))
                continue;
            if (pass == 0)
                sum += weight;
            else
                row[inside(k, p->from)] += (float)(weight / sum);
        }
}

/* The last axis of x, or the one that is exchanged with it, times the weights. */
static neap_status interpolate(onnx_import *im, const onnx_node *node, const axis_plan *p,
                               uint32_t axis, neap_tensor *x)
{
    const onnx_shape shape = {.type = ONNX_FLOAT, .rank = 2, .dims = {p->to, p->from}};
    uint32_t last = neap_net_rank(im->net, *x) - 1;
    neap_tensor weight;
    if (p->to > ONNX_MOST_CONSTANT / p->from)
        return neap_onnx_fail_unsupported(im, node, "it interpolates %lld elements from %lld",
                                          (long long)p->to, (long long)p->from);
    onnx_constant *weights = neap_onnx_constant_new(im->arena, &shape);
    if (!weights)
        return neap_fail_no_memory(im->diag);
    for (int64_t i = 0; i < p->to; i++)
        fill_row(p, i, weights->floats + i * p->from);
    NEAP_TRY(neap_onnx_fixed(im, weights, node->name, 2, shape.dims, &weight));
    if (axis != last)
        *x = neap_net_transpose(im->net, node->name, *x, axis, last);
    *x = neap_net_linear_with(im->net, node->name, *x, weight, NEAP_NONE);
    if (axis != last)
        *x = neap_net_transpose(im->net, node->name, *x, axis, last);
    return neap_onnx_check_net(im, node);
}

/* ---- Layers ---- */

/* Axis by axis. */
static neap_status lower_axes(onnx_import *im, const onnx_node *node, const resize_plan *plan,
                              neap_tensor x)
{
    static const char *const places[] = {"half_pixel",           "pytorch_half_pixel",
                                         "align_corners",        "asymmetric",
                                         "half_pixel_symmetric", "tf_half_pixel_for_nn"};
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    const char *mode = neap_onnx_string(node, "mode", "nearest");
    axis_plan p = {.place = neap_onnx_string(node, "coordinate_transformation_mode", "half_pixel"),
                   .pick = neap_onnx_string(node, "nearest_mode", "round_prefer_floor"),
                   .cubic = strcmp(mode, "cubic") == 0,
                   .antialias = neap_onnx_int(node, "antialias", 0) != 0,
                   .exclude = neap_onnx_int(node, "exclude_outside", 0) != 0,
                   .a = neap_onnx_real(node, "cubic_coeff_a", -0.75)};
    bool known = false;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        known = known || strcmp(places[i], p.place) == 0;
    if (!known)
        return neap_onnx_fail_unsupported(im, node, "neap does not resize by %s", p.place);
    for (uint32_t d = 0; d < from->rank; d++) {
        double ratio = (double)plan->sizes[d] / (double)from->dims[d];
        p.from = from->dims[d];
        p.to = plan->sizes[d];
        p.scale = plan->scales[d] > 0 ? plan->scales[d] : ratio;
        p.picks = (onnx_picks){p.to, nearest};
        if (strcmp(p.place, "align_corners") == 0 && fabs(p.scale - ratio) > 1e-6 * ratio)
            return neap_onnx_fail_unsupported(
                im, node,
                "corners to align, and a scale of %g where the sizes give %g; programs "
                "differ on what that means",
                p.scale, ratio);
        if (p.from == p.to && fabs(p.scale - 1) < 1e-9)
            continue;
        if (strcmp(mode, "nearest") == 0)
            NEAP_TRY(neap_onnx_pick(im, node, x, d, &p.picks, &x));
        else
            NEAP_TRY(interpolate(im, node, &p, d, &x));
    }
    neap_onnx_set_tensor(im, node, 0, x);
    return NEAP_OK;
}

/*
 * neap's interpolation goes by the ratio of the sizes, so the scales must be that, too. PyTorch's
 * half pixels begin at the first one where a single pixel is left.
 */
static bool is_interpolated(const onnx_node *node, const onnx_shape *from, const resize_plan *plan)
{
    const char *place = neap_onnx_string(node, "coordinate_transformation_mode", "half_pixel");
    bool torch_half = strcmp(place, "pytorch_half_pixel") == 0;
    if ((strcmp(place, "align_corners") != 0 && strcmp(place, "half_pixel") != 0 && !torch_half) ||
        neap_onnx_int(node, "antialias", 0) != 0 || neap_onnx_int(node, "exclude_outside", 0) != 0)
        return false;
    for (uint32_t d = 2; d < 4; d++) {
        double ratio = (double)plan->sizes[d] / (double)from->dims[d];
        if ((plan->scales[d] > 0 && fabs(plan->scales[d] - ratio) > 1e-6 * ratio) ||
            (torch_half && plan->sizes[d] == 1 && from->dims[d] > 1))
            return false;
    }
    return true;
}

static neap_status lower_resize(onnx_import *im, const onnx_node *node)
{
    const onnx_shape *from = &neap_onnx_input(im, node, 0)->shape;
    const char *mode = neap_onnx_string(node, "mode", "nearest");
    const char *place = neap_onnx_string(node, "coordinate_transformation_mode", "half_pixel");
    const char *pick = neap_onnx_string(node, "nearest_mode", "round_prefer_floor");
    bool half = strcmp(place, "half_pixel") == 0;
    resize_plan plan;
    neap_tensor x;
    NEAP_TRY(plan_resize(im, node, &plan));
    NEAP_TRY(neap_onnx_tensor(im, node, node->inputs[0], &x));
    bool image =
        from->rank == 4 && from->dims[0] == plan.sizes[0] && from->dims[1] == plan.sizes[1];
    if (image && strcmp(mode, "linear") == 0 && is_interpolated(node, from, &plan)) {
        x = neap_net_upsample(im->net, node->name, x, plan.sizes[2], plan.sizes[3],
                              strcmp(place, "align_corners") == 0);
    } else if (image && strcmp(mode, "nearest") == 0 &&
               (half || strcmp(place, "asymmetric") == 0) &&
               (strcmp(pick, "floor") == 0 || strcmp(pick, "round_prefer_floor") == 0)) {
        neap_resize resize = {.out_h = plan.sizes[2],
                              .out_w = plan.sizes[3],
                              .scale_h = plan.scales[2],
                              .scale_w = plan.scales[3],
                              .half_pixel = half,
                              .round = strcmp(pick, "floor") != 0};
        x = neap_net_resize_nearest(im->net, node->name, x, &resize);
    } else {
        return lower_axes(im, node, &plan, x);
    }
    neap_onnx_set_tensor(im, node, 0, x);
    return NEAP_OK;
}

const onnx_op neap_onnx_ops_resize[] = {
    {"Resize", "", infer_resize, NULL, lower_resize},
    {0},
};
