/* The functions of graph/unary.def. */
#include "run/backends/onednn/omp_elementwise.h"

#define NUM(number) ((float)(number))
#define EXP         omp_exp
#define EXPM1       expm1f
#define LOG         logf
#define LOG1P       log1pf
#define SQRT        sqrtf
#define ERF         omp_erf
#define TANH        omp_tanh
#define SIN         sinf
#define COS         cosf
#define ABS         fabsf
#define FLOOR       floorf
#define CEIL        ceilf
#define NEAREST     nearbyintf
#define SIGMOID     omp_sigmoid
#define SOFTPLUS    softplus
#define A           e.p
#define B           e.q

OMP_INLINE float softplus(float x)
{
    return log1pf(omp_exp(-fabsf(x))) + (x < 0 ? 0 : x);
}

static void plan_block(const run_spec *spec, int parts, void *plan, omp_block *block, const char *a,
                       const char *b)
{
    elementwise *e = plan;
    neap_omp_elementwise_plan(spec, parts, e);
    e->block = block;
    e->numbers.p = a ? (float)neap_run_spec_real(spec, a, 0) : 0;
    e->numbers.q = b ? (float)neap_run_spec_real(spec, b, 0) : 0;
}

#define KERNEL_OF(name, a, b)                                                                      \
    static void plan_##name(const run_spec *spec, int parts, void *plan)                           \
    {                                                                                              \
        plan_block(spec, parts, plan, unary_##name##_block, a, b);                                 \
    }                                                                                              \
    ELEMENTWISE_OP(name)

#define BOTH(name, a, b, reads, forward, slope)                                                    \
    UNARY_BLOCK(unary_##name, x, forward)                                                          \
    BINARY_BLOCK(unary_##name##_bw, float, dy, reads, (dy * (slope)))                              \
    KERNEL_OF(name, a, b)                                                                          \
    KERNEL_OF(name##_bw, a, b)

#define FLAT_0(name, flops, forward)                                                               \
    UNARY_BLOCK(unary_##name, x, forward)                                                          \
    KERNEL_OF(name, NULL, NULL)
#define UNARY_0(name, flops, bw_flops, reads, forward, slope)                                      \
    BOTH(name, NULL, NULL, reads, forward, slope)
#define UNARY_1(name, a, flops, bw_flops, reads, forward, slope)                                   \
    BOTH(name, #a, NULL, reads, forward, slope)
#define UNARY_2(name, a, b, flops, bw_flops, reads, forward, slope)                                \
    BOTH(name, #a, #b, reads, forward, slope)

#include "graph/unary.def"
