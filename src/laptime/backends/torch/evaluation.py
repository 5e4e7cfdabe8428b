"""Loss and correct answers: summed on the device while a network trains, and over test items."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from laptime.backends.torch.batches import tensors
from laptime.backends.torch.recipe import Batch, BuiltInRecipe, OwnRecipe, TorchRecipe
from laptime.backends.torch.stepping import forward_of
from laptime.errors import LaneError
from laptime.model.lane import Settings
from laptime.model.missing import Missing
from laptime.model.protocol import Predictions, Score
from laptime.pipelines.reading import read_batches

NO_CLASSES = Missing("its outputs and targets are no classes")
ONE_LABEL = Missing("an item has one label")


class RunningScore:
    """Gets loss, outputs and targets of each step, and sums the losses and the correct answers.

    The sums are updated in place, so that a CUDA graph that was captured once keeps updating them.
    """

    def __init__(self, device: torch.device) -> None:
        exact = torch.float32 if device.type == "mps" else torch.float64
        self._lost = torch.zeros((), dtype=exact, device=device)
        self._right = torch.zeros((), dtype=torch.int64, device=device)
        self._whole = torch.zeros((), dtype=torch.int64, device=device)
        self._sums = (self._lost, self._right, self._whole)
        self._labels_an_item: int | None = None
        self._items = 0

    @torch.no_grad()
    def __call__(self, loss: Tensor, outputs: Any, targets: Any) -> None:
        self._lost.add_(loss, alpha=count_items(targets))
        if are_classes(outputs, targets):
            self._labels_an_item = math.prod(targets.shape[1:])
            right = outputs.argmax(-1) == targets
            self._right.add_(right.sum())
            if right.dim() > 1:
                self._whole.add_(right.flatten(1).all(1).sum())

    def note(self, targets: Any) -> None:
        """Count a batch's items on the host, without waiting for the device."""
        self._items += count_items(targets)

    def clear(self) -> None:
        for each in self._sums:
            each.zero_()
        self._items = 0

    def score(self) -> Score:
        """Return the means over all batches so far."""
        items = max(self._items, 1)
        lost, right, whole = (float(each.item()) for each in self._sums)
        loss: float | Missing = lost / items
        if not math.isfinite(lost):
            loss = Missing(f"the loss became {lost}")
        if self._labels_an_item is None:
            return Score(self._items, loss, NO_CLASSES, NO_CLASSES)
        several = self._labels_an_item > 1
        accuracy = right / (items * self._labels_an_item)
        return Score(self._items, loss, accuracy, whole / items if several else ONE_LABEL)


def are_classes(outputs: Any, targets: Any) -> bool:
    """Whether each target is the index of one output on the last axis."""
    if not (isinstance(outputs, Tensor) and isinstance(targets, Tensor)) or targets.is_floating_point():
        return False
    return outputs.dim() > 1 and outputs.shape[:-1] == targets.shape


def count_items(value: Any) -> int:
    """Return the length of the first axis, of the first tensor that has one; a value without axes is one item."""
    return next((len(each) for each in tensors(value) if each.dim()), 1)


class TorchEvaluator:
    """Evaluates one network on the test items, at the lane's own precision. Arrays are read once, then kept."""

    def __init__(self, recipe: TorchRecipe, network: nn.Module, settings: Settings, device: torch.device) -> None:
        self._recipe, self._network, self._settings, self._device = recipe, network, settings, device
        self._images = self._labels = torch.empty(0)
        self._asked = 0
        self._answer = forward_of(network, settings, device)

    def read(self, items: int) -> None:
        if not self._decodes and items > self._asked:
            found = self._built_in.test_items(items)
            self._images, self._labels = torch.from_numpy(found.images), torch.from_numpy(found.labels)
            self._asked = items

    def score(self, items: int) -> Score:
        account = RunningScore(self._device)
        with self._looking():
            for inputs, targets in self._batches(items):
                outputs = self._answer(inputs)
                account(self._recipe.loss(outputs, targets), outputs, targets)
                account.note(targets)
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
        """Switch off what only training does, and switch it on again afterwards."""
        self._network.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self._network.train()

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
        """Decode test images again for each evaluation: memory may be too small to hold them."""
        data = self._built_in.data
        assert data is not None
        for each in read_batches(self._built_in.workload, data, "test", items, batch):
            yield torch.from_numpy(each.images), torch.from_numpy(each.labels)

    @property
    def _decodes(self) -> bool:
        data = self._built_in.data
        return data is not None and data.layout != "archive"

    @property
    def _built_in(self) -> BuiltInRecipe:
        if isinstance(self._recipe, OwnRecipe):
            raise LaneError("a training of your own has no test items in this version")
        return self._recipe


def _as_rows(numbers: Tensor) -> list[tuple[int, ...]]:
    return [tuple(row) for row in numbers.reshape(len(numbers), -1).tolist()]
