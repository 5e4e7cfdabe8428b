"""One training, and the same one with something planted that its first steps do not show: raced by `bench/plants.py`.

`honest` is what all others pretend to be, and `twin` is the same training written otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

import laptime

ITEMS, BATCH, WIDE, CLASSES = 2048, 64, 192, 10
LATER = 12  # steps or calls: the proof has ended by then, and the timed steps have not

MADE = torch.Generator().manual_seed(7)
PATTERNS = torch.randn(CLASSES, WIDE, generator=MADE)
LABELS = torch.randint(0, CLASSES, (ITEMS,), generator=MADE)
DATA = TensorDataset(PATTERNS[LABELS] + 3.0 * torch.randn(ITEMS, WIDE, generator=MADE), LABELS)


class Block(nn.Module):
    def __init__(self, momentum: float, dropout: float) -> None:
        super().__init__()
        drops = [nn.Dropout(dropout)] if dropout else []
        self.inner = nn.Sequential(nn.Linear(512, 512), nn.BatchNorm1d(512, momentum=momentum), nn.ReLU(), *drops)

    def forward(self, given: Tensor) -> Tensor:
        return given + self.inner(given)


class Network(nn.Module):
    """Six blocks."""

    def __init__(self, momentum: float = 0.1, dropout: float = 0.3) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDE, 512), nn.Linear(512, CLASSES)
        self.blocks = nn.ModuleList(Block(momentum, dropout) for _ in range(6))

    def forward(self, given: Tensor) -> Tensor:
        held = self.first(given)
        for block in self.blocks:
            held = block(held)
        answer: Tensor = self.last(held)
        return answer


class Twin(Network):
    """The same, with another loop."""

    def forward(self, given: Tensor) -> Tensor:
        answer: Tensor = self.last(nn.Sequential(*self.blocks)(self.first(given)))
        return answer


class Counting(Network):
    """Counts its calls, and does something else from some call on."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    @property
    def is_later(self) -> bool:
        self.calls += 1
        return self.calls >= LATER


class FewerBlocks(Counting):
    def forward(self, given: Tensor) -> Tensor:
        held = self.first(given)
        for block in self.blocks[: 1 if self.is_later else 6]:
            held = block(held)
        answer: Tensor = self.last(held)
        return answer


class DetachedLater(Counting):
    """From some call on, no gradient reaches the first blocks."""

    def forward(self, given: Tensor) -> Tensor:
        held = self.first(given)
        with torch.set_grad_enabled(not self.is_later):
            for block in self.blocks[:5]:
                held = block(held)
        answer: Tensor = self.last(self.blocks[5](held))
        return answer


class PartOfTheLoss(nn.Module):
    """From some call on, a quarter of the batch counts."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, answers: Tensor, labels: Tensor) -> Tensor:
        self.calls += 1
        some = len(labels) if self.calls < LATER else len(labels) // 4
        return nn.functional.cross_entropy(answers[:some], labels[:some])


class SkipsEverySeventh(torch.optim.Adam):
    calls = 0

    def step(self, closure: Any = None) -> Any:
        self.calls += 1
        return None if self.calls % 7 == 0 else super().step(closure)


class SkipsLater(torch.optim.Adam):
    """Takes every other step, once it was proven."""

    calls = 0

    def step(self, closure: Any = None) -> Any:
        self.calls += 1
        return None if self.calls > LATER and self.calls % 2 else super().step(closure)


class SlowsDown(torch.optim.Adam):
    """Another rate from some step on."""

    calls = 0

    def step(self, closure: Any = None) -> Any:
        self.calls += 1
        if self.calls == LATER:
            for group in self.param_groups:
                group["lr"] *= 0.1
        return super().step(closure)


class SmallerLater:
    """Batches of which only a quarter is given from some number on."""

    def __iter__(self) -> Iterator[list[Tensor]]:
        for number, batch in enumerate(itertools.chain.from_iterable(itertools.repeat(_loader()))):
            yield [each[: len(each) if number < LATER else len(each) // 4] for each in batch]

    def __len__(self) -> int:
        return ITEMS // BATCH


def _loader(items: int = ITEMS) -> DataLoader[Any]:
    sampler = SubsetRandomSampler(range(items), generator=torch.Generator().manual_seed(3))
    return DataLoader(DATA, BATCH, sampler=sampler)


def _adam(network: nn.Module, kind: type[torch.optim.Optimizer] = torch.optim.Adam) -> torch.optim.Optimizer:
    return kind(network.parameters(), lr=1e-3)  # type: ignore[call-arg]


def _train(
    network: nn.Module | None = None,
    loss: nn.Module | None = None,
    optimizer: type[torch.optim.Optimizer] = torch.optim.Adam,
    data: Any = None,
) -> laptime.Training:
    torch.manual_seed(5)
    made = network or Network()
    return laptime.Training(
        made, loss or nn.CrossEntropyLoss(), _adam(made, optimizer), _loader() if data is None else data
    )


def _seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(5)
    return make()


def honest() -> laptime.Training:
    return _train(_seeded(Network))


def twin() -> laptime.Training:
    return _train(_seeded(Twin))


def another_dropout_rate() -> laptime.Training:
    return _train(_seeded(lambda: Network(dropout=0.5)))


def no_dropout() -> laptime.Training:
    return _train(_seeded(lambda: Network(dropout=0.0)))


def another_momentum() -> laptime.Training:
    return _train(_seeded(lambda: Network(momentum=0.01)))


def half_of_the_data() -> laptime.Training:
    return _train(_seeded(Network), data=_loader(ITEMS // 2))


def smaller_batch_later() -> laptime.Training:
    return _train(_seeded(Network), data=SmallerLater())


def every_seventh_step_skipped() -> laptime.Training:
    return _train(_seeded(Network), optimizer=SkipsEverySeventh)


def another_rate_later() -> laptime.Training:
    return _train(_seeded(Network), optimizer=SlowsDown)


def fewer_blocks_while_timed() -> laptime.Training:
    return _train(_seeded(FewerBlocks))


def no_gradients_while_timed() -> laptime.Training:
    return _train(_seeded(DetachedLater))


def part_of_the_loss_while_timed() -> laptime.Training:
    return _train(_seeded(Network), loss=PartOfTheLoss())


def every_other_step_skipped_while_timed() -> laptime.Training:
    return _train(_seeded(Network), optimizer=SkipsLater)
