"""Small modules for tests that need no whole model: each captures and plans in a second."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

WIDTH = 32
BATCH = 256


class Block(nn.Module):
    """A layer with batch norm and dropout."""

    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(F.gelu(self.norm(self.linear(x))))


class Deep(nn.Module):
    """Eight layers with dropout and batch norm: activations far larger than the parameters."""

    def __init__(self, depth: int = 8, dropout: float = 0.1) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(dropout) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return x


class DeepLoss(Deep):
    """The same with a loss."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).square().mean()


class TwoOutputs(Deep):
    """Returns what two heads make of the same body, and a number that needs no gradient."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        y = super().forward(x)
        return y.sum(1), F.softmax(y, 1), y.argmax(1)


def batch(seed: int = 0, rows: int = BATCH) -> torch.Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed))
