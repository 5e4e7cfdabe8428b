"""Where a step's batch comes from: the authors' loader, ours, decoded items in memory, the device, or a user's own
batches.
"""

from __future__ import annotations

import itertools
import pickle
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from laptime.engine.backends.items import repeated
from laptime.engine.backends.own import endless, length_of
from laptime.engine.backends.replay import DataPlace, place_in_laps
from laptime.engine.backends.torch.batches import count_bytes, describe, filled, in_layout, leaves, mapped
from laptime.engine.backends.torch.ranks import OneProcess, Ranks
from laptime.engine.backends.torch.recipe import BuiltInRecipe, OwnData, StepBatch
from laptime.engine.pipelines import (
    LoaderJob,
    Pipeline,
    make_job,
    open_fast_pipeline,
    open_published_pipeline,
    read_plain,
)
from laptime.engine.pipelines.decode import DamagedImageError, DamagedImages, Matrix, draw_turns, matrix_of
from laptime.engine.pipelines.job import BatchOrder, rng_of, workers_for
from laptime.model.ask import DataSource
from laptime.model.errors import LaneError, TrainingError
from laptime.model.plan import SET_IN_ITS_DATA
from laptime.model.process import KEPT_INPUTS, Settings
from laptime.model.workload import Workload

NO_TENSORS = (bool, int, float, complex, str, bytes)
"""What a batch may hold besides tensors: it is the same wherever the batch is."""


class BatchSource(Protocol):
    """An endless supply of batches on the device."""

    ready_batches: int
    holds: bool
    in_place: bool
    """Whether a step takes batches as they are fetched, because they need no move."""

    def __call__(self) -> StepBatch: ...

    def fetch(self) -> Any:
        """Return the next batch as the loader made it."""

    def move(self, batch: Any) -> StepBatch:
        """Move the batch to the device, in the lane's layout."""

    def repeat(self) -> None:
        """From now on return only earlier batches; called where images are held in memory."""

    def notes(self) -> tuple[str, ...]:
        """Return notes on what was left out or done differently."""

    def close(self) -> None: ...


class InMemory:
    """What all sources in memory have in common: every step costs the same, and there is nothing to note."""

    ready_batches = 0
    holds = in_place = False

    def repeat(self) -> None:
        """Do nothing: a batch costs the same each time."""

    def notes(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None:
        """Do nothing: only memory is held."""


class Stream(InMemory):
    """Batches one after another in the training process: made for a step, as authors of in-memory trainings do, or
    before, and then moved in each step or already in their place.
    """

    def __init__(
        self,
        batches: Iterator[StepBatch],
        move: Callable[[StepBatch], StepBatch],
        ready_batches: int = 0,
        let_go: Callable[[], None] = lambda: None,
    ) -> None:
        self.fetch = batches.__next__
        self.move = move
        self.in_place = move is leave
        self.ready_batches = ready_batches
        self._let_go = let_go

    def __call__(self) -> StepBatch:
        return self.move(self.fetch())

    def close(self) -> None:
        self._let_go()


class Prefetch(InMemory):
    """Threads gather the next batches while the step runs; NumPy releases the interpreter lock to copy."""

    def __init__(
        self, draw: Callable[[int], StepBatch], move: Callable[[StepBatch], StepBatch], workers: int, first: int
    ) -> None:
        self.ready_batches = QUEUE_A_WORKER * workers
        self._move = move
        self._draw = draw
        self._numbers = itertools.count(first)
        self._pool = ThreadPoolExecutor(workers, "prefetch")
        self._queue = deque(self._ask() for _ in range(self.ready_batches))

    def __call__(self) -> StepBatch:
        return self._move(self.fetch())

    def fetch(self) -> StepBatch:
        batch = self._queue.popleft().result()
        self._queue.append(self._ask())
        return batch

    def move(self, batch: StepBatch) -> StepBatch:
        return self._move(batch)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self) -> Future[StepBatch]:
        return self._pool.submit(self._draw, next(self._numbers))


class ShuffledItems:
    """A shuffled walk through decoded items: returns batch number N of an endless training."""

    def __init__(self, recipe: BuiltInRecipe, batch: int, *, channels_last: bool, pin: bool, seed: int) -> None:
        items = recipe.items(batch)
        if len(items.labels) < batch:  # a user's small data set: its items come more than once
            items = repeated(items, batch)
        images = items.images if channels_last else np.ascontiguousarray(items.images.transpose(0, 3, 1, 2))
        self._images = torch.from_numpy(images)
        self._labels = torch.from_numpy(items.labels)
        self._batch = batch
        self._channels_last = channels_last
        self._pin = pin
        self._laps: dict[int, Tensor] = {}
        self._seed = seed
        self.batches_a_lap = len(items.labels) // batch
        self._rank = recipe.group.rank  # rank 1 of 2 takes batches 1, 3, 5
        self._of = recipe.group.of
        self._lock = threading.Lock()

    def __call__(self, number: int) -> StepBatch:
        lap, place = divmod(number * self._of + self._rank, self.batches_a_lap)
        chosen = self._order(lap)[place * self._batch : (place + 1) * self._batch]
        images = self._images.index_select(0, chosen)
        labels = self._labels.index_select(0, chosen)
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
        if settings.input in KEPT_INPUTS:
            kept = keep_own(recipe, settings)
            turned = first % len(kept)
            return _cycle(kept[turned:] + kept[:turned], settings, move)
        data = open_loader(recipe, settings)
        if type(data) in {list, tuple} and settings.joined is None and not isinstance(recipe.group, Ranks):
            return Stream(itertools.islice(endless(data, recipe.name), first, None), move)  # no generator between
        walk = walk_own(data, recipe, settings)
        return Stream(itertools.islice(walk, first, None), move, ready_of(data, settings), walk.close)
    if recipe.data is not None and recipe.workload.reads_files and settings.input not in KEPT_INPUTS:
        share = (recipe.group.rank, recipe.group.of)
        return open_files(recipe.workload, recipe.data, settings, device, seed=seed, first=first, share=share)
    batch = settings.batch or recipe.workload.batch
    # As written, the copy alone copies from the memory that holds the batches; at its best it uses pinned memory.
    copies_at_best = settings.input == "copy" and settings.preset != "as-written"
    pin = device.type == "cuda" and (settings.input in {"fast", "cached"} or copies_at_best)
    gather = ShuffledItems(recipe, batch, channels_last=channels_last, pin=pin, seed=seed)
    if settings.input == "fast":
        return Prefetch(gather, move, settings.workers or 1, first)
    if settings.input in KEPT_INPUTS:
        most = 1 if settings.input == "one" else CACHED_MOST_BATCHES
        count = max(1, min(most, gather.batches_a_lap // recipe.group.of))
        return _cycle([gather((first + number) % count) for number in range(count)], settings, move)
    return Stream(map(gather, itertools.count(first)), move)


def find_data_place(
    recipe: BuiltInRecipe | OwnData, settings: Settings, device: torch.device, seed: int, taken: int
) -> DataPlace:
    """Return how far a training that took this many batches is in its source."""

    def open_at(first: int) -> BatchSource:
        return open_source(recipe, settings, device, seed, first=first)

    if not isinstance(recipe, OwnData):
        return DataPlace(partial(open_at, taken), 0)
    if settings.joined is not None:
        raise LaneError("its batches are joined of several")
    if settings.input in KEPT_INPUTS:
        return DataPlace(partial(open_at, taken), 0, recipe.laps)
    data = recipe.training.data
    if type(data) in {list, tuple}:
        return DataPlace(partial(open_at, taken % len(data)), 0)
    return place_in_laps(partial(open_at, 0), taken, length_of(data), recipe.laps)


def _cycle(batches: list[StepBatch], settings: Settings, move: Callable[[StepBatch], StepBatch]) -> Stream:
    if settings.input in {"resident", "one"}:
        return Stream(itertools.cycle([move(batch) for batch in batches]), leave)
    return Stream(itertools.cycle(batches), move)


def leave(batch: StepBatch) -> StepBatch:
    """Return a batch that is in its place."""
    return batch


def _mover(device: torch.device, *, channels_last: bool) -> Callable[[StepBatch], StepBatch]:
    """Return the function that moves a batch to the device, in the lane's layout."""

    def move_tensor(value: Tensor) -> Tensor:
        # Non-blocking copies run in parallel with the work only from pinned memory; pageable memory is not affected.
        moved = value.to(device, non_blocking=True)
        return in_layout(moved, channels_last=True) if channels_last and moved.dim() == 4 else moved

    def move_other(leaf: Any) -> Any:
        if device.type == "cpu" or leaf is None or isinstance(leaf, NO_TENSORS):
            return leaf
        if callable(getattr(leaf, "to", None)):  # a container of another library, which can move its own tensors
            return leaf.to(device)
        raise TrainingError(f"a batch holds {type(leaf).__name__}, expected tensors", "convert it in the data")

    if device.type == "cpu" and not channels_last:
        return leave
    return lambda batch: mapped(batch, move_tensor, move_other, moves=True)


# Batches from files: a pipeline's pixels in NumPy become tensors on the device, as floats from 0 to 1.

STAGES_AHEAD = 3


class FileBatchSource:
    """A pipeline's batches, moved to the device."""

    in_place = False

    def __init__(
        self, pipeline: Pipeline, device: torch.device, *, channels_last: bool, warp: BatchWarp | None = None
    ) -> None:
        self._pipeline = pipeline
        self._warp = warp
        self.ready_batches = pipeline.ready_batches
        self.holds = pipeline.holds
        self._device = device
        self._channels_last = channels_last
        self._pinned = PinnedBuffers(device) if device.type == "cuda" else None

    def __call__(self) -> StepBatch:
        return self.move(self.fetch())

    def fetch(self) -> Any:
        return self._pipeline()

    def move(self, batch: Any) -> StepBatch:
        images, labels = batch
        placed = self._images(torch.from_numpy(images))
        return placed if self._warp is None else self._warp(placed), self._labels(labels)

    def repeat(self) -> None:
        self._pipeline.repeat()

    def notes(self) -> tuple[str, ...]:
        return self._pipeline.notes()

    def close(self) -> None:
        self._pipeline.close()

    def _images(self, images: Tensor) -> Tensor:
        moved = self._pinned(images) if self._pinned is not None else images.to(self._device)
        turned = moved.permute(0, 3, 1, 2)
        wanted = torch.channels_last if self._channels_last else torch.contiguous_format
        if moved.dtype == torch.uint8:
            # One pass: bytes to floats in the wanted layout, then scaled in place. The pipeline may now reuse its slot.
            floats = turned.to(torch.float32, memory_format=wanted, copy=True)
            return floats.mul_(1 / 255)
        return turned.contiguous(memory_format=wanted)

    def _labels(self, labels: Any) -> Tensor:
        held = torch.from_numpy(np.array(labels, np.int64))  # a copy: the pipeline reuses its own memory
        if held.dim() == 2 and held.shape[1] == 1:
            held = held[:, 0]
        return held.to(self._device, non_blocking=True)


class PinnedBuffers:
    """Pinned buffers, filled in turn; the device copies from them while the host continues."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._buffers: list[Tensor | None] = [None] * STAGES_AHEAD
        self._copied: list[Any] = [None] * STAGES_AHEAD
        self._turn = 0

    def __call__(self, images: Tensor) -> Tensor:
        turn = self._turn
        self._turn = (turn + 1) % STAGES_AHEAD
        buffer = self._buffers[turn]
        if buffer is None or buffer.shape != images.shape:
            buffer = self._buffers[turn] = torch.empty_like(images, pin_memory=True)
        if self._copied[turn] is not None:
            self._copied[turn].synchronize()  # wait until the device has copied what was here
        buffer.copy_(images)
        moved = buffer.to(self._device, non_blocking=True)
        copied: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        copied.record()
        self._copied[turn] = copied
        return moved


class Files(Dataset[tuple[Tensor, Tensor]]):
    """The authors' data set of pets-densenet: each file is decoded whole, resized and scaled when requested."""

    def __init__(self, job: LoaderJob) -> None:
        self._job = job
        self.damaged = DamagedImages(len(job.paths))

    def __len__(self) -> int:
        return len(self._job.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        job = self._job
        for number in range(index, index + len(job.paths)):
            place = number % len(job.paths)
            try:
                image = read_plain(job.paths[place], job.height, job.width)
            except DamagedImageError as error:
                self.damaged.add(job.paths[place], str(error))
                continue
            return torch.from_numpy(image), torch.tensor(job.labels[place])
        raise LaneError("no image could be read")


class Loader:
    """PyTorch's DataLoader with its defaults: no worker, so each batch is read when it is needed."""

    ready_batches = 0
    holds = False

    def __init__(self, job: LoaderJob, first: int) -> None:
        self._files = Files(job)
        self._order = BatchOrder(len(job.paths), job.batch, job.seed)
        self._a_lap = max(1, len(job.paths) // job.batch)
        self._number = first
        self._batches = self._lap()

    def __call__(self) -> tuple[Any, Any]:
        batch = next(self._batches, None)
        if batch is None:
            self._batches = self._lap()
            batch = next(self._batches)
        self._number += 1
        return batch[0].numpy(), batch[1].numpy()

    def repeat(self) -> None:
        """Do nothing: nothing is held, so a batch costs the same again."""

    def notes(self) -> tuple[str, ...]:
        return self._files.damaged.notes()

    def close(self) -> None:
        """Do nothing: only memory is held."""

    def _lap(self) -> Any:
        left = self._a_lap - self._number % self._a_lap
        order = [self._order(number).tolist() for number in range(self._number, self._number + left)]
        return iter(DataLoader(self._files, batch_sampler=order))


def open_files(
    workload: Workload,
    data: DataSource,
    settings: Settings,
    device: torch.device,
    *,
    seed: int,
    first: int,
    share: tuple[int, int] = (0, 1),
) -> FileBatchSource:
    """Return the loader that the lane's settings name: the authors', or ours. Rank 1 of 2 reads every second file."""
    rank, of = share
    job = make_job(workload, data, "train", settings.batch or workload.batch, seed)
    job = replace(job, paths=job.paths[rank::of], labels=job.labels[rank::of])
    channels_last = settings.layout == "channels_last"
    if is_published(settings):
        workers = settings.workers or 0
        if workload.loader == "dataloader" and not workers:
            return FileBatchSource(Loader(job, first), device, channels_last=channels_last)
        pipeline = open_published_pipeline(workload, job, first, workers)
        return FileBatchSource(pipeline, device, channels_last=channels_last)
    # Images are turned in whole batches by the device: by default where that is a card.
    where: str = settings.value_of("augment") or ("device" if device.type == "cuda" else "host")
    warp = BatchWarp(seed, first) if job.turned and where == "device" else None
    job = replace(job, turned=job.turned and warp is None)
    pipeline = open_fast_pipeline(job, workers_for(settings, device.type), first)
    return FileBatchSource(pipeline, device, channels_last=channels_last, warp=warp)


def is_published(settings: Settings) -> bool:
    """Whether the authors' loader is meant; where the loader runs alone, the preset decides."""
    if settings.input == "only":
        return settings.preset == "as-written"
    return settings.input == "published"


class BatchWarp:
    """Turns one batch after another, by angles drawn from the seed and the batch's number."""

    def __init__(self, seed: int, first: int) -> None:
        self._seed = seed
        self._number = first

    def __call__(self, images: Tensor) -> Tensor:
        """Return the images turned; they are floats as (item, channel, row, column)."""
        turns = draw_turns(rng_of(self._seed, self._number), len(images))
        self._number += 1
        return warp_images(images, [matrix_of(turn) for turn in turns])


def warp_images(images: Tensor, matrices: list[Matrix]) -> Tensor:
    """Map each image by its own matrix, from the output's (row, column) to the input's."""
    height, width = images.shape[2:]
    # The sampler's coordinates go from -1 to 1 on both axes, column first. A product of matrices would compute them in
    # the precision of the lane, and so move pixels.
    rows = [[[d, c * height / width], [b * width / height, a]] for (a, b), (c, d) in matrices]
    maps = torch.tensor(rows).to(images.device, non_blocking=True)[..., None, None]
    down, across = ((2 * torch.arange(size, device=images.device) + 1) / size - 1 for size in (height, width))
    grid = (maps[:, :, 0] * across + maps[:, :, 1] * down[:, None]).movedim(1, -1).to(images.dtype)
    turned: Tensor = nn.functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
    return turned


# A user's own batches: from the user's loader, from more workers, kept in memory, or joined to larger ones.

CACHED_MOST_BYTES = 512 << 20
CACHED_MOST_BATCHES = 64
QUEUE_A_WORKER = 2


def open_loader(recipe: OwnData, settings: Settings) -> Any:
    """Return the user's data; if the lane sets workers or what they prepare, a copy of its DataLoader with these."""
    data = shared_loader(recipe.training.data, recipe.group)
    prefetch = settings.value_of("prefetch")
    workers = settings.workers
    if workers is None and prefetch is None:
        return data
    word = f"prefetch={prefetch}" if workers is None else f"workers={workers}"
    if not isinstance(data, DataLoader) or type(data).__iter__ is not DataLoader.__iter__:
        raise TrainingError(
            f"{word}: the data of {recipe.name} are {type(data).__name__}, and no DataLoader of PyTorch's",
            f"give a DataLoader over a dataset that has items by number, or leave {word} out",
        )
    if isinstance(data.dataset, IterableDataset):
        raise TrainingError(
            f"{word}: {type(data.dataset).__name__} of {recipe.name} is an iterable dataset, which each "
            "worker would walk through as a whole",
            f"give a dataset that has items by number, or leave {word} out",
        )
    ahead = data.prefetch_factor if prefetch is None else int(prefetch)
    return _rebuilt(data, data.num_workers if workers is None else workers, ahead)


def walk_own(data: Any, recipe: OwnData, settings: Settings) -> Generator[StepBatch, None, None]:
    """Yield the data's batches without end, joined if the lane's settings say it.

    Closing the generator also closes the loader and its workers.
    """
    batches: Iterator[StepBatch] = endless(data, recipe.name, recipe.laps)
    if isinstance(recipe.group, Ranks) and not hands_out_shares(data):
        batches = recipe.group.own(batches)
    if settings.workers is not None:
        batches = _watched(batches, settings.workers)
    if settings.joined is None:
        yield from batches
        return
    while True:
        several = list(itertools.islice(batches, settings.joined))
        kinds = {(type(batch), len(batch)) if type(batch) in {list, tuple} else None for batch in several}
        if kinds != {None} and len(kinds) == 1:
            yield type(several[0])(_join(list(column), recipe.name) for column in zip(*several, strict=True))
        else:
            yield _join(several, recipe.name)


def keep_own(recipe: OwnData, settings: Settings) -> list[StepBatch]:
    """Return the first batches of a lap, as many as fit in modest memory; or only the first one."""
    most = 1 if settings.input == "one" else min(CACHED_MOST_BATCHES, recipe.steps_per_lap or CACHED_MOST_BATCHES)
    count = max(1, most // (settings.joined or 1))
    batches: list[StepBatch] = []
    held = 0
    for batch in itertools.islice(walk_own(shared_loader(recipe.training.data, recipe.group), recipe, settings), count):
        batches.append(batch)
        held += count_bytes(batch)
        if held > CACHED_MOST_BYTES:
            break
    return batches


class SharedBatches:
    """A batch sampler's batches for one rank: its part of each batch, or every Nth batch whole."""

    def __init__(self, given: Any, ranks: Ranks) -> None:
        self._given = given
        self._ranks = ranks

    def __iter__(self) -> Iterator[list[Any]]:
        rank = self._ranks.rank
        of = self._ranks.of
        for number, batch in enumerate(self._given):
            if not self._ranks.is_weak:
                part = len(batch) // of
                if part:
                    yield batch[rank * part : (rank + 1) * part]
            elif number % of == rank:
                yield batch

    def __len__(self) -> int:
        return len(self._given) // (self._ranks.of if self._ranks.is_weak else 1)


def shared_loader(data: Any, group: OneProcess) -> Any:
    """Return a rank's own part of a DataLoader over items by number, so that each item is loaded by one rank only."""
    if not isinstance(group, Ranks):
        return data
    if not isinstance(data, DataLoader) or type(data).__iter__ is not DataLoader.__iter__:
        return data
    if isinstance(data.dataset, IterableDataset) or data.batch_sampler is None:
        return data
    return _rebuilt(
        data, data.num_workers, data.prefetch_factor, batch_sampler=SharedBatches(data.batch_sampler, group)
    )


def hands_out_shares(data: Any) -> bool:
    return isinstance(getattr(data, "batch_sampler", None), SharedBatches)


def ready_of(data: Any, settings: Settings) -> int:
    """Return for how many steps a DataLoader's workers may hold batches ready."""
    workers = getattr(data, "num_workers", 0) or 0
    ready: int = workers * (getattr(data, "prefetch_factor", None) or QUEUE_A_WORKER)
    return -(-ready // (settings.joined or 1))


def _rebuilt(given: DataLoader[Any], workers: int, prefetch: int | None, batch_sampler: Any = None) -> DataLoader[Any]:
    """Recreate the loader with the same dataset and order of items. Workers that a lane sets live across laps."""
    words: dict[str, Any] = {
        "collate_fn": given.collate_fn,
        "pin_memory": given.pin_memory,
        "timeout": given.timeout if workers else 0,
        "worker_init_fn": given.worker_init_fn,
        "generator": given.generator,
        "num_workers": workers,
        "persistent_workers": workers > 0 if batch_sampler is None else given.persistent_workers,
    }
    if workers:
        words["multiprocessing_context"] = given.multiprocessing_context
        words["prefetch_factor"] = prefetch
    if given.batch_sampler is None:
        return DataLoader(given.dataset, batch_size=None, sampler=given.sampler, **words)
    return DataLoader(given.dataset, batch_sampler=batch_sampler or given.batch_sampler, **words)


def _watched(batches: Iterator[StepBatch], workers: int) -> Iterator[StepBatch]:
    """Raise an error in words if a worker died, or could not receive its dataset."""
    try:
        yield from batches
    except RuntimeError as error:
        if "DataLoader worker (pid" not in str(error):
            raise
        raise LaneError(
            f"workers={workers}: {str(error).splitlines()[0]}", "see its last words, or name fewer"
        ) from error
    except (ConnectionError, EOFError) as error:
        if "Caught " in str(error):  # the dataset raised it in a worker that is alive
            raise
        raise LaneError(
            f"workers={workers}: DataLoader worker exited unexpectedly, while it handed a batch over",
            "see its last words, or name fewer",
        ) from error
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        if "pickle" not in str(error):
            raise
        raise LaneError(f"workers={workers}: its dataset cannot be given to a worker: {type(error).__name__}: {error}",
                        "define it at the top of its file, without open files and locks") from error  # fmt: skip


def _join(parts: list[Any], name: str) -> Any:
    """Concatenate the items of several batches, in tensors and in all that holds tensors."""
    first = parts[0]
    if len({describe(part) for part in parts}) > 1:
        raise _unjoined(name, f"{type(first).__name__} is no tensor, nor do they hold the same")
    columns = zip(*map(leaves, parts), strict=True)
    return filled(first, iter([_join_leaves(list(column), name) for column in columns]))


def _join_leaves(parts: list[Any], name: str) -> Any:
    if isinstance(parts[0], Tensor):
        if any(part.layout != torch.strided for part in parts):
            raise _unjoined(name, "they hold sparse tensors")
        if not all(part.dim() for part in parts):
            raise _unjoined(name, "one holds a single number")
        if len({(part.shape[1:], part.dtype, part.device) for part in parts}) > 1:
            raise _unjoined(name, f"shapes are {', '.join(str(tuple(part.shape)) for part in parts[:2])}")
        return torch.cat(parts)
    if parts[0] is None:
        return None
    raise _unjoined(name, f"{type(parts[0]).__name__} is no tensor, nor do they hold the same")


def _unjoined(name: str, why: str) -> TrainingError:
    return TrainingError(f"batch=Nx: batches of {name} cannot be joined: {why}", SET_IN_ITS_DATA)
