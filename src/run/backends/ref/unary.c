/* Reference kernels of the functions of graph/unary.def. */
#include "run/backends/ref/ref.h"

#include <math.h>

#define NUM(number) (number)
#define EXP         exp
#define EXPM1       expm1
#define LOG         log
#define LOG1P       log1p
#define SQRT        sqrt
#define ERF         erf
#define TANH        tanh
#define SIN         sin
#define COS         cos
#define ABS         fabs
#define FLOOR       floor
#define CEIL        ceil
#define NEAREST     nearbyint
#define SIGMOID(v)  (1 / (1 + exp(-(v))))
#define SOFTPLUS(v) (log1p(exp(-fabs(v))) + fmax(v, 0))

#define FORWARD(name, numbers, forward)                                                            \
    void neap_ref_##name(const ref_call *call)                                                     \
    {                                                                                              \
        numbers;                                                                                   \
        for (int64_t i = 0; i < call->out[0].n; i++) {                                             \
            double x = call->in[0].at[i];                                                          \
            call->out[0].at[i] = forward;                                                          \
        }                                                                                          \
    }

/* A function may need its attributes in one direction only. */
#define BACKWARD(name, numbers, reads, slope)                                                      \
    void neap_ref_##name##_bw(const ref_call *call)                                                \
    {                                                                                              \
        numbers;                                                                                   \
        for (int64_t i = 0; i < call->out[0].n; i++) {                                             \
            double reads = call->in[1].at[i];                                                      \
            call->out[0].at[i] = call->in[0].at[i] * (slope);                                      \
        }                                                                                          \
    }

#define ATTR_1(a)    double A = neap_ref_real(call, #a)
#define ATTR_2(a, b) double A = neap_ref_real(call, #a), B = neap_ref_real(call, #b)

#define FLAT_0(name, flops, forward) FORWARD(name, , forward)
#define UNARY_0(name, flops, bw_flops, reads, forward, slope)                                      \
    FORWARD(name, , forward)                                                                       \
    BACKWARD(name, , reads, slope)
#define UNARY_1(name, a, flops, bw_flops, reads, forward, slope)                                   \
    FORWARD(name, ATTR_1(a), forward)                                                              \
    BACKWARD(name, ATTR_1(a), reads, slope)
#define UNARY_2(name, a, b, flops, bw_flops, reads, forward, slope)                                \
    FORWARD(name, ATTR_2(a, b), forward)                                                           \
    BACKWARD(name, ATTR_2(a, b); (void)B, reads, slope)

#include "graph/unary.def"
