"""Three small trainings in PyTorch, sound but for what the variable LAPTIME_CAUSE has them do wrong.

`bench/causes.py` asks laptime why they are slow. A step takes 5 to 40 ms on two cores; each keeps the memory that it
frees, has its batches ready and its pictures in the layout that convolutions are fastest in, so that nothing but the
planted cause is there to be found.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import laptime

WRONG = os.environ.get("LAPTIME_CAUSE", "")
BATCH = {"cnn": 32, "mlp": 128, "attention": 16}
SHAPE = {"cnn": (3, 32, 32), "mlp": (512,), "attention": (64, 128)}
CLASSES = 10
BATCHES = 64
LOADED_MS = 60.0  # of a batch, in a loader that is slow
LAP, LOOKS = 16, 24  # steps of a lap that ends with a look at this number of batches
PROOF_STEPS, SLOW_STEPS, SLOW_S = 10, 8, 0.05
LARGE_BYTES = 36 << 20  # from 32 MiB on, glibc gives memory back whatever it has learned
NEXT_TO_NOUGHT = 1e-39
THREADS = 16
LAYERS = {"cnn": 6, "mlp": 40, "attention": 4}

if WRONG != "memory given back":
    laptime.keep_memory()
if WRONG == "many threads":
    torch.set_num_threads(THREADS)


def cnn() -> laptime.Training:
    tiny = [nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()) for _ in range(LAYERS["cnn"])]
    small = nn.Sequential(nn.Conv2d(3, 8, 3, stride=4), nn.ReLU(), *tiny, nn.Flatten(), nn.Linear(8 * 8 * 8, CLASSES))
    usual = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 8 * 8, CLASSES),
    )  # fmt: skip
    model = small if WRONG == "tiny steps" else usual
    return make_training("cnn", model.to(memory_format=torch.channels_last))


def mlp() -> laptime.Training:
    tiny = [nn.Sequential(nn.Linear(32, 32), nn.Tanh()) for _ in range(LAYERS["mlp"])]
    small = nn.Sequential(nn.Linear(512, 32), *tiny, nn.Linear(32, CLASSES))
    usual = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, CLASSES))
    return make_training("mlp", small if WRONG == "tiny steps" else usual)


def attention() -> laptime.Training:
    if WRONG == "tiny steps":
        return make_training("attention", Reader(width=16, layers=LAYERS["attention"], heads=2))
    return make_training("attention", Reader(width=128, layers=1, heads=4))


class Reader(nn.Module):
    """A word after another through self-attention, and the mean of all to the classes."""

    def __init__(self, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.narrow = nn.Linear(SHAPE["attention"][1], width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, CLASSES)

    def forward(self, words: Tensor) -> Tensor:
        seen = self.narrow(words)
        for layer in self.layers:
            seen = layer(seen)
        return self.head(seen.mean(1))


class Spread(nn.Module):
    """Takes and gives back large memory in each step, which counts for nothing in the answer."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, items: Tensor) -> Tensor:
        large = torch.zeros(LARGE_BYTES // 4) + items.flatten()[0]
        return self.inner(items) + 0.0 * (large * 2 + 1).relu().mean()


class NextToNought(nn.Module):
    """Has a layer all of whose weights are denormal numbers, and stay so: what is learned of them is as small."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.dense = nn.Linear(512, 2048, bias=False)
        nn.init.constant_(self.dense.weight, NEXT_TO_NOUGHT)

    def forward(self, items: Tensor) -> Tensor:
        return self.inner(items) + 1e-33 * self.dense(items.flatten(1)[:, :512]).mean()


class SlowItems(torch.utils.data.Dataset[tuple[Tensor, Tensor]]):
    """Items of which each takes its time: of a disk, of Python, or of numpy."""

    def __init__(self, name: str) -> None:
        self.items, self.labels = _draw(name, 8 * BATCH[name])
        self.wait_s = LOADED_MS / 1e3 / BATCH[name]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
        WAYS[WRONG](self.wait_s)
        return self.items[place], self.labels[place]


class LapEnds:
    """Sixteen batches a lap, and a look at others with the model at the end of each."""

    def __init__(self, batches: list[tuple[Tensor, Tensor]], model: nn.Module) -> None:
        self.batches, self.model = batches[:LAP], model

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        yield from self.batches
        with torch.no_grad():
            for number in range(LOOKS):
                self.model(self.batches[number % LAP][0])


def make_training(name: str, model: nn.Module) -> laptime.Training:
    """Return the training, with the cause planted where there is one."""
    torch.manual_seed(0)
    if WRONG == "memory given back":
        model = Spread(model)
    if WRONG == "denormal numbers":
        model = NextToNought(model)
    if WRONG == "float64":
        model = model.double()
    loss: Callable[..., Any] = slow_at_first if WRONG == "slow at first" else nn.functional.cross_entropy
    return laptime.Training(model, loss, lambda weights: torch.optim.SGD(weights, lr=0.01), _data(name, model))


def _data(name: str, model: nn.Module) -> Any:
    if WRONG in WAYS:
        return torch.utils.data.DataLoader(SlowItems(name), batch_size=BATCH[name], shuffle=True, drop_last=True)
    batch = {"cnn": 2, "mlp": 4, "attention": 1}[name] if WRONG == "tiny steps" else BATCH[name]
    items, labels = _draw(name, BATCHES * batch)
    batches = list(zip(items.split(batch), labels.split(batch), strict=True))
    return LapEnds(batches, model) if WRONG == "lap ends" else batches


def _draw(name: str, items: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(0)
    shape = (8, *SHAPE[name][1:]) if name == "attention" and WRONG == "tiny steps" else SHAPE[name]
    drawn = torch.from_numpy(rng.standard_normal((items, *shape), np.float32))
    if name == "cnn":
        drawn = drawn.to(memory_format=torch.channels_last)
    if WRONG == "float64":
        drawn = drawn.double()
    return drawn, torch.from_numpy(rng.integers(0, CLASSES, items))


CALLS = count()


def slow_at_first(outputs: Tensor, labels: Tensor) -> Tensor:
    """As where a library tries out its algorithms in the first steps, those of laptime's proof not counted."""
    if PROOF_STEPS <= next(CALLS) < PROOF_STEPS + SLOW_STEPS:
        time.sleep(SLOW_S)
    return nn.functional.cross_entropy(outputs, labels)


def _loop_in_python(seconds: float) -> None:
    ends_s = time.perf_counter() + seconds
    total = 0
    while time.perf_counter() < ends_s:
        total += sum(range(50))


def _work_in_numpy(seconds: float) -> None:
    ends_s = time.perf_counter() + seconds
    numbers = np.arange(5_000, dtype=np.float32)[::-1]
    while time.perf_counter() < ends_s:
        np.sort(numbers)


WAYS: dict[str, Callable[[float], None]] = {
    "storage": time.sleep,
    "python loader": _loop_in_python,
    "numpy loader": _work_in_numpy,
}
