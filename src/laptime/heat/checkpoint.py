"""A training put on disk after each lap and taken up again: numpy arrays beside a page of JSON, no code to run.

The file is one .npz: array 0 is the page, in which a tree of dicts, lists, numbers and words names arrays by number.
It is written beside its place and then moved there, so that a reader finds the old one or the new one, whole.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from laptime.disk import open_atomically
from laptime.errors import LaneError
from laptime.model.protocol import LapResult

VERSION = 1
Array = npt.NDArray[Any]
HINT = "delete it, and the training begins anew"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`identity` names the training it belongs to; `state` is all that the next step depends on."""

    identity: dict[str, str | int]
    laps: tuple[LapResult, ...]
    state: Any


class Page(msgspec.Struct, frozen=True):
    version: int
    identity: dict[str, str | int]
    laps: tuple[LapResult, ...]
    state: Any


def write_checkpoint(path: Path, held: Checkpoint) -> None:
    """Write the file whole or not at all."""
    arrays: list[Array] = []
    page = Page(VERSION, held.identity, held.laps, _packed(held.state, arrays))
    written = np.frombuffer(msgspec.json.encode(page), np.uint8)
    with open_atomically(path) as file:
        np.savez(file, *[written, *arrays])


def read_checkpoint(path: Path, identity: dict[str, str | int]) -> Checkpoint:
    """Read what was written; refuse a file that is damaged, or that belongs to another training."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = [stored[f"arr_{number}"] for number in range(len(stored.files))]
        page = msgspec.json.decode(arrays[0].tobytes(), type=Page)
        state = _unpacked(page.state, arrays)
    except (OSError, ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile, msgspec.MsgspecError) as error:
        raise LaneError(f"the checkpoint {path} cannot be read: {error}", HINT) from error
    if page.version != VERSION:
        raise LaneError(f"the checkpoint {path} is of version {page.version}, this laptime reads {VERSION}", HINT)
    for key, wanted in identity.items():
        if page.identity.get(key) != wanted:
            found = page.identity.get(key)
            raise LaneError(f"the checkpoint {path} is of another training: {key} {found}, expected {wanted}", HINT)
    return Checkpoint(page.identity, page.laps, state)


def _packed(value: Any, arrays: list[Array]) -> Any:
    """Turn a tree into what JSON can hold; arrays are put aside and named by their number. Keys may be numbers."""
    match value:
        case np.ndarray():
            arrays.append(value)
            return {"array": len(arrays)}
        case dict():
            return {"dict": [[key, _packed(part, arrays)] for key, part in value.items()]}
        case list():
            return {"list": [_packed(part, arrays) for part in value]}
        case tuple():
            return {"tuple": [_packed(part, arrays) for part in value]}
        case None | bool() | int() | float() | str():
            return value
    raise LaneError(f"a training's state holds {type(value).__name__}, which a checkpoint cannot")


def _unpacked(value: Any, arrays: list[Array]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, inside),) = value.items()
    if kind == "array":
        return arrays[inside]
    if kind == "dict":
        return {key: _unpacked(part, arrays) for key, part in inside}
    parts = [_unpacked(part, arrays) for part in inside]
    return tuple(parts) if kind == "tuple" else parts
