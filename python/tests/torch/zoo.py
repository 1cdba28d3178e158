"""Small training problems of every common kind, with random weights and nothing to download.

`MODELS` maps a name to a function that makes a `Problem`. Widths are small and batches large, so that
activations dominate parameters and a budget well below the natural peak leaves something to plan. Dropout
and batch norm are on wherever the architecture has them.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

Batch = tuple[torch.Tensor, ...]


@dataclasses.dataclass
class Problem:
    """A module that returns its loss, the batch of each step, and the optimizer to train it with."""

    module: nn.Module
    batch: Callable[[int], Batch]
    optimizer: str = "sgd"

    def make_optimizer(self) -> torch.optim.Optimizer:
        parameters = self.module.parameters()
        if self.optimizer == "sgd":
            return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=1e-4)
        return torch.optim.AdamW(parameters, lr=1e-3)


def make(name: str, seed: int = 0) -> Problem:
    """The problem called `name`; the same weights for the same seed."""
    torch.manual_seed(seed)
    problem = MODELS[name]()
    problem.module.train()
    return problem


def _generator(step: int) -> torch.Generator:
    return torch.Generator().manual_seed(1000 + step)


def _images(batch: int, size: int, classes: int = 10) -> Callable[[int], Batch]:
    def make_batch(step: int) -> Batch:
        g = _generator(step)
        return torch.randn(batch, 3, size, size, generator=g), torch.randint(classes, (batch,), generator=g)

    return make_batch


def _tokens(batch: int, length: int, vocabulary: int) -> Callable[[int], Batch]:
    def make_batch(step: int) -> Batch:
        return (torch.randint(vocabulary, (batch, length), generator=_generator(step)),)

    return make_batch


class Classified(nn.Module):
    """A classifier (of images, or of every pixel) with its loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.model(inputs), classes)


class NextToken(nn.Module):
    """A model of sequences with the loss of predicting each next token."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def _resnet18() -> Problem:
    from torchvision.models.resnet import BasicBlock, ResNet

    class Narrow(ResNet):
        """ResNet-18 with an eighth of the channels."""

        def _make_layer(self, block: type, planes: int, *args: object, **kwargs: object) -> nn.Sequential:
            if planes == 64:
                self.inplanes = 8
            return super()._make_layer(block, planes // 8, *args, **kwargs)

    module = Narrow(BasicBlock, [2, 2, 2, 2])
    module.conv1 = nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False)
    module.bn1 = nn.BatchNorm2d(8)
    module.fc = nn.Linear(64, 10)
    return Problem(Classified(module), _images(16, 64))


def _densenet() -> Problem:
    """DenseNet-121 with a quarter of the channels; by default with half as many layers, too."""
    from torchvision.models import DenseNet

    blocks = (6, 12, 24, 16) if os.environ.get("NEAP_TEST_FULL") else (3, 6, 12, 8)
    module = DenseNet(growth_rate=8, block_config=blocks, num_init_features=16, drop_rate=0.1, num_classes=10)
    return Problem(Classified(module), _images(8, 48))


def _mobilenet_v2() -> Problem:
    from torchvision.models import mobilenet_v2

    return Problem(Classified(mobilenet_v2(width_mult=0.25, num_classes=10)), _images(8, 64))


def _vgg11() -> Problem:
    from torchvision.models.vgg import VGG, make_layers

    channels = [8, "M", 32, "M", 64, 64, "M", 64, 64, "M", 64, 64, "M"]
    module = VGG(make_layers(channels, batch_norm=True), init_weights=False)
    module.avgpool = nn.AdaptiveAvgPool2d(1)
    module.classifier = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(True), nn.Dropout(), nn.Linear(64, 64), nn.ReLU(True), nn.Dropout(), nn.Linear(64, 10)
    )
    return Problem(Classified(module), _images(16, 64))


def _vit() -> Problem:
    from torchvision.models import VisionTransformer

    module = VisionTransformer(
        image_size=32, patch_size=4, num_layers=4, num_heads=4, hidden_dim=64, mlp_dim=128,
        dropout=0.1, attention_dropout=0.1, num_classes=10,
    )  # fmt: skip
    nn.init.normal_(module.heads.head.weight, std=0.02)  # zero at first: no gradient would reach the rest
    return Problem(Classified(module), _images(16, 32), "adamw")


def _convnext() -> Problem:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    blocks = [CNBlockConfig(16, 32, 2), CNBlockConfig(32, 64, 2), CNBlockConfig(64, None, 2)]
    module = ConvNeXt(blocks, stochastic_depth_prob=0.2, num_classes=10)
    return Problem(Classified(module), _images(16, 64), "adamw")


class UNet(nn.Module):
    """The U-Net of three levels with batch norm and dropout at the bottom; a class for every pixel."""

    def __init__(self, width: int = 8, classes: int = 3) -> None:
        super().__init__()
        w = width
        self.down = nn.ModuleList([self._block(3, w), self._block(w, 2 * w), self._block(2 * w, 4 * w)])
        self.bottom = nn.Sequential(self._block(4 * w, 8 * w), nn.Dropout2d(0.2))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * c, c, 2, stride=2) for c in (4 * w, 2 * w, w))
        self.merge = nn.ModuleList(self._block(2 * c, c) for c in (4 * w, 2 * w, w))
        self.head = nn.Conv2d(w, classes, 1)

    @staticmethod
    def _block(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, merge in zip(self.up, self.merge):
            x = merge(torch.cat([skips.pop(), up(x)], 1))
        return self.head(x)


def _unet() -> Problem:
    def make_batch(step: int) -> Batch:
        g = _generator(step)
        return torch.randn(4, 3, 64, 64, generator=g), torch.randint(3, (4, 64, 64), generator=g)

    return Problem(Classified(UNet()), make_batch)


class WithLoss(nn.Module):
    """A language model of transformers that takes tokens and returns its loss alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=tokens, labels=tokens, use_cache=False).loss


class WithTokenLoss(WithLoss):
    """The same for a model that has no cache to turn off."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=tokens, labels=tokens).loss


def _gpt2() -> Problem:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=128, n_positions=64, n_embd=64, n_layer=3, n_head=4, bos_token_id=0, eos_token_id=0)
    module = WithLoss(GPT2LMHeadModel(config))
    module.model.loss_type = "ForCausalLM"  # unset, it logs a warning, where TorchDynamo breaks the graph
    assert module.model.lm_head.weight is module.model.transformer.wte.weight, "GPT-2 ties its embeddings"
    return Problem(module, _tokens(8, 64, 128), "adamw")


def _bert() -> Problem:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=128, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=128,
        max_position_embeddings=64,
    )  # fmt: skip
    return Problem(WithTokenLoss(BertForMaskedLM(config)), _tokens(8, 64, 128), "adamw")


def _llama() -> Problem:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, attention_dropout=0.1, pad_token_id=0,
    )  # fmt: skip
    return Problem(WithLoss(LlamaForCausalLM(config)), _tokens(8, 64, 128), "adamw")


class LSTM(nn.Module):
    """Two layers of LSTM cells over a sequence, with dropout between them; predicts the next token.

    Written with cells since TorchDynamo breaks the graph at `nn.LSTM`.
    """

    def __init__(self, vocabulary: int = 64, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.cells = nn.ModuleList(nn.LSTMCell(width, width) for _ in range(2))
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        rows = self.embedding(tokens).unbind(1)
        for cell in self.cells:
            state = None
            hidden = []
            for row in rows:
                state = cell(row, state)
                hidden.append(self.dropout(state[0]))
            rows = hidden
        return self.head(torch.stack(list(rows), 1))


def _lstm() -> Problem:
    return Problem(NextToken(LSTM()), _tokens(48, 12, 64))


MODELS: dict[str, Callable[[], Problem]] = {
    "resnet18": _resnet18,
    "densenet": _densenet,
    "mobilenet_v2": _mobilenet_v2,
    "vgg11": _vgg11,
    "vit": _vit,
    "convnext": _convnext,
    "unet": _unet,
    "gpt2": _gpt2,
    "bert": _bert,
    "llama": _llama,
    "lstm": _lstm,
}
