"""Trainings whose weights are judged by others, and weights that do not fit."""

import torch
from torch import nn

import laptime

ROWS = torch.randn(40, 16, 8, generator=torch.Generator().manual_seed(0))
BATCHES = list(zip(ROWS, ROWS[..., :3].argmax(-1), strict=True))


class Masked(nn.Module):
    """A network that does not see the last four of eight columns."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 3)
        self.register_buffer("mask", torch.tensor([1.0] * 4 + [0.0] * 4))

    def forward(self, rows):
        return self.layer(rows * self.mask)


def plain(model=None, data=BATCHES, **more):
    model = model or nn.Sequential(nn.Linear(8, 3), nn.BatchNorm1d(3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return laptime.Training(model=model, loss=nn.functional.cross_entropy, optimizer=optimizer, data=data, **more)


def held_out():
    return plain(data=BATCHES[:32], held_out=BATCHES[32:])


def made_for_each_lap():
    return plain(data=lambda: iter(BATCHES), steps_per_lap=10)


def masked():
    return plain(Masked())


def compiled():
    return plain(torch.compile(nn.Sequential(nn.Linear(8, 3), nn.BatchNorm1d(3)), backend="eager"))


def own_step(held_out=None):
    return laptime.Training(
        step=lambda state, batch: (state, 0.0), state=torch.zeros(1), data=BATCHES, held_out=held_out
    )


def step_with_held_out():
    return own_step(BATCHES)


def held_out_once():
    return plain(held_out=iter(BATCHES))
