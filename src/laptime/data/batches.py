"""Read and write the batches of CIFAR-10's archive: pickles as Python 2 wrote them. Reading one runs none of its code.

Every name in a pickle is looked up in a table of stand-ins, which only store their arguments. A name that is not in
the table is an error. The arrays are then built here, from plain bytes.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from laptime.data.archive import AGAIN, ArchiveArrays, read_batches
from laptime.errors import UsageError

Value = bytes | int | Sequence[bytes] | Sequence[int] | npt.NDArray[np.uint8]
Table = Mapping[bytes, Value]
PIXELS = 3 * 32 * 32
CLASSES = 10


class PickleRefusedError(Exception):
    """A pickle names something that a batch of images does not need, or it is not a pickle."""


class PickledArray:
    """Replaces an array or its dtype while a pickle is read."""

    def __init__(self, *given: Any) -> None:
        self.given = given
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: object) -> None:
        self.state = state if isinstance(state, tuple) else ()


def _as_bytes(text: object, _encoding: object = None) -> bytes:
    """Replace `codecs.encode`, with which Python 3 writes bytes for Python 2."""
    return text.encode("latin-1") if isinstance(text, str) else b""


STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): PickledArray,
    ("numpy", "ndarray"): PickledArray,
    ("numpy", "dtype"): PickledArray,
    ("_codecs", "encode"): _as_bytes,
}


class _Reader(pickle._Unpickler):  # noqa: SLF001  the C one allocates 64 GB for nine bytes with a large memo index
    """Python's unpickler in pure Python, as fast here, without BYTEARRAY8, which allocates before it reads bytes."""

    dispatch = {  # noqa: RUF012  as in its base class
        code: act
        for code, act in pickle._Unpickler.dispatch.items()  # noqa: SLF001
        if code != pickle.BYTEARRAY8[0]
    }

    def find_class(self, module_name: str, global_name: str) -> Any:
        try:
            return STAND_INS[module_name, global_name]
        except KeyError:
            raise PickleRefusedError(f"it asks for {module_name}.{global_name}") from None

    def persistent_load(self, pid: Any) -> Any:
        raise PickleRefusedError(f"it asks for an object {pid!r} from elsewhere")


def read_batch(data: bytes) -> dict[str, Any]:
    """Return a batch's contents. Keys are text, arrays are uint8, other strings stay bytes."""
    try:
        read = _Reader(io.BytesIO(data), encoding="bytes").load()
    except PickleRefusedError:
        raise
    except Exception as error:  # noqa: BLE001  a damaged pickle can raise anything, and it always means the same
        raise PickleRefusedError(f"it is no whole pickle ({type(error).__name__}: {error})") from None
    if not isinstance(read, dict):
        raise PickleRefusedError(f"it holds a {type(read).__name__} and not a table of pictures and labels")
    return {_text(key): _array(value) if isinstance(value, PickledArray) else value for key, value in read.items()}


def _text(key: object) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)


def _array(taken: PickledArray) -> npt.NDArray[np.uint8]:
    """Build a uint8 array from the state in numpy's own pickle: version, shape, type, order, bytes."""
    try:
        _, shape, kind, by_column, data = taken.state
        data = data.encode("latin-1") if isinstance(data, str) else data
        if kind.given[0] not in {b"u1", "u1"} or by_column:
            raise PickleRefusedError("its pictures are not rows of bytes")
        return np.frombuffer(data, np.uint8).reshape(shape)
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise PickleRefusedError(f"its pictures cannot be put together ({error})") from None


def write_batch(table: Table) -> bytes:
    """Write a table as Python 2 does, so that every reader of the real batches can read it."""
    items = b"".join(_put(key) + _put(value) for key, value in table.items())
    return pickle.PROTO + b"\x02" + pickle.EMPTY_DICT + pickle.MARK + items + pickle.SETITEMS + pickle.STOP


def _put(value: Value) -> bytes:
    if isinstance(value, bytes):
        return pickle.BINSTRING + struct.pack("<i", len(value)) + value
    if isinstance(value, int):
        return pickle.BININT + struct.pack("<i", value)
    if isinstance(value, np.ndarray):
        return _put_array(value)
    return pickle.EMPTY_LIST + pickle.MARK + b"".join(map(_put, value)) + pickle.APPENDS


def _put_array(array: npt.NDArray[np.uint8]) -> bytes:
    kind = b"cnumpy\ndtype\n" + _tuple(_put(b"u1"), _put(0), _put(1)) + pickle.REDUCE
    nothing = pickle.NONE
    kind += _tuple(_put(3), _put(b"|"), nothing, nothing, nothing, _put(-1), _put(-1), _put(0)) + pickle.BUILD
    empty = b"cnumpy.core.multiarray\n_reconstruct\n"
    empty += _tuple(b"cnumpy\nndarray\n", _tuple(_put(0)), _put(b"b")) + pickle.REDUCE
    shape = _tuple(*map(_put, array.shape))
    return empty + _tuple(_put(1), shape, kind, pickle.NEWFALSE, _put(array.tobytes())) + pickle.BUILD


def _tuple(*parts: bytes) -> bytes:
    return pickle.MARK + b"".join(parts) + pickle.TUPLE


def read_part(place: Path, names: tuple[str, ...], md5: Mapping[str, str] | None) -> ArchiveArrays:
    """Read some batches into one array. Without `md5` no digest is checked."""
    parts = {name: _arrays_of(place, name, data) for name, data in read_batches(place, names, md5)}
    rows = np.concatenate([parts[name][0] for name in names])
    images = np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return ArchiveArrays(images, np.concatenate([parts[name][1] for name in names]))


def _arrays_of(place: Path, name: str, data: bytes) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    try:
        batch = read_batch(data)
        labels = np.array(batch["labels"], np.int64)
        rows = batch["data"].reshape(len(labels), PIXELS)
    except PickleRefusedError as error:
        raise UsageError(f"{name} in {place} is no batch of CIFAR-10: {error}", AGAIN) from None
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError):
        raise UsageError(f"{name} in {place} is no batch of CIFAR-10: pictures or labels are missing", AGAIN) from None
    if labels.ndim != 1 or not ((labels >= 0) & (labels < CLASSES)).all():
        raise UsageError(f"{name} in {place} is no batch of CIFAR-10: its labels are not {CLASSES} classes", AGAIN)
    return rows, labels
