"""What the scripts of this folder share: a small network, and its data."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import Dataset

torch.manual_seed(0)
torch.set_num_threads(1)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(x), y)


class Points(Dataset):
    def __init__(self, count: int) -> None:
        self.x, self.y = torch.randn(count, 64), torch.randint(0, 10, (count,))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, place: int):
        return self.x[place], self.y[place]
