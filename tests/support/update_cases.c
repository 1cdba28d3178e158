/* Optimizers on a network with one parameter beside the probe's: w of 8 elements. */
#include "op_cases.h"

static neap_tensor linear(neap_network *net)
{
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, SHAPE(3, 4));
    return neap_net_linear(net, "op", x, 2, false);
}

#define CASE(name, type, ops)                                                                      \
    {                                                                                              \
        name, linear, NEAP_KERNELS_LEAN, type, ops                                                 \
    }
#define SET(which)                                                                                 \
    .optimizer = NEAP_OPTIMIZER_##which, .momentum = 0.9, .beta1 = 0.9, .beta2 = 0.99,             \
    .epsilon = 1e-8

/* Bytes: 32 for w and what is like it, 24 for the step; what is updated counts twice. */
const update_case update_cases[] = {
    {CASE("sgd", NEAP_F32,
          "sgd(weight, dweight, optimizer.step) updates weight {weight_decay=0 clip=0 master=0"
          " accumulate=0}: 16 FLOPs, 120 bytes\n"),
     {SET(SGD), .accumulate = 1}},
    {CASE("sgd, decay", NEAP_F32,
          "sgd(weight, dweight, optimizer.step) updates weight {weight_decay=0.125 clip=0 master=0"
          " accumulate=0}: 32 FLOPs, 120 bytes\n"),
     {SET(SGD), .weight_decay = 0.125, .accumulate = 1}},
    {CASE("momentum", NEAP_F32,
          "momentum(weight, dweight, optimizer.step, optimizer.momentum.op.weight) updates weight,"
          " optimizer.momentum.op.weight {momentum=0.9 weight_decay=0 clip=0 master=0"
          " accumulate=0}: 32 FLOPs, 184 bytes\n"),
     {SET(MOMENTUM), .accumulate = 1}},
    {CASE("momentum in bf16", NEAP_BF16,
          "momentum(weight, dweight, optimizer.step, optimizer.momentum.op.weight,"
          " optimizer.master.op.weight) updates weight, optimizer.momentum.op.weight,"
          " optimizer.master.op.weight {momentum=0.9 weight_decay=0.125 clip=0 master=1"
          " accumulate=0}: 48 FLOPs, 184 bytes\n"),
     {SET(MOMENTUM), .weight_decay = 0.125, .accumulate = 1}},
    {CASE("adam", NEAP_F32,
          "adam(weight, dweight, optimizer.step, optimizer.m.op.weight, optimizer.v.op.weight)"
          " updates weight, optimizer.m.op.weight, optimizer.v.op.weight {beta1=0.9 beta2=0.99"
          " epsilon=1e-08 weight_decay=0 clip=0 master=0 accumulate=0}: 104 FLOPs, 248 bytes\n"),
     {SET(ADAM), .accumulate = 1}},
    {CASE("adam, all in f16", NEAP_F16,
          "add(dweight, optimizer.sum.op.weight) -> dweight_total f32[2,4]: 8 FLOPs, 80 bytes\n"
          "clip_norm(dweight_total, dprobe.weight_total) -> optimizer.scale f32[1] {norm=0.5}: 28"
          " FLOPs, 60 bytes\n"
          "adam(weight, dweight_total, optimizer.step, optimizer.m.op.weight,"
          " optimizer.v.op.weight, optimizer.scale, optimizer.master.op.weight,"
          " optimizer.sum.op.weight) updates weight, optimizer.m.op.weight, optimizer.v.op.weight,"
          " optimizer.master.op.weight, optimizer.sum.op.weight {beta1=0.9 beta2=0.99 epsilon=1e-08"
          " weight_decay=0.125 clip=1 master=1 accumulate=3}: 128 FLOPs, 332 bytes\n"),
     {SET(ADAM), .weight_decay = 0.125, .clip_norm = 0.5, .accumulate = 3}},
    {CASE("adamw", NEAP_F32,
          "clip_norm(dweight, dprobe.weight) -> optimizer.scale f32[1] {norm=2}: 28 FLOPs, 60"
          " bytes\n"
          "adamw(weight, dweight, optimizer.step, optimizer.m.op.weight, optimizer.v.op.weight,"
          " optimizer.scale) updates weight, optimizer.m.op.weight, optimizer.v.op.weight"
          " {beta1=0.9 beta2=0.99 epsilon=1e-08 weight_decay=0.125 clip=1 master=0 accumulate=0}:"
          " 120 FLOPs, 252 bytes\n"),
     {SET(ADAMW), .weight_decay = 0.125, .clip_norm = 2, .accumulate = 1}},
    {CASE("adamw, batches", NEAP_F32,
          "add(dweight, optimizer.sum.op.weight) -> dweight_total f32[2,4] (dweight_total over"
          " dweight): 8 FLOPs, 96 bytes\n"
          "adamw(weight, dweight_total, optimizer.step, optimizer.m.op.weight,"
          " optimizer.v.op.weight, optimizer.sum.op.weight) updates weight, optimizer.m.op.weight,"
          " optimizer.v.op.weight, optimizer.sum.op.weight {beta1=0.9 beta2=0.99 epsilon=1e-08"
          " weight_decay=0 clip=0 master=0 accumulate=2}: 104 FLOPs, 312 bytes\n"),
     {SET(ADAMW), .accumulate = 2}},
};
const size_t n_update_cases = sizeof update_cases / sizeof *update_cases;
