"""Read and write CIFAR-10's batches: pickles as Python 2 wrote them, of which nothing can run.

Whatever a pickle names is looked up in a table of stand-ins that only take down what they are told; a name that is
not in the table ends the reading. Arrays are then built here, from plain bytes.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Value = bytes | int | Sequence[bytes] | Sequence[int] | npt.NDArray[np.uint8]
Table = Mapping[bytes, Value]


class PickleRefusedError(Exception):
    """A pickle asks for something that a batch of pictures does not need, or is no pickle."""


class Taken:
    """Stands in for an array or its type of number while a pickle is read."""

    def __init__(self, *given: Any) -> None:
        self.given = given
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: object) -> None:
        self.state = state if isinstance(state, tuple) else ()


def _as_bytes(text: object, _encoding: object = None) -> bytes:
    """Stand in for the way in which Python 3 writes bytes for Python 2."""
    return text.encode("latin-1") if isinstance(text, str) else b""


STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): Taken,
    ("numpy._core.multiarray", "_reconstruct"): Taken,
    ("numpy", "ndarray"): Taken,
    ("numpy", "dtype"): Taken,
    ("_codecs", "encode"): _as_bytes,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        try:
            return STAND_INS[module_name, global_name]
        except KeyError:
            raise PickleRefusedError(f"it asks for {module_name}.{global_name}") from None

    def persistent_load(self, pid: Any) -> Any:
        raise PickleRefusedError(f"it asks for an object {pid!r} from elsewhere")


def read_batch(data: bytes) -> dict[str, Any]:
    """Give what a batch holds; keys are text, arrays are uint8, all other text stays bytes."""
    try:
        read = _Reader(io.BytesIO(data), encoding="bytes").load()
    except PickleRefusedError:
        raise
    except Exception as error:  # noqa: BLE001  a damaged pickle can fail in any way, and each means the same
        raise PickleRefusedError(f"it is no whole pickle ({type(error).__name__}: {error})") from None
    if not isinstance(read, dict):
        raise PickleRefusedError(f"it holds a {type(read).__name__} and not a table of pictures and labels")
    return {_text(key): _array(value) if isinstance(value, Taken) else value for key, value in read.items()}


def _text(key: object) -> str:
    return key.decode("latin-1") if isinstance(key, bytes) else str(key)


def _array(taken: Taken) -> npt.NDArray[np.uint8]:
    """Build an array of bytes in rows from what numpy's own pickle says: version, shape, type, order, bytes."""
    try:
        _, shape, kind, by_column, data = taken.state
        data = data.encode("latin-1") if isinstance(data, str) else data
        if kind.given[0] not in {b"u1", "u1"} or by_column:
            raise PickleRefusedError("its pictures are not rows of bytes")
        return np.frombuffer(data, np.uint8).reshape(shape)
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise PickleRefusedError(f"its pictures cannot be put together ({error})") from None


def write_batch(table: Table) -> bytes:
    """Write a table in Python 2's way, so that whatever reads the real batches reads these."""
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
