"""Where a step's batch comes from: the authors' way, ours, decoded in memory, or already on the device."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from laptime.backends.items import repeated
from laptime.backends.torch.files import open_files
from laptime.backends.torch.own_inputs import QUEUE_A_WORKER, keep_own, open_loader, ready_of, walk_own
from laptime.backends.torch.recipe import Batch, BuiltIn, Own
from laptime.errors import TrainingError
from laptime.model.lane import Settings

CACHED_MOST_BATCHES = 64
KEPT = {"cached", "resident", "one", "copy"}


class Source(Protocol):
    """An endless supply of batches on the device."""

    ready_batches: int
    holds: bool

    def __call__(self) -> Batch: ...

    def fetch(self) -> Any:
        """Give the next batch as the loader leaves it."""

    def move(self, batch: Any) -> Batch:
        """Bring it to the device, in the lane's layout."""

    def repeat(self) -> None:
        """Give only batches that were given before; called where pictures are held."""

    def notes(self) -> tuple[str, ...]:
        """Say what had to be left out, or done in another way."""

    def close(self) -> None: ...


class InMemory:
    """What all supplies from memory have in common: no step costs more than another, and nothing goes wrong."""

    ready_batches = 0
    holds = False

    def repeat(self) -> None:
        """A batch costs the same each time."""

    def notes(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """Nothing is held but memory."""


class Cycle(InMemory):
    """Batches made before: in host memory and moved each step, or on the device already."""

    def __init__(self, batches: list[Batch], move: Callable[[Batch], Batch] | None) -> None:
        self._next = itertools.cycle(batches).__next__
        self._move = move

    def __call__(self) -> Batch:
        return self._move(self._next()) if self._move else self._next()

    def fetch(self) -> Batch:
        return self._next()

    def move(self, batch: Batch) -> Batch:
        return self._move(batch) if self._move else batch


class Stream(InMemory):
    """Batches made one after another in the training process, as the authors of in-memory trainings had it."""

    def __init__(
        self,
        batches: Iterator[Batch],
        move: Callable[[Batch], Batch],
        ready_batches: int = 0,
        let_go: Callable[[], None] = lambda: None,
    ) -> None:
        self._next, self._move, self.ready_batches, self._let_go = batches.__next__, move, ready_batches, let_go

    def __call__(self) -> Batch:
        return self._move(self._next())

    def fetch(self) -> Batch:
        return self._next()

    def move(self, batch: Batch) -> Batch:
        return self._move(batch)

    def close(self) -> None:
        self._let_go()


class Prefetch(InMemory):
    """Threads gather the coming batches while the step runs; numpy lets go of the interpreter lock to copy."""

    def __init__(self, draw: Callable[[int], Batch], move: Callable[[Batch], Batch], workers: int, first: int) -> None:
        self.ready_batches = QUEUE_A_WORKER * workers
        self._move, self._draw = move, draw
        self._numbers = itertools.count(first)
        self._pool = ThreadPoolExecutor(workers, "prefetch")
        self._queue = deque(self._ask() for _ in range(self.ready_batches))

    def __call__(self) -> Batch:
        return self._move(self.fetch())

    def fetch(self) -> Batch:
        batch = self._queue.popleft().result()
        self._queue.append(self._ask())
        return batch

    def move(self, batch: Batch) -> Batch:
        return self._move(batch)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self) -> Future[Batch]:
        return self._pool.submit(self._draw, next(self._numbers))


class Gather:
    """A shuffled walk through decoded items: gives batch number N of an endless training."""

    def __init__(self, recipe: BuiltIn, batch: int, *, channels_last: bool, pin: bool, seed: int) -> None:
        items = recipe.items(batch)
        if len(items.labels) < batch:  # a small set of somebody's own: its items come more than once
            items = repeated(items, batch)
        images = items.images if channels_last else np.ascontiguousarray(items.images.transpose(0, 3, 1, 2))
        self._images, self._labels = torch.from_numpy(images), torch.from_numpy(items.labels)
        self._batch, self._channels_last, self._pin = batch, channels_last, pin
        self._laps: dict[int, Tensor] = {}
        self._seed, self._a_lap = seed, len(items.labels) // batch
        self._lock = threading.Lock()

    def __call__(self, number: int) -> Batch:
        lap, place = divmod(number, self._a_lap)
        chosen = self._order(lap)[place * self._batch : (place + 1) * self._batch]
        images, labels = self._images.index_select(0, chosen), self._labels.index_select(0, chosen)
        if self._channels_last:
            images = images.permute(0, 3, 1, 2)
        return (images.pin_memory(), labels.pin_memory()) if self._pin else (images, labels)

    def _order(self, lap: int) -> Tensor:
        with self._lock:
            if lap not in self._laps:
                generator = torch.Generator().manual_seed(self._seed + lap)
                self._laps = {lap: torch.randperm(len(self._labels), generator=generator)}
            return self._laps[lap]


def open_source(
    recipe: BuiltIn | Own, settings: Settings, device: torch.device, seed: int, *, first: int = 0
) -> Source:
    """Give the supply that the lane's settings name, from batch number `first` of an endless training on."""
    channels_last = settings.layout == "channels_last"
    move = _mover(device, channels_last=channels_last)
    if isinstance(recipe, Own):
        return _open_own(recipe, settings, move, first)
    if recipe.data is not None and recipe.workload.reads_files and settings.input not in KEPT:
        return open_files(recipe.workload, recipe.data, settings, device, seed=seed, first=first)
    batch = settings.batch or recipe.workload.batch
    pin = device.type == "cuda" and (settings.input in {"fast", "cached"} or _copies_at_best(settings))
    gather = Gather(recipe, batch, channels_last=channels_last, pin=pin, seed=seed)
    if settings.input == "fast":
        return Prefetch(gather, move, settings.workers or 1, first)
    if settings.input in KEPT:
        most = 1 if settings.input == "one" else CACHED_MOST_BATCHES
        count = max(1, min(most, len(recipe.items(0).labels) // batch))
        return _cycle([gather((first + number) % count) for number in range(count)], settings, move)
    return Stream(map(gather, itertools.count(first)), move)


def _open_own(recipe: Own, settings: Settings, move: Callable[[Batch], Batch], first: int) -> Source:
    if settings.input in KEPT:
        kept = keep_own(recipe, settings)
        turned = first % len(kept)
        return _cycle(kept[turned:] + kept[:turned], settings, move)
    data = open_loader(recipe, settings)
    walk = walk_own(data, recipe, settings)
    return Stream(itertools.islice(walk, first, None), move, ready_of(data, settings), walk.close)


def _cycle(batches: list[Batch], settings: Settings, move: Callable[[Batch], Batch]) -> Cycle:
    if settings.input in {"resident", "one"}:
        return Cycle([move(batch) for batch in batches], None)
    return Cycle(batches, move)


def _copies_at_best(settings: Settings) -> bool:
    """The copy alone is what the lane's preset does: as written, from wherever the batches lie."""
    return settings.input == "copy" and settings.preset != "as-written"


def _mover(device: torch.device, *, channels_last: bool) -> Callable[[Batch], Batch]:
    """Give the function that brings a batch to the device, in the lane's layout."""

    def move_one(value: Any) -> Any:
        if isinstance(value, Tensor):
            # Without blocking only pinned memory is copied beside the work; for pageable memory this changes nothing.
            moved = value.to(device, non_blocking=True)
            if channels_last and moved.dim() == 4:
                return moved.contiguous(memory_format=torch.channels_last)
            return moved
        if isinstance(value, dict):
            return {key: move_one(each) for key, each in value.items()}
        if isinstance(value, tuple | list):
            return type(value)(map(move_one, value))
        raise TrainingError(f"a batch holds {type(value).__name__}, expected tensors", "convert it in the data")

    if device.type == "cpu" and not channels_last:
        return lambda batch: batch
    return lambda batch: (move_one(batch[0]), move_one(batch[1]))
