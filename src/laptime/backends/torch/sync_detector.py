"""Finds where the host waits for the device: each read of a tensor's value, and the code that reads it."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from laptime.model.symptoms import Site

TORCH_FOLDER, OUR_FOLDER = f"{Path(torch.__file__).parent}/", f"{Path(__file__).parents[2]}/"
# All methods of a tensor that return a value to the host, and how users write them.
READERS = {
    "item": ".item()",
    "tolist": ".tolist()",
    "__float__": "float()",
    "__int__": "int()",
    "__bool__": "bool()",
    "__index__": "int()",
    "cpu": ".cpu()",
    "numpy": ".numpy()",
    "__array__": ".numpy()",
    "__repr__": "print",
    "__format__": "print",
}
SITES_MOST = 20
# Operators that wait for the device themselves: the host needs a value, or a shape that depends on values.
WAITING_OPERATORS = {
    "_local_scalar_dense": ".item()",
    "nonzero": "nonzero",
    "masked_select": "a mask",
    "_unique2": "unique",
}
COPY_OPERATORS = {"_to_copy", "copy_"}


def is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not file.startswith((TORCH_FOLDER, OUR_FOLDER, "<"))


def users_frame(start: FrameType | None) -> FrameType | None:
    """Return the nearest frame of the user's own code."""
    while start is not None and not is_users(start):
        start = start.f_back
    return start


def name_place(start: FrameType) -> str:
    """Return the file and line of the user's code; if the stack has none, those of PyTorch's code."""
    frame = users_frame(start)
    if frame is not None:
        return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
    within: FrameType | None = start
    while within is not None and not within.f_code.co_filename.startswith(TORCH_FOLDER):
        within = within.f_back
    frame = within or start
    return f"torch/{frame.f_code.co_filename.removeprefix(TORCH_FOLDER)}:{frame.f_lineno}"


def caller(depth: int = 1) -> FrameType:
    """Return the frame that called the caller, or one further back."""
    return sys._getframe(depth + 1)  # noqa: SLF001  inspect's function for this takes a hundred times as long


class SyncDetector:
    """Counts reads while entered; on a processor only those in the user's own code, since no read waits there."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._real: dict[str, Any] = {}
        self._found: Counter[tuple[str, str]] = Counter()
        self._is_within = False
        self._mode = SyncDispatch(self, device) if device.type != "cpu" else None

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
        """Count a read, but not the reads that it makes internally."""
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
        """Whether to count a read. PyTorch's optimizers read their own step count on the host, which does not wait."""
        if tensor.device.type != self._device.type:
            return False
        return self._device.type != "cpu" or is_users(frame)


class SyncDispatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees each operator call that can wait for an accelerator, in PyTorch's own code too."""

    def __init__(self, reads: SyncDetector, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._reads, self._device = reads, device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        what = self._what_waits(func.overloadpacket.__name__, args, kwargs or {})
        if what is not None:
            self._reads.note(caller(), what)
        return func(*args, **(kwargs or {}))

    def _what_waits(self, name: str, args: Any, words: dict[str, Any]) -> str | None:
        """Return what the host waits for, as users write it, or None."""
        if not args or not isinstance(args[0], Tensor):
            return None
        is_there = args[0].device.type == self._device.type
        if name == "index":
            return "a mask" if is_there and any(map(_is_mask, args[1])) else None
        if name in WAITING_OPERATORS:
            return WAITING_OPERATORS[name] if is_there else None
        return ".cpu()" if name in COPY_OPERATORS and _comes_home(name, args, words) else None


def _is_mask(index: Any) -> bool:
    return isinstance(index, Tensor) and index.dtype == torch.bool


def _comes_home(name: str, args: Any, words: dict[str, Any]) -> bool:
    """Whether something is copied from the device to the host, and the host waits for it."""
    if name == "copy_":
        source, to = args[1], args[0].device
        waits = not (len(args) > 2 and args[2]) and not words.get("non_blocking")
    else:
        source, to = args[0], words.get("device")
        waits = not words.get("non_blocking")
    is_home = to is not None and torch.device(to).type == "cpu"
    return waits and is_home and isinstance(source, Tensor) and source.device.type != "cpu"


def count_compiled() -> int:
    """Return how many graphs PyTorch's compiler has made in this process, here or in a user's own code."""
    compiler = sys.modules.get("torch._dynamo.utils")
    return int(compiler.counters["stats"]["unique_graphs"]) if compiler is not None else 0
