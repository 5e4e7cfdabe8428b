"""A training whose loader waits, and what may be made of it: slower, another rate, one that does not train."""

import time

import torch
from torch import nn

import laptime

ROWS, LABELS = torch.randn(32, 128, 64), torch.randint(0, 10, (32, 128))


class Waiting:
    """Batches that take a while."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s = wait_s

    def __len__(self) -> int:
        return len(ROWS)

    def __iter__(self):
        for rows, labels in zip(ROWS, LABELS, strict=True):
            time.sleep(self.wait_s)
            yield rows, labels


def make(wait_s: float = 0.01, rate: float = 1e-3) -> laptime.Training:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    return laptime.Training(model=model, loss=nn.functional.cross_entropy, optimizer=optimizer, data=Waiting(wait_s))


def base() -> laptime.Training:
    return make()


def slower() -> laptime.Training:
    return make(0.03)


def another_rate() -> laptime.Training:
    return make(rate=2e-3)


def broken() -> laptime.Training:
    raise RuntimeError("there are no data here")
