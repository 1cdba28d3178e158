/* The functions of graph/unary.def. */
#include "elementwise.cuh"

#define NUM(number) ((float)(number))
#define EXP         elementwise_exp
#define EXPM1       expm1f
#define LOG         logf
#define LOG1P       log1pf
#define SQRT        sqrtf
#define ERF         erff
#define TANH        elementwise_tanh
#define SIN         sinf
#define COS         cosf
#define ABS         fabsf
#define FLOOR       floorf
#define CEIL        ceilf
#define NEAREST     rintf
#define SIGMOID     unary_sigmoid
#define SOFTPLUS    unary_softplus
#define A           p->p
#define B           p->q

DEVICE float unary_sigmoid(float x)
{
    return elementwise_quotient(1, 1 + elementwise_exp(-x));
}

DEVICE float unary_softplus(float x)
{
    return log1pf(elementwise_exp(-fabsf(x))) + (x < 0 ? 0 : x);
}

#define UNARY(name, forward)                                                                       \
    FUNCTION_1(name##_of)                                                                          \
    {                                                                                              \
        (void)p;                                                                                   \
        return forward;                                                                            \
    }                                                                                              \
    ELEMENTWISE_1(name##_forward, name##_of)

#define UNARY_BW(name, reads, slope)                                                               \
    FUNCTION_2(name##_bw_of, dy, reads)                                                            \
    {                                                                                              \
        (void)p;                                                                                   \
        return dy * (slope);                                                                       \
    }                                                                                              \
    ELEMENTWISE_2(name##_backward, name##_bw_of)

#define FLAT_0(name, flops, forward) UNARY(name, forward)
#define UNARY_0(name, flops, bw_flops, reads, forward, slope)                                      \
    UNARY(name, forward)                                                                           \
    UNARY_BW(name, reads, slope)
#define UNARY_1(name, a, flops, bw_flops, reads, forward, slope)                                   \
    UNARY(name, forward)                                                                           \
    UNARY_BW(name, reads, slope)
#define UNARY_2(name, a, b, flops, bw_flops, reads, forward, slope)                                \
    UNARY(name, forward)                                                                           \
    UNARY_BW(name, reads, slope)

#include "graph/unary.def"

#undef A
#undef B
