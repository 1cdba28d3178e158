"""DenseNet-121 as the chain of torchvision's modules, as planned in Butt's thesis.

A dense layer returns its input and its 32 new channels in one tensor, so a block is a sequence. (In the built-in
densenet121 every layer reads the previous ones separately; then a block is one stage.) There are 78 modules:
convolution, norm, ReLU and pool; 58 dense layers; three transitions of four modules; norm, ReLU, pool, classifier with
loss. Each has one forward and one backward op. A backward op reads its module's input, its output if the module is a
ReLU, and what a dense layer keeps inside: the inputs of both norms and convolutions. Times are the larger of compute
time at 10.6 Tflop/s and memory traffic at 732 GB/s, the figures of a P100.
"""

FLOPS, BANDWIDTH = 10.6e12, 732e9
BLOCKS, GROWTH, BOTTLENECK = (6, 12, 24, 16), 32, 128
F32 = 4


class Chain:
    """The graph under construction; sizes are counted for the whole batch."""

    def __init__(self, batch):
        self.batch = batch
        self.values, self.ops, self.outputs = [], [], []
        self.modules = []  # (name, input, output, kept, weights, flops, traffic)

    def value(self, name, size, kind):
        self.values.append({"name": name, "bytes": size, "kind": kind})
        return len(self.values) - 1

    def op(self, name, phase, inputs, outputs, flops, traffic):
        time = max(flops / FLOPS, traffic / BANDWIDTH)
        self.ops.append({"name": name, "pass": phase, "inputs": inputs, "outputs": outputs, "time": time})

    def module(self, name, below, channels, side, flops=0, inner=0, weights=0, reads_output=False):
        """Adds a forward op. `flops` is for one image, `inner` the elements kept inside for one image."""
        size = F32 * self.batch * channels * side * side
        output = self.value(name, size, "activation")
        kept = [self.value(f"{name}.kept", F32 * self.batch * inner, "activation")] if inner else []
        traffic = self.values[below]["bytes"] + size + 2 * F32 * self.batch * inner + F32 * weights
        parameter = [self.value(f"{name}.weight", F32 * weights, "parameter")] if weights else []
        self.op(name, "forward", [below] + parameter, [output] + kept, flops * self.batch, traffic)
        reads = kept + ([output] if reads_output else [below]) + parameter
        self.modules.append((name, below, reads, weights, flops, traffic))
        return output

    def finish(self, output):
        """The loss, and every module's backward op."""
        loss = self.value("loss", F32, "activation")
        self.op("loss", "forward", [output], [loss], 0, self.values[output]["bytes"])
        gradient = self.value("d.output", self.values[output]["bytes"], "gradient")
        self.op("loss.bw", "backward", [loss, output], [gradient], 0, 2 * self.values[output]["bytes"])
        for name, below, reads, weights, flops, traffic in reversed(self.modules):
            outputs = []
            if below:
                outputs.append(self.value(f"d.{name}.input", self.values[below]["bytes"], "gradient"))
            if weights:
                result = self.value(f"d.{name}.weight", F32 * weights, "gradient")
                outputs.append(result)
                self.outputs.append(result)
            self.op(f"{name}.bw", "backward", [gradient, *reads], outputs, 2 * flops * self.batch, 2 * traffic)
            gradient = outputs[0]
        self.outputs.append(loss)


def convolution(channels, filters, kernel, side):
    """flops of one image, weights."""
    weights = channels * filters * kernel * kernel
    return 2 * weights * side * side, weights


def dense_layer(chain, name, below, channels, side):
    """Norm, ReLU, 1 x 1 convolution to 128 channels, norm, ReLU, 3 x 3 convolution to 32; then the two joined."""
    first, first_weights = convolution(channels, BOTTLENECK, 1, side)
    second, second_weights = convolution(BOTTLENECK, GROWTH, 3, side)
    inner = (channels + 2 * BOTTLENECK) * side * side
    weights = first_weights + second_weights + 2 * channels + 2 * BOTTLENECK
    return chain.module(name, below, channels + GROWTH, side, first + second, inner, weights)


def graph(batch):
    chain = Chain(batch)
    at = chain.value("images", F32 * batch * 3 * 224 * 224, "input")
    flops, weights = convolution(3, 64, 7, 112)
    at = chain.module("conv0", at, 64, 112, flops, weights=weights)
    at = chain.module("norm0", at, 64, 112, weights=128)
    at = chain.module("relu0", at, 64, 112, reads_output=True)
    at = chain.module("pool0", at, 64, 56)
    channels, side = 64, 56
    for block, layers in enumerate(BLOCKS, 1):
        for layer in range(1, layers + 1):
            at = dense_layer(chain, f"block{block}.layer{layer}", at, channels, side)
            channels += GROWTH
        name = f"transition{block}" if block < len(BLOCKS) else "last"
        at = chain.module(f"{name}.norm", at, channels, side, weights=2 * channels)
        at = chain.module(f"{name}.relu", at, channels, side, reads_output=True)
        if block == len(BLOCKS):
            break
        flops, weights = convolution(channels, channels // 2, 1, side)
        channels //= 2
        at = chain.module(f"{name}.conv", at, channels, side, flops, weights=weights)
        side //= 2
        at = chain.module(f"{name}.pool", at, channels, side)
    at = chain.module("pool", at, channels, 1)
    flops, weights = convolution(channels, 1000, 1, 1)
    chain.finish(chain.module("classifier", at, 1000, 1, flops, weights=weights))
    return {"neap": "graph", "version": 1, "name": f"densenet121_chain_b{batch}", "fixed_bytes": 0,
            "values": chain.values, "ops": chain.ops, "outputs": chain.outputs}  # fmt: skip
