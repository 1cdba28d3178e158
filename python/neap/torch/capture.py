"""Capturing a training step without running it: its neap graph, and what is needed to explain it."""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from .. import errors
from ..graph import Graph
from ..plans import Link
from . import memory, step
from .costs import Progress
from .device import rounded
from .joint import JointGraph, source_line
from .link import measured_link

__all__ = ["capture"]

Loss = Callable[[Any], Any]


def capture(model: Callable, *inputs: Any, path: str | os.PathLike[str] | None = None, loss: Loss | None = None,
            kernels: str = "eager", measure: bool = True, **kwargs: Any) -> Graph:
    """The neap graph of one training step of `model(*inputs, **kwargs)`, forward and backward.

        graph = neap.torch.capture(model, images, loss=torch.sum, path="captured.json")
        plan = neap.plan(graph, "50%")          # or, in a shell: neap plan captured.json --budget 50%

    model    a module or a function, compiled or not, in the mode it is in (train() or eval())
    path     write the graph to this file, too
    loss     reduces what the model returns to a loss: a function of it, such as `lambda out: out.loss`. By
             default the graph is that of the model alone, as torch.compile(model) captures it: whatever it
             returns is kept until the backward pass
    kernels  "eager" (default): an op of the graph is an op of PyTorch. "inductor": it is what Inductor fuses
    measure  time ops on the device where their costs are not in the cache yet; False: estimate them

    The model is not run: its parameters, statistics and random numbers stay as they are. What is on the device
    besides the step's own tensors counts as fixed bytes of the graph, and so does the state that the optimizers of
    its parameters will allocate.

    A model on the meta device works as well, with kernels="eager", for a model that does not fit here: sizes are those
    on a GPU, times are estimated for the GPU that is there, or for an H200.

    Raises UnsupportedError for a model that does not become one graph, with the line that prevents it; InvalidError
    if there is nothing to train.
    """
    graph = trace(model, inputs, kwargs, loss=loss, kernels=kernels, measure=measure).graph()
    if path is not None:
        graph.write(path)
    return graph


@dataclass
class Captured:
    """A training step that was traced and priced."""

    name: str
    kernels: str
    joint: JointGraph
    device: torch.device  # that its sizes and times are for
    state_bytes: int  # of optimizers: there now or allocated in their first step
    other_bytes: int  # resident besides: other models, gradients from before, small tensors
    untouched_bytes: int  # of trained parameters that no optimizer has
    measured: bool

    def graph(self) -> Graph:
        """The neap graph; its names are those of the joint graph's nodes."""
        return self.joint.describe(self.name)

    @property
    def alignment(self) -> int:
        return rounded(1, self.device)


def trace(model: Callable, inputs: Sequence[Any], kwargs: Mapping[str, Any], *, loss: Loss | None = None,
          kernels: str | None = "eager", measure: bool = True, progress: Progress | None = None) -> Captured:
    """Traces a step of the model and prices its ops. kernels None: Inductor's where it can trace them."""
    from .backend import KERNELS

    if kernels is None:
        kernels = "eager" if _is_meta(model, inputs, kwargs) else "inductor"
    if kernels not in KERNELS:
        raise errors.InvalidError(f"kernels={kernels!r}: there are {' and '.join(map(repr, KERNELS))}")
    if not callable(model):
        raise errors.InvalidError(f"model is {model!r}; give a module or a function")
    if kernels == "inductor" and _is_meta(model, inputs, kwargs):
        raise errors.UnsupportedError('a model on the meta device has no kernels by Inductor; use kernels="eager"')
    original = _uncompiled(model)
    traced = _traced(original, inputs, kwargs, loss, kernels)
    args, actual = traced.inputs, step.device_of(traced.inputs)
    device = torch.device(step.COUNTED_AS.get(actual.type, actual))
    real = actual.type != "meta"
    if real:
        memory.warm_libraries(actual)
    resident = memory.resident_bytes(args, actual) if real else 0
    coming, present, bare = memory.state_bytes(args, device)
    resident_state = min(present, resident)
    measure = measure and real and torch._guards.detect_fake_mode() is None
    joint = step.priced_joint(traced.module, traced.forward_outputs, device, kernels=kernels, measure=measure,
                              progress=progress, fixed_bytes=resident + coming + step.slack(device))
    _tell_parameters(joint, args)
    return Captured(_name(original), kernels, joint, device, coming + resident_state,
                    resident - resident_state + step.slack(device), bare, measure)


def _is_meta(model: Any, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    tensors = [*model.parameters()] if isinstance(model, torch.nn.Module) else []
    return any(isinstance(t, torch.Tensor) and t.is_meta for t in (*tensors, *inputs, *kwargs.values()))


def _tell_parameters(joint: JointGraph, args: Sequence[Any]) -> None:
    """Marks the inputs that are trained: the traced ones do not say so."""
    for position, node in enumerate(joint.primals):
        index = getattr(node.meta.get("desc"), "idx", position)
        if node in joint.value_of and index < len(args):
            value = args[index]
            trained = isinstance(value, torch.nn.Parameter) or (isinstance(value, torch.Tensor) and value.requires_grad)
            joint.values[joint.value_of[node]].kind = "parameter" if trained else "input"


# ---- tracing ----


class _Traced(BaseException):
    """Carries the joint graph out of AOTAutograd, before anything runs."""

    def __init__(self, module: fx.GraphModule, forward_outputs: int, args: Sequence[Any]) -> None:
        super().__init__("traced")
        self.module = module
        self.forward_outputs = forward_outputs
        self.inputs = args


def _traced(model: Callable, inputs: Sequence[Any], kwargs: Mapping[str, Any], loss: Loss | None,
            kernels: str) -> _Traced:
    def training_step(*inputs: Any, **kwargs: Any) -> Any:
        output = model(*inputs, **kwargs)
        return output if loss is None else loss(output)

    def backend(module: fx.GraphModule, _: Any) -> Callable:
        return lambda *args: _trace_joint(module, args, kernels)

    compiled = torch.compile(_fresh(training_step), backend=backend, fullgraph=True, dynamic=False)
    try:
        with torch.enable_grad():
            compiled(*inputs, **kwargs)
    except _Traced as traced:
        return traced.with_traceback(None)  # whose frames hold tensors
    except torch._dynamo.exc.TorchDynamoException as error:
        raise _unsupported(error) from None
    raise errors.InvalidError("the model has no tensor operations; there is nothing to plan")


def _fresh(function: Any) -> types.FunctionType:
    """The function with a code object of its own, since Dynamo counts recompilations by code object."""
    return types.FunctionType(function.__code__.replace(), function.__globals__, function.__name__,
                              function.__defaults__, function.__closure__)


def _trace_joint(module: fx.GraphModule, args: Sequence[Any], kernels: str) -> None:
    from torch._functorch.aot_autograd import aot_module_simplified

    if not step.trains(args):
        raise errors.InvalidError("no parameter and no input requires a gradient; there is no training step to capture")

    def partition(joint: fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, **others: Any) -> tuple:
        if kernels == "inductor":
            from . import inductor

            static = others.get("static_lifetime_input_indices")
            joint = inductor.prepare_joint(joint, inputs, num_fwd_outputs=num_fwd_outputs,
                                           static_lifetime_input_indices=static)
        raise _Traced(joint, num_fwd_outputs, args)

    if step.device_of(args).type == "meta":
        _differentiate_on_meta()

    def unused(*_: Any) -> Callable:
        raise errors.InvalidError("the outputs of the model do not depend on anything that requires a gradient")

    with torch._functorch.config.patch(donated_buffer=False):
        aot_module_simplified(module, args, fw_compiler=unused, bw_compiler=unused, inference_compiler=unused,
                              partition_fn=partition, decompositions=step.decompositions(kernels),
                              keep_inference_input_mutations=kernels == "inductor")


def _differentiate_on_meta() -> None:
    """While tracing, PyTorch takes its reference of nll_loss on the meta device for a kernel and finds no gradient for
    it. Taken apart, as on other devices, the op has one."""
    op, key = torch.ops.aten.nll_loss.default, torch._C.DispatchKey.AutogradMeta
    if key not in op.py_kernels:
        op.py_impl(key)(op.decompose)


def _unsupported(error: Exception) -> errors.UnsupportedError:
    """One line from Dynamo's many: what it could not trace, and where."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    where = next((line for line in reversed(lines) if line.startswith("File ")), "")
    parts = where.removeprefix("File ").split(", ")
    place = f" at {parts[0].strip(chr(34))}:{parts[1].removeprefix('line ')}" if len(parts) > 1 else ""
    reasons = [line.removeprefix("Explanation: ") for line in lines if line.startswith("Explanation: ")]
    what = (reasons or lines or [type(error).__name__])[0].rstrip(".")
    return errors.UnsupportedError(f"the model does not become one graph: {what}{place}; move that out of the model, "
                                   f"or capture the part of the model that has no such line")


def link_of(offload: bool | Link, device: torch.device) -> Link | None:
    """The link to the host that a plan may use: the one given, the device's own, or none."""
    if isinstance(offload, Link):
        return offload
    if not offload:
        return None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise errors.InvalidError("there is no device whose link could be measured; give offload=neap.Link(...)")
    return measured_link(device)


# ---- names ----


def _uncompiled(model: Any) -> Callable:
    """The model that torch.compile was given."""
    return getattr(model, "_orig_mod", None) or getattr(model, "_torchdynamo_orig_callable", None) or model


def _name(model: Any) -> str:
    return type(model).__name__ if isinstance(model, torch.nn.Module) else getattr(model, "__name__", "step")


def module_path(node: fx.Node | None) -> str:
    """The module that an op, or the forward op of a backward op, belongs to: `layer1.0.conv1`, or an empty string."""
    if node is None:
        return ""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    paths = [entry[0] if isinstance(entry, tuple) else str(entry) for entry in stack.values()]
    if not paths:
        return ""
    return paths[-1].removeprefix(paths[0]).lstrip(".")


def place(node: fx.Node | None) -> str:
    """`file.py:line` of an op in the user's code, without the folder."""
    line = source_line(node)
    return "" if os.path.abspath(__file__) in line else os.path.basename(line)
