"""The networks of bench/torch_gpu: real sizes with random weights, or tiny ones with the same structure.

Each entry of MODELS builds a Workload: a module that computes the loss, its inputs, and the blocks that
torch.utils.checkpoint is applied to.
"""

import contextlib
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass
class Workload:
    """A training step: `module(*inputs)` is the loss."""

    module: nn.Module
    inputs: tuple
    blocks: list  # what checkpointing recomputes as a whole
    size: str
    tf32: bool = True
    random: bool = False  # draws random numbers: dropout, stochastic depth


class Loss(nn.Module):
    """Cross entropy of what the network predicts."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, inputs, labels):
        return functional.cross_entropy(self.network(inputs), labels)


class TokenLoss(nn.Module):
    """Cross entropy of the next or the masked token, in f32 as transformers computes it."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, tokens, labels):
        logits = self.network(input_ids=tokens).logits
        return functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def _generator(device):
    """Random numbers that are the same each time; a device without storage draws none."""
    device = torch.device(device)
    return None if device.type == "meta" else torch.Generator(device).manual_seed(1)


def _images(network, blocks, device, batch, side, classes=1000, **options):
    shape = (batch, 3, side, side)
    generator = _generator(device)
    images = torch.randn(shape, device=device, generator=generator)
    labels = torch.randint(classes, (batch,), device=device, generator=generator)
    return Workload(Loss(network).train(), (images, labels), blocks, f"b{batch} {side} px", **options)


def _tokens(network, blocks, device, batch, length, vocabulary, **options):
    generator = _generator(device)
    tokens, labels = torch.randint(vocabulary, (2, batch, length), device=device, generator=generator)
    module = TokenLoss(network).train()
    return Workload(module, (tokens.contiguous(), labels.contiguous()), blocks, f"b{batch} x {length}", **options)


def _instances(network, kind):
    return [module for module in network.modules() if isinstance(module, kind)]


# ---- convolutional networks ----


def resnet50(device, small):
    from torchvision.models import resnet

    network = resnet.ResNet(resnet.BasicBlock, [1, 1, 1, 1], num_classes=10) if small else resnet.resnet50()
    blocks = _instances(network, (resnet.BasicBlock, resnet.Bottleneck))
    return _images(network, blocks, device, *((4, 32, 10) if small else (128, 224)))


def vgg19(device, small):
    """In fp32. A block ends with a pooling layer; the classifier has dropout."""
    from torchvision.models import vgg

    if small:
        network = vgg.VGG(vgg.make_layers([8, "M", 16, 16, "M"]))
        network.classifier = nn.Sequential(nn.Linear(16 * 7 * 7, 32), nn.ReLU(True), nn.Dropout(), nn.Linear(32, 10))
    else:
        network = vgg.vgg19()
    groups, group = [], []
    for layer in network.features:
        group.append(layer)
        if isinstance(layer, nn.MaxPool2d):
            groups.append(nn.Sequential(*group))
            group = []
    network.features = nn.Sequential(*groups)
    sizes = (2, 32, 10) if small else (128, 224)
    return _images(network, groups, device, *sizes, tf32=False, random=True)


def densenet201(device, small):
    from torchvision.models import densenet

    if small:
        network = densenet.DenseNet(8, (2, 3, 2), 16, num_classes=10)
    else:
        network = densenet.densenet201()
    return _images(network, _instances(network, densenet._DenseLayer), device, *((2, 32, 10) if small else (64, 224)))


def convnext_t(device, small):
    return _convnext("convnext_tiny", device, small)


def convnext_b(device, small):
    return _convnext("convnext_base", device, small)


def _convnext(name, device, small):
    from torchvision.models import convnext

    if small:
        settings = [convnext.CNBlockConfig(8, 16, 2), convnext.CNBlockConfig(16, None, 2)]
        network = convnext.ConvNeXt(settings, stochastic_depth_prob=0.1, num_classes=10)
    else:
        network = getattr(convnext, name)()
    sizes = (2, 32, 10) if small else (64, 224)
    return _images(network, _instances(network, convnext.CNBlock), device, *sizes, random=True)


class DoubleConvolution(nn.Sequential):
    def __init__(self, inputs, outputs):
        layers = []
        for width in (inputs, outputs):
            layers += [nn.Conv2d(width, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True)]
        super().__init__(*layers)


class UNet(nn.Module):
    """U-Net (Ronneberger et al. 2015) with padding and batch norm: four levels, 64 to 1024 channels."""

    def __init__(self, width=64, levels=4, classes=2):
        super().__init__()
        widths = [width << level for level in range(levels + 1)]
        self.first = DoubleConvolution(3, width)
        self.down = nn.ModuleList(DoubleConvolution(a, b) for a, b in zip(widths, widths[1:]))
        pairs = list(zip(widths, widths[1:]))[::-1]
        self.raise_ = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairs)
        self.up = nn.ModuleList(DoubleConvolution(b, a) for a, b in pairs)
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, images):
        kept = [self.first(images)]
        for block in self.down:
            kept.append(block(functional.max_pool2d(kept[-1], 2)))
        result = kept.pop()
        for transpose, block in zip(self.raise_, self.up):
            result = block(torch.cat([kept.pop(), transpose(result)], 1))
        return self.last(result)


def unet(device, small):
    network = UNet(4, 2) if small else UNet()
    workload = _images(network, _instances(network, DoubleConvolution), device, *((2, 32) if small else (16, 416)))
    images, _ = workload.inputs
    labels = (images[:, 0] > 0).long()  # a class for each pixel
    workload.inputs = (images, labels)
    return workload


# ---- transformers ----


def vit_b_16(device, small):
    from torchvision.models import vision_transformer as vit

    network = vit.VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=10) if small else vit.vit_b_16()
    return _images(network, _instances(network, vit.EncoderBlock), device, *((2, 32, 10) if small else (64, 224)))


def bert(device, small):
    """BERT-base with its masked-token head."""
    from transformers import BertConfig, BertForMaskedLM

    sizes = dict(vocab_size=200, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
    config = BertConfig(**(sizes if small else {}))
    network = BertForMaskedLM(config)
    lengths = (2, 16) if small else (32, 384)
    return _tokens(network, list(network.bert.encoder.layer), device, *lengths, config.vocab_size, random=True)


def gpt2(device, small):
    return _gpt2(device, small, (8, 1024))


def gpt2_xl(device, small):
    return _gpt2(device, small, (4, 1024), n_embd=1600, n_layer=48, n_head=25)


def _gpt2(device, small, lengths, **sizes):
    from transformers import GPT2Config, GPT2LMHeadModel

    if small:
        sizes, lengths = dict(vocab_size=200, n_positions=32, n_embd=32, n_layer=2, n_head=2), (2, 16)
    config = GPT2Config(use_cache=False, **sizes)
    network = GPT2LMHeadModel(config)
    return _tokens(network, list(network.transformer.h), device, *lengths, config.vocab_size, random=True)


def llama_1b(device, small):
    """Llama 3.2 1B in bf16."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                 num_attention_heads=32, num_key_value_heads=8)
    if small:
        sizes = dict(vocab_size=200, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                     num_attention_heads=4, num_key_value_heads=2)
    config = LlamaConfig(**sizes, tie_word_embeddings=True, use_cache=False, rms_norm_eps=1e-5,
                         max_position_embeddings=2048)
    with _default_dtype(torch.bfloat16):
        network = LlamaForCausalLM(config)
    return _tokens(network, list(network.model.layers), device, *((2, 16) if small else (4, 1024)), config.vocab_size)


@contextlib.contextmanager
def _default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


MODELS = {
    builder.__name__: builder
    for builder in (resnet50, vit_b_16, gpt2, bert, unet, llama_1b, vgg19, densenet201, convnext_t, gpt2_xl, convnext_b)
}


def load_library(name):
    """Imports what the network is made of, which takes seconds."""
    if name in ("bert", "gpt2", "gpt2_xl", "llama_1b"):
        from transformers import BertForMaskedLM, GPT2LMHeadModel, LlamaForCausalLM  # noqa: F401
    else:
        import torchvision.models  # noqa: F401


def build(name, device, small):
    """The workload on the device; equal weights and inputs each time."""
    torch.manual_seed(0)
    with torch.device(device):
        workload = MODELS[name](device, small)
    workload.module.to(device)
    torch.set_float32_matmul_precision("high" if workload.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = workload.tf32
    return workload
