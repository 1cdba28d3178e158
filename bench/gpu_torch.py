"""Training steps in eager PyTorch, the peer of backend cuda: the networks that neap has, in the same sizes.

    gpu_torch.py resnet50:tf32 vgg19:f32 ...      # a line of JSON each
    gpu_torch.py --serve                          # requests as lines of JSON on standard input (gpu_runs.Torch)

A step is forward, loss, backward and SGD. cudnn.benchmark is on; after a warm-up, the median of the steps by CUDA events,
and torch.cuda.max_memory_allocated of the timed steps. Convolutional networks are run channels-first in f32, channels-last in
bf16, both ways in tf32; bf16 with autocast and with all parameters in bf16; the fastest of these ways counts, and the answer names it and has the
others. Dropout is as in neap's network: none in GPT-2.

A request is {"network", "type", and optionally "batch", "size" (pixels or tokens), "brief": true (only the last of the ways,
which is most often the fastest), "checkpoints" (a set of Hong et al.), "offload": true (save_on_cpu with pinned memory), "max_batch": bytes, "phases": true}.
"""

import contextlib
import gc
import json
import statistics
import sys
import time
import types

try:
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    import torch_models
    from torch_models import _images, _tokens

    MISSING = None
except ImportError as failure:
    MISSING, nn = f"no PyTorch: {failure}", types.SimpleNamespace(Module=object)

DEVICE = "cuda"
IMAGES = {  # network: batch, pixels
    "resnet50": (128, 224), "resnet101": (64, 224), "vgg16": (128, 224), "vgg19": (128, 224), "densenet121": (64, 224),
    "densenet201": (64, 224), "mobilenet_v2": (128, 224), "vit_b_16": (64, 224), "inception_v3": (64, 224),
    "unet": (16, 416), "hong-vgg19": (128, 224), "hong-alexnet": (128, 224),
}  # fmt: skip
TOKENS = {"bert-base": (32, 384), "gpt2": (8, 1024)}  # network: batch, length
CONVOLUTIONS = set(IMAGES) - {"vit_b_16"}


# ---- Networks ----


def build(name, batch=None, size=None, checkpoints=None):
    """The workload of torch_models, on the device, with equal weights each time."""
    torch.manual_seed(0)
    if name not in IMAGES and name not in TOKENS:
        raise ValueError(f"no network {name} in PyTorch here")
    sizes = IMAGES.get(name) or TOKENS[name]
    batch, size = batch or sizes[0], size or sizes[1]
    with torch.device(DEVICE):
        if name in TOKENS:
            network, words = language_model(name)
            workload = _tokens(network, [], DEVICE, batch, size, words)
        elif name == "unet":
            workload = segmentation(torch_models.UNet(), batch, size)
        elif name.startswith("hong-"):
            workload = _images(HongChain(name, checkpoints), [], DEVICE, batch, size)
        else:
            workload = _images(image_network(name), [], DEVICE, batch, size)
    workload.module.to(DEVICE)
    return workload


def image_network(name):
    import torchvision.models

    if name == "inception_v3":  # no auxiliary head, as in bench/gpu_beaumont
        return torchvision.models.inception_v3(weights=None, aux_logits=False, init_weights=False)
    return getattr(torchvision.models, name)(weights=None)


def segmentation(network, batch, size):
    shape = (size, size) if isinstance(size, int) else tuple(size)
    images = torch.randn((batch, 3, *shape), device=DEVICE)
    labels = (images[:, 0] > 0).long()  # a class for each pixel
    return torch_models.Workload(torch_models.Loss(network).train(), (images, labels), [], f"b{batch}")


def language_model(name):
    from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

    if name == "gpt2":
        config = GPT2Config(use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        return GPT2LMHeadModel(config), config.vocab_size
    config = BertConfig()
    return BertForMaskedLM(config), config.vocab_size


def hong_layers(name):
    """The layers that Hong et al. number: VGG-19 has 24, AlexNet 15."""

    def conv(*sizes, **options):
        return nn.Sequential(nn.Conv2d(*sizes, **options), nn.ReLU(True))

    def full(*sizes):
        return nn.Sequential(nn.Linear(*sizes), nn.ReLU(True))

    if name == "hong-alexnet":
        pool = lambda: nn.MaxPool2d(2, 2)  # noqa: E731
        return [conv(3, 64, 11, stride=4, padding=5), pool(), conv(64, 192, 5, padding=2), pool(),
                conv(192, 384, 3, padding=1), conv(384, 256, 3, padding=1), conv(256, 256, 3, padding=1), pool(),
                nn.AdaptiveAvgPool2d(6), nn.Flatten(), nn.Dropout(), full(256 * 36, 4096), nn.Dropout(), full(4096, 4096),
                nn.Linear(4096, 1000)]  # fmt: skip
    layers, width = [], 3
    for count, channels in ((2, 64), (2, 128), (4, 256), (4, 512), (4, 512)):
        for _ in range(count):
            layers.append(conv(width, channels, 3, padding=1))
            width = channels
        layers.append(nn.MaxPool2d(2, 2))
    first = nn.Sequential(nn.Flatten(), nn.Linear(512 * 49, 4096), nn.ReLU(True))
    return [*layers, first, full(4096, 4096), nn.Linear(4096, 1000)]


class HongChain(nn.Module):
    """A chain of layers, with torch.utils.checkpoint between the checkpoints of a set; None: all is kept."""

    def __init__(self, name, checkpoints):
        super().__init__()
        self.layers, self.checkpoints, self.record = nn.ModuleList(hong_layers(name)), checkpoints, None

    def span(self, x, first, end):
        for k in range(first, end):
            x = self.layers[k](x)
            if self.record:
                self.record(k, x)
        return x

    def forward(self, x):
        begin = 0
        for end in self.checkpoints or ():
            x = checkpoint(self.span, x, begin, end, use_reentrant=False)
            begin = end
        return self.span(x, begin, len(self.layers))


# ---- Ways to run a step ----


def ways_of(network, kind, quick=False):
    """(casting, channels-last) of each way."""
    casts = ("autocast", "pure") if kind == "bf16" else ("",)
    layouts = {"f32": (False,), "tf32": (False, True), "bf16": (True,)}[kind]  # the other one is slow
    if quick or network not in CONVOLUTIONS:
        layouts = (False,)
    return [(cast, last) for cast in casts for last in layouts]


def way_name(cast, last):
    return ", ".join(word for word in (cast, "channels-last" if last else "") if word) or "plain"


class Step:
    """A training step: forward, loss, backward, SGD."""

    def __init__(self, workload, kind, cast="", last=False, offload=False):
        tf32 = kind != "f32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        self.module, self.inputs = workload.module, workload.inputs
        if cast == "pure":
            self.module.to(torch.bfloat16)
            self.inputs = tuple(x.to(torch.bfloat16) if x.is_floating_point() else x for x in self.inputs)
        if last:
            self.module.to(memory_format=torch.channels_last)
            self.inputs = tuple(x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in self.inputs)
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=1e-3)
        self.cast, self.offload = cast, offload

    def around(self):
        stack = contextlib.ExitStack()
        if self.cast == "autocast":
            stack.enter_context(torch.autocast(DEVICE, torch.bfloat16))
        if self.offload:
            stack.enter_context(torch.autograd.graph.save_on_cpu(pin_memory=True))
        return stack

    def __call__(self):
        with self.around():
            loss = self.module(*self.inputs)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def timed(step, steps, warmup):
    """(milliseconds, MiB): the median of the steps, and the peak of what was allocated in them."""
    if DEVICE == "cpu":
        return 1e3 * statistics.median(host_seconds(step) for _ in range(steps)), None
    for _ in range(warmup):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(steps)]
    for begin, end in marks:
        begin.record()
        step()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in marks), torch.cuda.max_memory_allocated() / 2**20


def host_seconds(step):
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def release():
    gc.collect()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()


# ---- Answers ----


def measure(request):
    """The fastest way: {"ms", "mib", "way", "ways": {name: [ms, mib]}}."""
    network, kind = request["network"], request.get("type", "f32")
    steps, warmup = request.get("steps", 10), request.get("warmup", 5)
    found, failures = {}, []
    ways = ways_of(network, kind, request.get("quick"))
    for cast, last in ways[-1:] if request.get("brief") else ways:
        step = None
        try:
            workload = build(network, request.get("batch"), request.get("size"), request.get("checkpoints"))
            step = Step(workload, kind, cast, last, request.get("offload", False))
            del workload
            found[way_name(cast, last)] = timed(step, steps, warmup)
        except (RuntimeError, ValueError, ImportError) as failure:  # out of memory is a RuntimeError
            failures.append(f"{way_name(cast, last)}: {str(failure).splitlines()[0]}")
        del step
        release()
    if not found:
        return {"error": "; ".join(failures)}
    best = min(found, key=lambda way: found[way][0])
    return {"ms": found[best][0], "mib": found[best][1], "way": best, "ways": found, "failures": failures}


def fits(request, batch):
    """Whether two steps with this batch succeed."""
    try:
        step = Step(build(request["network"], batch, request.get("size")), request.get("type", "f32"))
        step()
        step()
        torch.cuda.synchronize()
        return True
    except torch.cuda.OutOfMemoryError:
        return False
    finally:
        step = None
        release()


def largest_batch(request):
    """The largest batch that trains when the allocator may take so many bytes, to 2%."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.backends.cudnn.benchmark = False  # its trials would take most of the time
    release()
    torch.cuda.set_per_process_memory_fraction(min(1.0, request["max_batch"] / total))
    try:
        good, bad = 0, 8
        while fits(request, bad):
            good, bad = bad, 2 * bad
        while bad - good > max(1, good // 50):
            middle = (good + bad) // 2
            good, bad = (middle, bad) if fits(request, middle) else (good, middle)
        return {"batch": good}
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.backends.cudnn.benchmark = True


def phases(request):
    """What is allocated at the end of each training phase of a chain of Hong et al., and of that parameters and their
    gradients, in bytes. Phase n + 1 - i of the backward pass ends when the gradient of what layer i reads is there."""
    workload = build(request["network"], request.get("batch"), request.get("size"), request.get("checkpoints"))
    step, chain = Step(workload, request.get("type", "f32")), workload.module.network
    count, forward = len(chain.layers), True
    step()
    sizes = [sum(p.numel() * p.element_size() for p in layer.parameters()) for layer in chain.layers]
    before = torch.cuda.memory_allocated()
    constant = [sum(sizes)] * count + [sum(sizes) + sum(sizes[i:]) for i in range(count - 1, -1, -1)]
    seen = [None] * (2 * count)

    def record(k, x):
        if not forward:
            return
        seen[k] = torch.cuda.memory_allocated()
        if k < count - 1:
            x.register_hook(lambda _: seen.__setitem__(2 * count - 2 - k, torch.cuda.memory_allocated()))

    chain.record = record
    loss = step.module(*step.inputs)
    forward = False
    loss.backward()
    seen[-1] = torch.cuda.memory_allocated()
    return {"memory": seen, "constant": constant, "before": before}


def answer(request):
    if MISSING:
        return {"error": MISSING}
    try:
        if DEVICE == "cuda" and not torch.cuda.is_available():
            return {"error": "PyTorch has no GPU"}
        torch.backends.cudnn.benchmark = True
        if "max_batch" in request:
            return largest_batch(request)
        return phases(request) if request.get("phases") else measure(request)
    except (RuntimeError, ValueError, ImportError) as failure:
        return {"error": str(failure).splitlines()[0]}
    finally:
        release()


def main():
    if sys.argv[1:] == ["--serve"]:
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line))), flush=True)
        return
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for word in sys.argv[1:]:
        network, _, kind = word.partition(":")
        request = {"network": network, "type": kind or "tf32"}
        print(json.dumps({**request, **answer(request)}), flush=True)


if __name__ == "__main__":
    main()
