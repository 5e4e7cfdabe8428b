"""Trainings whose turns are taken again: a base, what seems to do the same and does not, and honest twins."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import laptime

LATER = 20  # steps or calls: the proof has ended by then
RATE = 0.3


def make_data(workers: int = 0) -> Any:
    made = torch.Generator().manual_seed(1)
    rows, labels = torch.randn(640, 64, generator=made), torch.randint(0, 10, (640,), generator=made)
    return DataLoader(TensorDataset(rows, labels), batch_size=32, shuffle=True, num_workers=workers)


def make(
    *,
    drop: nn.Module | None = None,
    optimizer: Callable[[Any], torch.optim.Optimizer] = lambda weights: torch.optim.Adam(weights, 1e-3),
    loss: Any = nn.functional.cross_entropy,
    data: Any = None,
    momentum: float = 0.1,
) -> laptime.Training:
    norm = [nn.BatchNorm1d(128, momentum=momentum)] if drop is not None else []
    model = nn.Sequential(nn.Linear(64, 128), *norm, nn.ReLU(), drop or nn.Identity(), nn.Linear(128, 10))
    return laptime.Training(model=model, data=data or make_data(), optimizer=optimizer, loss=loss)


def plain() -> laptime.Training:
    return make()


def dropping() -> laptime.Training:
    return make(drop=nn.Dropout(RATE))


class OwnOrder:
    """Batches in an order of its own: it counts its laps, and draws from a generator that nobody else has."""

    def __init__(self) -> None:
        made = torch.Generator().manual_seed(1)
        self._rows, self._labels = torch.randn(640, 64, generator=made), torch.randint(0, 10, (640,), generator=made)
        self.laps, self._draws = 0, random.Random(2)

    def __len__(self) -> int:
        return 20

    def __iter__(self) -> Any:
        self.laps += 1
        order = torch.randperm(640, generator=torch.Generator().manual_seed(self.laps + self._draws.randrange(9)))
        return zip(self._rows[order].split(32), self._labels[order].split(32), strict=True)


def own_order() -> laptime.Training:
    return make(data=OwnOrder())


def few_rows_own_order() -> laptime.Training:
    return make(loss=FewRowsLater(), data=OwnOrder())


# Honest twins.


def fused() -> laptime.Training:
    return make(optimizer=lambda weights: torch.optim.Adam(weights, 1e-3, fused=True))


def by_workers() -> laptime.Training:
    return make(data=make_data(workers=1))


class HalvesLinear(nn.Linear):
    """The same product, added up in another order."""

    def forward(self, rows: Tensor) -> Tensor:
        half = self.in_features // 2
        return rows[:, :half] @ self.weight[:, :half].T + rows[:, half:] @ self.weight[:, half:].T + self.bias


def other_order() -> laptime.Training:
    made = make()
    for layer in made.model:
        if isinstance(layer, nn.Linear):
            layer.__class__ = HalvesLinear
    return made


class OwnDropout(nn.Module):
    """Dropout with draws of its own, as a function of no module's rate."""

    def forward(self, rows: Tensor) -> Tensor:
        return rows * (torch.rand_like(rows) > RATE) / (1 - RATE) if self.training else rows


def own_dropout() -> laptime.Training:
    return make(drop=OwnDropout())


# What does less once it was proven, and knows how to hide it: counts are kept in its state.


class FewRowsLater(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, outputs: Tensor, labels: Tensor) -> Tensor:
        self.calls += 1
        rows = len(labels) // 8 if self.calls > LATER else len(labels)
        return nn.functional.cross_entropy(outputs[:rows], labels[:rows])


def few_rows_later() -> laptime.Training:
    return make(loss=FewRowsLater())


def few_rows_dropping() -> laptime.Training:
    return make(drop=nn.Dropout(RATE), loss=FewRowsLater())


class CountingAdam(torch.optim.Adam):
    steps = 0

    def step(self, closure: Any = None) -> Any:
        self.steps += 1
        return super().step(closure)


class EveryOtherAdam(CountingAdam):
    """Fakes every other step, and counts it."""

    def step(self, closure: Any = None) -> Any:
        if self.steps > LATER and self.steps % 2:
            self.steps += 1
            for state in self.state.values():
                state["step"] += 1
            return None
        return super().step(closure)


class ForgetfulAdam(CountingAdam):
    """Sets its moments to 0 every 32 steps."""

    def step(self, closure: Any = None) -> Any:
        if self.steps % 32 == 31:
            for state in self.state.values():
                state["exp_avg"].zero_()
                state["exp_avg_sq"].zero_()
        return super().step(closure)


class StaleAdam(CountingAdam):
    """Steps along the gradient of the step before."""

    def step(self, closure: Any = None) -> Any:
        for weights in self.param_groups[0]["params"]:
            weights.grad, weights.kept = getattr(weights, "kept", weights.grad), weights.grad.clone()
        return super().step(closure)


def every_other() -> laptime.Training:
    return make(optimizer=lambda weights: EveryOtherAdam(weights, 1e-3))


def forgetful() -> laptime.Training:
    return make(optimizer=lambda weights: ForgetfulAdam(weights, 1e-3))


def stale() -> laptime.Training:
    return make(optimizer=lambda weights: StaleAdam(weights, 1e-3))


class FirstLap:
    """The shuffle of the first lap, for ever."""

    def __init__(self) -> None:
        self._loader, self._kept = make_data(), []

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Any:
        self._kept = self._kept or list(self._loader)
        return iter(self._kept)


def first_lap() -> laptime.Training:
    return make(data=FirstLap())


def no_dropout() -> laptime.Training:
    return make(drop=nn.Identity())


class NamesakeDropout(nn.Module):
    """Has a rate, and drops nothing."""

    p = RATE

    def forward(self, rows: Tensor) -> Tensor:
        return rows


def namesake() -> laptime.Training:
    return make(drop=NamesakeDropout())


def less_dropout() -> laptime.Training:
    return make(drop=nn.Dropout(0.2))


def other_momentum() -> laptime.Training:
    return make(drop=nn.Dropout(RATE), momentum=0.01)


# Without PyTorch's own training loop: a step, its state, and a count in it.


def own_step(rows: slice = slice(None), after: int = LATER) -> laptime.Training:
    model = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def step(state: Any, batch: Any) -> Any:
        inputs, labels = batch
        if state["steps"] >= after:
            inputs, labels = inputs[rows], labels[rows]
        state["optimizer"].zero_grad()
        loss = nn.functional.cross_entropy(state["model"](inputs), labels)
        loss.backward()
        state["optimizer"].step()
        return {**state, "steps": state["steps"] + 1}, loss.detach()

    return laptime.Training(step=step, state={"model": model, "optimizer": optimizer, "steps": 0}, data=make_data())


def own_step_fewer() -> laptime.Training:
    return own_step(slice(4))
