#!/usr/bin/env python3
"""What PyTorch's optimizers make of parameters in some steps: tests/data/torch_updates.txt.

    python3 -m venv /tmp/torch-venv
    /tmp/torch-venv/bin/pip install torch numpy
    /tmp/torch-venv/bin/python tools/torch_updates.py

tests/anchors/test_torch_updates.c runs the same steps with neap's update ops on every backend. There are two
parameters, `a` of 7 x 5 and `b` of 11 elements. With u(i) the draw number i (torch_values.py) of the FNV-1a hash of a
name, element i is 2 (u - 0.5), rounded to f32 (and to the type of the parameters): of a parameter by its name, of its
gradient in step t = 1, 2, ... and micro-batch k = 0, 1, ... by the name "a.grad.<t>.<k>". The gradient of a step is the
sum of its micro-batches. All is computed in double precision. Parameters of 16 bits are copies of masters.

A line for each case has what it is, and one for each array afterwards its name, its norm and its projection
(torch_values.py).
"""

import pathlib

import torch

from torch_values import draws, fnv1a

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "torch_updates.txt"
SHAPES = {"a": (7, 5), "b": (11,)}
STEPS, RATE = 5, 0.05
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}

# name: optimizer, type of the parameters, micro-batches, norm that gradients are clipped to, options of torch.optim
CASES = {
    "sgd": ("sgd", "f32", 1, 0, {}),
    "sgd-decay": ("sgd", "f32", 1, 0, {"weight_decay": 0.1}),
    "sgd-all": ("sgd", "bf16", 3, 0.5, {"weight_decay": 0.1}),
    "momentum": ("momentum", "f32", 1, 0, {"momentum": 0.9}),
    "momentum-all": ("momentum", "f16", 2, 0.5, {"momentum": 0.8, "weight_decay": 0.01}),
    "momentum-half": ("momentum", "bf16", 1, 0, {"momentum": 0.9, "weight_decay": 0.01}),
    "adam": ("adam", "f32", 1, 0, {"betas": (0.9, 0.999), "eps": 1e-8}),
    "adam-all": ("adam", "bf16", 2, 0.25, {"betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
    "adam-small-beta": ("adam", "f32", 1, 0, {"betas": (0.3, 0.95), "eps": 1e-8}),
    "adamw": ("adamw", "f32", 1, 0, {"betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}),
    "adamw-half": ("adamw", "f16", 1, 0, {"betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.2}),
    "adamw-batches": ("adamw", "f32", 2, 1, {"betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.2}),
    "adamw-all": ("adamw", "f16", 3, 1, {"betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.2}),
    "adamw-loose": ("adamw", "f32", 1, 1e6, {"betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}),
}
OPTIMIZERS = {"sgd": torch.optim.SGD, "momentum": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
STATE = {"momentum": {"momentum": "momentum_buffer"}, "adam": {"m": "exp_avg", "v": "exp_avg_sq"},
         "adamw": {"m": "exp_avg", "v": "exp_avg_sq"}}


def numbers(name, shape, dtype):
    values = torch.from_numpy(2 * (draws(fnv1a(name), shape) - 0.5)).to(torch.float32)
    return values.to(TYPES[dtype]).to(torch.float64)


def line(name, tensor):
    flat = tensor.to(torch.float64).flatten()
    weights = torch.from_numpy(draws(fnv1a(name + ".projection"), (flat.numel(),)) - 0.5)
    return f"array {name} {flat.norm().item():.12g} {(flat * weights).sum().item():.12g}"


def run(name):
    kind, dtype, batches, clip, options = CASES[name]
    parameters = {p: torch.nn.Parameter(numbers(p, shape, dtype)) for p, shape in SHAPES.items()}
    optimizer = OPTIMIZERS[kind](parameters.values(), lr=RATE, foreach=False, **options)
    for step in range(1, STEPS + 1):
        for p, parameter in parameters.items():
            gradients = [numbers(f"{p}.grad.{step}.{k}", SHAPES[p], dtype) for k in range(batches)]
            parameter.grad = sum(gradients)
        if clip:
            torch.nn.utils.clip_grad_norm_(parameters.values(), clip)
        optimizer.step()
    betas = options.get("betas", (0, 0))
    yield (f"case {name} {kind} {dtype} {batches} {clip:g} {options.get('momentum', 0):g} {betas[0]:g} {betas[1]:g} "
           f"{options.get('eps', 0):g} {options.get('weight_decay', 0):g}")
    for p, parameter in parameters.items():
        yield line(p, parameter.detach().to(TYPES[dtype]))
        if dtype != "f32":
            yield line(f"optimizer.master.{p}", parameter.detach())
        for ours, theirs in STATE.get(kind, {}).items():
            yield line(f"optimizer.{ours}.{p}", optimizer.state[parameter][theirs])


def main():
    lines = [f"steps {STEPS}", f"rate {RATE:g}"]
    for name in CASES:
        lines += run(name)
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
