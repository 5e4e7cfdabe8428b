"""A user's own batches: from the user's loader, from more workers, kept in memory, or joined to larger ones."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Generator, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from laptime.backends.own import endless
from laptime.backends.torch.batches import count_bytes, describe, filled, leaves
from laptime.backends.torch.ranks import OneProcess, Ranks
from laptime.backends.torch.recipe import OwnData, StepBatch
from laptime.errors import LaneError, TrainingError
from laptime.model.plan import SET_IN_ITS_DATA
from laptime.model.process import Settings

CACHED_MOST_BYTES = 512 << 20
CACHED_MOST_BATCHES = 64
QUEUE_A_WORKER = 2


def open_loader(recipe: OwnData, settings: Settings) -> Any:
    """Return the user's data; if the lane sets workers or what they prepare, a copy of its DataLoader with these."""
    data, prefetch = shared_loader(recipe.training.data, recipe.group), settings.value_of("prefetch")
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
    batches: Iterator[StepBatch] = endless(data, recipe.name)
    if isinstance(recipe.group, Ranks) and not hands_out_shares(data):
        batches = recipe.group.own(batches)
    if settings.workers is not None:
        batches = _told_of_workers(batches, settings.workers)
    yield from batches if settings.joined is None else _joined(batches, settings.joined, recipe.name)


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
        self._given, self._ranks = given, ranks

    def __iter__(self) -> Iterator[list[Any]]:
        rank, of = self._ranks.rank, self._ranks.of
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
    if not isinstance(group, Ranks) or not _has_batches_of_numbers(data):
        return data
    return _rebuilt(
        data, data.num_workers, data.prefetch_factor, batch_sampler=SharedBatches(data.batch_sampler, group)
    )


def hands_out_shares(data: Any) -> bool:
    return isinstance(getattr(data, "batch_sampler", None), SharedBatches)


def _has_batches_of_numbers(data: Any) -> bool:
    return (
        isinstance(data, DataLoader)
        and type(data).__iter__ is DataLoader.__iter__
        and not isinstance(data.dataset, IterableDataset)
        and data.batch_sampler is not None
    )


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


def _told_of_workers(batches: Iterator[StepBatch], workers: int) -> Iterator[StepBatch]:
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


def _joined(batches: Iterator[StepBatch], count: int, name: str) -> Iterator[StepBatch]:
    while True:
        several = list(itertools.islice(batches, count))
        kinds = {(type(each), len(each)) if type(each) in {list, tuple} else None for each in several}
        if kinds != {None} and len(kinds) == 1:
            yield type(several[0])(_join(list(column), name) for column in zip(*several, strict=True))
        else:
            yield _join(several, name)


def _join(parts: list[Any], name: str) -> Any:
    """Concatenate the items of several batches, in tensors and in all that holds tensors."""
    first = parts[0]
    if len({describe(each) for each in parts}) > 1:
        raise _unjoined(name, f"{type(first).__name__} is no tensor, nor do they hold the same")
    columns = zip(*map(leaves, parts), strict=True)
    return filled(first, iter([_join_leaves(list(column), name) for column in columns]))


def _join_leaves(parts: list[Any], name: str) -> Any:
    if isinstance(parts[0], Tensor):
        return _join_tensors(parts, name)
    if parts[0] is None:
        return None
    raise _unjoined(name, f"{type(parts[0]).__name__} is no tensor, nor do they hold the same")


def _join_tensors(parts: list[Any], name: str) -> Tensor:
    if any(each.layout != torch.strided for each in parts):
        raise _unjoined(name, "they hold sparse tensors")
    if not all(each.dim() for each in parts):
        raise _unjoined(name, "one holds a single number")
    if len({(each.shape[1:], each.dtype, each.device) for each in parts}) > 1:
        raise _unjoined(name, f"shapes are {', '.join(str(tuple(each.shape)) for each in parts[:2])}")
    return torch.cat(parts)


def _unjoined(name: str, why: str) -> TrainingError:
    return TrainingError(f"batch=Nx: batches of {name} cannot be joined: {why}", SET_IN_ITS_DATA)
