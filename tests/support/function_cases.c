/* Cases of elementwise functions of one and two numbers. */
#include "op_cases.h"

static neap_tensor matrix(neap_network *net)
{
    return neap_net_parameter(net, "x", SHAPE(3, 4));
}

/* ---- Functions of graph/unary.def ---- */

#define CASE(name, ...)                                                                            \
    static neap_tensor case_##name(neap_network *net)                                              \
    {                                                                                              \
        return neap_net_##name(net, "op", __VA_ARGS__);                                            \
    }

/* One without a gradient, of data. */
#define FLAT_CASE(name)                                                                            \
    static neap_tensor case_##name(neap_network *net)                                              \
    {                                                                                              \
        neap_tensor x = neap_net_input(net, "x", NEAP_F32, SHAPE(3, 4));                           \
        neap_tensor wide = neap_net_scale(net, "wide", x, 2, 0);                                   \
        return neap_net_mul(net, "product", neap_net_parameter(net, "s", SHAPE(3, 4)),             \
                            neap_net_##name(net, "op", wide));                                     \
    }

CASE(exp, matrix(net))
CASE(log, neap_net_scale(net, "positive", matrix(net), 1, 2))
CASE(sqrt, neap_net_scale(net, "positive", matrix(net), 1, 2))
CASE(reciprocal, neap_net_scale(net, "positive", matrix(net), 1, 2))
CASE(erf, matrix(net))
CASE(sin, matrix(net))
CASE(cos, matrix(net))
CASE(abs, matrix(net))
CASE(silu, neap_net_scale(net, "wide", matrix(net), 4, 0))
CASE(mish, neap_net_scale(net, "wide", matrix(net), 4, 0))
CASE(softplus, neap_net_scale(net, "wide", matrix(net), 4, 0))
CASE(softsign, matrix(net))
CASE(selu, neap_net_scale(net, "wide", matrix(net), 4, 0))
CASE(hard_swish, neap_net_scale(net, "wide", matrix(net), 4, 0))
CASE(leaky_relu, matrix(net), 0.125)
CASE(elu, matrix(net), 0.75)
CASE(celu, matrix(net), 0.5)
CASE(clip, matrix(net), -0.5, 0.75)
CASE(hard_sigmoid, matrix(net), 0.5, 0.375)
FLAT_CASE(sign)
FLAT_CASE(floor)
FLAT_CASE(ceil)
FLAT_CASE(round)

/* ---- Of two numbers ---- */

typedef neap_tensor binary_layer(neap_network *net, const char *name, neap_tensor a, neap_tensor b);

static neap_tensor of_two(neap_network *net, binary_layer *layer, bool repeated)
{
    neap_tensor a = repeated ? neap_net_parameter(net, "a", SHAPE(2, 3, 4))
                             : neap_net_parameter(net, "a", SHAPE(3, 4));
    return layer(net, "op", a, neap_net_parameter(net, "b", SHAPE(3, 4)));
}

/* Divisors are not near 0. */
static neap_tensor of_quotient(neap_network *net, bool repeated)
{
    neap_tensor a = repeated ? neap_net_parameter(net, "a", SHAPE(2, 3, 4))
                             : neap_net_parameter(net, "a", SHAPE(3, 4));
    neap_tensor b = neap_net_scale(net, "b", matrix(net), 1, 3);
    return neap_net_div(net, "op", a, b);
}

#define CASES_OF_TWO(name)                                                                         \
    static neap_tensor case_##name(neap_network *net)                                              \
    {                                                                                              \
        return of_two(net, neap_net_##name, false);                                                \
    }                                                                                              \
    static neap_tensor case_##name##_repeated(neap_network *net)                                   \
    {                                                                                              \
        return of_two(net, neap_net_##name, true);                                                 \
    }

CASES_OF_TWO(sub)
CASES_OF_TWO(max)
CASES_OF_TWO(min)
CASES_OF_TWO(prelu)

static neap_tensor case_mul_repeated(neap_network *net)
{
    return of_two(net, neap_net_mul, true);
}

static neap_tensor case_div(neap_network *net)
{
    return of_quotient(net, false);
}

static neap_tensor case_div_repeated(neap_network *net)
{
    return of_quotient(net, true);
}

/* Equal operands share the gradient. */
static neap_tensor case_max_itself(neap_network *net)
{
    neap_tensor x = matrix(net);
    return neap_net_max(net, "op", x, neap_net_scale(net, "same", x, 1, 0));
}

#define LEAN   NEAP_KERNELS_LEAN
#define IN_F32 NEAP_F32

/* 12 elements, 24 where b is repeated. */
static const op_case cases[] = {
    {"exp", case_exp, LEAN, IN_F32,
     "exp(x) -> y f32[3,4]: 12 FLOPs, 96 bytes\n"
     "exp_bw(dy, y) -> dx f32[3,4] (dx over dy): 12 FLOPs, 144 bytes\n"},
    {"log", case_log, LEAN, IN_F32,
     "scale(x) -> positive f32[3,4] {factor=1 offset=2}: 24 FLOPs, 96 bytes\n"
     "log(positive) -> y f32[3,4] (y over positive): 12 FLOPs, 96 bytes\n"
     "log_bw(dy, positive) -> dpositive f32[3,4] (dpositive over dy): 24 FLOPs, 144 bytes\n"
     "scale(dpositive) -> dx f32[3,4] {factor=1 offset=0} (dx over dpositive): 24 FLOPs, 96 "
     "bytes\n"},
    {"sqrt", case_sqrt, LEAN, IN_F32,
     "scale(x) -> positive f32[3,4] {factor=1 offset=2}: 24 FLOPs, 96 bytes\n"
     "sqrt(positive) -> y f32[3,4] (y over positive): 12 FLOPs, 96 bytes\n"
     "sqrt_bw(dy, y) -> dpositive f32[3,4] (dpositive over dy): 24 FLOPs, 144 bytes\n"
     "scale(dpositive) -> dx f32[3,4] {factor=1 offset=0} (dx over dpositive): 24 FLOPs, 96 "
     "bytes\n"},
    {"reciprocal", case_reciprocal, LEAN, IN_F32,
     "scale(x) -> positive f32[3,4] {factor=1 offset=2}: 24 FLOPs, 96 bytes\n"
     "reciprocal(positive) -> y f32[3,4] (y over positive): 12 FLOPs, 96 bytes\n"
     "reciprocal_bw(dy, y) -> dpositive f32[3,4] (dpositive over dy): 36 FLOPs, 144 bytes\n"
     "scale(dpositive) -> dx f32[3,4] {factor=1 offset=0} (dx over dpositive): 24 FLOPs, 96 "
     "bytes\n"},
    {"erf", case_erf, LEAN, IN_F32,
     "erf(x) -> y f32[3,4]: 12 FLOPs, 96 bytes\n"
     "erf_bw(dy, x) -> dx f32[3,4] (dx over dy): 60 FLOPs, 144 bytes\n"},
    {"sin", case_sin, LEAN, IN_F32,
     "sin(x) -> y f32[3,4]: 12 FLOPs, 96 bytes\n"
     "sin_bw(dy, x) -> dx f32[3,4] (dx over dy): 24 FLOPs, 144 bytes\n"},
    {"cos", case_cos, LEAN, IN_F32,
     "cos(x) -> y f32[3,4]: 12 FLOPs, 96 bytes\n"
     "cos_bw(dy, x) -> dx f32[3,4] (dx over dy): 36 FLOPs, 144 bytes\n"},
    {"abs", case_abs, LEAN, IN_F32,
     "abs(x) -> y f32[3,4]: 12 FLOPs, 96 bytes\n"
     "abs_bw(dy, x) -> dx f32[3,4] (dx over dy): 36 FLOPs, 144 bytes\n"},
    {"silu", case_silu, LEAN, IN_F32,
     "scale(x) -> wide f32[3,4] {factor=4 offset=0}: 24 FLOPs, 96 bytes\n"
     "silu(wide) -> y f32[3,4] (y over wide): 60 FLOPs, 96 bytes\n"
     "silu_bw(dy, wide) -> dwide f32[3,4] (dwide over dy): 108 FLOPs, 144 bytes\n"
     "scale(dwide) -> dx f32[3,4] {factor=4 offset=0} (dx over dwide): 24 FLOPs, 96 bytes\n"},
    {"mish", case_mish, LEAN, IN_F32,
     "scale(x) -> wide f32[3,4] {factor=4 offset=0}: 24 FLOPs, 96 bytes\n"
     "mish(wide) -> y f32[3,4] (y over wide): 84 FLOPs, 96 bytes\n"
     "mish_bw(dy, wide) -> dwide f32[3,4] (dwide over dy): 180 FLOPs, 144 bytes\n"
     "scale(dwide) -> dx f32[3,4] {factor=4 offset=0} (dx over dwide): 24 FLOPs, 96 bytes\n"},
    {"softplus", case_softplus, LEAN, IN_F32,
     "scale(x) -> wide f32[3,4] {factor=4 offset=0}: 24 FLOPs, 96 bytes\n"
     "softplus(wide) -> y f32[3,4] (y over wide): 60 FLOPs, 96 bytes\n"
     "softplus_bw(dy, wide) -> dwide f32[3,4] (dwide over dy): 60 FLOPs, 144 bytes\n"
     "scale(dwide) -> dx f32[3,4] {factor=4 offset=0} (dx over dwide): 24 FLOPs, 96 bytes\n"},
    {"softsign", case_softsign, LEAN, IN_F32,
     "softsign(x) -> y f32[3,4]: 36 FLOPs, 96 bytes\n"
     "softsign_bw(dy, x) -> dx f32[3,4] (dx over dy): 60 FLOPs, 144 bytes\n"},
    {"selu", case_selu, LEAN, IN_F32,
     "scale(x) -> wide f32[3,4] {factor=4 offset=0}: 24 FLOPs, 96 bytes\n"
     "selu(wide) -> y f32[3,4] (y over wide): 36 FLOPs, 96 bytes\n"
     "selu_bw(dy, y) -> dwide f32[3,4] (dwide over dy): 36 FLOPs, 144 bytes\n"
     "scale(dwide) -> dx f32[3,4] {factor=4 offset=0} (dx over dwide): 24 FLOPs, 96 bytes\n"},
    {"hard_swish", case_hard_swish, LEAN, IN_F32,
     "scale(x) -> wide f32[3,4] {factor=4 offset=0}: 24 FLOPs, 96 bytes\n"
     "hard_swish(wide) -> y f32[3,4] (y over wide): 60 FLOPs, 96 bytes\n"
     "hard_swish_bw(dy, wide) -> dwide f32[3,4] (dwide over dy): 60 FLOPs, 144 bytes\n"
     "scale(dwide) -> dx f32[3,4] {factor=4 offset=0} (dx over dwide): 24 FLOPs, 96 bytes\n"},
    {"leaky_relu", case_leaky_relu, LEAN, IN_F32,
     "leaky_relu(x) -> y f32[3,4] {alpha=0.125}: 24 FLOPs, 96 bytes\n"
     "leaky_relu_bw(dy, x) -> dx f32[3,4] {same} (dx over dy): 24 FLOPs, 144 bytes\n"},
    {"elu", case_elu, LEAN, IN_F32,
     "elu(x) -> y f32[3,4] {alpha=0.75}: 36 FLOPs, 96 bytes\n"
     "elu_bw(dy, x) -> dx f32[3,4] {same} (dx over dy): 48 FLOPs, 144 bytes\n"},
    {"celu", case_celu, LEAN, IN_F32,
     "celu(x) -> y f32[3,4] {alpha=0.5}: 48 FLOPs, 96 bytes\n"
     "celu_bw(dy, x) -> dx f32[3,4] {same} (dx over dy): 48 FLOPs, 144 bytes\n"},
    {"clip", case_clip, LEAN, IN_F32,
     "clip(x) -> y f32[3,4] {min=-0.5 max=0.75}: 24 FLOPs, 96 bytes\n"
     "clip_bw(dy, x) -> dx f32[3,4] {same} (dx over dy): 36 FLOPs, 144 bytes\n"},
    {"hard_sigmoid", case_hard_sigmoid, LEAN, IN_F32,
     "hard_sigmoid(x) -> y f32[3,4] {alpha=0.5 beta=0.375}: 48 FLOPs, 96 bytes\n"
     "hard_sigmoid_bw(dy, y) -> dx f32[3,4] {same} (dx over dy): 36 FLOPs, 144 bytes\n"},
    {"sign", case_sign, LEAN, IN_F32,
     "scale(x) -> wide f32[3,4] {factor=2 offset=0}: 24 FLOPs, 96 bytes\n"
     "sign(wide) -> y f32[3,4] (y over wide): 24 FLOPs, 96 bytes\n"
     "mul(s, y) -> product f32[3,4] (product over y): 12 FLOPs, 144 bytes\n"
     "mul(dproduct, y) -> ds f32[3,4] (ds over dproduct): 12 FLOPs, 144 bytes\n"},
    {"floor", case_floor, LEAN, IN_F32,
     "scale(x) -> wide f32[3,4] {factor=2 offset=0}: 24 FLOPs, 96 bytes\n"
     "floor(wide) -> y f32[3,4] (y over wide): 12 FLOPs, 96 bytes\n"
     "mul(s, y) -> product f32[3,4] (product over y): 12 FLOPs, 144 bytes\n"
     "mul(dproduct, y) -> ds f32[3,4] (ds over dproduct): 12 FLOPs, 144 bytes\n"},
    {"ceil", case_ceil, LEAN, IN_F32,
     "scale(x) -> wide f32[3,4] {factor=2 offset=0}: 24 FLOPs, 96 bytes\n"
     "ceil(wide) -> y f32[3,4] (y over wide): 12 FLOPs, 96 bytes\n"
     "mul(s, y) -> product f32[3,4] (product over y): 12 FLOPs, 144 bytes\n"
     "mul(dproduct, y) -> ds f32[3,4] (ds over dproduct): 12 FLOPs, 144 bytes\n"},
    {"round", case_round, LEAN, IN_F32,
     "scale(x) -> wide f32[3,4] {factor=2 offset=0}: 24 FLOPs, 96 bytes\n"
     "round(wide) -> y f32[3,4] (y over wide): 12 FLOPs, 96 bytes\n"
     "mul(s, y) -> product f32[3,4] (product over y): 12 FLOPs, 144 bytes\n"
     "mul(dproduct, y) -> ds f32[3,4] (ds over dproduct): 12 FLOPs, 144 bytes\n"},
    {"sub", case_sub, LEAN, IN_F32,
     "sub(a, b) -> y f32[3,4]: 12 FLOPs, 144 bytes\n"
     "scale(dy) -> db f32[3,4] {factor=-1 offset=0} (db over dy): 24 FLOPs, 96 bytes\n"},
    {"sub, repeated", case_sub_repeated, LEAN, IN_F32,
     "sub(a, b) -> y f32[2,3,4]: 24 FLOPs, 240 bytes\n"
     "scale(dy) -> dy.1 f32[2,3,4] {factor=-1 offset=0} (dy.1 over dy): 48 FLOPs, 192 bytes\n"
     "reduce(dy.1) -> db f32[3,4]: 24 FLOPs, 144 bytes\n"},
    {"div", case_div, LEAN, IN_F32,
     "scale(x) -> b f32[3,4] {factor=1 offset=3}: 24 FLOPs, 96 bytes\n"
     "div(a, b) -> y f32[3,4] (y over b): 12 FLOPs, 144 bytes\n"
     "div(dy, b) -> da f32[3,4] (da over dy): 12 FLOPs, 144 bytes\n"
     "div_bw(dy, y, b) -> db f32[3,4] (db over dy): 36 FLOPs, 192 bytes\n"
     "scale(db) -> dx f32[3,4] {factor=1 offset=0} (dx over db): 24 FLOPs, 96 bytes\n"},
    {"div, repeated", case_div_repeated, LEAN, IN_F32,
     "scale(x) -> b f32[3,4] {factor=1 offset=3}: 24 FLOPs, 96 bytes\n"
     "div(a, b) -> y f32[2,3,4]: 24 FLOPs, 240 bytes\n"
     "div(dy, b) -> da f32[2,3,4] (da over dy): 24 FLOPs, 240 bytes\n"
     "div_bw(dy, y, b) -> dy.1 f32[2,3,4] (dy.1 over dy): 72 FLOPs, 336 bytes\n"
     "reduce(dy.1) -> db f32[3,4]: 24 FLOPs, 144 bytes\n"
     "scale(db) -> dx f32[3,4] {factor=1 offset=0} (dx over db): 24 FLOPs, 96 bytes\n"},
    {"max", case_max, LEAN, IN_F32,
     "max(a, b) -> y f32[3,4]: 12 FLOPs, 144 bytes\n"
     "max_bw(dy, a, b) -> da f32[3,4] {of_b=0} (da over dy): 24 FLOPs, 192 bytes\n"
     "max_bw(dy, a, b) -> db f32[3,4] {of_b=1} (db over dy): 24 FLOPs, 192 bytes\n"},
    {"max, repeated", case_max_repeated, LEAN, IN_F32,
     "max(a, b) -> y f32[2,3,4]: 24 FLOPs, 240 bytes\n"
     "max_bw(dy, a, b) -> da f32[2,3,4] {of_b=0} (da over dy): 48 FLOPs, 336 bytes\n"
     "max_bw(dy, a, b) -> dy.1 f32[2,3,4] {of_b=1} (dy.1 over dy): 48 FLOPs, 336 bytes\n"
     "reduce(dy.1) -> db f32[3,4]: 24 FLOPs, 144 bytes\n"},
    {"min", case_min, LEAN, IN_F32,
     "min(a, b) -> y f32[3,4]: 12 FLOPs, 144 bytes\n"
     "min_bw(dy, a, b) -> da f32[3,4] {of_b=0} (da over dy): 24 FLOPs, 192 bytes\n"
     "min_bw(dy, a, b) -> db f32[3,4] {of_b=1} (db over dy): 24 FLOPs, 192 bytes\n"},
    {"min, repeated", case_min_repeated, LEAN, IN_F32,
     "min(a, b) -> y f32[2,3,4]: 24 FLOPs, 240 bytes\n"
     "min_bw(dy, a, b) -> da f32[2,3,4] {of_b=0} (da over dy): 48 FLOPs, 336 bytes\n"
     "min_bw(dy, a, b) -> dy.1 f32[2,3,4] {of_b=1} (dy.1 over dy): 48 FLOPs, 336 bytes\n"
     "reduce(dy.1) -> db f32[3,4]: 24 FLOPs, 144 bytes\n"},
    {"prelu", case_prelu, LEAN, IN_F32,
     "prelu(a, b) -> y f32[3,4]: 24 FLOPs, 144 bytes\n"
     "prelu_bw_data(dy, a, b) -> da f32[3,4] (da over dy): 24 FLOPs, 192 bytes\n"
     "prelu_bw_weight(dy, a) -> db f32[3,4] (db over dy): 24 FLOPs, 144 bytes\n"},
    {"prelu, repeated", case_prelu_repeated, LEAN, IN_F32,
     "prelu(a, b) -> y f32[2,3,4]: 48 FLOPs, 240 bytes\n"
     "prelu_bw_data(dy, a, b) -> da f32[2,3,4] (da over dy): 48 FLOPs, 336 bytes\n"
     "prelu_bw_weight(dy, a) -> dy.1 f32[2,3,4] (dy.1 over dy): 48 FLOPs, 288 bytes\n"
     "reduce(dy.1) -> db f32[3,4]: 24 FLOPs, 144 bytes\n"},
    {"mul, repeated", case_mul_repeated, LEAN, IN_F32,
     "mul(a, b) -> y f32[2,3,4]: 24 FLOPs, 240 bytes\n"
     "mul(dy, b) -> da f32[2,3,4] (da over dy): 24 FLOPs, 240 bytes\n"
     "mul(dy, a) -> dy.1 f32[2,3,4] (dy.1 over dy): 24 FLOPs, 288 bytes\n"
     "reduce(dy.1) -> db f32[3,4]: 24 FLOPs, 144 bytes\n"},
    {"max, itself", case_max_itself, LEAN, IN_F32,
     "scale(x) -> same f32[3,4] {factor=1 offset=0}: 24 FLOPs, 96 bytes\n"
     "max(x, same) -> y f32[3,4] (y over same): 12 FLOPs, 144 bytes\n"
     "max_bw(dy, x, same) -> dx f32[3,4] {of_b=0} (dx over dy): 24 FLOPs, 192 bytes\n"
     "max_bw(dy, x, same) -> dsame f32[3,4] {of_b=1} (dsame over dy): 24 FLOPs, 192 bytes\n"
     "scale(dsame) -> dx.1 f32[3,4] {factor=1 offset=0} (dx.1 over dsame): 24 FLOPs, 96 bytes\n"
     "add(dx, dx.1) -> dx.2 f32[3,4] (dx.2 over dx): 12 FLOPs, 144 bytes\n"},
};
const op_case_list function_cases = {cases, sizeof cases / sizeof *cases};
