"""A ResNet of any depth as a training graph: bottleneck blocks, forward and backward, in four stages as in ResNet-50.

    write(path, ops)      # writes a neap-graph file with about `ops` ops; returns the exact number

Sizes are those of f32 images of 224 x 224, BATCH at a time. The time of an op is the larger of an H200's compute time
and memory time, plus a launch. The backward op of a relu reads its output; those of normalizations and convolutions
read their inputs.
"""

import json

BATCH = 64
STAGES = ((3, 64, 56), (4, 128, 28), (6, 256, 14), (3, 512, 7))  # share of the blocks, width, side
EXPANSION = 4  # channels of a block's output for one of its width
FLOPS, BYTES, LAUNCH = 300e12, 3.6e12, 3e-6  # a second, a second, seconds
OPS_A_BLOCK = 20


class Builder:
    def __init__(self):
        self.values, self.ops, self.outputs, self.tape = [], [], [], []

    def value(self, name, count, kind):
        self.values.append({"name": name, "bytes": 4 * count, "kind": kind})
        return len(self.values) - 1

    def op(self, name, kind, reads, makes, flops=0, back=False, workspace=0):
        moved = sum(self.values[v]["bytes"] for v in (*reads, *makes))
        time = LAUNCH + max(flops / FLOPS, moved / BYTES)
        self.ops.append({"name": name, "type": kind, "pass": "backward" if back else "forward", "inputs": list(reads),
                         "outputs": list(makes), "time": time, "workspace": workspace})  # fmt: skip

    def elements(self, value):
        return self.values[value]["bytes"] // 4

    # Each layer makes its output, and leaves on the tape how the gradient of that becomes gradients of what it read.

    def conv(self, name, x, channels, width, side, kernel):
        weight = self.value(f"{name}.weight", channels * width * kernel * kernel, "parameter")
        y = self.value(name, BATCH * width * side * side, "activation")
        flops = 2 * BATCH * side * side * width * channels * kernel * kernel
        self.op(name, "conv", (x, weight), (y,), flops, workspace=self.elements(y) if kernel > 1 else 0)

        def back(gradient):
            dw = self.value(f"{name}.weight.grad", self.elements(weight), "gradient")
            dx = self.value(f"{name}.dx", self.elements(x), "gradient")
            self.outputs.append(dw)
            scratch = 2 * self.elements(y) if kernel > 1 else 0
            self.op(f"{name}.bw", "conv_bw", (x, weight, gradient), (dx, dw), 2 * flops, True, scratch)
            return dx

        return y, back

    def layer(self, name, kind, x):
        """relu or a normalization: as many numbers out as in."""
        y = self.value(name, self.elements(x), "activation")
        self.op(name, kind, (x,), (y,))

        def back(gradient):
            dx = self.value(f"{name}.dx", self.elements(x), "gradient")
            self.op(f"{name}.bw", f"{kind}_bw", (y if kind == "relu" else x, gradient), (dx,), back=True)
            return dx

        return y, back

    def sum(self, name, a, b, back=False):
        y = self.value(name, self.elements(a), "gradient" if back else "activation")
        self.op(name, "add", (a, b), (y,), back=back)
        return y

    def chain(self, name, x, layers):
        """Convolutions, each normalized, all but the last with a relu; ([channels, width, side, kernel], ...)."""
        backs = []
        for i, sizes in enumerate(layers, 1):
            x, back = self.conv(f"{name}.conv{i}", x, *sizes)
            backs.append(back)
            x, back = self.layer(f"{name}.norm{i}", "norm", x)
            backs.append(back)
            if i < len(layers):
                x, back = self.layer(f"{name}.relu{i}", "relu", x)
                backs.append(back)
        return x, backs

    def block(self, name, x, channels, width, side):
        wide = EXPANSION * width
        y, backs = self.chain(name, x, ((channels, width, side, 1), (width, width, side, 3), (width, wide, side, 1)))
        short, short_backs = self.chain(f"{name}.short", x, ((channels, wide, side, 1),)) if channels != wide else (x, [])
        y, relu_back = self.layer(f"{name}.relu", "relu", self.sum(f"{name}.add", y, short))

        def back(gradient):
            gradient = through = relu_back(gradient)
            for step in reversed(backs):
                gradient = step(gradient)
            for step in reversed(short_backs):
                through = step(through)
            return self.sum(f"{name}.add.bw", gradient, through, True)

        self.tape.append(back)
        return y, wide


def build(ops):
    b = Builder()
    shares = sum(share for share, _, _ in STAGES)
    channels = 64
    x = b.value("images", BATCH * channels * STAGES[0][2] ** 2, "input")
    for stage, (share, width, side) in enumerate(STAGES, 1):
        for i in range(max(1, round(ops / OPS_A_BLOCK * share / shares))):
            x, channels = b.block(f"stage{stage}.{i}", x, channels, width, side)
    loss = b.value("loss", 1, "activation")
    b.op("loss", "loss", (x,), (loss,))
    gradient = b.value("loss.dx", b.elements(x), "gradient")
    b.op("loss.bw", "loss_bw", (x, loss), (gradient,), back=True)
    b.outputs.append(loss)
    for back in reversed(b.tape):
        gradient = back(gradient)
    return {"neap": "graph", "version": 1, "name": f"resnet_{len(b.ops)}", "fixed_bytes": 0, "values": b.values,
            "ops": b.ops, "outputs": b.outputs}  # fmt: skip


def write(path, ops):
    graph = build(ops)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(graph, file, separators=(",", ":"))
    return len(graph["ops"])
