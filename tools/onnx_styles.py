"""ONNX files as programs other than PyTorch write them: TensorFlow's converter, scikit-learn's, and by hand.

Each function returns a model with an input "input" and logits as its first output; write_all writes them.
"""

import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17


def model_of(name, nodes, inputs, outputs, tensors, producer):
    """inputs and outputs: (name, shape); an extent of a word is open."""
    ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in group] for group in (inputs, outputs)]
    initializers = [numpy_helper.from_array(array, key) for key, array in tensors.items()]
    graph = helper.make_graph(nodes, name, *ports, initializers)
    made = helper.make_model(
        graph, producer_name=producer, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8
    )
    onnx.checker.check_model(made)
    return made


def weights(seed, **shapes):
    """Random arrays, of the usual magnitude."""
    random = np.random.default_rng(seed)
    arrays = {}
    for name, shape in shapes.items():
        scale = 0.5 / np.sqrt(np.prod(shape[1:])) if len(shape) > 1 else 0.1
        arrays[name] = (scale * random.standard_normal(shape)).astype(np.float32)
    return arrays


def tf_cnn():
    """As tf2onnx has a Keras network: images N x H x W x C with transposes around, MatMul and Add for dense layers."""
    w = weights(1, k1=(8, 3, 3, 3), b1=(8,), k2=(16, 8, 3, 3), d1=(16, 32), e1=(32,), d2=(32, 10), e2=(10,))
    names = {
        "k1": "model/conv1/Conv2D/ReadVariableOp:0", "b1": "model/conv1/BiasAdd/ReadVariableOp:0",
        "k2": "model/conv2/Conv2D/ReadVariableOp:0", "d1": "model/dense/MatMul/ReadVariableOp:0",
        "e1": "model/dense/BiasAdd/ReadVariableOp:0", "d2": "model/logits/MatMul/ReadVariableOp:0",
        "e2": "model/logits/BiasAdd/ReadVariableOp:0",
    }
    same = {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}
    node = helper.make_node
    nodes = [
        node("Transpose", ["input"], ["model/conv1/Conv2D__12:0"], name="model/conv1/Conv2D__12", perm=[0, 3, 1, 2]),
        node("Conv", ["model/conv1/Conv2D__12:0", names["k1"], names["b1"]], ["model/conv1/BiasAdd:0"], strides=[1, 1],
             name="model/conv1/BiasAdd", **same),
        node("Relu", ["model/conv1/BiasAdd:0"], ["model/conv1/Relu:0"], name="model/conv1/Relu"),
        node("MaxPool", ["model/conv1/Relu:0"], ["model/pool/MaxPool:0"], kernel_shape=[2, 2], strides=[2, 2],
             name="model/pool/MaxPool"),
        node("Transpose", ["model/pool/MaxPool:0"], ["model/pool/MaxPool__20:0"], perm=[0, 2, 3, 1], name="a__20"),
        node("Transpose", ["model/pool/MaxPool__20:0"], ["model/conv2/Conv2D__22:0"], perm=[0, 3, 1, 2], name="a__22"),
        node("Conv", ["model/conv2/Conv2D__22:0", names["k2"]], ["model/conv2/Conv2D:0"], strides=[1, 1],
             name="model/conv2/Conv2D", **same),
        node("Relu", ["model/conv2/Conv2D:0"], ["model/conv2/Relu:0"], name="model/conv2/Relu"),
        node("GlobalAveragePool", ["model/conv2/Relu:0"], ["model/gap/Mean:0"], name="model/gap/Mean"),
        node("Squeeze", ["model/gap/Mean:0", "const_axes__30"], ["model/gap/Mean_Squeeze__31:0"], name="gap__31"),
        node("MatMul", ["model/gap/Mean_Squeeze__31:0", names["d1"]], ["model/dense/MatMul:0"], name="model/dense/MatMul"),
        node("Add", ["model/dense/MatMul:0", names["e1"]], ["model/dense/BiasAdd:0"], name="model/dense/BiasAdd"),
        node("Relu", ["model/dense/BiasAdd:0"], ["model/dense/Relu:0"], name="model/dense/Relu"),
        node("MatMul", ["model/dense/Relu:0", names["d2"]], ["model/logits/MatMul:0"], name="model/logits/MatMul"),
        node("Add", ["model/logits/MatMul:0", names["e2"]], ["output"], name="model/logits/BiasAdd"),
    ]
    tensors = {names[key]: array for key, array in w.items()} | {"const_axes__30": np.array([2, 3], np.int64)}
    return model_of("tf2onnx", nodes, [("input", ["unk__40", 16, 16, 3])], [("output", ["unk__41", 10])], tensors, "tf2onnx")


def tf_norm():
    """Batch normalization in inference, a residual sum of two branches, and a mean over axes as tf2onnx writes it."""
    w = weights(2, k1=(8, 3, 3, 3), k2=(8, 8, 3, 3), gamma=(8,), beta=(8,), mean=(8,), d=(8, 10), e=(10,))
    w["variance"] = np.abs(w["mean"]) + np.float32(0.5)
    w["gamma"] += 1
    node = helper.make_node
    nodes = [
        node("Transpose", ["input"], ["t:0"], perm=[0, 3, 1, 2]),
        node("Conv", ["t:0", "k1"], ["c1:0"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c1:0", "gamma", "beta", "mean", "variance"], ["bn:0"], epsilon=1e-3),
        node("Clip", ["bn:0", "zero", "six"], ["r:0"]),
        node("Conv", ["r:0", "k2"], ["c2:0"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Add", ["c2:0", "r:0"], ["sum:0"]),
        node("Transpose", ["sum:0"], ["sum_nhwc:0"], perm=[0, 2, 3, 1]),
        node("ReduceMean", ["sum_nhwc:0"], ["mean:0"], axes=[1, 2], keepdims=0),
        node("Gemm", ["mean:0", "d", "e"], ["output"]),
    ]
    tensors = w | {"zero": np.array(0, np.float32), "six": np.array(6, np.float32)}
    return model_of("norm", nodes, [("input", ["N", 12, 12, 3])], [("output", ["N", 10])], tensors, "tf2onnx")


def sklearn_mlp():
    """As skl2onnx has an MLPClassifier: Cast, then MatMul and Add with a bias of 1 x K, Relu, Softmax at the end."""
    w = weights(3, coefficient=(20, 32), intercepts=(1, 32), coefficient1=(32, 16), intercepts1=(1, 16),
                coefficient2=(16, 4), intercepts2=(1, 4))
    node = helper.make_node
    nodes = [node("Cast", ["input"], ["cast_input"], to=TensorProto.FLOAT)]
    x = "cast_input"
    for layer, suffix in enumerate(("", "1", "2")):
        nodes += [
            node("MatMul", [x, "coefficient" + suffix], [f"mul_result{suffix}"], name=f"MatMul{suffix}"),
            node("Add", [f"mul_result{suffix}", "intercepts" + suffix], [f"add_result{suffix}"], name=f"Add{suffix}"),
        ]
        if layer < 2:
            nodes.append(node("Relu", [f"add_result{suffix}"], [f"next_activations{suffix}"], name=f"Relu{suffix}"))
        x = f"next_activations{suffix}"
    nodes.append(node("Softmax", ["add_result2"], ["probabilities"], axis=1, name="Softmax"))
    return model_of("sklearn", nodes, [("input", [None, 20])], [("probabilities", [None, 4])], w, "skl2onnx")


def windows():
    """Windows whose padding differs at both ends, by pads and by auto_pad, and means that count it or do not; a part of a
    transposed convolution; LogSoftmax and the largest of each channel in the middle."""
    w = weights(4, k1=(8, 3, 3, 3), b1=(8,), k2=(8, 4, 3, 2), b2=(8,), k3=(8, 4, 3, 3), b3=(8,), d=(16, 10), e=(10,))
    node = helper.make_node
    nodes = [
        node("Conv", ["input", "k1", "b1"], ["c1"], strides=[2, 2], auto_pad="SAME_UPPER"),
        node("MaxPool", ["c1"], ["m1"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"),
        node("MaxPool", ["m1"], ["m2"], kernel_shape=[2, 2], strides=[1, 1], auto_pad="SAME_LOWER"),
        node("Tanh", ["m2"], ["t1"]),
        node("Conv", ["t1", "k2", "b2"], ["c2"], pads=[2, 0, 0, 1], group=2),
        node("AveragePool", ["c2"], ["a1"], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 1, 2]),
        node("AveragePool", ["c2"], ["a2"], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 1, 2], count_include_pad=1),
        node("Add", ["a1", "a2"], ["a"]),
        node("ConvTranspose", ["a", "k3", "b3"], ["u"], strides=[2, 2], pads=[0, 1, 1, 0], output_padding=[1, 0], group=2),
        node("LogSoftmax", ["u"], ["l"], axis=1),
        node("GlobalMaxPool", ["l"], ["g1"]),
        node("GlobalAveragePool", ["u"], ["g2"]),
        node("Concat", ["g1", "g2"], ["g"], axis=1),
        node("Flatten", ["g"], ["f"]),
        node("Gemm", ["f", "d", "e"], ["output"]),
    ]
    return model_of("windows", nodes, [("input", ["N", 3, 30, 27])], [("output", ["N", 10])], w, "")


def sequences():
    """Convolutions and pools of sequences, N x C x L: dilated, in groups, transposed, with padding of every kind."""
    w = weights(5, k1=(8, 4, 5), b1=(8,), k2=(8, 4, 3), k3=(8, 8, 3), b3=(8,), k4=(8, 6, 4), b4=(6,), d=(6, 10), e=(10,))
    node = helper.make_node
    nodes = [
        node("Transpose", ["input"], ["x"], perm=[0, 2, 1]),
        node("Conv", ["x", "k1", "b1"], ["c1"], auto_pad="SAME_UPPER", strides=[2]),
        node("Sigmoid", ["c1"], ["s1"]),
        node("Conv", ["s1", "k2"], ["c2"], pads=[2, 2], dilations=[2], group=2),
        node("MaxPool", ["c2"], ["m"], kernel_shape=[3], strides=[2], pads=[0, 1]),
        node("Conv", ["m", "k3", "b3"], ["c3"], pads=[2, 0]),
        node("AveragePool", ["c3"], ["a"], kernel_shape=[2], strides=[2], ceil_mode=1),
        node("ConvTranspose", ["a", "k4", "b4"], ["u"], strides=[2], pads=[1, 0]),
        node("GlobalAveragePool", ["u"], ["g"]),
        node("Squeeze", ["g", "last"], ["f"]),
        node("Gemm", ["f", "d", "e"], ["output"]),
    ]
    tensors = w | {"last": np.array([2], np.int64)}
    return model_of("sequences", nodes, [("input", ["N", 37, 4])], [("output", ["N", 10])], tensors, "")


STYLES = {"tf_cnn": tf_cnn, "tf_norm": tf_norm, "sklearn_mlp": sklearn_mlp, "windows": windows, "sequences": sequences}


def write(name, folder):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{name}_made.onnx")
    onnx.save(STYLES[name](), path)
    return path


def write_all(folder):
    return [write(name, folder) for name in STYLES]
