"""A training whose loader waits, and what may be made of it: slower, another rate, one that does not train."""

import tempfile
import time
from dataclasses import replace

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

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


def with_workers() -> laptime.Training:
    """What an honest training uses: worker processes, shared memory, temporary files."""
    torch.manual_seed(0)
    rows, labels = torch.randn(4096, 64), torch.randint(0, 10, (4096,))
    with tempfile.TemporaryDirectory() as folder:
        torch.save(rows, f"{folder}/rows.pt")
        rows = torch.load(f"{folder}/rows.pt")
    data = DataLoader(TensorDataset(rows, labels), batch_size=128, num_workers=2, persistent_workers=True)
    return replace(make(), data=data)


def with_workers_too() -> laptime.Training:
    return with_workers()
