"""Checkpoints: a training's state, saved after each lap and read again. Reading one runs no code.

The file is one .npz. Array 0 is a page of JSON: a tree of dicts, lists, numbers and words that refers to the other
arrays by number. The file is written under a temporary name and then renamed, so a reader finds the old one or the
new one, whole.
"""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from laptime.model.errors import LaneError, UsageError
from laptime.model.frameworks import upgrade_command
from laptime.model.protocol import LapResult
from laptime.store.disk import open_atomically

CHECKPOINT_VERSION = 1
DAMAGES = (
    OSError, ValueError, LookupError, TypeError, EOFError, NotImplementedError, RuntimeError, zlib.error,
    zipfile.BadZipFile, msgspec.MsgspecError,
)  # fmt: skip
"""What reading a damaged file raises. Some come from flags and compressed streams inside the archive."""
Array = npt.NDArray[Any]
DELETE_HINT = "delete it; `laptime resume ID --again` then trains from lap 1"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`identity` names the training that it belongs to; `state` is all that the next step depends on."""

    identity: dict[str, str | int]
    laps: tuple[LapResult, ...]
    state: Any


class Versioned(msgspec.Struct, frozen=True):
    version: int


class Page(Versioned, frozen=True):
    identity: dict[str, str | int]
    laps: tuple[LapResult, ...]
    state: Any


def write_checkpoint(path: Path, held: Checkpoint) -> None:
    """Write the file whole or not at all."""
    arrays: list[Array] = []
    page = Page(CHECKPOINT_VERSION, held.identity, held.laps, _packed(held.state, arrays))
    written = np.frombuffer(msgspec.json.encode(page), np.uint8)
    with open_atomically(path) as file:
        np.savez(file, *[written, *arrays])


def read_checkpoint(path: Path, identity: dict[str, str | int]) -> Checkpoint:
    """Read a checkpoint. Refuse a file that is damaged, of another version, or of another training."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = [stored[f"arr_{number}"] for number in range(len(stored.files))]
        page = _read_page(arrays[0], path)
        state = _unpacked(page.state, arrays)
    except DAMAGES as error:
        raise LaneError(f"the checkpoint {path} cannot be read: {error}", DELETE_HINT) from error
    for key, wanted in identity.items():
        if page.identity.get(key) != wanted:
            found = page.identity.get(key)
            raise LaneError(
                f"the checkpoint {path} is of another training: {key} {found}, expected {wanted}", DELETE_HINT
            )
    return Checkpoint(page.identity, page.laps, state)


def count_laps(path: Path) -> int:
    """Return how many laps a checkpoint holds. The whole file is checked, but its arrays are not kept in memory."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as stored:
            if (damaged := stored.testzip()) is not None:
                raise LaneError(f"the checkpoint {path} cannot be read: {damaged} is damaged", DELETE_HINT)
            with stored.open("arr_0.npy") as page:
                written = np.lib.format.read_array(page, allow_pickle=False)
        return len(_read_page(written, path).laps)
    except DAMAGES as error:
        raise LaneError(f"the checkpoint {path} cannot be read: {error}", DELETE_HINT) from error


def _read_page(written: Array, path: Path) -> Page:
    """Return the page. Its version is checked before its other fields are read."""
    version = msgspec.json.decode(written.tobytes(), type=Versioned).version
    if version != CHECKPOINT_VERSION:
        says = f"the checkpoint {path} has version {version}, this laptime reads {CHECKPOINT_VERSION}"
        raise UsageError(says, f"upgrade: {upgrade_command()}; or resume it with the laptime that wrote it")
    return msgspec.json.decode(written.tobytes(), type=Page)


def _packed(value: Any, arrays: list[Array]) -> Any:
    """Turn a tree into what JSON can hold. Arrays go to `arrays` and are named by number. Keys may be numbers."""
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
