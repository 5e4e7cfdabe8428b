"""Trainings whose steps change while they learn: one memorises its four batches, one does more work from a step on."""

from __future__ import annotations

import time

import torch
from torch import nn

import laptime

BATCHES, ITEMS, WIDE, CLASSES = 4, 32, 192, 10
SLOW_FROM, FAST_S, SLOW_S = 12, 0.07, 0.35  # slow enough for windows from the third step on


def _batches(noise: float) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return items that have a pattern for each class, and noise on it."""
    made = torch.Generator().manual_seed(7)
    patterns = torch.randn(CLASSES, WIDE, generator=made)
    labels = [torch.randint(0, CLASSES, (ITEMS,), generator=made) for _ in range(BATCHES)]
    return [(patterns[each] + noise * torch.randn(ITEMS, WIDE, generator=made), each) for each in labels]


def _network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(WIDE, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(inplace=True), nn.Linear(256, CLASSES)
    )  # fmt: skip


def memorised() -> laptime.Training:
    """Its loss is 0 within a hundred steps; then what flows back through its layers is next to 0."""
    network = _network()
    adam = torch.optim.Adam(network.parameters(), lr=0.01)
    return laptime.Training(network, nn.CrossEntropyLoss(), adam, _batches(1.0))


class Grows(nn.Module):
    """A layer that takes longer from a step on, as one does that waits for more and more."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        time.sleep(FAST_S if self.steps < SLOW_FROM else SLOW_S)
        return inputs


def grows() -> laptime.Training:
    """Five times as slow from its twelfth step on; its classes are hidden in noise, so that it learns them slowly."""
    network = nn.Sequential(Grows(), _network())
    sgd = torch.optim.SGD(network.parameters(), lr=0.01)
    return laptime.Training(network, nn.CrossEntropyLoss(), sgd, _batches(3.0))
