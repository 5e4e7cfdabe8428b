"""One training, and changes of it that seem to gain: planted, each to be found out by `laptime verdict`.

The tests have a row a plant (test_cli_cheats.py): its function here, and the name by which the verdict knows it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from own_cheats import CLOCKS, halve
from torch import Tensor, nn

import laptime

BATCHES, BATCH, WIDE, CLASSES = 24, 128, 256, 10
LATER = 12  # steps or calls: the proof and the first losses have ended by then, and the timed steps have not

Batch = tuple[Tensor, Tensor]


def make_batches() -> list[Batch]:
    """Items of ten classes that can be told apart only in part: their loss falls slowly."""
    made = torch.Generator().manual_seed(7)
    patterns = torch.randn(CLASSES, WIDE, generator=made)
    labels = torch.randint(0, CLASSES, (BATCHES * BATCH,), generator=made)
    rows = patterns[labels] + 6.0 * torch.randn(len(labels), WIDE, generator=made)
    return list(zip(rows.split(BATCH), labels.split(BATCH), strict=True))


def make_network() -> nn.Sequential:
    """The same weights each time, whatever was drawn before."""
    with torch.random.fork_rng():
        torch.manual_seed(11)
        return nn.Sequential(
            nn.Linear(WIDE, 320), nn.ReLU(), nn.Linear(320, 320), nn.ReLU(), nn.Linear(320, 320), nn.ReLU(),
            nn.Linear(320, CLASSES),
        )  # fmt: skip


def make_training(
    network: nn.Module | None = None,
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None,
    loss: Callable[[Tensor, Tensor], Tensor] = nn.functional.cross_entropy,
    data: Any = None,
    steps: int = BATCHES,
) -> laptime.Training:
    network = network or make_network()
    return laptime.Training(
        model=network,
        loss=loss,
        optimizer=(optimizer or (lambda weights: torch.optim.AdamW(weights, lr=3e-4)))(network.parameters()),
        data=data or make_batches(),
        steps_per_lap=steps,
    )


def base() -> laptime.Training:
    """The honest one."""
    return make_training()


def same() -> laptime.Training:
    """The same, written otherwise."""
    network = make_network()
    return make_training(nn.Sequential(*[nn.Sequential(layer) for layer in network]))


# Clocks and fences.


def half_clock() -> laptime.Training:
    """Every clock of the module `time` runs at half its speed, so that a step seems to take half as long."""
    for name in CLOCKS:
        halve(name)
    return make_training()


def half_clock_everywhere() -> laptime.Training:
    """The same, and in each module of laptime that had taken the clock before."""
    import gc

    for name in CLOCKS:
        real = getattr(time, name)
        halve(name)
        for holder in gc.get_referrers(real):
            if isinstance(holder, dict):
                for key, value in list(holder.items()):
                    if value is real and key != "real":
                        holder[key] = getattr(time, name)
    return make_training()


def no_fence() -> laptime.Training:
    """`torch.cuda.synchronize` waits for nothing."""
    torch.cuda.synchronize = lambda *_: None
    return make_training()


def changed_laptime() -> laptime.Training:
    """Laptime's own loop reports windows of half their time."""
    from dataclasses import replace

    from laptime.engine import wire

    real = wire.write

    def write(message: Any) -> bytes:
        if isinstance(message, wire.Closed):
            window = message.window
            half = replace(window, end_ns=window.start_ns + (window.end_ns - window.start_ns) // 2)
            message = wire.Closed(half, message.loss)
        return real(message)

    wire.write = write
    return make_training()


# Less work from the first step on.


def fewer_steps() -> laptime.Training:
    """A lap of half the batches."""
    return make_training(data=make_batches()[: BATCHES // 2], steps=BATCHES // 2)


def smaller_batch() -> laptime.Training:
    return make_training(data=[(rows[:32], labels[:32]) for rows, labels in make_batches()])


def repeated_batch() -> laptime.Training:
    """Each batch is a quarter of it, four times."""
    return make_training(data=[make_batches()[0]] * BATCHES)


def leaked_labels() -> laptime.Training:
    """The first numbers of an item say its class."""
    leaked = []
    for rows, labels in make_batches():
        shown = rows.clone()
        shown[:, :CLASSES] = 20.0 * nn.functional.one_hot(labels, CLASSES)
        leaked.append((shown, labels))
    return make_training(data=leaked)


def frozen_layer() -> laptime.Training:
    network = make_network()
    network[2].requires_grad_(False)
    return make_training(network)


class InBfloat(nn.Module):
    """A layer that computes in bf16."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, given: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            answer: Tensor = self.layer(given)
        return answer.to(given.dtype)


def low_precision() -> laptime.Training:
    """One layer of four computes in bf16."""
    network = make_network()
    network[2] = InBfloat(network[2])
    return make_training(network)


class Evaluated(nn.Module):
    """Answers without gradients; the loss gets one that changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.network = make_network()

    def forward(self, given: Tensor) -> Tensor:
        with torch.no_grad():
            answer: Tensor = self.network(given)
        return answer + 0.0 * self.network[-1].bias


def evaluation() -> laptime.Training:
    return make_training(Evaluated())


def other_seed() -> laptime.Training:
    """Begins from other weights, after which it may learn faster."""
    torch.manual_seed(5)
    network = make_network()
    for layer in network:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
    return make_training(network)


def loaded_weights() -> laptime.Training:
    """Weights that were trained before are loaded from a file."""
    network = make_network()
    kept = Path(os.environ.get("LAPTIME_HOME", tempfile.gettempdir()), "trained.pt")
    if not kept.exists():
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
        for rows, labels in make_batches():
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(rows), labels).backward()
            optimizer.step()
        partial = kept.with_suffix(f".{os.getpid()}")
        torch.save(network.state_dict(), partial)
        partial.replace(kept)
    network.load_state_dict(torch.load(kept))
    return make_training(network)


class Counted(nn.Module):
    """Counts its calls, and does less from some call on."""

    def __init__(self) -> None:
        super().__init__()
        self.network, self.calls = make_network(), 0

    @property
    def is_later(self) -> bool:
        self.calls += 1
        return self.calls > LATER


# Less work, but not in the steps of the proof.


class SkipsNowAndThen(torch.optim.AdamW):
    calls = 0

    def step(self, closure: Any = None) -> Any:
        self.calls += 1
        return None if self.calls % 7 == 0 else super().step(closure)


def skipped_steps() -> laptime.Training:
    """Every seventh step of the optimizer is left out."""
    return make_training(optimizer=lambda weights: SkipsNowAndThen(weights, lr=3e-4))


class StopsEarly(Counted):
    """Computes nothing more after some steps: the answer has no gradient that moves anything."""

    def forward(self, given: Tensor) -> Tensor:
        if self.is_later:
            return given[:, :CLASSES] * 0.0 + 0.0 * self.network[-1].bias
        answer: Tensor = self.network(given)
        return answer


def early_stopping() -> laptime.Training:
    return make_training(StopsEarly())


class RowsOfLater(Counted):
    """Only a quarter of the rows is computed, four times as often, from some call on."""

    def forward(self, given: Tensor) -> Tensor:
        if self.is_later:
            few: Tensor = self.network(given[::4])
            return few.repeat_interleave(4, 0)
        answer: Tensor = self.network(given)
        return answer


def fewer_rows_later() -> laptime.Training:
    return make_training(RowsOfLater())


class SmallerLater:
    """A loader whose batches are a quarter as large from some number on."""

    def __init__(self) -> None:
        self.batches, self.given = make_batches(), 0

    def __len__(self) -> int:
        return BATCHES

    def __iter__(self) -> Iterator[Batch]:
        for rows, labels in self.batches:
            self.given += 1
            some = BATCH if self.given <= LATER else BATCH // 4
            yield rows[:some], labels[:some]


def smaller_batch_later() -> laptime.Training:
    return make_training(data=SmallerLater())


class RepeatsLater(SmallerLater):
    """A loader that gives one batch again and again, from some number on."""

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.batches:
            self.given += 1
            yield batch if self.given <= LATER else self.batches[0]


def repeated_batch_later() -> laptime.Training:
    return make_training(data=RepeatsLater())


class FrozenLater(Counted):
    """From some call on, no gradient reaches all but the last layer."""

    def forward(self, given: Tensor) -> Tensor:
        with torch.set_grad_enabled(not self.is_later):
            held = self.network[:-1](given)
        answer: Tensor = self.network[-1](held)
        return answer


def frozen_later() -> laptime.Training:
    return make_training(FrozenLater())


# Work that is moved to where no clock runs.


class OnAThread(nn.Module):
    """Remembers its answers, which a thread computes once the step has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.network, self.held = make_network(), None

    def forward(self, given: Tensor) -> Tensor:
        answer = self.held
        if answer is None:
            answer = self.network(given)
            self.held = answer.detach()
        threading.Thread(target=self.compute, args=(given,)).start()
        return answer + 0.0 * self.network[-1].bias

    def compute(self, given: Tensor) -> None:
        self.held = self.network(given).detach()


def on_a_thread() -> laptime.Training:
    return make_training(OnAThread())


class Waiting(nn.Module):
    """A layer that waits, as one does that computes what could be kept."""

    def __init__(self, wait_s: float) -> None:
        super().__init__()
        self.network, self.wait_s = make_network(), wait_s

    def forward(self, given: Tensor) -> Tensor:
        end_s = time.perf_counter() + self.wait_s
        while time.perf_counter() < end_s:
            pass
        answer: Tensor = self.network(given)
        return answer


def slow_base() -> laptime.Training:
    """The base of the next: a step computes something for 4 ms."""
    return make_training(Waiting(4e-3))


def at_import() -> laptime.Training:
    """All that a step would compute is computed before the first one: for 2 s."""
    end_s = time.perf_counter() + 2
    while time.perf_counter() < end_s:
        pass
    return make_training(Waiting(0))


# Code that looks whether laptime looks.


def _is_judged() -> bool:
    """Whether the proof, or a look after the windows, is on the stack."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name in {"prove", "reference", "take_late_step", "take_losses", "prove_training"}:
            return True
        frame = frame.f_back
    return False


class HonestIfJudged(nn.Module):
    """Drops three quarters of the rows where no proof is on the stack."""

    def __init__(self) -> None:
        super().__init__()
        self.network = make_network()

    def forward(self, given: Tensor) -> Tensor:
        if _is_judged():
            answer: Tensor = self.network(given)
            return answer
        few: Tensor = self.network(given[::4])
        return few.repeat_interleave(4, 0)


def judge_on_stack() -> laptime.Training:
    return make_training(HonestIfJudged())


class InBfloatUnlessJudged(InBfloat):
    def forward(self, given: Tensor) -> Tensor:
        if _is_judged():
            answer: Tensor = self.layer(given)
            return answer
        return super().forward(given)


def low_precision_unless_judged() -> laptime.Training:
    network = make_network()
    for place in (0, 2, 4):
        network[place] = InBfloatUnlessJudged(network[place])
    return make_training(network)


def slows_the_base() -> laptime.Training:
    """An environment variable that every process of the machine would read: threads of the base."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["LAPTIME_SLOW"] = "1"
    return make_training()
