"""Training graphs as Checkmate models them: Keras layers, each with one gradient node.

A node is a layer with its activation; every layer's output is a value, including padding and reshapes. The gradient
node of a layer computes the gradient of its output, which is as large as the output, at twice the layer's
multiply-accumulates. It reads the output, the outputs of the layers that read it, and their gradients. Twice the
parameters are fixed bytes. Images are not counted. The segmentation networks are those of the package
keras_segmentation, whose decoders end at half the resolution; U-Net and FCN8 have VGG encoders. Times are
10^-12 s a multiply-accumulate; --device takes those of a device instead, by FLOPs and bytes. A graph of one image
serves `neap max-batch FILE --batch-of 1`, which scales it.
"""

import json
from math import prod


class Network:
    """Layers in order: (kind, shape of the output, layers read, multiply-accumulates). Layer -1 is the image."""

    def __init__(self, height, width):
        self.image, self.layers, self.parameters = (height, width, 3), [], 0

    def shape(self, layer):
        return self.image if layer < 0 else self.layers[layer][1]

    def add(self, kind, shape, reads, work=0, parameters=0):
        self.layers.append((kind, shape, reads, work))
        self.parameters += parameters
        return len(self.layers) - 1

    def same(self, kind, x, work=0, parameters=0):
        """A layer whose output has its input's shape; `work` per element."""
        return self.add(kind, self.shape(x), [x], work * prod(self.shape(x)), parameters)

    def conv(self, x, channels, kernel=3, stride=1, same=True, bias=True):
        height, width, depth = self.shape(x)
        cut = 0 if same else kernel - 1
        out = (-(-(height - cut) // stride), -(-(width - cut) // stride), channels)
        taps = kernel * kernel * depth
        return self.add("conv", out, [x], taps * prod(out), taps * channels + bias * channels)

    def depthwise(self, x, stride):
        height, width, channels = self.shape(x)
        cut = 2 if stride > 1 else 0
        out = (-(-(height - cut) // stride), -(-(width - cut) // stride), channels)
        return self.add("depthwise", out, [x], 9 * prod(out), 9 * channels)

    def norm(self, x):
        return self.same("norm", x, 4, 4 * self.shape(x)[-1])

    def relu(self, x):
        return self.same("relu", x, 1)

    def norm_relu(self, x):
        return self.relu(self.norm(x))

    def pool(self, x, size=2):
        height, width, channels = self.shape(x)
        return self.add("pool", ((height - size) // 2 + 1, (width - size) // 2 + 1, channels), [x])

    def pad(self, x, more=2):
        height, width, channels = self.shape(x)
        return self.add("pad", (height + more, width + more, channels), [x])

    def double(self, x):
        height, width, channels = self.shape(x)
        return self.add("up", (2 * height, 2 * width, channels), [x], 4 * prod(self.shape(x)))

    def concat(self, x, y):
        height, width, channels = self.shape(x)
        return self.add("concat", (height, width, channels + self.shape(y)[2]), [x, y])

    def plus(self, x, y):
        return self.add("add", self.shape(x), [x, y], 2 * prod(self.shape(x)))

    def crop(self, x, height, width):
        return self.add("crop", (height, width, self.shape(x)[2]), [x])

    def transposed(self, x, channels, kernel, stride):
        height, width, depth = self.shape(x)
        out = ((height - 1) * stride + kernel, (width - 1) * stride + kernel, channels)
        return self.add("transposed", out, [x], depth * prod(out), kernel * kernel * depth * channels)

    def flat(self, x, size=None):
        return self.add("flat", (size or prod(self.shape(x)),), [x])

    def dense(self, x, channels):
        (depth,) = self.shape(x)
        return self.add("dense", (channels,), [x], depth * channels, (depth + 1) * channels)

    def graph(self, name, batch=1):
        """The joint graph: layer i is op i, the loss op n, the gradient of layer i op 2 n - i."""
        n = len(self.layers)
        readers = [[i for i, layer in enumerate(self.layers) if j in layer[2]] for j in range(n)]
        values = [{"name": f"{layer[0]}{i}", "bytes": 4 * batch * prod(layer[1])} for i, layer in enumerate(self.layers)]
        values += [{"name": "loss", "bytes": 4 * batch}]
        values += [{"name": f"grad{i}", "bytes": values[i]["bytes"]} for i in reversed(range(n))]
        ops = []

        def op(name, direction, reads, makes, work):
            moved = sum(values[v]["bytes"] for v in (*reads, makes))
            ops.append({"name": name, "pass": direction, "inputs": reads, "outputs": [makes], "flops": 2 * batch * work,
                        "bytes_moved": moved, "time": batch * work * 1e-12})  # fmt: skip

        for i, layer in enumerate(self.layers):
            op(values[i]["name"], "forward", [j for j in layer[2] if j >= 0], i, layer[3])
        op("loss", "forward", [n - 1], n, 0)
        for i in reversed(range(n)):
            reads = [i, *readers[i], *(2 * n - j for j in readers[i]), *([n] if i == n - 1 else [])]
            op(f"grad{i}", "backward", reads, 2 * n - i, 2 * self.layers[i][3])
        return {"neap": "graph", "version": 1, "name": name, "fixed_bytes": 8 * self.parameters, "values": values,
                "ops": ops, "outputs": [2 * n]}  # fmt: skip


def vgg_blocks(net, blocks):
    """Convolutions and a pool for each block; the pools."""
    x, pools = -1, []
    for channels, count in blocks:
        for _ in range(count):
            x = net.conv(x, channels)
        x = net.pool(x)
        pools.append(x)
    return pools


VGG16 = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))


VGG19 = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))


def vgg(blocks):
    net = Network(224, 224)
    x = net.flat(vgg_blocks(net, blocks)[-1])
    for channels in (4096, 4096, 1000):
        x = net.dense(x, channels)
    return net


def vgg16():
    return vgg(VGG16)


def vgg19():
    return vgg(VGG19)


def mobilenet():
    net = Network(224, 224)
    x = net.norm_relu(net.conv(net.pad(-1, 1), 32, 3, 2, same=False, bias=False))
    for channels, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)):
        x = net.norm_relu(net.depthwise(net.pad(x, 1) if stride == 2 else x, stride))
        x = net.norm_relu(net.conv(x, channels, 1, bias=False))
    x = net.add("reshape", (1, 1, 1024), [net.flat(x, 1024)])
    x = net.conv(net.same("dropout", x), 1000, 1)
    net.relu(net.same("reshape", x))
    return net


def resnet50():
    net = Network(224, 224)
    x = net.norm_relu(net.conv(net.pad(-1, 6), 64, 7, 2, same=False))
    x = net.pool(net.pad(x), 3)
    for width, count, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(count):
            stride, shortcut = (first, None) if block == 0 else (1, x)
            y = net.norm_relu(net.conv(x, width, 1, stride))
            y = net.norm(net.conv(net.norm_relu(net.conv(y, width)), 4 * width, 1))
            if shortcut is None:
                shortcut = net.norm(net.conv(x, 4 * width, 1, stride))
            x = net.relu(net.plus(shortcut, y))
    net.dense(net.flat(x, 2048), 1000)
    return net


def finish_segmentation(net, x):
    net.relu(net.same("reshape", net.conv(x, 19)))
    return net


def decoder_block(net, x, channels):
    return net.norm(net.conv(net.pad(x), channels, same=False))


def unet():
    net = Network(416, 608)
    pools = vgg_blocks(net, VGG16[:4])
    x = decoder_block(net, pools[3], 512)
    for channels, skip in ((256, pools[2]), (128, pools[1]), (64, pools[0])):
        x = decoder_block(net, net.concat(net.double(x), skip), channels)
    return finish_segmentation(net, x)


def segnet():
    net = Network(416, 608)
    x = -1
    for channels in (64, 128, 256, 256):
        x = net.pool(net.norm_relu(net.conv(net.pad(x), channels, same=False)))
    x = decoder_block(net, x, 512)
    for channels in (256, 128, 64):
        x = decoder_block(net, net.double(x), channels)
    return finish_segmentation(net, x)


def fcn8():
    net = Network(416, 608)
    pools = vgg_blocks(net, VGG16)
    x = net.same("dropout", net.conv(pools[4], 4096, 7))
    x = net.same("dropout", net.conv(x, 4096, 1))
    x = net.transposed(net.conv(x, 19, 1), 19, 4, 2)
    for pool, kernel, stride in ((pools[3], 4, 2), (pools[2], 16, 8)):
        height, width, _ = net.shape(pool)
        x = net.plus(net.crop(x, height, width), net.conv(pool, 19, 1))
        x = net.transposed(x, 19, kernel, stride)
    net.relu(net.same("reshape", x))
    return net


NETWORKS = {"unet": unet, "fcn8": fcn8, "segnet": segnet, "resnet50": resnet50, "vgg16": vgg16, "vgg19": vgg19,
            "mobilenet": mobilenet}  # fmt: skip


def write(name, path, batch=1):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(NETWORKS[name]().graph(name, batch), file)
    return path
