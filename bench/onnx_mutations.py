"""Hostile ONNX files: real ones damaged, and made ones that ask for what no program should do.

Each generator yields (name, write): write(folder) writes a file into an empty folder and returns its path.
"""

import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def save_bytes(data):
    def write(folder):
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(data)
        return path

    return write


def save_model(model):
    return save_bytes(model.SerializeToString())


# ---- Damage ----


def truncated(data, parts=50):
    for i in range(parts):
        yield f"truncated at {i}/{parts}", save_bytes(data[: len(data) * i // parts])


def flipped(data, count, seed):
    """One to eight bits, most of them outside the weights: where the names and sizes are."""
    random = np.random.default_rng(seed)
    for i in range(count):
        damaged = bytearray(data)
        for _ in range(random.integers(1, 9)):
            place = int(random.integers(0, len(data)))
            damaged[place] ^= 1 << int(random.integers(0, 8))
        yield f"bits flipped, seed {seed}, case {i}", save_bytes(bytes(damaged))


def spliced(data, count, seed):
    """A piece left out, repeated or overwritten by another."""
    random = np.random.default_rng(seed)
    for i in range(count):
        a, b = sorted(int(n) for n in random.integers(0, len(data), 2))
        b = min(b, a + int(random.integers(1, 200)))
        made = [data[:a] + data[b:], data[:b] + data[a:], data[:a] + os.urandom(0) + data[a:b][::-1] + data[b:]][i % 3]
        yield f"spliced, seed {seed}, case {i}", save_bytes(made)


# ---- Files that are well-formed but wrong ----


def changed(model, change):
    made = onnx.ModelProto()
    made.CopyFrom(model)
    change(made.graph)
    return save_model(made)


def wrong_sizes(model):
    def raw_length(graph, length):
        tensor = max(graph.initializer, key=lambda t: len(t.raw_data))
        tensor.raw_data = (tensor.raw_data * 2)[:length(len(tensor.raw_data))]

    def dims(graph, sizes):
        tensor = max(graph.initializer, key=lambda t: len(t.raw_data))
        del tensor.dims[:]
        tensor.dims.extend(sizes)

    def input_dims(graph, size):
        for dim in graph.input[0].type.tensor_type.shape.dim:
            dim.dim_value = size

    for name, length in (("short", lambda n: n - 4), ("none", lambda n: 0), ("long", lambda n: n + 4), ("odd", lambda n: n - 1)):
        yield f"raw data {name}", changed(model, lambda g, length=length: raw_length(g, length))
    huge = ([1 << 62, 4], [-1, 8], [0, 5], [1 << 31, 1 << 31], [1 << 40], [-(1 << 63)], [1] * 100, [], [(1 << 63) - 1] * 3)
    for sizes in huge:
        yield f"tensor of {sizes[:4]}", changed(model, lambda g, sizes=sizes: dims(g, sizes))
    for size in (-1, -5, 0, 1 << 31, 1 << 50, (1 << 63) - 1):
        yield f"input dimensions of {size}", changed(model, lambda g, size=size: input_dims(g, size))


def wrong_graphs(model):
    def cycle(graph):
        graph.node[0].input[0] = graph.node[-1].output[0]

    def itself(graph):
        graph.node[0].input[0] = graph.node[0].output[0]

    def backwards(graph):
        nodes = list(graph.node)[::-1]
        del graph.node[:]
        graph.node.extend(nodes)

    def twice(graph):
        graph.node.append(graph.node[0])

    def nameless(graph):
        for node in graph.node:
            node.ClearField("output")

    def no_inputs(graph):
        for node in graph.node:
            node.ClearField("input")

    def many_outputs(graph):
        graph.node[0].output.extend(f"more{i}" for i in range(1000))

    def same_initializers(graph):
        graph.initializer.append(graph.initializer[0])

    def attributes(graph, number):
        for node in graph.node:
            for attribute in node.attribute:
                attribute.i = number
                for i in range(len(attribute.ints)):
                    attribute.ints[i] = number
                attribute.f = float("nan")

    def typeless(graph, kind):
        for tensor in graph.initializer:
            tensor.data_type = kind

    def names(graph):
        for node in graph.node:
            node.name = "a\nb\x1b[31m\t" * 50

    def no_output(graph):
        del graph.output[:]

    def other_output(graph):
        graph.output[0].name = "nobody"

    changes = {
        "a cycle": cycle, "a node that reads itself": itself, "nodes backwards": backwards, "a node twice": twice,
        "nodes without outputs": nameless, "nodes without inputs": no_inputs, "a thousand outputs": many_outputs,
        "an initializer twice": same_initializers, "names with control characters": names, "no output": no_output,
        "an output that nothing computes": other_output,
    }
    for name, change in changes.items():
        yield name, changed(model, change)
    for number in (0, -1, -(1 << 63), (1 << 63) - 1, 1 << 31, 100):
        yield f"all attributes {number}", changed(model, lambda g, number=number: attributes(g, number))
    for kind in (0, 7, 8, 14, 99, -1):
        yield f"tensors of type {kind}", changed(model, lambda g, kind=kind: typeless(g, kind))


# ---- External data and control flow ----


def small_model(nodes, tensors, inputs=("input",), outputs=("output",)):
    ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 4]) for n in names] for names in (inputs, outputs)]
    graph = helper.make_graph(nodes, "hostile", *ports, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def external_model(location, offset=0, length=64):
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    return small_model([helper.make_node("MatMul", ["input", "w"], ["output"])], [tensor])


def external(secret):
    """`secret` is a file outside of the folder, long enough for the tensor."""

    def beside(location, link=None, **place):
        def write(folder):
            inner = os.path.join(folder, "inner")
            os.makedirs(inner)
            with open(os.path.join(folder, "outside.bin"), "wb") as file:
                file.write(b"\0" * 64)
            if link:
                os.symlink(link, os.path.join(inner, location.split("/")[0]))
            path = os.path.join(inner, "model.onnx")
            onnx.save(external_model(location, **place), path)
            return path

        return write

    yield "external ..", beside("../outside.bin")
    yield "external a/../..", beside("a/../../outside.bin")
    yield "external absolute", beside(secret)
    yield "external symlink out", beside("link.bin", link=secret)
    yield "external symlink to a folder", beside("sub/outside.bin", link="..")
    yield "external symlink to itself", beside("loop.bin", link="loop.bin")
    yield "external missing", beside("nowhere.bin")
    yield "external empty name", beside("")
    yield "external the folder", beside(".")
    yield "external a device", beside("zero", link="/dev/zero")
    yield "external the model itself", beside("model.onnx")
    for offset, length in ((-1, 64), (1 << 62, 64), (0, -1), (0, 1 << 62), (1, 1), ("x", "y"), ((1 << 63) - 8, 64)):
        yield f"external at {offset}, {length}", beside("model.onnx", offset=offset, length=length)
    yield "external name of 100000", beside("a" * 100000)


def field(number, payload):
    """A field of bytes in protobuf's wire format."""
    length, head = len(payload), bytearray()
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 | 2]) + bytes(head) + bytes([length]) + payload


def nested(depth):
    """A model whose only node is an If that holds a graph with an If, and so on; deeper than protobuf itself writes."""
    graph = b""
    for _ in range(depth):
        attribute = field(1, b"then_branch") + field(6, graph) + b"\xa0\x01\x05"  # type: GRAPH
        node = field(1, b"yes") + field(2, b"output") + field(4, b"If") + field(5, attribute)
        graph = field(1, node)
    rest = small_model([], [numpy_helper.from_array(np.array(True), "yes")])
    graph += rest.graph.SerializeToString()
    rest.ClearField("graph")
    return rest.SerializeToString() + field(7, graph)


def control_flow():
    branch = helper.make_graph(
        [helper.make_node("Identity", ["input"], ["y"])], "branch", [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])]
    )
    yes = numpy_helper.from_array(np.array(True), "yes")
    node = helper.make_node("If", ["yes"], ["output"], then_branch=branch, else_branch=branch)
    yield "If", save_model(small_model([node], [yes]))
    for depth in (20, 2000):
        yield f"If in If, {depth} deep", save_bytes(nested(depth))
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Identity", ["x"], ["y"])], "body",
        [helper.make_tensor_value_info(n, t, []) for n, t in (("i", 7), ("c", 9), ("x", 1))],
        [helper.make_tensor_value_info(n, t, []) for n, t in (("d", 9), ("y", 1))]
    )
    many = numpy_helper.from_array(np.array((1 << 63) - 1), "many")
    yield "Loop", save_model(small_model([helper.make_node("Loop", ["many", "yes", "input"], ["output"], body=body)], [yes, many]))
    yield "an unknown node", save_model(small_model([helper.make_node("Frob", ["input"], ["output"], domain="evil")], []))


def large_results():
    """Nodes whose results would not fit anywhere."""

    def integers(name, *numbers):
        return numpy_helper.from_array(np.array(numbers, np.int64), name)

    w = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    first = helper.make_node("MatMul", ["input", "w"], ["x"])
    for name, nodes, tensors in (
        ("ConstantOfShape", [helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("Add", ["x", "c"], ["output"])],
         [integers("s", 1 << 20, 1 << 20, 1 << 20)]),
        ("Expand", [helper.make_node("Expand", ["x", "s"], ["output"])], [integers("s", 1 << 40, 2, 4)]),
        ("Tile", [helper.make_node("Tile", ["x", "s"], ["output"])], [integers("s", 1 << 40, 1 << 40)]),
        ("Range", [helper.make_node("Range", ["a", "b", "c"], ["r"]), helper.make_node("Gather", ["x", "r"], ["output"])],
         [numpy_helper.from_array(np.array(n), k) for k, n in (("a", 0), ("b", 1 << 60), ("c", 1))]),
        ("Range of step 0", [helper.make_node("Range", ["a", "b", "c"], ["r"]), helper.make_node("Gather", ["x", "r"], ["output"])],
         [numpy_helper.from_array(np.array(n), k) for k, n in (("a", 0), ("b", 9), ("c", 0))]),
        ("Reshape", [helper.make_node("Reshape", ["x", "s"], ["output"])], [integers("s", -1, -1, 1 << 62)]),
        ("Slice", [helper.make_node("Slice", ["x", "s", "e", "a", "p"], ["output"])],
         [integers("s", -(1 << 63)), integers("e", (1 << 63) - 1), integers("a", 0), integers("p", -(1 << 63))]),
        ("Gather", [helper.make_node("Gather", ["x", "s"], ["output"])], [integers("s", 5, -9)]),
        ("Split", [helper.make_node("Split", ["x", "s"], ["output", "b"])], [integers("s", 1 << 62, 2)]),
        ("Transpose", [helper.make_node("Transpose", ["x"], ["output"], perm=[0, 0])], []),
        ("Div by 0", [helper.make_node("Div", ["s", "z"], ["d"]), helper.make_node("Reshape", ["x", "d"], ["output"])],
         [integers("s", -(1 << 63), 4), integers("z", -1, 0)]),
    ):
        yield f"{name} too large or wrong", save_model(small_model([first, *nodes], [w, *tensors]))


def all_cases(models, secret, flips=200, seed=1):
    """models: paths of real files, small ones."""
    for path in models:
        model = onnx.load(path)
        data = model.SerializeToString()
        label = os.path.basename(path)
        for generator in (truncated(data), flipped(data, flips, seed), spliced(data, flips // 4, seed), wrong_sizes(model), wrong_graphs(model)):
            for name, write in generator:
                yield f"{label}: {name}", write
    for generator in (external(secret), control_flow(), large_results()):
        yield from generator
    for name, data in (("empty", b""), ("zeros", bytes(1000)), ("text", b"hello\n" * 50), ("ones", b"\xff" * 1000)):
        yield name, save_bytes(data)
