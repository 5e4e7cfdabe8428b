"""Trainings of users in which something can be taken out of a step: reads, shapes, loaders, denormal numbers."""

import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

import laptime

TOLD: list[float] = []
LOOPS: list[int] = []


def _model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def _rows(*lengths):
    return [(torch.randn(each, 8), torch.arange(each) % 3) for each in lengths]


def _training(data, loss=nn.functional.cross_entropy, model=None):
    model = model or _model()
    return laptime.Training(model, loss, torch.optim.Adam(model.parameters()), data)


def _loss_with_reads(outputs, targets):
    loss = nn.functional.cross_entropy(outputs, targets)
    TOLD.append(loss.item())
    if loss > 1e9:
        raise ValueError("far off")
    f"{loss:.3f}"
    return loss


def reads():
    """An item, a comparison and a printed figure in each step."""
    return _training(_rows(64, 64, 64), _loss_with_reads)


def takes_five_threads():
    torch.set_num_threads(5)
    return _training(_rows(64, 64, 64))


def reads_nothing():
    return _training(_rows(64, 64, 64))


def _loss_until(outputs, targets):
    loss = nn.functional.cross_entropy(outputs, targets)
    left, times = loss.detach().abs() * 0 + 8, 0
    while left > 1:
        left, times = left / 2, times + 1
    LOOPS.append(times)
    return loss


def loops_until():
    """A loop that ends by what it reads."""
    return _training(_rows(64, 64), _loss_until)


def shapes():
    return _training(_rows(64, 48, 32))


def tiny():
    """Weights and gradients so small that most are denormal."""
    model = _model()
    with torch.no_grad():
        model[0].weight.fill_(1e-41)
    return _training(_rows(64, 64), model=model)


class Numbers(Dataset):
    """Items by number, each known by its own."""

    def __len__(self):
        return 96

    def __getitem__(self, number):
        return torch.full((8,), number / 96), number % 3


class Dying(Numbers):
    """Items of which the last ones end each process that reads them, but for the training itself."""

    def __getitem__(self, number):
        if number > 64 and get_worker_info() is not None:
            os._exit(3)
        return super().__getitem__(number)


class Walked(IterableDataset):
    def __iter__(self):
        return iter([(torch.zeros(8), 0)] * 64)


def loader():
    return _training(DataLoader(Numbers(), batch_size=16))


def shuffled():
    return _training(DataLoader(Numbers(), batch_size=16, shuffle=True, drop_last=True))


def dying():
    return _training(DataLoader(Dying(), batch_size=16))


def walked():
    return _training(DataLoader(Walked(), batch_size=16))


def with_lambda():
    """What cannot be pickled for a worker that is newly started."""
    words = {"batch_size": 16, "collate_fn": lambda items: torch.utils.data.default_collate(list(items))}
    return _training(DataLoader(TensorDataset(torch.zeros(64, 8), torch.zeros(64, dtype=torch.long)), **words))


def nested():
    """Inputs in a dict and a tuple."""
    batches = [
        ({"rows": torch.full((4, 8), float(each)), "more": (torch.zeros(4),)}, torch.zeros(4)) for each in range(6)
    ]
    return _training(batches, lambda outputs, targets: outputs.sum(), model=_Named())


class _Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = nn.Linear(8, 3)

    def forward(self, parts):
        return self.dense(parts["rows"])


def words():
    """What cannot be joined."""
    return _training([(torch.zeros(4, 8), ["a", "b"])] * 4, lambda outputs, _: outputs.sum())


def other_widths():
    batches = [(torch.zeros(4, 8), torch.zeros(4)), (torch.zeros(4, 9), torch.zeros(4))]
    return _training(batches, lambda outputs, _: outputs.sum())


class _Slow(Dataset):
    """Items that are waited for, as those of a far disk: workers wait side by side, and end together."""

    def __len__(self):
        return 4_096

    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.full((8,), float(index % 7)), index % 3


def in_bursts():
    """Six workers take 320 ms for six batches: a step is 53 ms, though no single one is."""
    return _training(DataLoader(_Slow(), batch_size=32, num_workers=6))
