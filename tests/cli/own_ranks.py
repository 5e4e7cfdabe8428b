"""Your own trainings for several processes: from a DataLoader, with batch norm, and with a rank that falls."""

import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import laptime

FALLS_AT = 12


def rank():
    return torch.distributed.get_rank() if torch.distributed.is_initialized() else 0


def notes_of(number):
    """Return the file in which a rank makes a byte for each step; other ranks are copies of the first one's process."""
    first = os.getppid() if rank() else os.getpid()
    return Path(os.environ["LAPTIME_HOME"]) / f"steps-{first}-{number}"


class Net(nn.Module):
    """A small network, of which rank 1 may fall in a step. It may check that two ranks are in the same step."""

    def __init__(self, *, falls=False, checks=False):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 4))
        self.falls, self.checks, self.steps = falls, checks, 0
        if checks and torch.distributed.is_initialized():
            notes_of(rank()).write_bytes(b"")

    def check(self):
        own, other = notes_of(rank()), notes_of(1 - rank())
        with own.open("ab") as notes:
            notes.write(b".")
        time.sleep(0.0005 * rank())
        if other.exists() and abs(own.stat().st_size - other.stat().st_size) > 1:
            raise ValueError("the ranks drifted apart")

    def forward(self, inputs):
        self.steps += 1
        if self.checks and torch.distributed.is_initialized():
            self.check()
        if self.falls and rank() == 1 and self.steps > FALLS_AT:
            raise ValueError("planted in rank 1")
        return self.body(inputs)


def made(net, data):
    return laptime.Training(
        model=net, loss=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(net.parameters(), lr=1e-3), data=data
    )


def batches():
    return [(torch.randn(32, 64), torch.randint(0, 4, (32,))) for _ in range(8)]


def from_loader():
    torch.manual_seed(0)
    items = TensorDataset(torch.randn(256, 64), torch.randint(0, 4, (256,)))
    return made(Net(checks=True), DataLoader(items, batch_size=32, shuffle=True))


def with_norms():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))
    return made(net, batches())


def raises():
    return made(Net(falls=True), batches())
