"""Two trainings that bench/verdict_edits.py edits, next to those of examples/: a convolution, and a regression."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import laptime

ITEMS, BATCH, SIZE, CLASSES = 512, 32, 16, 4
CHANNELS = (3, 8, 16)
COLUMNS, ROWS, PARTS = 128, 256, 24
RATE = 0.01


def network() -> nn.Module:
    first, second, third = CHANNELS
    left = SIZE // 2
    wide = third * left * left
    return nn.Sequential(
        nn.Conv2d(first, second, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(second, third, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(wide, CLASSES),
    )  # fmt: skip


def convolution() -> laptime.Training:
    """Return a classifier of made pictures; the label is the quarter that is brightest on average."""
    pictures = torch.randn(ITEMS, CHANNELS[0], SIZE, SIZE)
    half = SIZE // 2
    quarters = pictures.mean(1).unfold(1, half, half).unfold(2, half, half).mean((-1, -2)).flatten(1)
    labels = quarters.argmax(-1)
    model = network()
    data = []
    for first in range(0, ITEMS, BATCH):
        last = first + BATCH
        data.append((pictures[first:last], labels[first:last]))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    return laptime.Training(model=model, loss=nn.functional.cross_entropy, optimizer=optimizer, data=data)


def regression() -> laptime.Training:
    """Return a linear regression with a ridge, its gradient by hand."""
    rng = np.random.default_rng(1)
    truth = rng.standard_normal(COLUMNS, np.float32)
    data = []
    for _ in range(PARTS):
        rows = rng.standard_normal((ROWS, COLUMNS), np.float32)
        noise = rng.standard_normal(ROWS, np.float32)
        data.append((rows, rows @ truth + noise))
    start = np.zeros(COLUMNS, np.float32)
    return laptime.Training(step=descend, state=start, data=data)


def descend(weights: np.ndarray, batch: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, float]:
    rows, wanted = batch
    errors = rows @ weights - wanted
    count = len(wanted)
    slope = rows.T @ errors / count
    ridge = RATE * weights
    loss = float((errors**2).mean())
    moved = weights - RATE * (slope + ridge)
    return moved, loss
