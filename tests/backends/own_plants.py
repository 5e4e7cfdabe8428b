"""A training, and the same one with something planted that its first steps do not show; and one in float64."""

from __future__ import annotations

import torch
from torch import nn, optim

import laptime

WIDE, CLASSES, LATER = 24, 5, 6


def _batches(kind: torch.dtype = torch.float32) -> list[tuple[torch.Tensor, torch.Tensor]]:
    made = torch.Generator().manual_seed(7)
    return [
        (torch.randn(16, WIDE, generator=made, dtype=kind), torch.randint(0, CLASSES, (16,), generator=made))
        for _ in range(12)
    ]


class Network(nn.Module):
    """From some call on it may leave a layer out."""

    def __init__(self, *, shrinks: bool = False) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(WIDE, 32), nn.Linear(32, 32), nn.Linear(32, CLASSES)
        self.drops, self.shrinks, self.calls = nn.Dropout(0.2), shrinks, 0

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        held = torch.relu(self.first(given))
        if not (self.shrinks and self.calls > LATER):
            held = self.drops(torch.relu(self.inner(held)))
        answer: torch.Tensor = self.last(held)
        return answer


class Loss(nn.Module):
    """From some call on, a quarter of the batch counts."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, answers: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        some = len(labels) if self.calls <= LATER else len(labels) // 4
        return nn.functional.cross_entropy(answers[:some], labels[:some])


class Skips(optim.Adam):
    calls = 0

    def step(self, closure=None):
        self.calls += 1
        return None if self.calls % 3 == 0 else super().step(closure)


class Slows(optim.Adam):
    calls = 0

    def step(self, closure=None):
        self.calls += 1
        if self.calls == LATER:
            self.param_groups[0]["lr"] *= 0.1
        return super().step(closure)


def _train(network: nn.Module, optimizer: type[optim.Adam] = optim.Adam, loss: nn.Module | None = None):
    return laptime.Training(
        network, loss or nn.CrossEntropyLoss(), optimizer(network.parameters(), lr=1e-3), _batches()
    )


def _seeded(**changed: bool) -> Network:
    torch.manual_seed(1)
    return Network(**changed)


def honest() -> laptime.Training:
    return _train(_seeded())


def skips() -> laptime.Training:
    return _train(_seeded(), Skips)


def slows() -> laptime.Training:
    return _train(_seeded(), Slows)


def shrinks() -> laptime.Training:
    return _train(_seeded(shrinks=True))


def part_of_the_loss() -> laptime.Training:
    return _train(_seeded(), loss=Loss())


def in_float64() -> laptime.Training:
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(WIDE, 32), nn.ReLU(), nn.Linear(32, CLASSES)).double()
    adam = optim.Adam(network.parameters(), lr=1e-3)
    return laptime.Training(network, nn.CrossEntropyLoss(), adam, _batches(torch.float64))


def a_step() -> laptime.Training:
    """A step of your own, which counts its calls outside of its state and then leaves its update out."""
    torch.manual_seed(1)
    weights = torch.randn(WIDE, CLASSES, requires_grad=True)
    calls = [0]

    def step(state, batch):
        calls[0] += 1
        inputs, labels = batch
        loss = nn.functional.cross_entropy(inputs @ state, labels)
        (slope,) = torch.autograd.grad(loss, state)
        with torch.no_grad():
            if calls[0] < 4 * LATER:
                state -= 0.01 * slope
        return state, loss.detach()

    return laptime.Training(step=step, state=weights, data=_batches())


def weighs_by_a_lambda() -> laptime.Training:
    """Its loss holds the weights of the classes in float32, in a closure."""
    given, weights = in_float64(), torch.linspace(0.5, 1.5, CLASSES)
    network = given.model.float()
    adam = optim.Adam(network.parameters(), lr=1e-3)
    loss = lambda scores, labels: nn.functional.cross_entropy(scores, labels, weight=weights)  # noqa: E731
    return laptime.Training(network, loss, adam, _batches(torch.float32))
