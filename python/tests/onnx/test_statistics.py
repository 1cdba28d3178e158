"""Running statistics of batch normalizations that neap trains, against PyTorch, ONNX's reference and ONNX Runtime."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnx_runs
import pytest
import torch
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from torch import nn

BATCH, STEPS, RATE, MOMENTUM = 6, 4, 0.02, 0.3
TOLERANCE = 1e-5


class Network(nn.Module):
    """Two convolutions with batch normalization, and one on a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(6, momentum=MOMENTUM)
        self.conv2 = nn.Conv2d(6, 4, 3, stride=2)
        self.bn2 = nn.BatchNorm2d(4, eps=1e-3)
        self.bn3 = nn.BatchNorm1d(4)
        self.fc = nn.Linear(4, 5)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(x)))
        return self.fc(self.bn3(x.mean((2, 3))))


class Twice(nn.Module):
    """One batch normalization behind two convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, padding=1)
        self.conv2 = nn.Conv2d(6, 6, 3, padding=1)
        self.bn = nn.BatchNorm2d(6, momentum=MOMENTUM)
        self.fc = nn.Linear(6, 5)

    def forward(self, x):
        x = torch.relu(self.bn(self.conv1(x)))
        x = torch.relu(self.bn(self.conv2(x)))
        return self.fc(x.mean((2, 3)))


def norms(network):
    return {name: module for name, module in network.named_modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)}


def export(network, path):
    """Writes the file; the network is then as it is there."""
    with torch.no_grad():
        for norm in norms(network).values():
            norm.running_mean.uniform_(-1, 1)
            norm.running_var.uniform_(0.5, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            torch.zeros(BATCH, 3, 9, 9),
            path,
            opset_version=17,
            dynamo=False,
            training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
            input_names=["input"],
            dynamic_axes={"input": {0: "batch"}},
        )
    arrays = {name: torch.from_numpy(array.copy()) for name, array in initializers(path).items()}
    network.load_state_dict(network.state_dict() | arrays)  # exporting runs the network, which advances its statistics


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """(the network as it was exported, its file)"""
    torch.manual_seed(11)
    network, path = Network(), str(tmp_path_factory.mktemp("statistics") / "model.onnx")
    export(network, path)
    return network, path


def copy_of(network, dtype=torch.float64):
    copy = type(network)()
    copy.load_state_dict(network.state_dict())
    return copy.to(dtype)


def initializers(path):
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer}


def train(path, saved, *options, steps=STEPS):
    words = ["train", path, "--batch", BATCH, "--steps", steps, "--optimizer", "sgd", "--rate", RATE]
    return onnx_runs.call("neap", *words, "--backend", "ref", "--profile-cache", "none", "--save", saved, *options)


def images(batch):
    pictures, labels = onnx_runs.synthetic_images(0, batch, (BATCH, 3, 9, 9), 5)
    return torch.from_numpy(pictures).double(), torch.from_numpy(labels)


def train_in_torch(network, steps, parts=1):
    """{name: (mean, variance)}: PyTorch's running statistics, the variances as ONNX has them, of the population."""
    network = copy_of(network).train()
    start = {name: norm.running_var.clone() for name, norm in norms(network).items()}
    counts, uses = {}, dict.fromkeys(start, 0)

    def note(name, x):
        counts[name] = x.numel() // x.shape[1]
        uses[name] += 1

    for name, norm in norms(network).items():
        norm.register_forward_pre_hook(lambda module, inputs, name=name: note(name, inputs[0]))
    optimizer = torch.optim.SGD(network.parameters(), RATE)
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(parts):
            pictures, labels = images(step * parts + part)
            (nn.functional.cross_entropy(network(pictures), labels) / parts).backward()
        optimizer.step()
    found = {}
    for name, norm in norms(network).items():
        kept = start[name] * (1 - norm.momentum) ** uses[name]  # PyTorch divides by n - 1
        variance = kept + (norm.running_var - kept) * (counts[name] - 1) / counts[name]
        found[name] = (norm.running_mean.numpy(), variance.numpy())
    return found


def assert_statistics(path, wanted) -> None:
    got = initializers(path)
    for name, (mean, variance) in wanted.items():
        np.testing.assert_allclose(got[f"{name}.running_mean"], mean, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)
        np.testing.assert_allclose(got[f"{name}.running_var"], variance, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)


def for_inference(path, to):
    """The file with its batch normalizations as an export for inference has them."""
    proto = onnx.load(path)
    for node in proto.graph.node:
        if node.op_type == "BatchNormalization":
            del node.output[1:]
            kept = [a for a in node.attribute if a.name != "training_mode"]
            del node.attribute[:]
            node.attribute.extend(kept)
    onnx.save(proto, to)
    return to


def test_they_are_those_of_pytorch(programs, model, tmp_path) -> None:
    network, path = model
    saved = str(tmp_path / "trained.onnx")
    train(path, saved)
    onnx.checker.check_model(saved, full_check=True)
    assert_statistics(saved, train_in_torch(network, STEPS))


def test_a_plan_changes_nothing(programs, model, tmp_path) -> None:
    _, path = model
    plain, planned = str(tmp_path / "plain.onnx"), str(tmp_path / "planned.onnx")
    train(path, plain)
    train(path, planned, "--budget", "75%")
    for name, array in initializers(plain).items():
        assert np.array_equal(array, initializers(planned)[name]), name


def test_micro_batches_advance_them_one_by_one(programs, model, tmp_path) -> None:
    network, path = model
    saved = str(tmp_path / "trained.onnx")
    train(path, saved, "--accumulate", 2, steps=3)
    assert_statistics(saved, train_in_torch(network, 3, parts=2))


def test_a_module_that_is_used_twice(programs, tmp_path) -> None:
    torch.manual_seed(12)
    network, path, saved = Twice(), str(tmp_path / "twice.onnx"), str(tmp_path / "trained.onnx")
    export(network, path)
    train(path, saved, "--budget", "90%")
    assert_statistics(saved, train_in_torch(network, STEPS))


def test_nodes_for_inference_can_train(programs, model, tmp_path) -> None:
    network, path = model
    plain, saved = for_inference(path, str(tmp_path / "plain.onnx")), str(tmp_path / "trained.onnx")
    train(plain, saved, "--batch-norm", "train")
    assert_statistics(saved, train_in_torch(network, STEPS))
    train(plain, saved)  # as exported: by the statistics of the file, which stay
    for name in norms(network):
        assert np.array_equal(initializers(saved)[f"{name}.running_var"], initializers(plain)[f"{name}.running_var"])


def test_one_step_is_that_of_the_standard(programs, model, tmp_path) -> None:
    _, path = model
    saved = str(tmp_path / "trained.onnx")
    train(path, saved, steps=1)
    proto = onnx.load(path)
    wanted = {}
    for node in proto.graph.node:
        if node.op_type == "BatchNormalization":
            wanted.update(zip(node.input[3:5], node.output[1:3]))
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in wanted.values())
    pictures = images(0)[0].numpy().astype(np.float32)
    results = ReferenceEvaluator(proto).run(None, {"input": pictures})
    assert len(results) == 6
    for name, result in zip(wanted, results):
        np.testing.assert_allclose(initializers(saved)[name], result, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name)


def test_a_trained_file_can_be_evaluated(programs, model, tmp_path) -> None:
    network, path = model
    saved = str(tmp_path / "trained.onnx")
    train(path, saved)
    pictures = images(STEPS)[0].numpy().astype(np.float32)
    session = onnx_runs.session(for_inference(saved, str(tmp_path / "inference.onnx")))
    (logits,) = session.run(None, {"input": pictures})
    trained = copy_of(network, torch.float32).eval()
    arrays = {name: torch.from_numpy(array.copy()) for name, array in initializers(saved).items()}
    state = {name: arrays.get(name, tensor) for name, tensor in trained.state_dict().items()}
    assert sum(name in arrays for name in state) == len(state) - 3  # num_batches_tracked is not in the file
    trained.load_state_dict(state)
    with torch.no_grad():
        wanted = trained(torch.from_numpy(pictures)).numpy()
        for name, norm in norms(trained).items():
            norm.running_mean.copy_(norms(network)[name].running_mean)
            norm.running_var.copy_(norms(network)[name].running_var)
        stale = trained(torch.from_numpy(pictures)).numpy()
    np.testing.assert_allclose(logits, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    assert np.abs(stale - wanted).max() > 0.01


def test_training_resumes_with_them(programs, model, tmp_path) -> None:
    _, path = model
    whole, part, rest = (str(tmp_path / name) for name in ("whole.safetensors", "part.safetensors", "rest.safetensors"))
    train(path, whole)
    train(path, part, steps=2)
    train(path, rest, "--resume", part)
    from safetensors.numpy import load_file

    one, other = load_file(whole), load_file(rest)
    assert "bn1.running_mean" in one and one.keys() == other.keys()
    for name, array in one.items():
        assert np.array_equal(array, other[name]), name
