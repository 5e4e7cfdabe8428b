"""The items that a network is asked about, in host memory, and the way to the device and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from laptime.backends.items import repeated
from laptime.backends.torch.account import count_items
from laptime.backends.torch.recipe import BuiltIn, Own, endless


class HostItems(Protocol):
    """Items that can be cut into batches."""

    def read(self, most: int) -> None: ...

    def sizes(self, wanted: tuple[int, ...]) -> tuple[int, ...]: ...

    def keep_whole(self) -> bool: ...

    def cut(self, batch: int) -> Any: ...


class BuiltInItems:
    """Items of a built-in workload's test set, made in memory or decoded from the data that were given."""

    def __init__(self, recipe: BuiltIn) -> None:
        self._recipe = recipe
        self._images = torch.empty(0)

    def read(self, most: int) -> None:
        """Read so many items; where the test set has fewer, they are asked about again."""
        if len(self._images) < most:
            found = repeated(self._recipe.test_items(most), most)
            self._images = torch.from_numpy(np.ascontiguousarray(found.images)).permute(0, 3, 1, 2)

    def sizes(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        return wanted

    def keep_whole(self) -> bool:
        return False

    def cut(self, batch: int) -> Tensor:
        return self._images[:batch].contiguous()


class OwnItems:
    """The inputs of the first batch of a user's training, cut or repeated to the size that is wanted."""

    def __init__(self, recipe: Own) -> None:
        self._recipe = recipe
        self._inputs: Any = None
        self._own, self._whole = 1, False

    def read(self, most: int) -> None:
        """Read the first batch, once: `most` items are had from it by repeating them."""
        if self._inputs is not None or not most:
            return
        self._inputs, _ = next(endless(self._recipe.training.data, self._recipe.name))
        lengths: set[int] = set()
        mapped(self._inputs, lambda each: lengths.add(count_items(each) if each.dim() else 0))
        self._own = max(lengths, default=1) or 1
        self._whole = len(lengths) != 1 or 0 in lengths

    def sizes(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        return (self._own,) if self._whole else wanted

    def keep_whole(self) -> bool:
        """Take the batch as it comes from now on; that was so already where it cannot be cut."""
        before, self._whole = self._whole, True
        return not before

    def cut(self, batch: int) -> Any:
        if self._whole:
            return self._inputs
        chosen = torch.arange(batch) % self._own
        return mapped(self._inputs, lambda each: each.index_select(0, chosen))


def host_items(recipe: BuiltIn | Own) -> HostItems:
    return OwnItems(recipe) if isinstance(recipe, Own) else BuiltInItems(recipe)


class Carrier:
    """Brings batches to the device and answers back.

    As written it does so as everybody writes it; at a lane's best, from pinned memory and into it, so that nothing
    waits before the fence.
    """

    def __init__(self, device: torch.device, *, pinned: bool) -> None:
        self._device = device
        self.pinned = pinned and device.type == "cuda"
        self._buffers: dict[tuple[Any, ...], Tensor] = {}
        self._place = 0

    def to_device(self, value: Any) -> Any:
        if self._device.type == "cpu":
            return value
        return mapped(value, lambda each: each.to(self._device, non_blocking=self.pinned))

    def to_host(self, value: Any) -> Any:
        if self._device.type == "cpu":
            return value
        self._place = 0
        return mapped(value, self._into_buffer if self.pinned else Tensor.cpu)

    def forget(self) -> None:
        self._buffers.clear()

    def _into_buffer(self, answer: Tensor) -> Tensor:
        """Copy each answer of a call into a standing buffer of its own."""
        self._place += 1
        key = (self._place, answer.shape, answer.dtype)
        if key not in self._buffers:
            self._buffers[key] = torch.empty_like(answer, device="cpu", pin_memory=True)
        return self._buffers[key].copy_(answer, non_blocking=True)


def lay_out(value: Tensor, *, channels_last: bool, pin: bool) -> Tensor:
    """Give a tensor in the lane's layout, in memory that the device can copy from by itself where that is wanted."""
    wanted = torch.channels_last if channels_last and value.dim() == 4 else torch.contiguous_format
    placed = value.contiguous(memory_format=wanted)
    return placed.pin_memory() if pin else placed


def mapped(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """Change every tensor in dicts, lists and tuples; all else stays as it is."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: mapped(each, change) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(each, change) for each in value))
    if isinstance(value, tuple | list):
        return type(value)(mapped(each, change) for each in value)
    return value
