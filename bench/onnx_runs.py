"""What the benches and tests of ONNX files share: neap's steps on given inputs, and losses from logits."""

import ctypes
import json
import os
import subprocess
import tempfile

import common
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from safetensors.numpy import load_file, save_file

TOLERANCE = 1e-4


class Refused(Exception):
    """neap does not take the file; the text is its message."""


class Broken(Exception):
    """neap crashed, or failed in a way that it must not."""


def call(program, *words, timeout=600):
    """Runs a program of bench/, or "neap". Refused if it ends with 2 and one line, Broken if in any other way but 0."""
    run = subprocess.run(
        [common.path_of(program), *map(str, words)], capture_output=True, text=True, timeout=timeout
    )
    if run.returncode == 0:
        return run.stdout
    lines = run.stderr.strip().splitlines()
    if run.returncode == 2 and lines:
        raise Refused(lines[-1])
    raise Broken(f"{program} ended with {run.returncode}: {' '.join(lines[:3])}")


def plain(array):
    """The array in a type and an order that safetensors and neap have."""
    array = np.asarray(array)
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    elif array.dtype.kind in "fV" or array.dtype.name in ("bfloat16", "float16"):
        array = array.astype(np.float32)
    elif array.dtype.kind in "iu" and array.dtype.name not in ("int64", "int32", "uint8"):
        array = array.astype(np.int64)
    return np.ascontiguousarray(array)


def graph(source, *options):
    """What `neap graph` says of a built-in network or a file."""
    return json.loads(call("neap", "graph", source, "--json", *options))


def forward(path, inputs, output, *options):
    """One output of a model, by backend ref."""
    with tempfile.TemporaryDirectory() as folder:
        given, result = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
        save_file({name: plain(array) for name, array in inputs.items()}, given)
        call("onnx_step", path, given, result, "--forward", "--output", output, *options)
        return load_file(result)["output"]


def step(path, inputs, *options):
    """The loss, and the gradient of each parameter in the layout that the file has."""
    with tempfile.TemporaryDirectory() as folder:
        given, result = os.path.join(folder, "in.safetensors"), os.path.join(folder, "gradients.onnx")
        save_file({name: plain(array) for name, array in inputs.items()}, given)
        loss, *names = call("onnx_step", path, given, result, *options).splitlines()
        written = {tensor.name: tensor for tensor in onnx.load(result).graph.initializer}
        return float(loss), {name: numpy_helper.to_array(written[name]) for name in names}


def cross_entropy(logits, labels):
    """The mean over all rows of N x K, N x T x K or, with labels N x H x W, N x K x H x W; in double precision."""
    logits = np.asarray(logits, np.float64)
    if logits.ndim == 4:
        logits = np.moveaxis(logits, 1, -1)
    rows = logits.reshape(-1, logits.shape[-1])
    most = rows.max(axis=1, keepdims=True)
    sums = most[:, 0] + np.log(np.exp(rows - most).sum(axis=1))
    return float((sums - rows[np.arange(len(rows)), np.asarray(labels).reshape(-1)]).mean())


def relative(got, wanted):
    """The difference of two numbers as a share of the second."""
    return abs(got - wanted) / max(abs(wanted), 1e-30)


# ---- Inputs as neap's trainer makes them ----


class Shape(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("channels", "height", "width", "classes")]


def library():
    """libneap, with what it depends on beside the file itself."""
    beside = os.path.dirname(common.path_of("neap"))
    return ctypes.CDLL(os.path.realpath(os.path.join(beside, "libneap.so")))


def must(status, message):
    if status != 0:
        raise Broken(message.value.decode())


def synthetic_images(seed, step, shape, classes):
    """A batch of images and labels, as training with --data synthetic takes it; shape: N x C x H x W."""
    lib, message, dataset = library(), ctypes.create_string_buffer(4096), ctypes.c_void_p()
    images, labels = np.zeros(shape, np.float32), np.zeros(shape[0], np.int64)
    wanted = Shape(*shape[1:], classes)
    must(lib.neap_dataset_open(None, b"synthetic", ctypes.byref(wanted), ctypes.byref(dataset), message), message)
    must(
        lib.neap_dataset_batch(
            dataset, ctypes.c_uint64(seed), ctypes.c_int64(step), ctypes.c_int64(shape[0]), images.ctypes, labels.ctypes, message
        ),
        message,
    )
    lib.neap_dataset_close(dataset)
    return images, labels


def synthetic_tokens(seed, step, shape, limit):
    """A batch of ids and of those that follow them."""
    lib, message = library(), ctypes.create_string_buffer(4096)
    ids, following = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    numbers = [ctypes.c_int64(n) for n in (step, *shape, limit)]
    must(lib.neap_synthetic_ids(ctypes.c_uint64(seed), *numbers, ids.ctypes, following.ctypes, message), message)
    return ids, following


def pixel_labels(labels, height, width, classes):
    """Labels of every pixel, as training with synthetic data has them: a class for each quarter of the image."""
    rows, columns = 2 * np.arange(height) // height, 2 * np.arange(width) // width
    return (labels[:, None, None] + 2 * rows[:, None] + columns) % classes


def training_batch(path, batch, step=0):
    """The inputs of a step, counted from 0, of `neap train FILE --batch N --data synthetic`: {"input", "labels"}."""
    proto = onnx.load(path, load_external_data=False)
    port = proto.graph.input[0]
    shape = [d.dim_value or batch for d in port.type.tensor_type.shape.dim]
    output = onnxruntime_shape(path, {port.name: np.zeros(shape, element_type(port))})
    classes = output[1] if len(output) in (2, 4) else output[-1]
    if port.type.tensor_type.elem_type == onnx.TensorProto.INT64:
        made, labels = synthetic_tokens(0, step, shape, classes)
        labels = labels.reshape(-1)
    elif len(shape) == 4:
        made, labels = synthetic_images(0, step, shape, classes)
        labels = pixel_labels(labels, *output[2:], classes) if len(output) == 4 else labels
    else:
        random = np.random.default_rng(step)
        made, labels = random.standard_normal(shape).astype(np.float32), random.integers(0, classes, shape[0])
    return {port.name: made, "labels": labels}


def element_type(port):
    return helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)


# ---- ONNX Runtime ----


def session(path):
    """None if ONNX Runtime does not run the file: batch normalization in training mode, most of all."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception:  # its own types, which it does not export
        return None


def onnxruntime_logits(path, inputs):
    """What the loss is computed from: the first output, or what its last softmax was given. None if it cannot run."""
    proto = onnx.load(path)
    last = next((n for n in proto.graph.node if proto.graph.output[0].name in n.output), None)
    if last is not None and last.op_type == "Softmax":
        proto.graph.output.insert(0, helper.make_empty_tensor_value_info(last.input[0]))
    run = session(proto.SerializeToString())
    if run is None:
        return None
    try:
        return run.run([proto.graph.output[0].name], {k: v for k, v in inputs.items() if k != "labels"})[0]
    except Exception:
        return None


def onnxruntime_shape(path, inputs):
    """The shape of the first output."""
    proto = onnx.load(path, load_external_data=False)
    known = {d: i for port in proto.graph.input for d, i in zip(
        [e.dim_param for e in port.type.tensor_type.shape.dim], inputs[port.name].shape) if d}
    inferred = onnx.shape_inference.infer_shapes(proto)
    dims = inferred.graph.output[0].type.tensor_type.shape.dim
    sizes = [d.dim_value or known.get(d.dim_param, 0) for d in dims]
    if not sizes or min(sizes[1:]) <= 0:
        from onnx_torch import Model

        return list(Model(path).logits(inputs).shape)
    return sizes


def onnxruntime_loss(path, inputs):
    """None if ONNX Runtime does not run the file."""
    logits = onnxruntime_logits(path, inputs)
    return None if logits is None else cross_entropy(logits, inputs["labels"])
