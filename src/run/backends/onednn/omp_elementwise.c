/* Elementwise ops: omp_elementwise.h. */
#include "run/backends/onednn/omp_elementwise.h"
#include "run/axes.h"

void neap_omp_elementwise_plan(const run_spec *spec, int parts, elementwise *e)
{
    run_array arrays[OMP_MOST_OPERANDS] = {spec->out[0]};
    uint32_t count = 1;
    for (uint32_t i = 0; i < spec->op->n_inputs; i++)
        arrays[count++] = neap_run_array_repeat(&spec->in[i], &spec->out[0]);
    if (spec->op->n_outputs > 1) { /* dropout: its mask, and which element it is */
        arrays[count++] = spec->out[1];
        arrays[count++] = neap_run_array_counter(&spec->out[0]);
    }
    neap_omp_walk_plan(&e->walk, count, arrays, 64, parts);
}

void neap_omp_elementwise_work(const omp_task *task)
{
    const elementwise *e = task->plan;
    neap_omp_walk_share(&e->walk, task, e->block);
}

/* ---- Ops without attributes ---- */

UNARY_BLOCK(relu, x, x > 0 ? x : 0)
BINARY_BLOCK(relu_bw, float, dy, y, y > 0 ? dy : 0)
UNARY_BLOCK(relu6, x, x > 0 ? (x < 6 ? x : 6) : 0)
BINARY_BLOCK(relu6_bw, float, dy, y, ((y > 0) & (y < 6)) ? dy : 0)
UNARY_BLOCK(sigmoid, x, omp_sigmoid(x))
BINARY_BLOCK(sigmoid_bw, float, dy, y, (dy * y * (1 - y)))
UNARY_BLOCK(tanh, x, omp_tanh(x))
BINARY_BLOCK(tanh_bw, float, dy, y, (dy * (1 - y * y)))
BINARY_BLOCK(add, float, a, b, a + b)
BINARY_BLOCK(sub, float, a, b, a - b)
BINARY_BLOCK(mul, float, a, b, (a * b))
BINARY_BLOCK(div, float, a, b, a / b)
TERNARY_BLOCK(div_bw, dy, y, b, (-dy * y / b))
BINARY_BLOCK(max, float, a, b, (a < b ? b : a))
BINARY_BLOCK(min, float, a, b, (a > b ? b : a))
UNARY_BLOCK(cast, x, x)
BINARY_BLOCK(prelu, float, x, w, (x < 0 ? w * x : x))
TERNARY_BLOCK(prelu_bw_data, dy, x, w, (x < 0 ? w * dy : dy))
BINARY_BLOCK(prelu_bw_weight, float, dy, x, (x < 0 ? dy * x : 0))

SIMPLE_OP(relu)
SIMPLE_OP(relu_bw)
SIMPLE_OP(relu6)
SIMPLE_OP(relu6_bw)
SIMPLE_OP(sigmoid)
SIMPLE_OP(sigmoid_bw)
SIMPLE_OP(tanh)
SIMPLE_OP(tanh_bw)
SIMPLE_OP(add)
SIMPLE_OP(sub)
SIMPLE_OP(mul)
SIMPLE_OP(div)
SIMPLE_OP(div_bw)
SIMPLE_OP(max)
SIMPLE_OP(min)
SIMPLE_OP(cast)
SIMPLE_OP(prelu)
SIMPLE_OP(prelu_bw_data)
SIMPLE_OP(prelu_bw_weight)

/* ---- Gradients of the larger and the smaller of two: of the first or the second operand ---- */

TERNARY_BLOCK(max_bw_a, dy, a, b, (a > b ? dy : a == b ? 0.5f * dy : 0))
TERNARY_BLOCK(max_bw_b, dy, a, b, (b > a ? dy : a == b ? 0.5f * dy : 0))

static void plan_max_bw(const run_spec *spec, int parts, void *plan)
{
    neap_omp_elementwise_plan(spec, parts, plan);
    ((elementwise *)plan)->block =
        neap_run_spec_int(spec, "of_b", 0) ? max_bw_b_block : max_bw_a_block;
}

/* Whichever is smaller, the other is larger. */
static void plan_min_bw(const run_spec *spec, int parts, void *plan)
{
    neap_omp_elementwise_plan(spec, parts, plan);
    ((elementwise *)plan)->block =
        neap_run_spec_int(spec, "of_b", 0) ? max_bw_a_block : max_bw_b_block;
}

ELEMENTWISE_OP(max_bw)
ELEMENTWISE_OP(min_bw)

/* ---- Chosen by a condition ---- */

TERNARY_BLOCK_OF(where, uint8_t, a, b, condition, (condition ? a : b))
BINARY_BLOCK(where_bw_a, uint8_t, dy, condition, (condition > 0 ? dy : 0))
BINARY_BLOCK(where_bw_b, uint8_t, dy, condition, (condition > 0 ? 0 : dy))

static void plan_where_bw(const run_spec *spec, int parts, void *plan)
{
    neap_omp_elementwise_plan(spec, parts, plan);
    ((elementwise *)plan)->block =
        neap_run_spec_int(spec, "of_b", 0) ? where_bw_b_block : where_bw_a_block;
}

SIMPLE_OP(where)
ELEMENTWISE_OP(where_bw)

/* ---- GELU: x Phi(x), or Hendrycks and Gimpel's form with a hyperbolic tangent ---- */

#define ROOT_HALF        0.70710678118654752f
#define ROOT_2_OVER_PI   0.79788456080286536f
#define INVERSE_ROOT_2PI 0.39894228040143268f
#define CUBIC            0.044715f

OMP_INLINE float gelu_slope_erf(float x)
{
    float density = INVERSE_ROOT_2PI * omp_exp(-0.5f * x * x);
    return 0.5f * (1 + omp_erf(x * ROOT_HALF)) + x * density;
}

OMP_INLINE float gelu_slope_tanh(float x)
{
    float t = omp_tanh(ROOT_2_OVER_PI * (x + CUBIC * x * x * x));
    float inner = ROOT_2_OVER_PI * (1 + 3 * CUBIC * x * x);
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * inner;
}

UNARY_BLOCK(gelu_erf, x, 0.5f * x * (1 + omp_erf(x * ROOT_HALF)))
UNARY_BLOCK(gelu_tanh, x, 0.5f * x * (1 + omp_tanh(ROOT_2_OVER_PI * (x + CUBIC * x * x * x))))
BINARY_BLOCK(gelu_erf_bw, float, dy, x, (dy * gelu_slope_erf(x)))
BINARY_BLOCK(gelu_tanh_bw, float, dy, x, (dy * gelu_slope_tanh(x)))

static void plan_gelu(const run_spec *spec, int parts, void *plan)
{
    neap_omp_elementwise_plan(spec, parts, plan);
    ((elementwise *)plan)->block =
        neap_run_spec_int(spec, "tanh", 0) ? gelu_tanh_block : gelu_erf_block;
}

static void plan_gelu_bw(const run_spec *spec, int parts, void *plan)
{
    neap_omp_elementwise_plan(spec, parts, plan);
    ((elementwise *)plan)->block =
        neap_run_spec_int(spec, "tanh", 0) ? gelu_tanh_bw_block : gelu_erf_bw_block;
}

ELEMENTWISE_OP(gelu)
ELEMENTWISE_OP(gelu_bw)

/* ---- Scale and powers ---- */

UNARY_BLOCK(scale, x, e.p *x + e.q)

static void plan_scale(const run_spec *spec, int parts, void *plan)
{
    elementwise *e = plan;
    neap_omp_elementwise_plan(spec, parts, e);
    e->block = scale_block;
    e->numbers.p = (float)neap_run_spec_real(spec, "factor", 1);
    e->numbers.q = (float)neap_run_spec_real(spec, "offset", 0);
}

ELEMENTWISE_OP(scale)

/* dy, repeated along the axes of the mean and divided by their extent. */
static void plan_mean_axes_bw(const run_spec *spec, int parts, void *plan)
{
    elementwise *e = plan;
    run_spread spread = neap_run_spread_of(spec, &spec->in[0], &spec->out[0]);
    run_array repeated = neap_run_spread_repeat(&spread, &spec->out[0]);
    run_spec scaled = *spec;
    scaled.in = &repeated;
    neap_omp_elementwise_plan(&scaled, parts, e);
    e->block = scale_block;
    e->numbers.p = (float)((double)neap_run_array_elements(&spec->in[0]) /
                           (double)neap_run_array_elements(&spec->out[0]));
}

ELEMENTWISE_OP(mean_axes_bw)

UNARY_BLOCK(square, x, x *x)
UNARY_BLOCK(cube, x, x *x *x)
UNARY_BLOCK(root, x, sqrtf(x))
UNARY_BLOCK(power, x, powf(x, e.p))
BINARY_BLOCK(square_bw, float, dy, x, (dy * 2 * x))
BINARY_BLOCK(cube_bw, float, dy, x, (dy * 3 * (x * x)))
BINARY_BLOCK(power_bw, float, dy, x, (dy * e.p * powf(x, e.q)))

static void plan_pow(const run_spec *spec, int parts, void *plan)
{
    elementwise *e = plan;
    double power = neap_run_spec_real(spec, "power", 1);
    neap_omp_elementwise_plan(spec, parts, e);
    e->numbers.p = (float)power;
    e->block = power == 2     ? square_block
               : power == 3   ? cube_block
               : power == 0.5 ? root_block
                              : power_block;
}

static void plan_pow_bw(const run_spec *spec, int parts, void *plan)
{
    elementwise *e = plan;
    double power = neap_run_spec_real(spec, "power", 1);
    neap_omp_elementwise_plan(spec, parts, e);
    e->numbers.p = (float)power;
    e->numbers.q = (float)(power - 1);
    e->block = power == 2 ? square_bw_block : power == 3 ? cube_bw_block : power_bw_block;
}

ELEMENTWISE_OP(pow)
ELEMENTWISE_OP(pow_bw)

/* ---- Dropout ---- */

BINARY_BLOCK(dropout_bw, uint8_t, dy, mask, (dy * mask * e.q))

/* Draws are numbered in row-major order, whatever the order in memory: `step` apart in a row. */
OMP_CLONES static void dropout_row(float *y, const float *x, uint8_t *mask, uint64_t seed,
                                   uint64_t first, uint64_t step, int64_t length,
                                   elementwise_numbers e)
{
#pragma omp simd
    for (int64_t i = 0; i < length; i++) {
        bool kept = run_random(seed, first + (uint64_t)i * step) >> 40 >= e.least;
        mask[i] = kept;
        y[i] = kept ? x[i] * e.q : 0;
    }
}

static void dropout_block(const omp_task *task, const omp_walk *walk, const int64_t *at,
                          int64_t rows, int64_t length)
{
    const elementwise_numbers e = ((const elementwise *)task->plan)->numbers;
    int64_t y_step = omp_step(walk, 0), x_step = omp_step(walk, 1), m_step = omp_step(walk, 2);
    uint64_t step = (uint64_t)omp_step(walk, 3);
    bool contiguous = y_step == 1 && x_step == 1 && m_step == 1;
    for (int64_t r = 0; r < rows; r++) {
        float *y = omp_out(task, 0) + at[0] + r * omp_row_step(walk, 0);
        const float *x = omp_in(task, 0) + at[1] + r * omp_row_step(walk, 1);
        uint8_t *mask = (uint8_t *)task->args->out[1] + at[2] + r * omp_row_step(walk, 2);
        uint64_t first = (uint64_t)(at[3] + r * omp_row_step(walk, 3));
        if (contiguous)
            dropout_row(y, x, mask, task->args->seed, first, step, length, e);
        for (int64_t i = 0; !contiguous && i < length; i++) {
            bool kept = run_random(task->args->seed, first + (uint64_t)i * step) >> 40 >= e.least;
            mask[i * m_step] = kept;
            y[i * y_step] = kept ? x[i * x_step] * e.q : 0;
        }
    }
}

static void plan_dropout(const run_spec *spec, int parts, void *plan)
{
    elementwise *e = plan;
    double p = neap_run_spec_real(spec, "p", 0);
    neap_omp_elementwise_plan(spec, parts, e);
    e->block = dropout_block;
    e->numbers.least = (uint32_t)ceil(p * 0x1p24); /* draws are whole multiples of 2^-24 */
    e->numbers.q = (float)(1 / (1 - p));
}

static void plan_dropout_bw(const run_spec *spec, int parts, void *plan)
{
    neap_omp_elementwise_plan(spec, parts, plan);
    ((elementwise *)plan)->block = dropout_bw_block;
    ((elementwise *)plan)->numbers.q = (float)(1 / (1 - neap_run_spec_real(spec, "p", 0)));
}

ELEMENTWISE_OP(dropout)
ELEMENTWISE_OP(dropout_bw)
