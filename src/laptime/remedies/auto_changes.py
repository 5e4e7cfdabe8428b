"""What the items of a DataLoader are made of, as one number: if it changes, workers that stay would not see it.

It looks at what the dataset and the loader's functions hold and name: attributes, dicts, lists, closures, globals and
classes of the training's own modules. Of what is large it looks at a sample. What other processes see anyway, such as
shared memory, is left out, and so are the states of random generators, which differ with each item.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

PARTS_MOST = 256  # of one container or array
VISITED_MOST = 20_000  # which takes some milliseconds; what is nearest to the dataset comes first
PLAIN_KINDS = (str, bytes, int, float, complex, bool, type(None))
SHARED_MODULES = ("multiprocessing", "ctypes", "_ctypes", "mmap", "torch.multiprocessing")


def fingerprint(loader: Any) -> int:
    """Return a number that differs where something differs that the loader's items are made of."""
    return _Look(loader).number


class _Look:
    """One look at what a loader holds."""

    def __init__(self, loader: Any) -> None:
        roots = [loader.dataset, loader.collate_fn, loader.worker_init_fn]
        self._modules = {"__main__", *(getattr(root, "__module__", "") for root in roots)}
        self._loaders = sys.modules["torch"].utils.data.DataLoader
        self._tokens: list[Any] = []
        visited: dict[int, Any] = {}  # what is made for this look stays until its end, so that no number comes twice
        rest = deque(roots)
        while rest and len(self._tokens) < VISITED_MOST:
            value = rest.popleft()
            kind = type(value)
            self._tokens.append(kind)
            if kind in PLAIN_KINDS:
                self._tokens.append(value)
            elif id(value) not in visited:
                visited[id(value)] = value
                rest.extend(self._parts_of(value, kind))
        self.number = hash(tuple(self._tokens))

    def _parts_of(self, value: Any, kind: type) -> Iterable[Any]:
        """Return what a value is made of. Where nothing is known of that, its place in memory is it."""
        if isinstance(value, type):
            return self._class_parts(value)
        if hasattr(value, "nbytes") and hasattr(value, "shape"):
            return _array_parts(value)
        if isinstance(value, Mapping):
            return self._some(value.items(), len(value))
        if isinstance(value, list | tuple | set | frozenset | deque):
            return self._some(value, len(value))
        if isinstance(value, os.PathLike):
            return (os.fspath(value),)
        if isinstance(value, FunctionType):
            return self._function_parts(value)
        if isinstance(value, MethodType):
            return (value.__self__, value.__func__)
        if isinstance(value, functools.partial):
            return (value.func, value.args, value.keywords)
        if isinstance(value, staticmethod | classmethod):
            return (value.__func__,)
        if isinstance(value, property):
            return (value.fget,)
        is_left_out = kind.__module__.startswith(SHARED_MODULES) or isinstance(value, self._loaders | ModuleType)
        held = [] if is_left_out or isinstance(value, BuiltinFunctionType) else list(_attributes_of(value, kind))
        self._tokens.append(id(value) if not held and not is_left_out else None)
        return (*held, kind)

    def _some(self, values: Any, count: int) -> Iterable[Any]:
        """Return the parts of a container, or a sample: those of a list from end to end, else the first ones."""
        self._tokens.append(count)
        if count <= PARTS_MOST:
            return tuple(values)
        if isinstance(values, list | tuple):
            return (*values[:: count // PARTS_MOST + 1], values[-1])
        return islice(values, PARTS_MOST)

    def _function_parts(self, function: FunctionType) -> Iterable[Any]:
        if function.__module__ not in self._modules:
            self._tokens.append(id(function))
            return
        yield from (function.__code__, function.__defaults__, function.__kwdefaults__)
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # it is empty
                yield cell.cell_contents
        for name in _globals_named(function.__code__):
            if name in function.__globals__:
                yield function.__globals__[name]

    def _class_parts(self, kind: type) -> Iterable[Any]:
        if kind.__module__ not in self._modules:
            self._tokens.append(id(kind))
            return ()
        return (
            *kind.__bases__,
            *(
                value
                for name, value in tuple(vars(kind).items())
                if not name.startswith("__") or name in {"__getitem__", "__getitems__", "__call__"}
            ),
        )


def _attributes_of(value: Any, kind: type) -> Iterator[Any]:
    for name, held in tuple(getattr(value, "__dict__", {}).items()):
        yield from (name, held)
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            with contextlib.suppress(AttributeError):  # it is not set
                yield getattr(value, name)


def _array_parts(value: Any) -> Iterable[Any]:
    """Return which array it is, and some of its elements. PyTorch counts how often a tensor was changed."""
    yield from (id(value), str(value.shape))
    if hasattr(value, "is_shared"):
        if not value.is_shared():
            with contextlib.suppress(RuntimeError):  # one made in inference mode has no count
                yield value._version  # noqa: SLF001
    elif hasattr(value, "flat") and not hasattr(value, "filename"):  # a file that is mapped is seen by all processes
        step = value.size // PARTS_MOST + 1
        yield from value.flat[::step].tolist() if not value.dtype.hasobject else ()


@functools.cache
def _globals_named(code: CodeType) -> tuple[str, ...]:
    """Return the names of the globals that a function reads, and those within it."""
    own = [
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in {"LOAD_GLOBAL", "LOAD_NAME"}
    ]
    inner = [name for const in code.co_consts if isinstance(const, CodeType) for name in _globals_named(const)]
    return tuple(dict.fromkeys((*own, *inner)))
