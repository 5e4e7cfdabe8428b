"""Trainings whose steps change while they learn: raced, asked why, and watched by `bench/states.py`.

Run as a script, `python states_torch.py NAME` trains one in a plain loop that knows nothing of laptime.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import laptime
from laptime.engine.backends.torch.recipe import build_network, load_weights
from laptime.model.workload import Adam
from laptime.trainings.workloads import find_workload
from laptime.trainings.workloads.data import make_weights

STEPS = {"slows": 120, "memorised": 1500, "curriculum": 240, "old_data": 60}
SLOW_FROM, TIMES = 12, 5
WIDE, CLASSES = 192, 10


class Slows(nn.Module):
    """A network that computes five times as much from its twelfth step on."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(WIDE, 1024), nn.Linear(1024, 1024), nn.Linear(1024, CLASSES)
        self.steps = 0

    def forward(self, given: Tensor) -> Tensor:
        self.steps += self.training
        held = torch.relu(self.first(given))
        for _ in range(4 if self.steps < SLOW_FROM else 4 * TIMES):
            held = held + torch.relu(self.inner(held)) * 0.01
        answer: Tensor = self.last(held)
        return answer


class Reader(nn.Module):
    """Reads a sequence and names its class."""

    def __init__(self) -> None:
        super().__init__()
        self.reads, self.last = nn.GRU(32, 128, batch_first=True), nn.Linear(128, CLASSES)

    def forward(self, given: Tensor) -> Tensor:
        answer: Tensor = self.last(self.reads(given)[0][:, -1])
        return answer


class Longer:
    """Batches of sequences that grow with their number, up to a length; then all have that."""

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        made = torch.Generator().manual_seed(3)
        for number in itertools.count():
            length = min(8 + 2 * number, 160)
            yield torch.randn(32, length, 32, generator=made), torch.randint(0, CLASSES, (32,), generator=made)

    def __len__(self) -> int:
        return 200


def _batches(count: int, items: int, noise: float) -> list[tuple[Tensor, Tensor]]:
    made = torch.Generator().manual_seed(7)
    patterns = torch.randn(CLASSES, WIDE, generator=made)
    labels = [torch.randint(0, CLASSES, (items,), generator=made) for _ in range(count)]
    return [(patterns[label] + noise * torch.randn(items, WIDE, generator=made), label) for label in labels]


def _train(network: nn.Module, optimizer: torch.optim.Optimizer, data: Any) -> laptime.Training:
    return laptime.Training(network, nn.CrossEntropyLoss(), optimizer, data)


def slows() -> laptime.Training:
    torch.manual_seed(1)
    network = Slows()
    return _train(network, torch.optim.SGD(network.parameters(), lr=0.01), _batches(8, 256, 3.0))


def memorised() -> laptime.Training:
    """Learns its four batches by heart within a hundred steps."""
    torch.manual_seed(1)
    network = nn.Sequential(
        nn.Linear(WIDE, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(inplace=True), nn.Linear(256, CLASSES)
    )
    return _train(network, torch.optim.Adam(network.parameters(), lr=0.01), _batches(4, 32, 1.0))


def curriculum() -> laptime.Training:
    torch.manual_seed(1)
    network = Reader()
    return _train(network, torch.optim.Adam(network.parameters(), lr=1e-3), Longer())


def old_data() -> laptime.Training:
    """The built-in image CNN on made data as it was until 2026-11-26: it is learned to nothing within twenty steps."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "workloads"))
    from old_made_data import make_items

    workload = find_workload("cifar-cnn")
    items = make_items(workload, 0, 10000)
    images, labels = torch.from_numpy(items.images).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(items.labels)
    network = build_network(workload)
    load_weights(network, workload, make_weights(workload, 0))
    assert isinstance(workload.optimizer, Adam)
    adam = torch.optim.Adam(network.parameters(), lr=workload.optimizer.learning_rate, eps=workload.optimizer.epsilon)
    data = [(images[start : start + 100], labels[start : start + 100]) for start in range(0, 10000, 100)]
    return _train(network, adam, data)


def main(name: str) -> None:
    training = globals()[name]()
    network, loss, optimizer = training.model, training.loss, training.optimizer
    laps = itertools.chain.from_iterable(itertools.repeat(training.data))
    for step, (inputs, labels) in enumerate(itertools.islice(laps, STEPS[name])):
        optimizer.zero_grad()
        told = loss(network(inputs), labels)
        told.backward()
        optimizer.step()
        if step % 20 == 0:
            print(step, told.item())


if __name__ == "__main__":
    main(sys.argv[1])
