"""Loss and right answers of many steps, added up on the device, so that no step has to wait for its own figures."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from laptime.model.missing import Missing
from laptime.model.protocol import Score

NO_CLASSES = Missing("its outputs and targets are no classes")
ONE_LABEL = Missing("an item has one label")


class Account:
    """Is shown loss, outputs and targets of each step, and notes how much was lost and how many answers were right.

    What is added is added in place, so that a CUDA graph that was captured once goes on adding.
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

    def note(self, batch: tuple[Any, Any]) -> None:
        """Count a batch's items on the host, which knows them without asking the device."""
        self._items += count_items(batch[1])

    def clear(self) -> None:
        for each in self._sums:
            each.zero_()
        self._items = 0

    def score(self) -> Score:
        """Give the means of all that was added."""
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
    """Tell whether each target is the number of one of the last axis's outputs."""
    if not (isinstance(outputs, Tensor) and isinstance(targets, Tensor)) or targets.is_floating_point():
        return False
    return outputs.dim() > 1 and outputs.shape[:-1] == targets.shape


def count_items(value: Any) -> int:
    """Count along the first axis; what has none is one item."""
    return len(value) if isinstance(value, Tensor) and value.dim() else 1
