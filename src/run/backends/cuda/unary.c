/* The functions of graph/unary.def. */
#include "run/backends/cuda/elementwise.h"

static neap_status plan_function(cuda_backend *backend, const run_spec *spec, const char *kernel,
                                 const char *a, const char *b, void *plan, neap_diag *diag)
{
    cuda_elementwise *e = plan;
    e->params.p = a ? (float)neap_run_spec_real(spec, a, 0) : 0;
    e->params.q = b ? (float)neap_run_spec_real(spec, b, 0) : 0;
    return neap_cuda_elementwise_plan(backend, spec, kernel, e, diag);
}

#define FUNCTION_OP(type, kernel, a, b)                                                            \
    static neap_status plan_##type(cuda_backend *backend, const run_spec *spec, void *plan,        \
                                   neap_diag *diag)                                                \
    {                                                                                              \
        return plan_function(backend, spec, kernel, a, b, plan, diag);                             \
    }                                                                                              \
    ELEMENTWISE_OP(type)

#define BOTH(name, a, b)                                                                           \
    FUNCTION_OP(name, #name "_forward", a, b)                                                      \
    FUNCTION_OP(name##_bw, #name "_backward", a, b)

#define FLAT_0(name, ...)        FUNCTION_OP(name, #name "_forward", NULL, NULL)
#define UNARY_0(name, ...)       BOTH(name, NULL, NULL)
#define UNARY_1(name, a, ...)    BOTH(name, #a, NULL)
#define UNARY_2(name, a, b, ...) BOTH(name, #a, #b)

#include "graph/unary.def"
