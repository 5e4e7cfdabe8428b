"""Looks into a step: how often the host asks the device for a value, and so waits for it, and from where."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from laptime.backends.torch.callers import READERS, caller, is_users, name_place
from laptime.model.signs import Site

SITES_MOST = 20
# Operators that wait for the device themselves: a value, or a shape that depends on values, is wanted on the host.
WAITING = {"_local_scalar_dense": ".item()", "nonzero": "nonzero", "masked_select": "a mask", "_unique2": "unique"}
COPIES = {"_to_copy", "copy_"}


class Reads:
    """Counts reads while it is entered; on a processor the user's own alone, since there nobody waits for any."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._real: dict[str, Any] = {}
        self._found: Counter[tuple[str, str]] = Counter()
        self._is_within = False
        self._mode = Dispatched(self, device) if device.type != "cpu" else None

    def __enter__(self) -> Self:
        self._real = {name: vars(Tensor)[name] for name in READERS if name in vars(Tensor)}
        inherited = {name: getattr(Tensor, name) for name in READERS if name not in self._real}
        for name, real in (self._real | inherited).items():
            setattr(Tensor, name, self._watched(real, READERS[name]))
        if self._mode is not None:
            self._mode.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        if self._mode is not None:
            self._mode.__exit__(*error)  # type: ignore[no-untyped-call]
        for name in READERS:
            if name in self._real:
                setattr(Tensor, name, self._real[name])
            else:
                delattr(Tensor, name)

    def total(self) -> int:
        return self._found.total()

    def sites(self, steps: int) -> tuple[Site, ...]:
        return tuple(Site(where, what, times / steps) for (where, what), times in self._found.most_common(SITES_MOST))

    def note(self, frame: FrameType, what: str) -> None:
        """Count a read; what it is made of within is not counted again."""
        if not self._is_within:
            self._found[name_place(frame), what] += 1

    def _watched(self, real: Callable[..., Any], what: str) -> Callable[..., Any]:
        @functools.wraps(real)
        def watched(tensor: Tensor, *arguments: Any, **words: Any) -> Any:
            frame = caller()
            if self._is_within or not self._is_asked(tensor, frame):
                return real(tensor, *arguments, **words)
            self.note(frame, what)
            self._is_within = True
            try:
                return real(tensor, *arguments, **words)
            finally:
                self._is_within = False

        return watched

    def _is_asked(self, tensor: Tensor, frame: FrameType) -> bool:
        """An optimizer of PyTorch's reads its own count of steps, which lies on the host: nobody waits for that."""
        if tensor.device.type != self._device.type:
            return False
        return self._device.type != "cpu" or is_users(frame)


class Dispatched(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees what PyTorch's own code, too, asks an accelerator for, as operators are handed out."""

    def __init__(self, reads: Reads, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._reads, self._device = reads, device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        what = self._what_waits(func.overloadpacket.__name__, args, kwargs or {})
        if what is not None:
            self._reads.note(caller(), what)
        return func(*args, **(kwargs or {}))

    def _what_waits(self, name: str, args: Any, words: dict[str, Any]) -> str | None:
        """Tell in a user's words what it is that the host waits for."""
        if not args or not isinstance(args[0], Tensor):
            return None
        is_there = args[0].device.type == self._device.type
        if name == "index":
            return "a mask" if is_there and any(map(_is_mask, args[1])) else None
        if name in WAITING:
            return WAITING[name] if is_there else None
        return ".cpu()" if name in COPIES and _comes_home(name, args, words) else None


def _is_mask(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dtype == torch.bool


def _comes_home(name: str, args: Any, words: dict[str, Any]) -> bool:
    """Tell whether something is copied from the device to the host, which waits for it."""
    if name == "copy_":
        source, to = args[1], args[0].device
        waits = not (len(args) > 2 and args[2]) and not words.get("non_blocking")
    else:
        source, to = args[0], words.get("device")
        waits = not words.get("non_blocking")
    is_home = to is not None and torch.device(to).type == "cpu"
    return waits and is_home and isinstance(source, Tensor) and source.device.type != "cpu"


def count_compiled() -> int:
    """Give how many graphs PyTorch's compiler has made in this process, here or in a user's own code."""
    compiler = sys.modules.get("torch._dynamo.utils")
    return int(compiler.counters["stats"]["unique_graphs"]) if compiler is not None else 0
