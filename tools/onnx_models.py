#!/usr/bin/env python3
"""Writes ONNX files as users have them: networks from PyTorch's two exporters, and in the style of other programs.

    tools/onnx_models.py [--out FOLDER] [--size small|step|full|all] [--exporters ts,dynamo] [--opsets N,...] [--modes train,eval]
                         [NAME...]

The files are FOLDER/NAME_EXPORTER_OPSET_MODE.onnx: `ts` is the TorchScript exporter, `dynamo` the new one, mode `train` has
batch normalization with the statistics of the batch; `dynamo` writes every network for inference, whatever its mode, and
merges normalizations into convolutions. Full-size networks are for planning and counting; small ones (names
that end in -small) have few channels and small images, for comparing numbers; those that end in -step are full-size on smaller
images or shorter sequences, for comparing gradients. Files of other styles are NAME_made.onnx. A
file that exists is kept. All weights are random, from the network's name; the input is "input", the batch dimension is open. Run it with
a Python that has torch, torchvision, transformers, onnx and onnxscript.
"""

import argparse
import contextlib
import io
import logging
import os
import sys
import warnings
import zlib

import onnx_styles
import torch
from torch import nn

OPSETS = {"ts": (13, 17, 20), "dynamo": (18, 20)}  # dynamo writes 18 and converts, in vain, to less
MODES = {"ts": ("train", "eval"), "dynamo": ("eval",)}
ATTENTION = ("vit", "gpt2", "bert")  # which the old exporter has from opset 14 on
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


# ---- Networks that torchvision and transformers do not have, as neap's built-in ones ----


class DoubleConv(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        layers = []
        for channels in (before, after):
            layers += [nn.Conv2d(channels, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        self.double_conv = nn.Sequential(*layers)

    def forward(self, x):
        return self.double_conv(x)


class UNet(nn.Module):
    """U-Net with batch normalization, four halvings, and learned 2 x 2 transposed convolutions to go up."""

    def __init__(self, width=64, classes=2):
        super().__init__()
        widths = [width << level for level in range(5)]
        self.inc = DoubleConv(3, widths[0])
        self.downs = nn.ModuleList(DoubleConv(a, b) for a, b in zip(widths, widths[1:]))
        self.ups = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
        self.convs = nn.ModuleList(DoubleConv(b, a) for a, b in zip(widths, widths[1:]))
        self.outc = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        x, skips = self.inc(x), []
        for down in self.downs:
            skips.append(x)
            x = down(nn.functional.max_pool2d(x, 2))
        for level in reversed(range(len(self.ups))):
            x = self.convs[level](torch.cat([skips[level], self.ups[level](x)], 1))
        return self.outc(x)


class Lstm(nn.Module):
    """A language model: T x N ids to T x N x vocab logits."""

    def __init__(self, vocab=10000, hidden=650, layers=2):
        super().__init__()
        self.encoder = nn.Embedding(vocab, hidden)
        self.lstm = nn.LSTM(hidden, hidden, layers)
        self.decoder = nn.Linear(hidden, vocab)

    def forward(self, ids):
        return self.decoder(self.lstm(self.encoder(ids))[0])


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.last = nn.Linear(20, 16), nn.Linear(16, 5)

    def forward(self, x):
        return self.last(nn.functional.gelu(self.hidden(x)))


class Logits(nn.Module):
    """A network of transformers with one input and one output."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        mask = torch.ones_like(ids) if torch.jit.is_tracing() else None  # without one the old exporter lacks an op
        return self.model(ids, attention_mask=mask).logits


def gpt2(**sizes):
    from transformers import GPT2Config, GPT2LMHeadModel

    drop = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return Logits(GPT2LMHeadModel(GPT2Config(use_cache=False, **drop, **sizes)))


def bert(**sizes):
    from transformers import BertConfig, BertForMaskedLM

    drop = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return Logits(BertForMaskedLM(BertConfig(**drop, **sizes)))


def convnext_small_blocks():
    from torchvision.models import ConvNeXt
    from torchvision.models.convnext import CNBlockConfig

    return ConvNeXt([CNBlockConfig(16, 32, 2), CNBlockConfig(32, None, 1)], num_classes=10)


def vgg_small():
    from torchvision.models.vgg import VGG, make_layers

    model = VGG(make_layers([8, "M", 16, 16, "M"]), num_classes=10)
    model.avgpool = nn.AdaptiveAvgPool2d((4, 4))
    model.classifier = nn.Sequential(nn.Linear(256, 32), nn.ReLU(True), nn.Linear(32, 10))
    return model


def vision(name, **options):
    def make():
        import torchvision.models

        return getattr(torchvision.models, name)(**options)

    return make


def resnet(block, layers, **options):
    def make():
        from torchvision.models import resnet

        return resnet.ResNet(getattr(resnet, block), layers, **options)

    return make


def images(size, count=2):
    return lambda: torch.randn(count, 3, size, size)


def ids(vocab, *shape):
    return lambda: torch.randint(0, vocab, shape)


SMALL_TEXT = {"vocab_size": 100}
NETWORKS = {  # name: (module, example input)
    "resnet18": (vision("resnet18"), images(224)),
    "resnet50": (vision("resnet50"), images(224)),
    "densenet121": (vision("densenet121"), images(224)),
    "mobilenet_v2": (vision("mobilenet_v2", dropout=0.0), images(224)),
    "vgg16": (vision("vgg16", dropout=0.0), images(224)),
    "inception_v3": (vision("inception_v3", aux_logits=False, dropout=0.0, init_weights=False), images(299)),
    "vit_b_16": (vision("vit_b_16"), images(224)),
    "convnext_tiny": (vision("convnext_tiny", stochastic_depth_prob=0.0), images(224)),
    "unet": (UNet, images(416)),
    "gpt2": (gpt2, ids(50257, 2, 1024)),
    "bert": (bert, ids(30522, 2, 512)),
    "lstm": (Lstm, ids(10000, 35, 2)),
    "mlp-small": (Mlp, lambda: torch.randn(2, 20)),
    "resnet18-small": (resnet("BasicBlock", [1, 1, 1, 1], num_classes=10), images(64)),
    "resnet50-small": (resnet("Bottleneck", [1, 1, 1, 1], width_per_group=8, num_classes=10), images(64)),
    "densenet-small": (
        vision("DenseNet", growth_rate=8, block_config=(2, 2, 2), num_init_features=16, num_classes=10), images(64)
    ),
    "mobilenet_v2-small": (vision("mobilenet_v2", width_mult=0.25, num_classes=10, dropout=0.0), images(64)),
    "vgg-small": (vgg_small, images(16)),
    "inception_v3-small": (
        vision("inception_v3", aux_logits=False, dropout=0.0, init_weights=False, num_classes=10), images(107)
    ),
    "vit-small": (
        vision("VisionTransformer", image_size=32, patch_size=16, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=128,
               num_classes=10), images(32)
    ),
    "convnext-small": (convnext_small_blocks, images(32)),
    "unet-small": (lambda: UNet(4), images(32)),
    "gpt2-small": (lambda: gpt2(n_layer=2, n_embd=32, n_head=2, n_positions=64, **SMALL_TEXT), ids(100, 2, 16)),
    "bert-small": (
        lambda: bert(num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=128,
                     max_position_embeddings=64, **SMALL_TEXT), ids(100, 2, 16)
    ),
    "lstm-small": (lambda: Lstm(100, 32), ids(100, 7, 2)),
}

STEPS = {  # inputs of full-size networks for one step: a few pixels are left in the last layers
    "resnet18": images(96),
    "resnet50": images(96),
    "densenet121": images(96),
    "mobilenet_v2": images(96),
    "vgg16": images(224),
    "inception_v3": images(139),
    "vit_b_16": images(224),
    "convnext_tiny": images(96),
    "unet": images(96),
    "gpt2": ids(50257, 2, 128),
    "bert": ids(30522, 2, 128),
    "lstm": ids(10000, 35, 2),
}
NETWORKS.update({f"{name}-step": (NETWORKS[name][0], example) for name, example in STEPS.items()})


def size_of(name):
    """small, step or full"""
    return name.rsplit("-", 1)[1] if name.endswith(("-small", "-step")) else "full"


def batch_axis(name):
    return 1 if name.startswith("lstm") else 0


def make(name):
    """The network and an example of its input; the same ones for every call."""
    torch.manual_seed(zlib.crc32(name.encode()))
    module, example = NETWORKS[name]
    model = module()
    with torch.no_grad():  # exporters merge equal tensors, and zeros hide mistakes
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
        for key, buffer in model.named_buffers():
            if key.endswith(("running_mean", "running_var")):
                buffer.add_(0.1 * torch.rand_like(buffer))
    return model, example()


# ---- Exporting ----


def export_ts(model, x, path, opset, train, axis):
    mode = torch.onnx.TrainingMode.TRAINING if train else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(
        model, (x,), path, opset_version=opset, dynamo=False, input_names=["input"], output_names=["output"],
        dynamic_axes={"input": {axis: "batch"}}, training=mode, do_constant_folding=not train
    )


def export_dynamo(model, x, path, opset, train, axis):
    torch.onnx.export(
        model, (x,), path, opset_version=opset, dynamo=True, input_names=["input"], output_names=["output"],
        external_data=False, dynamic_shapes=({axis: torch.export.Dim("batch")},), verbose=False
    )


EXPORTERS = {"ts": export_ts, "dynamo": export_dynamo}


def export(name, exporter, opset, mode, folder):
    """Writes a file unless it exists. Returns its path, or None and says why if PyTorch cannot."""
    path = os.path.join(folder, f"{name}_{exporter}_{opset}_{mode}.onnx")
    if os.path.exists(path):
        return path
    model, x = make(name)
    model.train(mode == "train")
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            EXPORTERS[exporter](model, x, path + ".new", opset, mode == "train", batch_axis(name))
    except Exception as error:  # an exporter's own, of any type
        print(f"{os.path.basename(path)}: PyTorch cannot: {str(error).strip().splitlines()[-1][:120]}", file=sys.stderr)
        if os.path.exists(path + ".new"):
            os.remove(path + ".new")
        return None
    os.replace(path + ".new", path)
    return path


def export_all(names, folder, exporters=("ts", "dynamo"), opsets=(), modes=("train", "eval")):
    """The paths of all files of these networks, in order."""
    os.makedirs(folder, exist_ok=True)
    logging.disable(logging.WARNING)
    paths = []
    for name in names:
        for exporter in exporters:
            for opset in OPSETS[exporter]:
                lacks_attention = opset == 13 and name.startswith(ATTENTION)
                if not lacks_attention and (not opsets or opset in opsets):
                    paths += [export(name, exporter, opset, mode, folder) for mode in MODES[exporter] if mode in modes]
    return [path for path in paths if path]


def words(text):
    return [word for word in text.split(",") if word]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "onnx-models"), help="folder (%(default)s)")
    parser.add_argument("--size", choices=("small", "step", "full", "all"), default="small", help="which networks (%(default)s)")
    parser.add_argument("--exporters", type=words, default=["ts", "dynamo"], help="of ts, dynamo")
    parser.add_argument("--opsets", type=words, default=[], help="only these")
    parser.add_argument("--modes", type=words, default=["train", "eval"], help="of train, eval")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in NETWORKS]
    if unknown:
        parser.error(f"no network {unknown[0]}")
    names = args.names or [n for n in NETWORKS if args.size in ("all", size_of(n))]
    made = export_all(names, args.out, args.exporters, [int(o) for o in args.opsets], args.modes)
    if not args.names:
        made += onnx_styles.write_all(args.out)
    print(f"{len(made)} files in {args.out}")


if __name__ == "__main__":
    main()
