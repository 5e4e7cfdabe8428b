"""A user's data as `fit` takes them: as the user passes them, or the first batches kept on the host or the device."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras.src.trainers.data_adapters import get_data_adapter

from laptime.backends.keras.feeds import ON_DEVICE, Feed
from laptime.backends.keras.fit import ENDLESS
from laptime.backends.keras.sharing import OneDevice
from laptime.backends.own import endless, length_of
from laptime.backends.steps import KEPT_BATCHES
from laptime.errors import LaneError, LaptimeError, TrainingError
from laptime.model.lane import KEPT, Settings

KERAS_BATCH = 32  # the default of `fit` for arrays
PARTS = (1, 2, 3)  # inputs, targets, and the weight of each item
Batch = tuple[Any, ...]


class UserData:
    """The user's data; `trouble` is the error that occurred in them, if any."""

    def __init__(self, data: Any, batch: int | None, steps_per_lap: int | None, name: str, devices: OneDevice) -> None:
        self.given = self._data = data
        self._name, self._devices, self.times = name, devices, devices.times
        self._batch = batch or KERAS_BATCH
        self.is_arrays = _are_arrays(data)
        self._is_spent_once = hasattr(data, "__next__")
        self.trouble: LaptimeError | None = None
        self._adapter = None if self._is_spent_once else self._adapt()
        lap = steps_per_lap or self._length()
        self.lap = lap if lap is None else max(1, round(lap / self.times))
        self._taken: list[Batch] = []

    def first(self, count: int) -> list[Batch]:
        """Return the first batches, on the host; data that can be iterated only once continue after them."""
        if len(self._taken) < count:
            source = self._walk() if self._adapter is None else iter(self._adapter.get_numpy_iterator())
            held = self._taken if self._is_spent_once else []
            self._taken = [*held, *map(self._checked, itertools.islice(source, count - len(held)))]
        if not self._taken:
            raise TrainingError(f"{self._name}: data gave no batch at all: it is empty", "give at least one batch")
        return self._taken[:count]

    def words(self, at_once: int) -> dict[str, Any]:
        """Return the arguments of `fit` for the data."""
        if self.is_arrays:
            x, y, *weights = (*self._data, None)[:3]
            words = {"x": x, "y": y, "batch_size": self._batch * self.times, "shuffle": True}
            return words | ({"sample_weight": weights[0]} if weights[0] is not None else {})
        if self._adapter is None:
            return {"x": self._steps(), "steps_per_epoch": self._epoch(at_once), "shuffle": False}
        is_numbered = isinstance(self._data, keras.utils.PyDataset) and self._adapter.num_batches is not None
        words = {"x": self._data, "shuffle": is_numbered}
        return words if self._adapter.num_batches else words | {"steps_per_epoch": self._epoch(at_once)}

    def take_workers(self, workers: int) -> None:
        """Make its batches in this many threads, or in processes if the data set asks for them."""
        if not isinstance(self._data, keras.utils.PyDataset):
            kind = type(self._data).__name__
            raise TrainingError(
                f"workers={workers}: the data of {self._name} are {kind}, and no PyDataset of Keras's",
                "give a keras.utils.PyDataset, or leave workers out",
            )
        self._data.workers = workers

    def ready_batches(self) -> int:
        """Return how many batches Keras's own workers may hold ready."""
        data = self._data
        if not isinstance(data, keras.utils.PyDataset):
            return 0
        has_queue = data.workers > 1 or (data.workers > 0 and data.use_multiprocessing)
        return int(data.max_queue_size + data.workers) if has_queue else 0

    def epoch_steps(self, at_once: int) -> int:
        """Return how many steps Keras counts as an epoch here."""
        count = self._adapter.num_batches if self._adapter is not None else None
        if count and self.is_arrays:
            count = math.ceil(self._items() / (self._batch * self.times))
        if count and count % at_once:
            raise TrainingError(
                f"{self._name}: its data are {count} batches, no whole number of the {at_once} that are taken at once",
                "give steps_per_execution a divisor of their number",
            )
        return count or self._epoch(at_once)

    def _epoch(self, at_once: int) -> int:
        return max(1, (self.lap or ENDLESS) // at_once) * at_once

    def _items(self) -> int:
        """Return how many items arrays have."""
        return items_of(self._data)

    def check_devices(self) -> None:
        """Refuse what the lane's devices cannot share."""
        if self.times > 1 and self._adapter is not None and not self.is_arrays:
            raise LaneError(
                f"weak: the data of {self._name} are {type(self._data).__name__}, whose batches laptime does not join",
                "name strong, and give it larger batches; or give arrays or a list of batches",
            )
        self._devices.check_items(items_of(self.first(1)[0]))
        if self.is_arrays:
            self._devices.check_items(self._items() % (self._batch * self.times))

    def _adapt(self) -> Any:
        """Return Keras's adapter for the data; None for lists of batches and other kinds that Keras does not know."""
        if not self.is_arrays and isinstance(self._data, list | tuple):
            return None
        words = {"batch_size": self._batch} if self.is_arrays else {}
        parts = self._data if self.is_arrays else (self._data,)
        try:
            return get_data_adapter(*parts, **words)
        except ValueError as error:
            if "Unrecognized data type" in str(error):
                return None
            raise TrainingError(f"{self._name}: {error}") from error

    def _length(self) -> int | None:
        told = length_of(self._data) if self._adapter is None else self._adapter.num_batches
        return None if told is None else int(told)

    def _steps(self) -> Iterator[Batch]:
        """Yield the batches of one step after another."""
        batches = self._walk()
        while True:
            taken = [next(batches) for _ in range(self.times)]
            batch = taken[0] if self.times == 1 else join(taken)
            try:
                self._devices.check_items(items_of(batch))
            except LaneError as error:
                self.trouble = error
                raise
            yield batch

    def _walk(self) -> Iterator[Batch]:
        """Yield one batch after another without end, and keep an error: the engine would report it in its own words."""
        number = len(self._taken) if self._is_spent_once else 0
        try:
            for batch in self._data if self._is_spent_once else endless(self._data, self._name):
                number += 1
                yield self._checked(batch)
        except Exception as error:
            self.trouble = _said(error, self._name, number + 1)
            raise self.trouble from error
        told = f"{self._name}: data ended after {number} batches: a generator can be walked through only once"
        self.trouble = TrainingError(told, "give a generator without end, a list, a PyDataset or a tf.data.Dataset")
        raise self.trouble

    def _checked(self, batch: Any) -> Batch:
        if isinstance(batch, list | tuple) and len(batch) in PARTS:
            return tuple(batch)
        kind = f"{type(batch).__name__} of {len(batch)}" if isinstance(batch, list | tuple) else type(batch).__name__
        raise TrainingError(
            f"{self._name}: a batch is {kind}, expected (inputs, targets)",
            "give (inputs, targets) or (inputs, targets, sample weights), of which inputs and targets may be dicts",
        )


def items_of(batch: Batch) -> int:
    sizes = (np.shape(each) for part in batch for each in keras.tree.flatten(part))
    return next((int(shape[0]) for shape in sizes if shape), 1)


def _are_arrays(data: Any) -> bool:
    """Whether the data are arrays: a tuple (inputs, targets) whose first part is no tuple. A list is batches."""
    return isinstance(data, tuple) and len(data) in PARTS and not isinstance(data[0], tuple | list)


def _said(error: Exception, name: str, number: int) -> LaptimeError:
    if isinstance(error, LaptimeError):
        return error
    return TrainingError(f"{name}: data raised {type(error).__name__} at batch {number}: {error}")


class UserFeed(Feed):
    """The user's data, unchanged."""

    def __init__(self, data: UserData, at_once: int, settings: Settings, device: Callable[[], Any]) -> None:
        super().__init__(items_of(data.first(1)[0]) * data.times, at_once, settings, device)
        self._data, self.ready_batches = data, data.ready_batches()

    def epoch_steps(self) -> int:
        return self._data.epoch_steps(self.at_once)

    def data(self, first: int) -> dict[str, Any]:  # noqa: ARG002  the user's data decide where they continue
        return self._data.words(self.at_once)

    def sample(self) -> tuple[Any, Any]:
        inputs, targets, *_ = (*self._data.first(1)[0], None)
        return inputs, targets

    def trouble(self) -> LaptimeError | None:
        return self._data.trouble


class KeptFeed(Feed):
    """The first batches, concatenated to one array and used again and again."""

    def __init__(self, data: UserData, at_once: int, settings: Settings, device: Callable[[], Any]) -> None:
        most = 1 if settings.input == "one" else min(KEPT_BATCHES, data.lap or KEPT_BATCHES)
        kept = _of_one_size(data.first(most * data.times))
        super().__init__(items_of(kept[0]) * data.times, at_once, settings, device)
        self._steps = max(1, len(kept) // data.times // at_once) * at_once
        self._parts = list(join([kept[each % len(kept)] for each in range(self._steps * data.times)]))
        if settings.input in ON_DEVICE:
            with device():
                self._parts = [keras.tree.map_structure(keras.ops.convert_to_tensor, each) for each in self._parts]

    def epoch_steps(self) -> int:
        return self._steps

    def data(self, first: int) -> dict[str, Any]:  # noqa: ARG002  the same few batches at any step
        names = ("x", "y", "sample_weight")
        parts = {name: part for name, part in zip(names, self._parts, strict=False) if part is not None}
        return {**parts, "batch_size": self.batch, "shuffle": False}

    def sample(self) -> tuple[Any, Any]:
        first = [keras.tree.map_structure(lambda each: np.asarray(each)[: self.batch], part) for part in self._parts]
        return first[0], first[1] if len(first) > 1 else None


def open_own_feed(data: UserData, at_once: int, settings: Settings, device: Callable[[], Any]) -> Feed:
    """Return the feed that the lane's settings name."""
    feed = KeptFeed if settings.input in KEPT else UserFeed
    return feed(data, at_once, settings, device)


def _of_one_size(batches: Sequence[Batch]) -> list[Batch]:
    """Leave out a shorter last batch: it would be a different step."""
    size = items_of(batches[0])
    return [batch for batch in batches if items_of(batch) == size]


def join(batches: Sequence[Batch]) -> Batch:
    """Return one batch of several."""
    return tuple(_joined([batch[part] for batch in batches]) for part in range(len(batches[0])))


def _joined(parts: list[Any]) -> Any:
    if parts[0] is None:
        return None
    return keras.tree.map_structure(lambda *each: np.concatenate([np.asarray(one) for one in each]), *parts)
