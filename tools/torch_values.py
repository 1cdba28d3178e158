#!/usr/bin/env python3
"""Losses and gradients of neap's networks as PyTorch computes them: tests/data/torch/*.txt.

    python3 -m venv /tmp/torch-venv
    /tmp/torch-venv/bin/pip install torch numpy
    /tmp/torch-venv/bin/python tools/torch_values.py --neap build/neap [NETWORK ...]

The forward ops of a network's graph are run by torch.nn.functional in double precision; autograd
makes the gradients. Of neap's own only the graph's forward part is used, so that its autodiff and
its kernels are checked against somebody else's. tests/anchors/test_torch_values.c reads the files.

A file has a line for what the network is, one for each of its settings, one for the loss and one
for each parameter: its name, the Euclidean norm of its gradient, and the sum of the gradient's
elements times weights between -0.5 and 0.5, which notices elements that changed places. One line
says how well the network is conditioned: by how much, in shares of their norms, gradients change
when inputs and the results of ops change by about as much as f32 arithmetic rounds. Deep networks
have many ReLUs, and a sign that turns changes much: f32 can come no closer than that.

Inputs follow from names. With u(i) the draw number i (random_real below) of the FNV-1a hash of an
input's name:
  parameters of one dimension   0.2 (u - 0.5), plus 1 where the name ends in "weight"
  other parameters              sqrt(24 / fan-in) (u - 0.5), fan-in: all extents but the first
  other floats                  2 (u - 0.5)
  ids and labels                the draw's 64 bits modulo the number of rows or classes
each rounded to f32. The gradient of the loss is 1. The draws of an op are those of docs/ops.md with
the seed random(STEP_SEED, hash of its name). Weights of a gradient's elements are the draws of the
hash of the parameter's name and ".projection", less 0.5.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

import numpy as np
import torch
import torch.nn.functional as F

STEP_SEED = 1
ROOT = pathlib.Path(__file__).resolve().parent.parent

# name of the file: network, kernels, settings
CONV = {"batch": 3, "image": 64, "width": 6, "classes": 10}
CASES = {
    "alexnet": ("alexnet", "lean", {**CONV, "width": 10}),
    "alexnet-torch": ("alexnet", "torch", {**CONV, "width": 7}),
    "vgg11": ("vgg11", "lean", CONV),
    "vgg11-bn": ("vgg11", "lean", {**CONV, "image": 32, "batch_norm": 1}),
    "vgg16": ("vgg16", "lean", {**CONV, "image": 32}),
    "vgg19": ("vgg19", "lean", {**CONV, "image": 32}),
    "hong-vgg19": ("hong-vgg19", "lean", {**CONV, "image": 32}),
    "hong-alexnet": ("hong-alexnet", "lean", {**CONV, "width": 10}),
    "hong-alexnet-plain": ("hong-alexnet-plain", "lean", {**CONV, "width": 10}),
    "resnet18": ("resnet18", "lean", {**CONV, "image_w": 48}),
    "resnet18-torch": ("resnet18", "torch", {**CONV, "image": 48}),
    "resnet34": ("resnet34", "lean", {**CONV, "image": 40, "width": 5}),
    "resnet50": ("resnet50", "lean", {**CONV, "image": 33, "width": 3}),
    "resnet101": ("resnet101", "lean", {**CONV, "image": 33, "width": 2}),
    "resnet152": ("resnet152", "lean", {**CONV, "image": 33, "width": 4}),
    "densenet121": ("densenet121", "lean", {**CONV, "width": 4}),
    "densenet-chain": ("densenet-chain", "lean", {**CONV, "width": 4}),
    "densenet161": ("densenet161", "lean", {**CONV, "width": 3}),
    "densenet169": ("densenet169", "lean", {**CONV, "width": 4}),
    "densenet201": ("densenet201", "lean", {**CONV, "width": 4}),
    "inception_v3": ("inception_v3", "lean", {**CONV, "image": 107, "width": 5, "aux": 0}),
    "inception_v3-aux": ("inception_v3", "lean", {**CONV, "image": 299, "width": 2}),
    "mobilenet_v1": ("mobilenet_v1", "lean", {**CONV, "width": 15}),
    "mobilenet_v1-keras": ("mobilenet_v1", "lean", {**CONV, "width": 8, "keras": 1}),
    "mobilenet_v2": ("mobilenet_v2", "lean", {**CONV, "width": 20}),
    "unet": ("unet", "lean", {"batch": 2, "image": 32, "width": 6}),
    "fcn8": ("fcn8", "lean", {**CONV, "batch": 2, "image": 64, "classes": 5}),
    "segnet": ("segnet", "lean", {"batch": 2, "image": 32, "width": 8, "classes": 5}),
    "segnet-torch": ("segnet", "torch", {"batch": 2, "image": 32, "width": 8, "classes": 5}),
    "convnext_tiny": ("convnext_tiny", "lean", {"batch": 2, "image": 32, "width": 6, "classes": 5}),
    "vit_b_16": ("vit_b_16", "lean", {"batch": 2, "image": 64, "classes": 10, "layers": 3,
                                      "hidden": 24, "heads": 4, "dropout_percent": 10}),
    "bert-base": ("bert-base", "lean", {"batch": 2, "seq": 9, "layers": 3, "hidden": 24,
                                        "heads": 4, "vocab": 53}),
    "bert-base-torch": ("bert-base", "torch", {"batch": 2, "seq": 9, "layers": 1, "hidden": 24,
                                               "heads": 2, "vocab": 53}),
    "gpt2": ("gpt2", "lean", {"batch": 2, "seq": 13, "layers": 3, "hidden": 24, "heads": 3,
                              "vocab": 61, "dropout_percent": 10}),
    "gpt2-torch": ("gpt2", "torch", {"batch": 2, "seq": 13, "layers": 2, "hidden": 16, "heads": 2,
                                     "vocab": 61}),
    "gpt2-medium": ("gpt2-medium", "lean", {"batch": 3, "seq": 7, "layers": 4, "hidden": 32,
                                            "heads": 4, "vocab": 41}),
    "gpt2-large": ("gpt2-large", "lean", {"batch": 2, "seq": 17, "layers": 5, "hidden": 40,
                                          "heads": 5, "vocab": 41}),
    "gpt2-xl": ("gpt2-xl", "lean", {"batch": 1, "seq": 20, "layers": 6, "hidden": 50,
                                    "heads": 5, "vocab": 41}),
    "lstm": ("lstm", "lean", {"batch": 3, "seq": 6, "hidden": 14, "vocab": 37}),
    "lstm-tied": ("lstm", "lean", {"batch": 2, "seq": 5, "layers": 3, "hidden": 11, "vocab": 37,
                                   "tied": 1}),
}

# ---- Draws, as in src/run/backend.h ----


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def random_bits(seed, indices):
    z = np.uint64(seed) + (indices.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def draws(seed, shape):
    """Numbers from 0 to just below 1, in row-major order."""
    bits = random_bits(seed, np.arange(math.prod(shape), dtype=np.uint64))
    return ((bits >> np.uint64(40)).astype(np.float64) * 2.0**-24).reshape(shape)


def kept(op, shape, p):
    """1 / (1 - p) where a draw keeps, 0 where it drops."""
    seed = int(random_bits(STEP_SEED, np.array([fnv1a(op["name"])], dtype=np.uint64))[0])
    return torch.from_numpy((draws(seed, shape) >= p) / (1 - p))


# ---- Inputs ----


def integer_limit(graph, value):
    for op in graph["ops"]:
        if value in op["inputs"]:
            if op["type"] == "embedding":
                return graph["values"][op["inputs"][1]]["shape"][0]
            if op["type"] in ("xent", "nll"):
                return graph["values"][op["inputs"][0]]["shape"][1]
    raise ValueError("no reader says how large " + graph["values"][value]["name"] + " may be")


def fill(graph, index):
    value = graph["values"][index]
    name, shape = value["name"], value["shape"]
    key = fnv1a(name)
    if value["dtype"] in ("i64", "i32"):
        bits = random_bits(key, np.arange(math.prod(shape), dtype=np.uint64))
        limit = np.uint64(integer_limit(graph, index))
        return torch.from_numpy((bits % limit).astype(np.int64).reshape(shape))
    u = draws(key, shape) - 0.5
    if value["kind"] != "parameter":
        number = 2.0 * u
    elif len(shape) == 1:
        number = 0.2 * u + (1.0 if name.endswith("weight") else 0.0)
    else:
        number = math.sqrt(24.0 / math.prod(shape[1:])) * u
    return torch.from_numpy(number.astype(np.float32).astype(np.float64))


# ---- Forward ops ----


def conv_args(a):
    return {"stride": (a["stride_h"], a["stride_w"]), "padding": (a["pad_h"], a["pad_w"]),
            "dilation": a["dilation"], "groups": a["groups"]}


def pool_args(a):
    return {"kernel_size": (a["kernel_h"], a["kernel_w"]), "stride": (a["stride_h"], a["stride_w"]),
            "padding": (a["pad_h"], a["pad_w"])}


def conv2d(op, a, x, w, b=None):
    y = F.conv2d(x, w, b, **conv_args(a))
    return F.relu(y) if a["relu"] else y


def conv_transpose2d(op, a, x, w, b=None):
    return F.conv_transpose2d(x, w, b, output_padding=a["output_pad"], **conv_args(a))


def dropout(op, a, x):
    return x * kept(op, tuple(x.shape), a["p"])


def max_pool2d(op, a, x):
    return F.max_pool2d(x, ceil_mode=bool(a["ceil_mode"]), return_indices=True, **pool_args(a))


def avg_pool2d(op, a, x):
    return F.avg_pool2d(x, ceil_mode=bool(a["ceil_mode"]),
                        count_include_pad=bool(a["count_include_pad"]), **pool_args(a))


def attention(op, a, q, k=None, v=None):
    if k is None:
        q, k, v = q.chunk(3, dim=2)
    q, k, v = (x.unflatten(2, (a["heads"], -1)).transpose(1, 2) for x in (q, k, v))
    if a["dropout"] == 0:
        o = F.scaled_dot_product_attention(q, k, v, is_causal=bool(a["causal"]))
    else:
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
        if a["causal"]:
            above = torch.ones(scores.shape[2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(above, -math.inf)
        o = (scores.softmax(3) * kept(op, tuple(scores.shape), a["dropout"])) @ v
    return o.transpose(1, 2).flatten(2)


def lstm_cell(op, a, gates, c):
    i, f, g, o = gates.chunk(4, dim=1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


FORWARD = {
    "conv2d": conv2d,
    "conv_transpose2d": conv_transpose2d,
    "linear": lambda op, a, x, w, b=None: F.linear(x, w, b),
    "relu": lambda op, a, x: F.relu(x),
    "relu6": lambda op, a, x: F.relu6(x),
    "sigmoid": lambda op, a, x: torch.sigmoid(x),
    "tanh": lambda op, a, x: torch.tanh(x),
    "gelu": lambda op, a, x: F.gelu(x, approximate="tanh" if a["tanh"] else "none"),
    "dropout": dropout,
    "add": lambda op, a, x, y: x + y,
    "mul": lambda op, a, x, y: x * y,
    "scale": lambda op, a, x: a["factor"] * x + a["offset"],
    "pow": lambda op, a, x: x ** a["power"],
    "batch_norm": lambda op, a, x, w, b: F.batch_norm(x, None, None, w, b, True, 0.1, a["epsilon"]),
    "layer_norm": lambda op, a, x, w, b: F.layer_norm(x, w.shape, w, b, a["epsilon"]),
    "group_norm": lambda op, a, x, w, b: F.group_norm(x, a["groups"], w, b, a["epsilon"]),
    "max_pool2d": max_pool2d,
    "avg_pool2d": avg_pool2d,
    "adaptive_avg_pool2d": lambda op, a, x: F.adaptive_avg_pool2d(x, op["shape"][2:]),
    "max_unpool2d": lambda op, a, x, i: F.max_unpool2d(x, i, output_size=op["shape"],
                                                       **pool_args(a)),
    "upsample": lambda op, a, x: F.interpolate(x, op["shape"][2:], mode="bilinear",
                                               align_corners=bool(a["align_corners"])),
    "concat": lambda op, a, *parts: torch.cat(parts, a["axis"]),
    "slice": lambda op, a, x: x.narrow(a["axis"], a["begin"], a["end"] - a["begin"]),
    "split": lambda op, a, x: x.chunk(len(op["outputs"]), a["axis"]),
    "reshape": lambda op, a, x: x.reshape(op["shape"]),
    "transpose": lambda op, a, x: x.transpose(a["axis_a"], a["axis_b"]),
    "permute": lambda op, a, x: x.permute([a["axis_%d" % d] for d in range(x.dim())]),
    "expand": lambda op, a, x: x.expand(op["shape"]),
    "pad2d": lambda op, a, x: F.pad(x, (a["left"], a["right"], a["top"], a["bottom"])),
    "embedding": lambda op, a, ids, w: F.embedding(ids, w),
    "attention": attention,
    "lstm_cell": lstm_cell,
    "xent": lambda op, a, x, labels: F.cross_entropy(x, labels).reshape(1),
    "log_softmax": lambda op, a, x: F.log_softmax(x, 1),
    "nll": lambda op, a, x, labels: F.nll_loss(x, labels).reshape(1),
}


def disturb(tensor, noise):
    """Rounded as if in f32 but at random; noise is a generator of random numbers, or None."""
    if noise is None or not tensor.is_floating_point():
        return tensor
    return tensor * (1 + torch.from_numpy(noise.uniform(-1, 1, tuple(tensor.shape)) * 2.0**-23))


def evaluate(graph, noise=None):
    """The loss, and each parameter's name and gradient."""
    tensors, parameters = {}, []
    for i, value in enumerate(graph["values"]):
        if value["kind"] in ("input", "parameter") and not value["name"].endswith(".grad"):
            tensors[i] = disturb(fill(graph, i), noise)
            if value["kind"] == "parameter":
                parameters.append(i)
                tensors[i].requires_grad_(True)
    for op in graph["ops"]:
        if op["pass"] != "forward":
            continue
        op["shape"] = graph["values"][op["outputs"][0]]["shape"]
        results = FORWARD[op["type"]](op, op.get("attrs", {}), *[tensors[i] for i in op["inputs"]])
        if not isinstance(results, tuple):
            results = (results,)
        for i, result in zip(op["outputs"], results):
            if list(result.shape) != graph["values"][i]["shape"]:
                raise ValueError("%s: shape %s" % (op["name"], list(result.shape)))
            tensors[i] = disturb(result, noise)
    loss = tensors[graph["outputs"][0]]
    gradients = torch.autograd.grad(loss.sum(), [tensors[i] for i in parameters])
    return loss.item(), [(graph["values"][i]["name"], g) for i, g in zip(parameters, gradients)]


def measure(name, gradient):
    """Its norm and its projection."""
    weights = draws(fnv1a(name + ".projection"), tuple(gradient.shape)) - 0.5
    return float(gradient.norm()), float((gradient.numpy() * weights).sum())


def sensitivity(graph, measures):
    """The largest change of a measure in a few trials with noise, in shares of norms."""
    largest = max(norm for norm, _ in measures)
    worst = 0.0
    for seed in range(6):
        _, gradients = evaluate(graph, np.random.default_rng(seed))
        for (norm, projection), g in zip(measures, gradients):
            noisy = measure(*g)
            change = max(abs(noisy[0] - norm), abs(noisy[1] - projection))
            worst = max(worst, change / (norm + 1e-3 * largest))
    return worst


def write_case(neap, folder, name):
    network, kernels, settings = CASES[name]
    command = [neap, "graph", network, "--kernels", kernels, "-o", "-"]
    for key, value in settings.items():
        command += ["--set", "%s=%d" % (key, value)]
    graph = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    loss, gradients = evaluate(graph)
    measures = [measure(*g) for g in gradients]
    noise = sensitivity(graph, measures)
    norms = [norm for norm, _ in measures]
    text = "network %s\nkernels %s\n" % (network, kernels)
    text += "".join("set %s %d\n" % item for item in settings.items())
    text += "loss %.9g\nsensitivity %.2g\n" % (loss, noise)
    for (parameter, _), (norm, projection) in zip(gradients, measures):
        if norm < 1e-12 * max(norms):  # 0 but for rounding, which differs between machines
            norm = projection = 0
        text += "gradient %s %.9g %.9g\n" % (parameter, norm, projection)
    (folder / (name + ".txt")).write_text(text)
    print("%-20s loss %.6f, %d parameters, gradient norms %.2g to %.2g, sensitivity %.2g" %
          (name, loss, len(norms), min(norms), max(norms), noise), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--neap", default=str(ROOT / "build" / "neap"))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests" / "data" / "torch")
    parser.add_argument("cases", nargs="*", metavar="NETWORK")
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        sys.exit("no such case: %s; there are %s" % (", ".join(unknown), ", ".join(CASES)))
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.cases or CASES:
        write_case(options.neap, options.out, name)


if __name__ == "__main__":
    main()
