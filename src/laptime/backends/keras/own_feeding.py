"""How `fit` gets a user's batches: as the user gives them, or the first of them kept, on the host or on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from laptime.backends.keras.feeding import FROM_MEMORY, ON_DEVICE, Feed
from laptime.backends.keras.own_data import Batch, UserData, items_of
from laptime.backends.steps import KEPT_BATCHES
from laptime.errors import LaptimeError
from laptime.model.lane import Settings


class FromUser(Feed):
    """The user's data, untouched."""

    def __init__(self, data: UserData, at_once: int, settings: Settings, device: Callable[[], Any]) -> None:
        super().__init__(items_of(data.first(1)[0]), at_once, settings, device)
        self._data, self.ready_batches = data, data.ready_batches()

    def epoch_steps(self) -> int:
        return self._data.epoch_steps(self.at_once)

    def data(self, first: int) -> dict[str, Any]:  # noqa: ARG002  where a user's data go on is theirs to say
        return self._data.words(self.at_once)

    def sample(self) -> tuple[Any, Any]:
        inputs, targets, *_ = (*self._data.first(1)[0], None)
        return inputs, targets

    def trouble(self) -> LaptimeError | None:
        return self._data.trouble


class FromKept(Feed):
    """The first batches, one after another in one array, again and again."""

    def __init__(self, data: UserData, at_once: int, settings: Settings, device: Callable[[], Any]) -> None:
        most = 1 if settings.input == "one" else min(KEPT_BATCHES, data.lap or KEPT_BATCHES)
        kept = _of_one_size(data.first(most))
        super().__init__(items_of(kept[0]), at_once, settings, device)
        self._steps = max(1, len(kept) // at_once) * at_once
        whole = [kept[each % len(kept)] for each in range(self._steps)]
        self._parts = [_joined([batch[part] for batch in whole]) for part in range(len(kept[0]))]
        if settings.input in ON_DEVICE:
            with device():
                self._parts = [keras.tree.map_structure(keras.ops.convert_to_tensor, each) for each in self._parts]

    def epoch_steps(self) -> int:
        return self._steps

    def data(self, first: int) -> dict[str, Any]:  # noqa: ARG002  the same few batches, whatever came before
        names = ("x", "y", "sample_weight")
        parts = {name: part for name, part in zip(names, self._parts, strict=False) if part is not None}
        return {**parts, "batch_size": self.batch, "shuffle": False}

    def sample(self) -> tuple[Any, Any]:
        first = [keras.tree.map_structure(lambda each: np.asarray(each)[: self.batch], part) for part in self._parts]
        return first[0], first[1] if len(first) > 1 else None


def open_own_feed(data: UserData, at_once: int, settings: Settings, device: Callable[[], Any]) -> Feed:
    """Give the feed that the lane's settings name."""
    feed = FromKept if settings.input in FROM_MEMORY else FromUser
    return feed(data, at_once, settings, device)


def _of_one_size(batches: Sequence[Batch]) -> list[Batch]:
    """Leave a shorter last batch out: it would be another step."""
    size = items_of(batches[0])
    return [batch for batch in batches if items_of(batch) == size]


def _joined(parts: list[Any]) -> Any:
    if parts[0] is None:
        return None
    return keras.tree.map_structure(lambda *each: np.concatenate([np.asarray(one) for one in each]), *parts)
