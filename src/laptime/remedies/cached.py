"""A dataset that decodes each item once: what was decoded is kept in memory that all loader workers share."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from laptime.errors import UsageError
from laptime.remedies.memory import check_memory, read_memory
from laptime.remedies.packing import UnpackableError, pack, unpack
from laptime.remedies.shelf import Shelf, make_shelf

OWN = frozenset({"_laptime_dataset", "_laptime_shelf"})
NOT_TAKEN_FOR = {"builtins", "numpy", "collections"}  # others look at these with C, which is not told otherwise


@dataclass(frozen=True, slots=True)
class Kept:
    """What a cached dataset has done so far, in all processes together.

    `items` of the dataset's `of` are kept, in `used_bytes` of the `room_bytes` that were stated. A hit was served from
    memory, a miss was decoded. `not_kept` counts misses for which no room was left, or that cannot be pickled; they
    are decoded again in each lap.
    """

    items: int
    of: int
    used_bytes: int
    room_bytes: int
    hits: int
    misses: int
    not_kept: int


def cached(dataset: Any, memory: str | int = "4 GB") -> Any:
    """Wrap a dataset so that each item is decoded once and then served from memory, to every loader worker.

        dataset = laptime.cached(Photographs("train"), memory="4 GB")
        loader = DataLoader(dataset, batch_size=64, num_workers=4, persistent_workers=True)

    The dataset has `__len__` and `__getitem__`: a PyTorch Dataset, a Keras PyDataset (whose items are batches), a
    list. What comes out is equal, has memory of its own, and passes for the dataset: its attributes are the
    dataset's. Items that do not fit into `memory` are decoded each time, as before; nothing is thrown out, so every
    lap after the first costs the same. The memory is gone with the last process that uses it.

    What the dataset draws at random is drawn once, and then kept: put random transforms outside, in a dataset
    around this one. `cached(...).kept` tells what was kept and how often it was used.
    """
    _check_dataset(dataset)
    size = read_memory(memory)
    check_memory(size)
    return Cached(dataset, make_shelf(len(dataset), size))


class Cached:
    """The wrapped dataset; `cached` makes it. It takes the place of the dataset that it wraps, by its class too."""

    _laptime_dataset: Any
    _laptime_shelf: Shelf

    def __init__(self, dataset: Any, shelf: Shelf) -> None:
        object.__setattr__(self, "_laptime_dataset", dataset)
        object.__setattr__(self, "_laptime_shelf", shelf)

    @property
    def kept(self) -> Kept:
        """Tell what is kept, and how often it was used."""
        shelf = self._laptime_shelf
        told = shelf.count()
        return Kept(
            told.items, shelf.items, told.used_bytes, shelf.room_bytes, told.hits, told.misses, told.not_kept
        )  # fmt: skip

    def __getitem__(self, index: Any) -> Any:
        """Serve from memory what was decoded before; slices and names are the dataset's own affair."""
        number = self._number(index)
        if number is None:
            return self._laptime_dataset[index]
        parts = self._laptime_shelf.get(number)
        if parts is not None:
            return unpack(parts)
        item = self._laptime_dataset[index]
        self._keep(number, item)
        return item

    def __len__(self) -> int:
        return len(self._laptime_dataset)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"laptime.cached({self._laptime_dataset!r})"

    def __getattr__(self, name: str) -> Any:
        """Give the dataset's own attributes, but no ways around this one, as `__getitems__` would be."""
        if name in OWN or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"a cached dataset has no {name}")
        return getattr(self._laptime_dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._laptime_dataset, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._laptime_dataset, name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Pass for the dataset where its class is asked for: Keras takes a PyDataset for one by that."""
        kind = type(self._laptime_dataset)
        return Cached if kind.__module__.split(".")[0] in NOT_TAKEN_FOR else kind

    def __reduce__(self) -> tuple[Any, tuple[Any, Shelf]]:
        return Cached, (self._laptime_dataset, self._laptime_shelf)

    def _number(self, index: Any) -> int | None:
        try:
            number = operator.index(index)
        except TypeError:
            return None
        number += self._laptime_shelf.items if number < 0 else 0
        return number if 0 <= number < self._laptime_shelf.items else None

    def _keep(self, number: int, item: Any) -> None:
        try:
            self._laptime_shelf.put(number, pack(item))
        except UnpackableError:
            self._laptime_shelf.refuse()


def _check_dataset(dataset: Any) -> None:
    kind = type(dataset).__name__
    has_items = hasattr(dataset, "__getitem__") and not _is_iterable_only(dataset)
    if has_items and _has_length(dataset):
        return
    missing = "length (__len__)" if has_items else "items by number (__getitem__)"
    hint = "give a dataset with __getitem__ and __len__, or a list: what is only iterated has no numbers to keep it by"
    if type(dataset).__module__.startswith("tensorflow."):
        hint = "tf.data keeps for itself: dataset.cache().shuffle(...).batch(...).prefetch(tf.data.AUTOTUNE)"
    elif kind == "DataLoader":
        hint = "wrap the dataset that the loader reads: DataLoader(laptime.cached(dataset), ...)"
    raise UsageError(f"laptime.cached was given {kind}, which has no {missing}", hint)


def _is_iterable_only(dataset: Any) -> bool:
    """PyTorch's IterableDataset inherits a `__getitem__` that raises."""
    return any(each.__name__ == "IterableDataset" for each in type(dataset).__mro__)


def _has_length(dataset: Any) -> bool:
    try:
        return len(dataset) >= 0
    except (TypeError, NotImplementedError):
        return False
