"""Reads and widens states and batches without knowing which library their arrays are from.

Arrays are recognized by a dtype and a shape, and converted to NumPy. Objects with weights are recognized by
`state_dict` or `get_weights`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from laptime.backends.fingerprint import FloatArray
from laptime.errors import LaneError


def list_arrays(tree: Any) -> Iterator[Any]:
    """Yield every array in a state or a batch; those of a dict in key order, as in JAX."""
    if callable(getattr(tree, "state_dict", None)):
        # An optimizer's state holds dicts and lists that fill up during training; weights are at the top level.
        yield from filter(_is_array, tree.state_dict().values())
    elif callable(getattr(tree, "get_weights", None)):
        yield from filter(_is_array, tree.get_weights())
    elif _is_array(tree):
        yield tree
    else:
        for part in _parts(tree).values():
            yield from list_arrays(part)


def list_leaves(tree: Any) -> Iterator[Any]:
    """Yield every array, number and word in an item, and no other object."""
    parts = _parts(tree)
    if parts:
        for part in parts.values():
            yield from list_leaves(part)
    elif _is_array(tree) or isinstance(tree, bool | int | float | complex | str | bytes):
        yield tree


def has_floats(leaf: Any) -> bool:
    """Whether the name of an array's dtype contains "float": float32, torch.float32, <dtype: 'float32'>."""
    return _is_array(leaf) and "float" in str(leaf.dtype)


def read_array(leaf: Any) -> FloatArray:
    """Copy an array to the host, with the methods that frameworks have for that."""
    for word in ("detach", "cpu"):
        if hasattr(leaf, word):
            leaf = getattr(leaf, word)()
    if "bfloat16" in str(getattr(leaf, "dtype", "")) and hasattr(leaf, "float"):
        leaf = leaf.float()  # NumPy has no such type
    on_card = ("get",) if hasattr(leaf, "__cuda_array_interface__") else ()
    for word in ("numpy", "asnumpy", *on_card):
        if hasattr(leaf, word):
            return np.array(getattr(leaf, word)())
    return np.array(leaf)


def widen_batch(batch: Any) -> Any:
    """Return a batch in float64; leave the given one unchanged."""
    return rebuild(batch, _widened, {})


def widen_state(state: Any) -> Any:
    """Widen our own copy of a state to float64; an object that is held twice stays one object."""
    return rebuild(state, _widen_held, {})


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and hasattr(leaf, "shape")


def _parts(tree: Any) -> dict[Any, Any]:
    """Return the parts of a dict, a list, a tuple or a dataclass; an empty dict for anything else."""
    if isinstance(tree, dict):
        return {key: tree[key] for key in _in_order(tree)}
    if isinstance(tree, list | tuple):
        return dict(enumerate(tree))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
    return {}


def _in_order(tree: dict[Any, Any]) -> list[Any]:
    try:
        return sorted(tree)
    except TypeError:
        return list(tree)


def rebuild(tree: Any, change: Callable[[Any], Any], seen: dict[int, Any]) -> Any:
    """Return the tree with each leaf changed once, even if it is held several times."""
    parts = _parts(tree)
    if not parts:
        if id(tree) not in seen:
            seen[id(tree)] = change(tree)
        return seen[id(tree)]
    made = {key: rebuild(part, change, seen) for key, part in parts.items()}
    if isinstance(tree, tuple):
        return tree._make(made.values()) if hasattr(tree, "_make") else tuple(made.values())
    new = copy.copy(tree)
    for key, part in made.items():
        if isinstance(tree, dict | list):
            new[key] = part
        else:
            object.__setattr__(new, key, part)  # a dataclass may be frozen
    return new


def _widen_held(leaf: Any) -> Any:
    """Widen a leaf. A network or a PyTorch tensor is changed in place: an optimizer in the same state holds it too."""
    if not any(map(has_floats, list_arrays(leaf))):
        return leaf
    if not _is_array(leaf):
        return leaf.double() if hasattr(leaf, "double") else _refuse(leaf)
    if hasattr(getattr(leaf, "data", None), "double"):
        leaf.data = _widened(leaf.data)
        return leaf
    return _widened(leaf)


def _widened(leaf: Any) -> Any:
    if not has_floats(leaf):
        return leaf
    wide = leaf.astype("float64") if hasattr(leaf, "astype") else leaf.double() if hasattr(leaf, "double") else leaf
    if "float64" not in str(wide.dtype) and "double" not in str(wide.dtype):
        _refuse(leaf)
    return wide


def _refuse(leaf: Any) -> NoReturn:
    raise LaneError(f"laptime cannot widen {type(leaf).__name__} to float64")
