"""Lets a user's function find in float64 what it holds besides its arguments: data of a validation, weights of classes.

A reference in float64 widens states and batches. What a closure, a global or the object of a method holds is no part of
them, and float32 next to float64 ends a step of PyTorch.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from laptime.engine.backends.arrays import has_floats, list_arrays, rebuild, widen_held

HeldPlace = tuple[
    Callable[[], Any], Callable[[Any], None]
]  # what reads a value that a function holds, and what sets it


@contextlib.contextmanager
def widened_closure(function: Any) -> Iterator[None]:
    """Meanwhile, let a function hold copies in float64 of its float arrays, and of models; of nothing else."""
    before: list[tuple[Callable[[Any], None], Any]] = []
    memo: dict[int, Any] = {}
    widened: dict[int, Any] = {}
    try:
        for read, put in _places_of(function):
            value = read()
            with contextlib.suppress(Exception):  # what cannot be copied or widened stays as it is
                if any(map(has_floats, list_arrays(value))):
                    wide = rebuild(copy.deepcopy(value, memo), widen_held, widened)
                    before.append((put, value))
                    put(wide)
        yield
    finally:
        for put, value in before:
            put(value)


def _places_of(function: Any) -> list[HeldPlace]:
    """Return the places of what a function holds, and the functions of its module that it holds or names."""
    places: list[HeldPlace] = []
    first = inspect.unwrap(function)
    rest = [first if isinstance(first, FunctionType | MethodType) else getattr(first, "__call__", None)]  # noqa: B004
    known: set[int] = set()
    while rest:
        held = rest.pop()
        if id(held) in known or isinstance(held, type | ModuleType):
            continue
        known.add(id(held))
        if isinstance(held, MethodType):
            rest.append(held.__func__)
            attributes = getattr(held.__self__, "__dict__", {})
            places += [_in_dict(attributes, name) for name in attributes]
        elif isinstance(held, FunctionType):
            found = [*map(_in_cell, filter(_is_filled, held.__closure__ or ()))]
            found += [_in_dict(held.__globals__, name) for name in _names_in(held.__code__) & held.__globals__.keys()]
            values = [read() for read, _ in found]
            rest += [value for value in values if getattr(value, "__module__", None) == held.__module__]
            places += [
                place
                for place, value in zip(found, values, strict=True)
                if not isinstance(value, type | ModuleType | FunctionType | MethodType)
            ]
    return places


def _in_cell(cell: CellType) -> HeldPlace:
    return lambda: cell.cell_contents, lambda value: setattr(cell, "cell_contents", value)


def _in_dict(held: dict[str, Any], name: str) -> HeldPlace:
    return lambda: held[name], lambda value: held.__setitem__(name, value)


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  an empty one raises
    except ValueError:
        return False
    return True


def _names_in(code: CodeType) -> set[str]:
    """Return the names in a function's code, and in what is defined within it."""
    inner = [_names_in(const) for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*inner)
