/* Optimizers on a network with one parameter beside the probe's: w of 8 elements; and running
   statistics of 2 channels. */
#include "op_cases.h"

static neap_tensor linear(neap_network *net)
{
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, SHAPE(3, 4));
    return neap_net_linear(net, "op", x, 2, false);
}

static neap_tensor normed(neap_network *net)
{
    neap_tensor x = neap_net_input(net, "x", NEAP_F32, SHAPE(3, 2));
    neap_tensor y = neap_net_batch_norm(net, "op", x, 0.25);
    neap_net_keep_statistics(net, y, "op.running_mean", "op.running_var", 0.875);
    return y;
}

/* Two layers that share them. */
static neap_tensor normed_twice(neap_network *net)
{
    neap_tensor y = neap_net_batch_norm(net, "other", normed(net), 0.25);
    neap_net_keep_statistics(net, y, "op.running_mean", "op.running_var", 0.875);
    return y;
}

#define CASE(name, type, ops)                                                                      \
    {                                                                                              \
        name, linear, NEAP_KERNELS_LEAN, type, ops                                                 \
    }
#define SET(which)                                                                                 \
    .optimizer = NEAP_OPTIMIZER_##which, .momentum = 0.9, .beta1 = 0.9, .beta2 = 0.99,             \
    .epsilon = 1e-8

/* Four vectors of 8 bytes, two of them twice. */
#define STATISTICS                                                                                 \
    "running_stats(running_mean, running_var, mean, invstd) updates running_mean, running_var"     \
    " {momentum=0.875 epsilon=0.25}: 20 FLOPs, 48 bytes\n"

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
    {{"running_stats", normed, NEAP_KERNELS_LEAN, NEAP_F32,
      STATISTICS
      "sgd(weight, dweight, optimizer.step) updates weight {weight_decay=0 clip=0 master=0"
      " accumulate=0}: 4 FLOPs, 48 bytes\n"
      "sgd(bias, dbias, optimizer.step) updates bias {weight_decay=0 clip=0 master=0"
      " accumulate=0}: 4 FLOPs, 48 bytes\n"},
     {SET(SGD), .accumulate = 1}},
    {{"running_stats in bf16", normed, NEAP_KERNELS_LEAN, NEAP_BF16,
      STATISTICS
      "sgd(weight, dweight, optimizer.step, optimizer.master.op.weight) updates weight,"
      " optimizer.master.op.weight {weight_decay=0 clip=0 master=1 accumulate=0}: 4 FLOPs,"
      " 48 bytes\n"
      "sgd(bias, dbias, optimizer.step, optimizer.master.op.bias) updates bias,"
      " optimizer.master.op.bias {weight_decay=0 clip=0 master=1 accumulate=0}: 4 FLOPs,"
      " 48 bytes\n"},
     {SET(SGD), .accumulate = 1}},
    {{"running_stats, shared", normed_twice, NEAP_KERNELS_LEAN, NEAP_F32,
      "running_stats(running_mean, running_var, mean, invstd, other.mean, other.invstd) updates"
      " running_mean, running_var {momentum=0.875 epsilon=0.25}: 40 FLOPs, 64 bytes\n"
      "sgd(weight, dweight, optimizer.step) updates weight {weight_decay=0 clip=0 master=0"
      " accumulate=0}: 4 FLOPs, 48 bytes\n"
      "sgd(bias, dbias, optimizer.step) updates bias {weight_decay=0 clip=0 master=0"
      " accumulate=0}: 4 FLOPs, 48 bytes\n"
      "sgd(other.weight, dother.weight, optimizer.step) updates other.weight {weight_decay=0 clip=0"
      " master=0 accumulate=0}: 4 FLOPs, 48 bytes\n"
      "sgd(other.bias, dother.bias, optimizer.step) updates other.bias {weight_decay=0 clip=0"
      " master=0 accumulate=0}: 4 FLOPs, 48 bytes\n"},
     {SET(SGD), .accumulate = 1}},
};
const size_t n_update_cases = sizeof update_cases / sizeof *update_cases;
