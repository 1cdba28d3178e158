"""Files with functions of their own, against the same files inlined by onnx_ir, and against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import onnxscript
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx_ir.passes.common import InlinePass
from onnxscript import FLOAT
from onnxscript import opset18 as op

import onnx_runs

TOLERANCE = 1e-5
BATCH = 5
OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
SHAPES = dict(w1=(8, 4), b1=(8,), g1=(8,), w2=(6, 8), g2=(6,), w3=(6, 3), b3=(3,))
REFERENCES = dict(transB=AttributeProto.INT, alpha=AttributeProto.FLOAT, epsilon=AttributeProto.FLOAT, slope=AttributeProto.FLOAT)


def node(kind: str, inputs: str, outputs: str, name: str = "", reference: str = "", **attributes):
    """Types of the domain local begin with a small letter; reference is "attribute=that of the function"."""
    domain = "local" if kind[0].islower() else ""
    made = helper.make_node(kind, inputs.split(","), outputs.split(","), name=name, domain=domain, **attributes)
    if reference:
        own, other = reference.split("=")
        made.attribute.append(AttributeProto(name=own, ref_attr_name=other, type=REFERENCES[own]))
    return made


def function(name: str, inputs: str, outputs: str, nodes: list, attributes: tuple = (), **defaults):
    protos = [helper.make_attribute(key, value) for key, value in defaults.items()]
    return helper.make_function("local", name, inputs.split(","), outputs.split(","), nodes, OPSETS, list(attributes), protos)


def by_hand() -> onnx.ModelProto:
    """Calls in calls, defaults, references, a bias left out, and two outputs."""
    random = np.random.default_rng(3)
    block = [
        node("linear", "x,w,b", "h", "lin"),
        node("norm", "h,scale", "n"),
        node("act", "n", "y", "act", "slope=slope"),
    ]
    functions = [
        function("block", "x,w,scale,b", "y,h", block, ("slope",)),
        function("linear", "x,w,b", "y", [node("Gemm", "x,w,b", "y", "gemm", "transB=turned")], turned=1),
        function("norm", "x,scale", "y", [node("LayerNormalization", "x,scale", "y", "", "epsilon=epsilon")], epsilon=0.1),
        function("act", "x", "y", [node("LeakyRelu", "x", "y", "act", "alpha=slope")], ("slope",)),
    ]
    nodes = [
        node("block", "x,w1,g1,b1", "h,more", "block", slope=0.3),
        node("block", "h,w2,g2", "g,unused", "block2"),
        node("linear", "g,w3,b3", "z", turned=0),
        node("Concat", "z,more", "y", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 11])],
        [numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), key) for key, shape in SHAPES.items()],
    )
    return helper.make_model(graph, functions=functions, opset_imports=OPSETS, ir_version=10)


library = onnxscript.values.Opset("library", 1)


@onnxscript.script(library, default_opset=op)
def gelu(x):
    return x * 0.5 * (op.Erf(x / 1.4142135) + 1.0)


@onnxscript.script(library, default_opset=op)
def layer(x, weight, bias, alpha: float = 0.5):
    return gelu(op.Gemm(x, weight, bias, alpha=alpha))


@onnxscript.script(default_opset=op)
def network(x: FLOAT["N", 4], w1: FLOAT[4, 8], b1: FLOAT[8], w2: FLOAT[8, 7], b2: FLOAT[7]) -> FLOAT["N", 7]:  # noqa: F821
    return layer(layer(x, w1, b1, alpha=2.0), w2, b2)


def scripted() -> onnx.ModelProto:
    made = network.to_model_proto()
    random = np.random.default_rng(4)
    for port in list(made.graph.input)[1:]:
        shape = [dim.dim_value for dim in port.type.tensor_type.shape.dim]
        made.graph.initializer.append(numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), port.name))
        made.graph.input.remove(port)
    return made


@pytest.fixture(params=[by_hand, scripted], ids=["by hand", "scripted"])
def path(request, tmp_path) -> str:
    made = request.param()
    assert len(made.functions) > 1
    onnx.checker.check_model(made)
    onnx.save(made, tmp_path / "model.onnx")
    return str(tmp_path / "model.onnx")


def run(path: str, x: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(path).run(None, {"x": x})[0]


def random_input() -> np.ndarray:
    return np.random.default_rng(5).standard_normal((BATCH, 4)).astype(np.float32)


def forward(path: str, x: np.ndarray) -> np.ndarray:
    return onnx_runs.forward(path, {"x": x}, onnx.load(path).graph.output[0].name, "--batch", BATCH)


def test_results_are_onnx_runtimes(programs, path) -> None:
    x = random_input()
    np.testing.assert_allclose(forward(path, x), run(path, x), rtol=TOLERANCE, atol=TOLERANCE)


def test_gradients_are_those_of_the_inlined_file(programs, path, tmp_path) -> None:
    plain = str(tmp_path / "plain.onnx")
    inlined = onnx_ir.to_proto(InlinePass()(onnx_ir.load(path)).model)  # onnx.inliner forgets defaults of attributes
    assert not inlined.functions
    onnx.save(inlined, plain)
    targets = np.random.default_rng(6).standard_normal(run(path, random_input()).shape).astype(np.float32)
    inputs = {"x": random_input(), "targets": targets}
    (loss, got), (plain_loss, wanted) = (onnx_runs.step(file, inputs, "--batch", BATCH, "--loss", "mse") for file in (path, plain))
    assert loss == pytest.approx(plain_loss, rel=1e-6)
    assert set(got) == set(wanted) == {tensor.name for tensor in inlined.graph.initializer}
    for name, gradient in wanted.items():
        np.testing.assert_allclose(got[name], gradient, rtol=1e-6, atol=1e-7, err_msg=name)


def without_initializers(path: str) -> tuple:
    made = onnx.load(path)
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    del made.graph.initializer[:]
    return made, weights


def test_saved_files_have_the_trained_weights(programs, path, tmp_path) -> None:
    saved, resumed = str(tmp_path / "saved.onnx"), str(tmp_path / "saved.safetensors")
    words = ["train", path, "--batch", BATCH, "--steps", 4, "--loss", "mse", "--optimizer", "sgd", "--rate", 0.05]
    for file in (saved, resumed):
        onnx_runs.call("neap", *words, "--backend", "ref", "--profile-cache", "none", "--save", file)
    (before, old), (after, new) = without_initializers(path), without_initializers(saved)
    assert before == after
    onnx.checker.check_model(saved, full_check=True)
    trained = onnx_runs.load_file(resumed)
    for name in old:
        assert not np.allclose(old[name], new[name]), name
        turned = trained[name].shape != new[name].shape  # neap's own layout, which a checkpoint has
        np.testing.assert_array_equal(new[name], trained[name].T if turned else trained[name], err_msg=name)
    x = random_input()
    np.testing.assert_allclose(forward(saved, x), run(saved, x), rtol=TOLERANCE, atol=TOLERANCE)


def test_a_message_names_the_call(programs, tmp_path) -> None:
    made = by_hand()
    made.functions[3].node[0].op_type = "Unheard"
    onnx.save(made, tmp_path / "model.onnx")
    with pytest.raises(onnx_runs.Refused, match='Unheard \\(2 nodes, the first "block/act/act"\\)'):
        onnx_runs.call("neap", "graph", tmp_path / "model.onnx")
