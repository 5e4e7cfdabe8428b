"""Three small trainings of known step: about 0.2, 1 and 10 ms on one core of a server processor of 2024.

`bench/overhead.py` runs them; `laptime race bench/steps.py:one_ms` does, too.
"""

from itertools import pairwise

import torch
from torch import nn

import laptime

BATCHES = 8
COLUMNS, CLASSES = 128, 10


def fifth_ms() -> laptime.Training:
    return _training(batch=16, width=64, layers=1)


def one_ms() -> laptime.Training:
    return _training(batch=64, width=400, layers=2)


def ten_ms() -> laptime.Training:
    return _training(batch=128, width=680, layers=3)


def _training(batch: int, width: int, layers: int) -> laptime.Training:
    widths = [COLUMNS] + [width] * layers
    modules = [part for pair in pairwise(widths) for part in (nn.Linear(*pair), nn.ReLU())]
    model = nn.Sequential(*modules, nn.Linear(width, CLASSES))
    rows = torch.randn(BATCHES, batch, COLUMNS)
    labels = torch.randint(0, CLASSES, (BATCHES, batch))
    return laptime.Training(
        model=model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.SGD(model.parameters(), lr=1e-3),
        data=list(zip(rows, labels, strict=True)),
    )
