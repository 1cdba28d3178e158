"""Compiles segments with Inductor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from ..errors import UnsupportedError

Layout = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, torch.device]


@dataclass
class CompiledSegment:
    """Code for a segment: takes a list of tensors, which it empties, and returns a tuple."""

    call: Callable[[list], tuple]
    outputs: list[Layout]  # layouts of the results
    seconds: float


class SegmentCode(NamedTuple):
    """A segment of a program with its compiled code."""

    call: Callable[[list], tuple]
    nodes: list[fx.Node]
    inputs: list[fx.Node]
    layouts: list[object]  # of the inputs: (sizes, strides, dtype, device), or a value that is no tensor
    dying: list[bool]  # inputs that the segment may give up
    outputs: list[fx.Node]


def layout_of(value: object) -> Layout | None:
    """Sizes, strides, type and device of a tensor; None for anything else."""
    if not isinstance(value, torch.Tensor):
        return None
    try:
        sizes, strides = tuple(int(s) for s in value.shape), tuple(int(s) for s in value.stride())
    except Exception as error:
        raise UnsupportedError("a size depends on the data; mark it static or compile with dynamic=False") from error
    return sizes, strides, value.dtype, value.device


class SegmentCompiler:
    """Compiles fx modules with Inductor under settings that keep their inputs and outputs as they are."""

    def __init__(self) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
        self.count = 0

    def propagate(self, module: fx.GraphModule, inputs: Sequence[Layout | object]) -> list[Layout]:
        """The layouts of the module's results."""
        from torch.fx.passes.fake_tensor_prop import FakeTensorProp

        with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
            fakes = self._fakes(inputs)
            results = FakeTensorProp(module, self.mode).propagate_dont_convert_inputs(*fakes)
        return [layout_of(value) for value in results]

    def compile(self, module: fx.GraphModule, inputs: Sequence[Layout | object]) -> Callable[[list], tuple]:
        from torch._inductor import config
        from torch._inductor.compile_fx import compile_fx_inner
        from torch._inductor.virtualized import V

        self.count += 1
        with torch.utils._python_dispatch._disable_current_modes():
            fakes = self._fakes(inputs)
        # A context of our own: what AOTAutograd's says of a whole pass (strides, donated buffers) is not true of a segment.
        context = torch._guards.TracingContext(self.mode)
        settings = {"triton.cudagraphs": False, **_layout_settings(module)}
        with torch._guards.tracing(context), V.set_fake_mode(self.mode), config.patch(settings), torch.no_grad():
            compiled = compile_fx_inner(module, fakes)
        return boxed(compiled)

    def _fakes(self, inputs: Sequence[Layout | object]) -> list[object]:
        with self.mode:
            return [torch.empty_strided(i[0], i[1], dtype=i[2], device=i[3]) if isinstance(i, tuple) else i
                    for i in inputs]


def _layout_settings(module: fx.GraphModule) -> dict[str, bool]:
    """The layout of convolutions was decided for the joint graph; a segment follows its inputs."""
    images = [node.args[0].meta["val"] for node in module.graph.nodes if node.target is torch.ops.aten.convolution.default]
    images = [image for image in images if image.dim() == 4]
    last = bool(images) and all(image.is_contiguous(memory_format=torch.channels_last) for image in images)
    return {"layout_optimization": last, "force_layout_optimization": last}


def boxed(compiled: object) -> Callable[[list], tuple]:
    """The callable inside of Inductor's result, without its bookkeeping for each call."""
    inner = getattr(compiled, "current_callable", None)
    return inner if inner is not None else compiled
