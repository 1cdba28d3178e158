"""Nodes that neap composes of layers: results against ONNX's reference, gradients against differences in double precision."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import onnx_runs

STEP = 1e-5


def node(op: str, inputs: str, outputs: str, **attributes):
    return helper.make_node(op, inputs.split(","), outputs.split(","), **attributes)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


class Case:
    """A graph of x0, which is the input x plus a parameter, that ends in y."""

    def __init__(self, name: str, shape: tuple, nodes: list, opset: int = 17, **tensors) -> None:
        self.name, self.shape, self.nodes, self.opset = name, shape, nodes, opset
        self.tensors = {"w0": shape, **tensors}  # a shape stands for random floats

    def model(self) -> onnx.ModelProto:
        random = np.random.default_rng(1)
        made = {
            key: 0.5 * random.standard_normal(value).astype(np.float32) if isinstance(value, tuple) else value
            for key, value in self.tensors.items()
        }
        graph = helper.make_graph(
            [node("Add", "x,w0", "x0"), *self.nodes], "case",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(array, key) for key, array in made.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)


ATTENTION = dict(k=(2, 2, 7, 6), v=(2, 2, 7, 3))
GRU = dict(w=(2, 12, 3), r=(2, 12, 4), b=(2, 24))
S = (2, 3, 4, 5)

CASES = [
    Case("slice with a step", S, [node("Slice", "x0,b,e,a,s", "y")], b=ints(1), e=ints(9), a=ints(-1), s=ints(2)),
    Case("every second one", (2, 4, 6), [node("Slice", "x0,b,e,a,s", "y")], b=ints(1, 0), e=ints(9, 9), a=ints(1, 2), s=ints(2, 2)),
    Case("backwards", S, [node("Slice", "x0,b,e,a,s", "y")], b=ints(-1), e=ints(-9), a=ints(2), s=ints(-1)),
    Case("part of the channels, merged with the batch", (2, 3, 4, 5),
         [node("Slice", "x0,b,e,a", "s"), node("Reshape", "s,t", "r"), node("MatMul", "r,k", "m"), node("Sigmoid", "m", "y")],
         b=ints(1), e=ints(3), a=ints(1), t=ints(-1, 20), k=(20, 6)),
    Case("gradient of such a part", (6, 20),
         [node("MatMul", "x0,k", "m"), node("Reshape", "m,t", "r"), node("Concat", "r,c", "j", axis=1), node("Mul", "j,j", "y")],
         k=(20, 12), t=ints(2, 3, 3, 4), c=(2, 2, 3, 4)),
    Case("scaled channels behind a transpose", (2, 5, 6),
         [node("MatMul", "x0,k", "m"), node("Transpose", "m", "t", perm=[0, 2, 1]), node("Mul", "t,s", "y")], k=(6, 4), s=(4, 1)),
    Case("pad reflect", S, [node("Pad", "x0,p", "y", mode="reflect")], p=ints(0, 0, 1, 2, 0, 0, 2, 1)),
    Case("pad edge", S, [node("Pad", "x0,p", "y", mode="edge")], p=ints(0, 1, 1, 2, 0, 0, 2, 1)),
    Case("gather elements", (4, 3), [node("GatherElements", "x0,i", "y", axis=1)], i=np.array([[2, 0], [1, 1], [0, -1], [2, 2]])),
    Case("gather nd", S, [node("GatherND", "x0,i", "y")], i=np.array([[0, 1], [1, 2], [1, 2]])),
    Case("scatter nd", (4, 3), [node("ScatterND", "x0,i,u", "y")], i=np.array([[0], [2]]), u=(2, 3)),
    Case("scatter elements", (4, 3), [node("ScatterElements", "x0,i,u", "y", axis=1)], i=np.array([[2], [0], [1], [1]]), u=(4, 1)),
    Case("one index, two extents", (2, 5, 6), [node("Gather", "x0,i", "g", axis=1), node("Gather", "g,i", "y", axis=2)], i=ints(-1, 0, -3)),
    Case("einsum", S, [node("Einsum", "x0,k", "y", equation="abcd,dcbe->eab")], k=(5, 4, 3, 6)),
    Case("einsum, ellipsis", S, [node("Einsum", "x0,k", "y", equation="...ij,jk->...ik")], k=(5, 6)),
    Case("matrix times vector", S, [node("MatMul", "x0,v", "y")], v=(5,)),
    Case("vector times matrices", S, [node("MatMul", "v,x0", "y")], v=(4,)),
    Case("layer norm without bias", (2, 3, 6), [node("LayerNormalization", "x0,g", "y")], g=(6,)),
    Case("triangle", S, [node("Trilu", "x0", "y", upper=0)]),
    Case("swish", S, [node("Swish", "x0", "y", alpha=1.7)], 24),
    Case("lp", S, [node("LpNormalization", "x0", "y", axis=1, p=2)]),
    Case("power", S, [node("Pow", "n,x0", "y")], n=np.float32(2)),
    Case("grouped heads", (2, 4, 5, 6), [node("Attention", "x0,k,v", "y")], 23, **ATTENTION),
    Case("mask", (2, 2, 5, 6), [node("Attention", "x0,k,v,m", "y")], 23, m=(5, 7), **ATTENTION),
    Case("hidden keys", (2, 2, 5, 6), [node("Attention", "x0,k,v,m", "y")], 23, m=np.tri(5, 7, 1, bool), **ATTENTION),
    Case("gru", (5, 2, 3), [node("GRU", "x0,w,r,b", "y", hidden_size=4, direction="bidirectional", linear_before_reset=1)], **GRU),
    Case("resize, cubic", (1, 2, 5, 4), [node("Resize", "x0,,,z", "y", mode="cubic")], 19, z=ints(1, 2, 8, 3)),
    Case("resize, 3 dimensions", (1, 2, 5), [node("Resize", "x0,,,z", "y", mode="linear")], 19, z=ints(1, 2, 8)),
    Case("resize, antialias", (1, 2, 8, 6), [node("Resize", "x0,,,z", "y", mode="linear", antialias=1)], 19, z=ints(1, 2, 3, 3)),
]


def in_double(model: onnx.ModelProto) -> onnx.ModelProto:
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for tensor in made.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    return made


def loss_of(model: onnx.ModelProto, x: np.ndarray, targets: np.ndarray, moved: str, move: np.ndarray) -> float:
    """With one parameter moved."""
    made = in_double(model)
    for tensor in made.graph.initializer:
        if tensor.name == moved:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + move, moved))
    (y,) = ReferenceEvaluator(made).run(["y"], {"x": x.astype(np.float64)})
    return float(((y - targets) ** 2).mean())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_results_and_gradients(programs, tmp_path, case) -> None:
    model, path = case.model(), str(tmp_path / "model.onnx")
    onnx.save(model, path)
    random = np.random.default_rng(2)
    x = random.standard_normal(case.shape).astype(np.float32)
    (wanted,) = ReferenceEvaluator(in_double(model)).run(["y"], {"x": x.astype(np.float64)})
    assert np.allclose(onnx_runs.forward(path, {"x": x}, "y"), wanted, rtol=1e-4, atol=1e-5)
    targets = random.standard_normal(wanted.shape).astype(np.float32)
    loss, gradients = onnx_runs.step(path, {"x": x, "targets": targets}, "--loss", "mse")
    assert loss == pytest.approx(loss_of(model, x, targets, "", np.zeros(1)), rel=1e-4)
    floats = {key for key, value in case.tensors.items() if isinstance(value, tuple)}
    assert set(gradients) == floats
    for name, gradient in gradients.items():
        way = random.standard_normal(gradient.shape)
        ends = [loss_of(model, x, targets, name, sign * STEP * way) for sign in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * STEP)
        assert float((gradient * way).sum()) == pytest.approx(slope, rel=2e-3, abs=1e-4), name


def test_an_image_read_in_slices_trains(programs, tmp_path) -> None:
    """As YOLO's first layer does it: several views of an image that may be stored channels-last."""
    path = str(tmp_path / "model.onnx")
    parts = [(f"h{i}", f"p{i}{k}") for i in (0, 1) for k in (0, 1)]
    nodes = [node("Slice", f"x0,b{i},e,a2,s", f"h{i}") for i in (0, 1)]
    nodes += [node("Slice", f"{half},b{part[-1]},e,a3,s", part) for half, part in parts]
    nodes += [node("Concat", ",".join(part for _, part in parts), "c", axis=1), node("Conv", "c,k", "y")]
    tensors = dict(b0=ints(0), b1=ints(1), e=ints(99), a2=ints(2), a3=ints(3), s=ints(2), k=(4, 12, 3, 3))
    onnx.save(Case("slices", (2, 3, 16, 16), nodes, **tensors).model(), path)
    words = ["--steps", "1", "--loss", "mse", "--profile-cache", str(tmp_path / "times")]
    onnx_runs.call("neap", "train", path, *words)
