"""Training batch norm with the kernels that PyTorch runs without a compiler, and how any batch norm is recomputed.

Tracing turns batch norm into PyTorch's own kernels; without a compiler, it runs in cuDNN on a GPU. The ops of the
library `neap` are cuDNN's batch norm as functions: the next running statistics are outputs, and there is an op without
statistics for recomputation. On the CPU the same ops run PyTorch's kernels. `count` advances the counters of all batch
norms at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

aten = torch.ops.aten

_library = torch.library.Library("neap", "FRAGMENT")
_library.define("batch_norm(Tensor input, Tensor weight, Tensor bias, Tensor running_mean, Tensor running_var, "
                "float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)")
_library.define("count(Tensor[] counters) -> Tensor[]")
_library.define("batch_norm_again(Tensor input, Tensor weight, Tensor bias, float eps) "
                "-> (Tensor, Tensor, Tensor, Tensor)")
_library.define("batch_norm_gradients(Tensor grad_output, Tensor input, Tensor weight, Tensor save_mean, "
                "Tensor save_var, Tensor reserve, float eps) -> (Tensor, Tensor, Tensor)")

batch_norm = torch.ops.neap.batch_norm.default  # -> output, mean, 1 / deviation, reserve, next statistics
count = torch.ops.neap.count.default  # -> each plus 1
batch_norm_again = torch.ops.neap.batch_norm_again.default  # -> the first four of them
batch_norm_gradients = torch.ops.neap.batch_norm_gradients.default  # -> of input, weight and bias

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Again:
    """How a training batch norm is recomputed after its running statistics have advanced.

    The running statistics are read only to compute their next values, the outputs `statistics`. The other outputs
    come first and do not depend on them: `op` computes those, from the arguments at the positions `arguments`.
    """

    statistics: tuple[int, ...]
    op: torch._ops.OpOverload
    arguments: tuple[int, ...]


AGAIN: dict[Any, Again] = {
    aten._native_batch_norm_legit_functional.default:
        Again((3, 4), aten._native_batch_norm_legit.no_stats, (0, 1, 2, 5, 6, 7)),
    batch_norm: Again((4, 5), batch_norm_again, (0, 1, 2, 6)),
}


def _layout(tensor: torch.Tensor) -> torch.memory_format:
    from torch._prims_common import suggest_memory_format

    return suggest_memory_format(tensor)


# ---- shapes ----


def _reserve(source: torch.Tensor) -> torch.Tensor:
    """What cuDNN passes from forward to backward besides the statistics. Its size depends on the layout."""
    size = 0
    if source.device.type == "cuda" and torch.backends.cudnn.is_available():
        size = torch._C._get_cudnn_batch_norm_reserve_space_size(source, True)
    return source.new_empty(size, dtype=torch.uint8)


def _fake_again(source: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> Tensors:
    output = torch.empty_like(source, memory_format=_layout(source))
    return output, torch.empty_like(weight), torch.empty_like(weight), _reserve(source)


def _fake(source: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, running_mean: torch.Tensor,
          running_var: torch.Tensor, momentum: float, eps: float) -> Tensors:
    again = _fake_again(source, weight, bias, eps)
    return *again, torch.empty_like(running_mean), torch.empty_like(running_var)


def _fake_gradients(gradient: torch.Tensor, source: torch.Tensor, weight: torch.Tensor, *_: object) -> Tensors:
    whole = torch.empty_like(source, memory_format=_layout(source))
    return whole, torch.empty_like(weight), torch.empty_like(weight)


def _count(counters: list[torch.Tensor]) -> list[torch.Tensor]:
    return list(torch._foreach_add(counters, 1))


for _name, _function in (("batch_norm", _fake), ("batch_norm_again", _fake_again),
                         ("batch_norm_gradients", _fake_gradients), ("count", _count)):
    torch.library.register_fake(f"neap::{_name}", _function, lib=_library)
FAKE = {batch_norm: _fake, batch_norm_again: _fake_again, batch_norm_gradients: _fake_gradients}


# ---- CUDA ----


def _cuda_again(source: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> Tensors:
    source = source.contiguous(memory_format=_layout(source))
    return aten.cudnn_batch_norm(source, weight.contiguous(), bias.contiguous(), None, None, True, 0.0, eps)


def _cuda(source: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, running_mean: torch.Tensor,
          running_var: torch.Tensor, momentum: float, eps: float) -> Tensors:
    source = source.contiguous(memory_format=_layout(source))
    mean, var = torch._foreach_mul((running_mean.contiguous(), running_var.contiguous()), 1.0)  # two copies, one kernel
    outputs = aten.cudnn_batch_norm(source, weight.contiguous(), bias.contiguous(), mean, var, True, momentum, eps)
    return *outputs, mean, var


def _cuda_gradients(gradient: torch.Tensor, source: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor,
                    inverse: torch.Tensor, reserve: torch.Tensor, eps: float) -> Tensors:
    layout = _layout(source)
    if reserve.numel():
        reserve = reserve.clone()  # cuDNN may write to it, and a retained graph reads it again
    return aten.cudnn_batch_norm_backward(source.contiguous(memory_format=layout),
                                          gradient.contiguous(memory_format=layout), weight.contiguous(), None, None,
                                          mean, inverse, eps, reserve)


# ---- CPU ----


def _cpu_again(source: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> Tensors:
    outputs = aten._native_batch_norm_legit.no_stats(source, weight, bias, True, 0.0, eps)
    return *outputs, _reserve(source)


def _cpu(source: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, running_mean: torch.Tensor,
         running_var: torch.Tensor, momentum: float, eps: float) -> Tensors:
    *outputs, mean, var = aten._native_batch_norm_legit_functional(source, weight, bias, running_mean, running_var,
                                                                   True, momentum, eps)
    return *outputs, _reserve(source), mean, var


def _cpu_gradients(gradient: torch.Tensor, source: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor,
                   inverse: torch.Tensor, reserve: torch.Tensor, eps: float) -> Tensors:
    return aten.native_batch_norm_backward(gradient, source, weight, None, None, mean, inverse, True, eps,
                                           [True, True, True])


for _name, _on_cuda, _on_cpu in (("batch_norm", _cuda, _cpu), ("batch_norm_again", _cuda_again, _cpu_again),
                                 ("batch_norm_gradients", _cuda_gradients, _cpu_gradients), ("count", _count, _count)):
    _library.impl(_name, _on_cuda, "CUDA")
    _library.impl(_name, _on_cpu, "CPU")
