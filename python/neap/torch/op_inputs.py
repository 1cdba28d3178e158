"""Real arguments for running an op alone: the right strides, finite floats, and integers that are valid where
they index.

A wrong index on a GPU ends the process, so integers are zero (in range everywhere) or, where the op is known
and spreading them matters for its time, random below the bound that the op's other arguments give. Backward ops
that read what only their forward op can write (indices of maxima, seeds, packed statistics) get it from a run
of the forward op.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

import torch

from .op_signature import Call, TensorSpec


class Unsafe(Exception):
    """The op cannot be run alone safely; its cost must be estimated."""


# Library namespaces whose ops have effects beyond their outputs, or talk to other processes.
_EFFECTS = {
    "_c10d_functional", "_c10d_functional_autograd", "c10d", "c10d_functional", "_dtensor", "fsdp", "rpc",
    "symm_mem", "streams",
}  # fmt: skip

# Ops that resize or rebind storages, check values on the device, or need data with a structure that is not made
# here.
_REFUSED = {
    "set_", "resize_", "resize_as_", "_resize_output_", "storage_resize_", "resize_storage_bytes_",
    "_local_scalar_dense", "item", "_assert_async", "_assert_scalar", "_assert_tensor_metadata",
    "_functional_assert_async", "_functional_assert_scalar", "multinomial",
    "_ctc_loss", "_ctc_loss_backward", "_cudnn_ctc_loss", "segment_reduce", "_segment_reduce_backward",
    "_embedding_bag_backward", "_embedding_bag_dense_backward", "_embedding_bag_sparse_backward",
    "_flash_attention_backward", "_efficient_attention_backward", "_pack_padded_sequence",
    "mkldnn_rnn_layer_backward", "miopen_rnn_backward", "miopen_batch_norm_backward",
}  # fmt: skip

_INDEXED_ALONG_DIM = {
    "gather", "scatter", "scatter_add", "scatter_reduce", "index_select", "index_add", "index_copy",
    "index_fill", "index_reduce",
}  # fmt: skip

# Products draw power, hence clock, as their operands toggle bits: these get values of both signs.
_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "convolution", "convolution_backward", "linear", "matmul")


def refuse_unsafe(call: Call) -> None:
    """Raises Unsafe where running the op on made-up tensors could crash, hang, or do something other than
    compute.
    """
    target = call.target
    if not isinstance(target, torch._ops.OpOverload):
        raise Unsafe(f"{target} is not a plain operator")
    name, space = target._opname, target.namespace
    if space in _EFFECTS:
        raise Unsafe(f"{target} has effects beyond its outputs")
    if name in _REFUSED:
        raise Unsafe(f"{target} needs inputs or has effects that a run alone does not provide for")
    specs = call.tensors()
    plain_index = name == "index" and all(spec.dtype != torch.bool for spec in specs[1:])
    if _depends_on_values(target) and not plain_index:
        raise Unsafe(f"the output of {target} depends on the values of its inputs")
    if any(not spec.stride and spec.shape for spec in specs):
        raise Unsafe(f"{target} reads a tensor without strides")
    if space not in ("aten", "prims", "neap"):  # of ours, none writes to an input or reads an index
        if target._schema.is_mutable:
            raise Unsafe(f"{target} writes to its inputs")
        if not has_forward(target) and any(not spec.dtype.is_floating_point for spec in specs):
            raise Unsafe(f"what the integers that {target} reads stand for is not known")
    if call.kwargs.get("generator") is not None:
        raise Unsafe(f"{target} uses a generator of its own")


def _depends_on_values(target: torch._ops.OpOverload) -> bool:
    return torch.Tag.dynamic_output_shape in target.tags or torch.Tag.data_dependent_output in target.tags


def index_bounds(call: Call) -> dict[int, int]:
    """For tensors that index: id of the spec -> the number of positions they may name. Others are missing."""
    name = call.target._opname.rstrip("_").removeprefix("_unsafe_").lstrip("_")
    named = call.named()
    bounds: dict[int, int] = {}

    def bound(argument: str, size: int) -> None:
        if isinstance(named.get(argument), TensorSpec):
            bounds[id(named[argument])] = size

    source = named.get("self")
    if name == "embedding":
        bound("indices", named["weight"].shape[0])
    elif name == "embedding_dense_backward":
        bound("indices", int(named["num_weights"]))
    elif name in _INDEXED_ALONG_DIM:
        bound("index", source.shape[named["dim"]] if source.shape else 1)
    elif name in ("take", "put"):
        bound("index", source.numel)
    elif name in ("nll_loss_forward", "nll_loss_backward", "nll_loss2d_forward", "nll_loss2d_backward"):
        bound("target", source.shape[0] if len(source.shape) == 1 else source.shape[1])
    elif name in ("index", "index_put", "index_put_impl", "masked_index", "masked_index_put_accumulate"):
        dim = 0
        for index in named["indices"]:
            if index is None:
                dim += 1
            elif index.dtype in (torch.bool, torch.uint8):
                dim += len(index.shape)
            else:
                bounds[id(index)] = source.shape[dim]
                dim += 1
    return bounds


@dataclass(frozen=True)
class _Forward:
    """How to run the forward op of a backward op: its name, arguments that differ, and which of its outputs the
    backward op reads.
    """

    name: str
    outputs: Mapping[str, int]
    extra: Mapping[str, Callable[[dict[str, Any]], Any]] = field(default_factory=dict)


_POOL = {"indices": 1}
_CUDA_ATTENTION = {"out": 0, "logsumexp": 1, "cum_seq_q": 2, "cum_seq_k": 3, "philox_seed": 6, "philox_offset": 7}
_FORWARDS = {
    "_scaled_dot_product_flash_attention_backward": _Forward(
        "_scaled_dot_product_flash_attention", _CUDA_ATTENTION
    ),
    "_scaled_dot_product_cudnn_attention_backward": _Forward(
        "_scaled_dot_product_cudnn_attention", _CUDA_ATTENTION, {"compute_log_sumexp": lambda named: True}
    ),
    "_scaled_dot_product_efficient_attention_backward": _Forward(
        "_scaled_dot_product_efficient_attention",
        {"out": 0, "logsumexp": 1, "philox_seed": 2, "philox_offset": 3},
        {"compute_log_sumexp": lambda named: True},
    ),
    "_scaled_dot_product_flash_attention_for_cpu_backward": _Forward(
        "_scaled_dot_product_flash_attention_for_cpu", {"out": 0, "logsumexp": 1}
    ),
    "max_pool2d_with_indices_backward": _Forward("max_pool2d_with_indices", _POOL),
    "max_pool3d_with_indices_backward": _Forward("max_pool3d_with_indices", _POOL),
    "adaptive_max_pool2d_backward": _Forward(
        "adaptive_max_pool2d", _POOL, {"output_size": lambda named: list(named["grad_output"].shape[-2:])}
    ),
    "adaptive_max_pool3d_backward": _Forward(
        "adaptive_max_pool3d", _POOL, {"output_size": lambda named: list(named["grad_output"].shape[-3:])}
    ),
    "cudnn_batch_norm_backward": _Forward(
        "cudnn_batch_norm",
        {"save_mean": 1, "save_var": 2, "reserveSpace": 3},
        {
            "bias": lambda named: named["weight"],
            "training": lambda named: True,
            "exponential_average_factor": lambda named: 0.1,
        },
    ),
    "batch_norm_backward": _Forward(
        "_batch_norm_with_update",
        {"save_mean": 1, "save_var": 2, "reserve": 3},
        {"bias": lambda named: named["weight"], "momentum": lambda named: 0.1},
    ),
    "batch_norm_gradients": _Forward(
        "batch_norm_again",
        {"save_mean": 1, "save_var": 2, "reserve": 3},
        {"bias": lambda named: named["weight"]},
    ),
    "_cudnn_rnn_backward": _Forward("_cudnn_rnn", {"output": 0, "reserve": 3, "weight_buf": 4}),
}


def has_forward(target: Any) -> bool:
    """Whether the op reads what only its forward op can write."""
    return isinstance(target, torch._ops.OpOverload) and target.namespace in ("aten", "neap") and target._opname in _FORWARDS


class Inputs:
    """Real tensors for the specs of a call, made with a generator of their own on each device."""

    def __init__(self, device: torch.device):
        self._device = device
        self._generators: dict[str, torch.Generator] = {}

    def make(self, call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments with which the call can run. Raises Unsafe where it must not."""
        refuse_unsafe(call)
        bounds = index_bounds(call)
        name = call.target._opname
        signed = name in _PRODUCTS or "attention" in name
        integer = 1 if torch.Tag.pointwise in call.target.tags else 0
        made: dict[int, torch.Tensor] = {}
        for spec in call.tensors():
            if id(spec) not in made:
                made[id(spec)] = self._tensor(spec, bounds.get(id(spec)), signed, integer)
        args, kwargs = self._fill((call.args, call.kwargs), made)
        if has_forward(call.target):
            args, kwargs = _with_forward(call, args, kwargs)
        return args, kwargs

    def _fill(self, tree: Any, made: dict[int, torch.Tensor]) -> Any:
        if isinstance(tree, TensorSpec):
            return made[id(tree)]
        if isinstance(tree, (list, tuple)):
            return type(tree)(self._fill(item, made) for item in tree)
        if isinstance(tree, dict):
            return {key: self._fill(item, made) for key, item in tree.items()}
        if isinstance(tree, torch.device) and tree.type == self._device.type:
            return self._device
        return tree

    def _tensor(self, spec: TensorSpec, bound: int | None, signed: bool, integer: int) -> torch.Tensor:
        device = self._device if spec.device == self._device.type else torch.device(spec.device)
        flat = torch.empty(spec.offset + spec.span, dtype=spec.dtype, device=device)
        generator = self._generator(device)
        if spec.dtype == torch.bool:
            flat.random_(0, 2, generator=generator)
        elif spec.dtype.is_complex:
            torch.view_as_real(flat).uniform_(0, 1, generator=generator)
        elif spec.dtype.is_floating_point:
            _fill_floats(flat, generator, signed)
        elif bound is not None and bound < 1:
            raise Unsafe("an index into a tensor without elements")
        elif spec.dtype in (torch.uint16, torch.uint32, torch.uint64):
            flat.view(torch.uint8).fill_(0)  # seeds; few kernels know these types
        elif bound is not None:
            flat.random_(0, bound, generator=generator)
        else:
            flat.fill_(integer)
        return flat.as_strided(spec.shape, spec.stride, spec.offset)

    def _generator(self, device: torch.device) -> torch.Generator:
        if device.type not in self._generators:
            generator = torch.Generator(device)
            generator.manual_seed(0)
            self._generators[device.type] = generator
        return self._generators[device.type]


def _fill_floats(flat: torch.Tensor, generator: torch.Generator, signed: bool) -> None:
    """Values between 0 and 1, where logarithms, roots and probabilities are defined; normal ones for products."""
    if flat.dtype.itemsize == 1:
        flat.view(torch.uint8).fill_(0)  # the 8-bit formats cannot be filled in place
    elif signed:
        flat.normal_(0, 1, generator=generator)
    else:
        flat.uniform_(0, 1, generator=generator)


def _with_forward(
    call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a backward op with those that only the forward op can write taken from a run of it."""
    forward = _FORWARDS[call.target._opname]
    operator = getattr(getattr(torch.ops, call.target.namespace), forward.name).default
    names = [argument.name for argument in call.target._schema.arguments]
    named = {**dict(zip(names, args)), **kwargs}
    inputs: dict[str, Any] = {}
    for argument in operator._schema.arguments:
        if argument.name in forward.extra:
            inputs[argument.name] = forward.extra[argument.name](named)
        elif argument.name in named:
            inputs[argument.name] = named[argument.name]
    outputs = operator(**inputs)
    for name, index in forward.outputs.items():
        if isinstance(named.get(name), torch.Tensor):
            named[name] = _as_expected(outputs[index], named[name], call)
    new_args = tuple(named[name] for name in names[: len(args)])
    return new_args, {key: named[key] for key in kwargs}


def _as_expected(output: Any, expected: torch.Tensor, call: Call) -> torch.Tensor:
    """The forward op's output with the strides that the graph expects. One of another size or type, as seeds
    and packed statistics may be on the real device, is taken as it is: the backward op wants what its
    forward op wrote.
    """
    if not isinstance(output, torch.Tensor):
        raise Unsafe(f"the forward op of {call.target} gives another output than the graph says")
    if output.shape == expected.shape and output.dtype == expected.dtype and output.stride() != expected.stride():
        expected.copy_(output)
        return expected
    return output
