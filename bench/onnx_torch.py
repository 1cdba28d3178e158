"""A model in an ONNX file as a PyTorch function, in double precision by default: the reference for losses and gradients.

    model = Model("resnet18.onnx", batch_norm="train", real=torch.float32)
    loss, gradients = model.step({"input": x, "labels": y})      gradients by the names of initializers

Each node is computed by PyTorch's own function for it, so that PyTorch's autograd differentiates the file itself, whatever an
exporter did to the weights. Nodes that only compute with integers go to the ONNX project's reference. Dropouts do nothing.
"""

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

def as_torch(array, real=torch.float64):
    tensor = torch.from_numpy(np.array(array))
    return tensor.to(real) if tensor.is_floating_point() else tensor


def listed(tensor):
    return [int(i) for i in tensor.reshape(-1)]


# ---- Nodes: each takes the model, the attributes and the inputs; None where an input is left out ----


def pad_for_window(x, window, attributes, value=0.0):
    """x with the padding that the attributes ask for, and the strides."""
    rank = len(window)
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    pads = attributes.get("pads", [0] * (2 * rank))
    auto = attributes.get("auto_pad", b"NOTSET")
    if auto in (b"SAME_UPPER", b"SAME_LOWER"):
        pads = [0] * (2 * rank)
        for d in range(rank):
            size, step = x.shape[2 + d], strides[d]
            total = max((-(-size // step) - 1) * step + (window[d] - 1) * dilations[d] + 1 - size, 0)
            pads[d], pads[rank + d] = total // 2, total - total // 2
            if auto == b"SAME_LOWER":
                pads[d], pads[rank + d] = pads[rank + d], pads[d]
    around = []
    for d in reversed(range(rank)):
        around += [pads[d], pads[rank + d]]
    return F.pad(x, around, value=value), strides, dilations


def conv(model, a, x, w, b=None):
    x, strides, dilations = pad_for_window(x, w.shape[2:], a)
    return torch.ops.aten.convolution(
        x, w, b, strides, [0] * len(strides), dilations, False, [0] * len(strides), a.get("group", 1)
    )


def conv_transpose(model, a, x, w, b=None):
    """Everything, and then the part that the padding leaves."""
    assert "output_shape" not in a and a.get("auto_pad", b"NOTSET") == b"NOTSET"
    rank = x.dim() - 2
    pads, more = a.get("pads", [0] * (2 * rank)), a.get("output_padding", [0] * rank)
    strides = a.get("strides", [1] * rank)
    y = torch.ops.aten.convolution(
        x, w, b, strides, [0] * rank, a.get("dilations", [1] * rank), True, [0] * rank, a.get("group", 1)
    )
    for d in range(rank):  # what is added has the bias only
        if more[d]:
            shape = [y.shape[0], y.shape[1], *y.shape[2:]]
            shape[2 + d] = more[d]
            tail = torch.zeros(shape, dtype=y.dtype) + (0 if b is None else b.reshape(-1, *[1] * rank))
            y = torch.cat([y, tail], 2 + d)
        y = y.narrow(2 + d, pads[d], y.shape[2 + d] - pads[d] - pads[rank + d])
    return y


def pad_for_ceil(x, kernel, strides, value):
    """x with what a last, partial window needs, that begins in x."""
    around = []
    for d in reversed(range(len(kernel))):
        size = x.shape[2 + d]
        windows = -(-(size - kernel[d]) // strides[d]) + 1
        windows -= (windows - 1) * strides[d] >= size
        around += [0, max(0, (windows - 1) * strides[d] + kernel[d] - size)]
    return F.pad(x, around, value=value)


def max_pool(model, a, x):
    kernel = a["kernel_shape"]
    x, strides, dilations = pad_for_window(x, kernel, a, -float("inf"))
    if a.get("ceil_mode", 0):
        x = pad_for_ceil(x, kernel, strides, -float("inf"))
    return (F.max_pool1d if len(kernel) == 1 else F.max_pool2d)(x, kernel, strides, 0, dilations)


def average_pool(model, a, x):
    """The sums of all windows, divided by how many numbers count."""
    kernel = a["kernel_shape"]
    ones = torch.ones(1, 1, *x.shape[2:], dtype=x.dtype)
    x, strides, _ = pad_for_window(x, kernel, a)
    counted, _, _ = pad_for_window(ones, kernel, a, 1.0 if a.get("count_include_pad", 0) else 0.0)
    if a.get("ceil_mode", 0):
        x, counted = (pad_for_ceil(tensor, kernel, strides, 0.0) for tensor in (x, counted))
    pool = F.avg_pool1d if len(kernel) == 1 else F.avg_pool2d
    return pool(x, kernel, strides) / pool(counted, kernel, strides)


def batch_norm(model, a, x, scale, bias, mean, variance):
    exported = bool(a.get("training_mode", 0)) or a["outputs"] > 1  # before opset 14 training has outputs of its own
    train = {"auto": exported, "train": True, "frozen": False}[model.batch_norm]
    known = (None, None) if train else (mean.detach(), variance.detach())
    return F.batch_norm(x, *known, scale, bias, train, 0.0, a.get("epsilon", 1e-5))


def layer_norm(model, a, x, scale, bias=None):
    shape = x.shape[a.get("axis", -1) % x.dim() :]
    y = F.layer_norm(x, shape, None, None, a.get("epsilon", 1e-5)) * scale
    return y if bias is None else y + bias


def gemm(model, a, x, y, c=None):
    x = x.T if a.get("transA", 0) else x
    y = y.T if a.get("transB", 0) else y
    product = a.get("alpha", 1.0) * (x @ y)
    return product if c is None else product + a.get("beta", 1.0) * c


def reshape(model, a, x, shape):
    sizes = listed(shape)
    if not a.get("allowzero", 0):
        sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    return x.reshape(sizes)


def flatten(model, a, x):
    axis = a.get("axis", 1)
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


def axes_of(a, given):
    return listed(given) if given is not None else a.get("axes")


def unsqueeze(model, a, x, axes=None):
    axes = axes_of(a, axes)
    for axis in sorted(i % (x.dim() + len(axes)) for i in axes):
        x = x.unsqueeze(axis)
    return x


def squeeze(model, a, x, axes=None):
    axes = axes_of(a, axes)
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


def slice_(model, a, x, starts, ends, axes=None, steps=None):
    axes = listed(axes) if axes is not None else list(range(starts.numel()))
    for i, axis in enumerate(axes):
        step = int(steps[i]) if steps is not None else 1
        chosen = range(x.shape[axis])[slice(int(starts[i]), int(ends[i]), step)]
        x = x.index_select(axis, torch.tensor(list(chosen), dtype=torch.int64))
    return x


def split(model, a, x, sizes=None):
    axis = a.get("axis", 0)
    if sizes is not None:
        return x.split(listed(sizes), axis)
    return x.split(-(-x.shape[axis] // a["num_outputs"]), axis)


def gather(model, a, x, indices):
    axis = a.get("axis", 0) % x.dim()
    picked = x.index_select(axis, indices.reshape(-1) % x.shape[axis])
    return picked.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def reduced(function):
    def reduce(model, a, x, axes=None):
        axes = axes_of(a, axes)
        if not axes and a.get("noop_with_empty_axes", 0):
            return x
        return function(x, axes or list(range(x.dim())), bool(a.get("keepdims", 1)))

    return reduce


def lstm(model, a, x, w, r, b=None, lengths=None, h=None, c=None, peepholes=None):
    """One direction, gates in ONNX's order i o f c; x: T x N x I."""
    assert lengths is None and peepholes is None and a.get("direction", b"forward") == b"forward"
    size, batch = r.shape[-1], x.shape[1]
    bias = torch.zeros(8 * size, dtype=x.dtype) if b is None else b[0]
    h = torch.zeros(batch, size, dtype=x.dtype) if h is None else h[0]
    c = torch.zeros(batch, size, dtype=x.dtype) if c is None else c[0]
    states = []
    for step in x:
        gates = step @ w[0].T + h @ r[0].T + bias[: 4 * size] + bias[4 * size :]
        i, o, f, g = gates.split(size, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        states.append(h)
    return torch.stack(states).unsqueeze(1), h.unsqueeze(0), c.unsqueeze(0)


def clip(model, a, x, low=None, high=None):
    x = x if low is None else torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


NODES = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalMaxPool": lambda m, a, x: x.amax(tuple(range(2, x.dim())), keepdim=True),
    "GlobalAveragePool": lambda m, a, x: x.mean(tuple(range(2, x.dim())), keepdim=True),
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "Dropout": lambda m, a, x, *rest: x,
    "Identity": lambda m, a, x: x,
    "Gemm": gemm,
    "MatMul": lambda m, a, x, y: x @ y,
    "Add": lambda m, a, x, y: x + y,
    "Sub": lambda m, a, x, y: x - y,
    "Mul": lambda m, a, x, y: x * y,
    "Div": lambda m, a, x, y: x / y,
    "Pow": lambda m, a, x, y: x ** y,
    "Max": lambda m, a, x, *rest: torch.stack(torch.broadcast_tensors(x, *rest)).amax(0),
    "Where": lambda m, a, c, x, y: torch.where(c, x, y),
    "Relu": lambda m, a, x: F.relu(x),
    "LeakyRelu": lambda m, a, x: F.leaky_relu(x, a.get("alpha", 0.01)),
    "Softplus": lambda m, a, x: F.softplus(x),
    "Sigmoid": lambda m, a, x: torch.sigmoid(x),
    "Tanh": lambda m, a, x: torch.tanh(x),
    "Erf": lambda m, a, x: torch.erf(x),
    "Sqrt": lambda m, a, x: torch.sqrt(x),
    "Exp": lambda m, a, x: torch.exp(x),
    "Neg": lambda m, a, x: -x,
    "Gelu": lambda m, a, x: F.gelu(x, approximate=a.get("approximate", b"none").decode()),
    "Softmax": lambda m, a, x: torch.softmax(x, a.get("axis", -1)),
    "LogSoftmax": lambda m, a, x: torch.log_softmax(x, a.get("axis", -1)),
    "Clip": clip,
    "Concat": lambda m, a, *parts: torch.cat(parts, a["axis"]),
    "Reshape": reshape,
    "Flatten": flatten,
    "Transpose": lambda m, a, x: x.permute(a.get("perm", list(range(x.dim()))[::-1])),
    "Unsqueeze": unsqueeze,
    "Squeeze": squeeze,
    "Slice": slice_,
    "Split": split,
    "Gather": gather,
    "Expand": lambda m, a, x, shape: x * torch.ones(listed(shape), dtype=x.dtype),
    "ReduceMean": reduced(torch.mean),
    "ReduceSum": reduced(torch.sum),
    "LSTM": lstm,
    "GatherElements": lambda m, a, x, i: torch.gather(
        x, a.get("axis", 0), torch.where(i < 0, i + x.shape[a.get("axis", 0)], i)
    ),
    "IsNaN": lambda m, a, x: torch.isnan(x),
    "Cast": lambda m, a, x: x if x.is_floating_point() and a["to"] in (1, 10, 11, 16) else None,
}


FOR_INTEGERS = {"GatherElements"}  # which the reference computes wrongly where the first dimension is 1


class Model:
    def __init__(self, path, batch_norm="auto", real=torch.float64):
        self.proto = onnx.load(path)
        self.batch_norm, self.real = batch_norm, real
        self.opset = next(o.version for o in self.proto.opset_import if o.domain in ("", "ai.onnx"))
        self.values = {t.name: self.tensor(numpy_helper.to_array(t)) for t in self.proto.graph.initializer}
        self.trained = {name: v.requires_grad_() for name, v in self.values.items() if v.is_floating_point()}

    def tensor(self, array):
        return as_torch(array, self.real)

    def run_node(self, node, inputs):
        """The outputs of a node."""
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        attributes["outputs"] = len(node.output)
        floats = any(x is not None and x.is_floating_point() for x in inputs)
        known = node.op_type in NODES and (floats or node.op_type in FOR_INTEGERS)
        made = NODES[node.op_type](self, attributes, *inputs) if known else None
        if made is None:
            return self.run_plain(node, inputs)
        return made if isinstance(made, tuple) else (made,)

    def run_plain(self, node, inputs):
        """By the ONNX project's reference, without gradients."""
        names = {name: x for name, x in zip(node.input, inputs) if name}
        arrays = {}
        for name, x in names.items():
            array = x.detach().numpy()
            arrays[name] = array.astype(np.float32) if array.dtype == np.float64 else array
        ports = [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in names]
        results = [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", ports, results)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", self.opset)])
        return [self.tensor(array) for array in ReferenceEvaluator(model).run(None, arrays)]

    def logits(self, inputs):
        """The first output, or what a last softmax was given: the loss has a softmax of its own."""
        values = self.run(inputs)
        name = self.proto.graph.output[0].name
        last = next((node for node in self.proto.graph.node if name in node.output), None)
        return values[last.input[0] if last is not None and last.op_type == "Softmax" else name]

    def run(self, inputs):
        """All values, by name."""
        values = dict(self.values)
        values.update({name: self.tensor(array) for name, array in inputs.items()})
        for node in self.proto.graph.node:
            made = self.run_node(node, [values[name] if name else None for name in node.input])
            values.update(zip(node.output, made))
        return values

    def step(self, inputs):
        """The cross-entropy of the first output against "labels", and its gradients as arrays."""
        labels = as_torch(inputs["labels"])
        logits = self.logits({name: x for name, x in inputs.items() if name != "labels"})
        if logits.dim() == 3:
            logits, labels = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
        loss = F.cross_entropy(logits, labels)
        names = list(self.trained)
        found = torch.autograd.grad(loss, [self.trained[name] for name in names], allow_unused=True)
        return loss.item(), {name: g.numpy() for name, g in zip(names, found) if g is not None}
