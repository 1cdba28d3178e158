"""Networks in ONNX files: counts, losses, gradients, and files that neap trained. bench/onnx_models has all of them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_support
import pytest
from onnx import numpy_helper

import onnx_runs  # noqa: E402
import onnx_styles  # noqa: E402

bench = onnx_support.bench("onnx_models")

FILES = [
    ("vgg-small", "ts", 13, "train"),
    ("resnet50-small", "ts", 17, "train"),
    ("unet-small", "ts", 17, "eval"),
    ("lstm-small", "ts", 17, "train"),
    ("gpt2-small", "ts", 17, "eval"),
    ("vit-small", "dynamo", 20, "eval"),
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: "_".join(map(str, file)))
def test_numbers_match(programs, exported, file) -> None:
    row, problems = bench.number_row(exported(*file))
    assert not problems, row


@pytest.mark.parametrize("style", onnx_styles.STYLES)
def test_numbers_match_in_other_styles(programs, tmp_path, style) -> None:
    row, problems = bench.number_row(onnx_styles.write(style, str(tmp_path)))
    assert not problems, row


def test_counts_are_those_of_the_built_in_network(programs, exported) -> None:
    row, problems = bench.count_row(exported("resnet18", "ts", 17, "train"))
    assert not problems, row


def test_one_other_weight_is_noticed(programs, tmp_path) -> None:
    path = onnx_styles.write("tf_cnn", str(tmp_path))
    inputs = onnx_runs.training_batch(path, 4)
    wanted = onnx_runs.onnxruntime_loss(path, inputs)
    model = onnx.load(path)
    tensor = next(t for t in model.graph.initializer if t.name.startswith("model/conv2"))
    array = numpy_helper.to_array(tensor).copy()
    array += 0.5
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    onnx.save(model, path)
    loss, got = onnx_runs.step(path, inputs, "--batch", 4)
    _, true = bench.Model(path).step(inputs)
    assert onnx_runs.relative(loss, wanted) > onnx_runs.TOLERANCE
    true[tensor.name] = true[tensor.name].transpose(1, 0, 2, 3).reshape(array.shape)
    assert bench.worst(got, true)[0] > onnx_runs.TOLERANCE


def test_a_missing_gradient_is_noticed(tmp_path) -> None:
    path = onnx_styles.write("sklearn_mlp", str(tmp_path))
    assert bench.missing(path, {}, {"intercepts": np.ones((1, 32))}) == ["intercepts"]
    assert bench.missing(path, {"intercepts": np.ones((1, 32))}, {"intercepts": np.ones((1, 32))}) == []
