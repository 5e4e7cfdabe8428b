"""Where a step's batch comes from: the authors' loader, ours, decoded items in memory, or the device."""

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
from laptime.backends.torch.batches import in_layout, mapped
from laptime.backends.torch.files import open_files
from laptime.backends.torch.own_inputs import QUEUE_A_WORKER, keep_own, open_loader, ready_of, walk_own
from laptime.backends.torch.recipe import Batch, BuiltInRecipe, OwnData
from laptime.errors import TrainingError
from laptime.model.lane import KEPT, Settings

CACHED_MOST_BATCHES = 64
WORDS = (bool, int, float, complex, str, bytes)
"""What a batch may hold besides tensors: it is the same wherever the batch is."""


class BatchSource(Protocol):
    """An endless supply of batches on the device."""

    ready_batches: int
    holds: bool

    def __call__(self) -> Batch: ...

    def fetch(self) -> Any:
        """Return the next batch as the loader made it."""

    def move(self, batch: Any) -> Batch:
        """Move the batch to the device, in the lane's layout."""

    def repeat(self) -> None:
        """From now on return only earlier batches; called where images are held in memory."""

    def notes(self) -> tuple[str, ...]:
        """Return notes on what was left out or done differently."""

    def close(self) -> None: ...


class InMemory:
    """What all sources in memory have in common: every step costs the same, and there is nothing to note."""

    ready_batches = 0
    holds = False

    def repeat(self) -> None:
        """Do nothing: a batch costs the same each time."""

    def notes(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """Do nothing: only memory is held."""


class Cycle(InMemory):
    """Batches made before: in host memory and moved each step, or already on the device."""

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
    """Batches made one after another in the training process, as the authors of in-memory trainings do."""

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
    """Threads gather the next batches while the step runs; NumPy releases the interpreter lock to copy."""

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


class ShuffledItems:
    """A shuffled walk through decoded items: returns batch number N of an endless training."""

    def __init__(self, recipe: BuiltInRecipe, batch: int, *, channels_last: bool, pin: bool, seed: int) -> None:
        items = recipe.items(batch)
        if len(items.labels) < batch:  # a user's small data set: its items come more than once
            items = repeated(items, batch)
        images = items.images if channels_last else np.ascontiguousarray(items.images.transpose(0, 3, 1, 2))
        self._images, self._labels = torch.from_numpy(images), torch.from_numpy(items.labels)
        self._batch, self._channels_last, self._pin = batch, channels_last, pin
        self._laps: dict[int, Tensor] = {}
        self._seed, self.batches_a_lap = seed, len(items.labels) // batch
        self._rank, self._of = recipe.group.rank, recipe.group.of  # rank 1 of 2 takes batches 1, 3, 5
        self._lock = threading.Lock()

    def __call__(self, number: int) -> Batch:
        lap, place = divmod(number * self._of + self._rank, self.batches_a_lap)
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
    recipe: BuiltInRecipe | OwnData, settings: Settings, device: torch.device, seed: int, *, first: int = 0
) -> BatchSource:
    """Return the source that the lane's settings name, starting at batch number `first` of an endless training."""
    channels_last = settings.layout == "channels_last"
    move = _mover(device, channels_last=channels_last)
    if isinstance(recipe, OwnData):
        return _open_own(recipe, settings, move, first)
    if recipe.data is not None and recipe.workload.reads_files and settings.input not in KEPT:
        share = (recipe.group.rank, recipe.group.of)
        return open_files(recipe.workload, recipe.data, settings, device, seed=seed, first=first, share=share)
    batch = settings.batch or recipe.workload.batch
    pin = device.type == "cuda" and (settings.input in {"fast", "cached"} or _copies_at_best(settings))
    gather = ShuffledItems(recipe, batch, channels_last=channels_last, pin=pin, seed=seed)
    if settings.input == "fast":
        return Prefetch(gather, move, settings.workers or 1, first)
    if settings.input in KEPT:
        most = 1 if settings.input == "one" else CACHED_MOST_BATCHES
        count = max(1, min(most, gather.batches_a_lap // recipe.group.of))
        return _cycle([gather((first + number) % count) for number in range(count)], settings, move)
    return Stream(map(gather, itertools.count(first)), move)


def _open_own(recipe: OwnData, settings: Settings, move: Callable[[Batch], Batch], first: int) -> BatchSource:
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
    """Whether the copy alone uses pinned memory; as written, it copies from the memory that holds the batches."""
    return settings.input == "copy" and settings.preset != "as-written"


def _mover(device: torch.device, *, channels_last: bool) -> Callable[[Batch], Batch]:
    """Return the function that moves a batch to the device, in the lane's layout."""

    def move_tensor(value: Tensor) -> Tensor:
        # Non-blocking copies run in parallel with the work only from pinned memory; pageable memory is not affected.
        moved = value.to(device, non_blocking=True)
        return in_layout(moved, channels_last=True) if channels_last and moved.dim() == 4 else moved

    def move_other(leaf: Any) -> Any:
        if device.type == "cpu" or leaf is None or isinstance(leaf, WORDS):
            return leaf
        if callable(getattr(leaf, "to", None)):  # a container of another library, which can move its own tensors
            return leaf.to(device)
        raise TrainingError(f"a batch holds {type(leaf).__name__}, expected tensors", "convert it in the data")

    if device.type == "cpu" and not channels_last:
        return lambda batch: batch
    return lambda batch: mapped(batch, move_tensor, move_other, moves=True)
