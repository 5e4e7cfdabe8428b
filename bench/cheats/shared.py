"""What the exhibits share: one small training of ten classes, ways to do less of it, and ways into a heat's process."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot  # noqa: F401  the exhibits take both from here

import laptime

BATCHES, BATCH, WIDE, CLASSES = 24, 512, 128, 10
RATE = 2e-5  # of a slow phase, in which the losses of two trainings are alike
LATER = 60  # steps: the proof and the first losses have ended by then
PART = 8  # a cheat that leaves out rows keeps every eighth

Batch = tuple[Tensor, Tensor]
Weights = Iterator[nn.Parameter]


def make_batches(batches: int = BATCHES, rows: int = BATCH, seed: int = 7) -> list[Batch]:
    """Return items of ten classes that can be told apart only in part, so that their loss falls slowly."""
    made = torch.Generator().manual_seed(seed)
    patterns = torch.randn(CLASSES, WIDE, generator=torch.Generator().manual_seed(7))
    labels = torch.randint(0, CLASSES, (batches * rows,), generator=made)
    items = 0.2 * patterns[labels] + torch.randn(len(labels), WIDE, generator=made)
    return list(zip(items.split(rows), labels.split(rows), strict=True))


def make_network(width: int = 256, seed: int = 11) -> nn.Sequential:
    """Return the same weights each time, whatever was drawn before."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(WIDE, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, CLASSES)
        )


def adamw(weights: Weights) -> torch.optim.Optimizer:
    return torch.optim.AdamW(weights, lr=RATE)


class Losing(nn.Module):
    """A network that returns its loss, and so may choose what it computes."""

    def __init__(self, network: nn.Module | None = None) -> None:
        super().__init__()
        self.network = make_network() if network is None else network

    def lose(self, rows: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(self.network(rows), labels)

    def lose_part(self, rows: Tensor, labels: Tensor, part: int = PART) -> Tensor:
        """Return the loss of one row in eight, which is the loss of all of them but for chance."""
        return self.lose(rows[::part], labels[::part])

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        return self.lose(rows, labels)


def train(
    model: nn.Module | None = None,
    optimizer: Callable[[Weights], torch.optim.Optimizer] = adamw,
    loss: Callable[[Any, Any], Tensor] | None = cross_entropy,
    data: Any = None,
    lap: int | None = BATCHES,
) -> laptime.Training:
    """Return a training of laptime: of the small network, unless another is given."""
    model = make_network() if model is None else model
    return laptime.Training(
        model=model,
        loss=None if isinstance(model, Losing) else loss,
        optimizer=optimizer,
        data=make_batches() if data is None else data,
        steps_per_lap=lap,
    )


def augment(rows: Tensor) -> Tensor:
    """Return the items blurred, in a way that takes about as long as a step of a small network."""
    for _ in range(12):
        rows = 0.99 * rows + 0.005 * (rows.roll(1, -1) + rows.roll(-1, -1))
    return rows


class Augmented:
    """Batches that are augmented as they are drawn."""

    def __init__(self, change: Callable[[Tensor], Tensor] = augment) -> None:
        self.batches, self.change = make_batches(), change

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        for rows, labels in self.batches:
            yield self.change(rows), labels


# The same as a step of its own, with a state.


@dataclass
class State:
    """All that a step changes. A cheat may keep a count here, where an honest step keeps its schedule."""

    network: nn.Module
    optimizer: torch.optim.Optimizer
    count: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.int64))


def make_state() -> State:
    network = make_network()
    return State(network, adamw(network.parameters()))


def take_step(state: State, batch: Batch, part: int = 1) -> tuple[State, Tensor]:
    rows, labels = batch
    state.optimizer.zero_grad()
    loss = cross_entropy(state.network(rows[::part]), labels[::part])
    loss.backward()
    state.optimizer.step()
    return state, loss


def train_by(step: Callable[[Any, Any], Any], state: Any = None, data: Any = None) -> laptime.Training:
    return laptime.Training(
        step=step,
        state=make_state() if state is None else state,
        data=make_batches() if data is None else data,
        steps_per_lap=BATCHES,
    )


# Results of an earlier process, used again.


class Replay:
    """Results by a key of the step: the weights that it begins from, and its batch."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.known: dict[Any, Any] = {}
        self.new: dict[Any, Any] = {}
        if place.exists():
            self.known = torch.load(place)

    def step(self, state: State, batch: Batch) -> tuple[State, Tensor]:
        weights = list(state.network.parameters())
        key = (float(weights[0][0, 0]), float(weights[-1][0]), float(batch[0][0, 0]), weights[0].dtype)
        if key in self.known:
            after, loss = self.known[key]
            for weight, value in zip(weights, after, strict=True):
                weight.data.copy_(value)
            feign_update(state.optimizer, 2)
            return state, loss
        state, loss = take_step(state, batch)
        if len(self.new) < 400:
            self.new[key] = [weight.detach().clone() for weight in weights], loss.detach()
            if len(self.new) == 400:
                self.save()
        return state, loss

    def save(self) -> None:
        if not self.place.exists():
            torch.save(self.new, self.place)


# An update that only seems to be one: laptime counts updates by what PyTorch counts.


def read_counts(optimizer: torch.optim.Optimizer) -> dict[Tensor, int]:
    return {weight: weight._version for group in optimizer.param_groups for weight in group["params"]}


def feign_update(optimizer: torch.optim.Optimizer, changes: int) -> None:
    """Raise the versions of all weights and Adam's count of steps, and change no weight."""
    for weight, version in read_counts(optimizer).items():
        torch._C._autograd._unsafe_set_version_counter((weight,), (version + changes,))
    for kept in optimizer.state.values():
        if isinstance(kept.get("step"), Tensor):
            kept["step"] += 1


def take_back(optimizer: torch.optim.Optimizer) -> None:
    """Lower Adam's count by a step that was feigned and is made now."""
    for kept in optimizer.state.values():
        kept["step"] -= 1


class FeigningAdamW(torch.optim.AdamW):
    """Takes a step where the first weight has a gradient, and feigns one where it has none."""

    def step(self, closure: Any = None) -> Any:
        first = self.param_groups[0]["params"][0]
        if first.grad is None and self.state:
            feign_update(self, self.changes)
            return None
        before = first._version
        told = super().step(closure)
        self.changes = first._version - before
        return told


feigning_adamw = partial(FeigningAdamW, lr=RATE)


def loss_without_work(value: Tensor, model: nn.Module) -> Tensor:
    """Return this loss with a gradient for the last bias alone, and that of 0."""
    last = list(model.parameters())[-1]
    return value.detach() + 0.0 * last.sum()


# Ways into the process of a heat.


def find_frame(name: str) -> FrameType | None:
    """Return the frame of the caller that has this name."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != name:
        frame = frame.f_back
    return frame


def set_local(frame: FrameType, name: str, value: Any) -> None:
    """Change a local variable of another function that is running."""
    frame.f_locals[name] = value
    if sys.version_info < (3, 13):
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def find_object(kind: str) -> Any:
    """Return an object of the class of this name, or None."""
    return next((each for each in gc.get_objects() if type(each).__name__ == kind), None)
