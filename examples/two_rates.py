"""A change of the learning rate: other work, so laptime judges which of the two learns faster.

laptime verdict --learning examples/two_rates.py:base examples/two_rates.py:higher_rate torch/cpu/threads=1
"""

from __future__ import annotations

import torch
from torch import nn

import laptime

# The same items from every seed of laptime, which draws the weights. The last 8 batches are trained on by nobody.
CHANCE = torch.Generator().manual_seed(0)
TEACHER = torch.randn(32, 10, generator=CHANCE)
ROWS = torch.randn(520, 128, 32, generator=CHANCE)
BATCHES = list(zip(ROWS, (ROWS.tanh() @ TEACHER).argmax(-1), strict=True))
DATA, HELD_OUT = BATCHES[:512], BATCHES[512:]


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 10))


def at_rate(rate: float) -> laptime.Training:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    return laptime.Training(
        model=model, loss=nn.functional.cross_entropy, optimizer=optimizer, data=DATA, held_out=HELD_OUT
    )


def base() -> laptime.Training:
    return at_rate(0.002)


def higher_rate() -> laptime.Training:
    return at_rate(0.01)


def lower_rate() -> laptime.Training:
    return at_rate(0.0005)
