"""A network looked at from outside: loss and accuracy over test items, and what it predicts; nothing is trained."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from laptime.backends.torch.account import Account, are_classes, count_items
from laptime.backends.torch.recipe import Batch, BuiltIn, Own
from laptime.backends.torch.stepping import AUTOCAST, as_float
from laptime.errors import LaneError
from laptime.model.lane import Settings
from laptime.model.protocol import Predictions, Score
from laptime.pipelines.reading import read_batches


class Examiner:
    """Examines one network on the test items, in the lane's own precision. Arrays are read once, and kept."""

    def __init__(self, recipe: BuiltIn | Own, network: nn.Module, settings: Settings, device: torch.device) -> None:
        self._recipe, self._network, self._settings, self._device = recipe, network, settings, device
        self._images = self._labels = torch.empty(0)
        self._asked = 0

    def read(self, items: int) -> None:
        if not self._decodes and items > self._asked:
            found = self._built_in.test_items(items)
            self._images, self._labels = torch.from_numpy(found.images), torch.from_numpy(found.labels)
            self._asked = items

    def score(self, items: int) -> Score:
        account = Account(self._device)
        with self._looking():
            for inputs, targets in self._batches(items):
                outputs = self._answer(inputs)
                account(self._recipe.loss(outputs, targets), outputs, targets)
                account.note((inputs, targets))
        return account.score()

    def predict(self, items: int) -> Predictions:
        predicted: list[tuple[int, ...]] = []
        truth: list[tuple[int, ...]] = []
        with self._looking():
            for inputs, targets in self._batches(items):
                outputs = self._answer(inputs)
                if not are_classes(outputs, targets):
                    return Predictions()
                predicted += _as_rows(outputs.argmax(-1))
                truth += _as_rows(targets)
        return Predictions(tuple(predicted), tuple(truth))

    @contextlib.contextmanager
    def _looking(self) -> Iterator[None]:
        """Switch off what only training does; as it was before, it is again afterwards."""
        self._network.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self._network.train()

    def _answer(self, inputs: Tensor) -> Tensor:
        low = AUTOCAST.get(self._settings.precision)
        if low is None:
            return self._network(inputs)  # type: ignore[no-any-return]
        with torch.autocast(self._device.type, dtype=low):
            outputs = self._network(inputs)
        return as_float(outputs)  # type: ignore[no-any-return]

    def _batches(self, items: int) -> Iterator[Batch]:
        layout = torch.channels_last if self._settings.layout == "channels_last" else torch.contiguous_format
        give = self._decoded if self._decodes else self._kept
        for images, labels in give(items, self._settings.batch or self._built_in.workload.batch):
            placed = images.permute(0, 3, 1, 2).to(self._device)
            yield placed.contiguous(memory_format=layout), labels.to(self._device)

    def _kept(self, items: int, batch: int) -> Iterator[Batch]:
        self.read(items)
        for start in range(0, min(items, count_items(self._labels)), batch):
            end = min(start + batch, items)
            yield self._images[start:end], self._labels[start:end]

    def _decoded(self, items: int, batch: int) -> Iterator[Batch]:
        """Decode test images anew each time they are looked at: they may be more than memory holds."""
        data = self._built_in.data
        assert data is not None
        for each in read_batches(self._built_in.workload, data, "test", items, batch):
            yield torch.from_numpy(each.images), torch.from_numpy(each.labels)

    @property
    def _decodes(self) -> bool:
        data = self._built_in.data
        return data is not None and data.layout != "archive"

    @property
    def _built_in(self) -> BuiltIn:
        if isinstance(self._recipe, Own):
            raise LaneError("a training of your own has no test items in this version")
        return self._recipe


def _as_rows(numbers: Tensor) -> list[tuple[int, ...]]:
    return [tuple(row) for row in numbers.reshape(len(numbers), -1).tolist()]
