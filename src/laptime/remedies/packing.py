"""Turn an item into a few buffers and back: its arrays as they lie in memory, all else as a short pickle.

What comes out has memory of its own, so that whoever changes it in place changes nothing that is kept. NumPy's arrays
and PyTorch's tensors on the processor are copied once, by us; anything else is pickled as it would be for a worker.
PyTorch is not imported here: where there is a tensor, somebody has done it.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np


class UnpackableError(Exception):
    """The item cannot be pickled, and so cannot be kept."""


def pack(item: Any) -> list[Any]:
    """Give a pickle, then the arrays that it speaks of. They are the item's own memory, wherever it is in one piece."""
    stream = io.BytesIO()
    packer = _Packer(stream)
    try:
        packer.dump(item)
    except (pickle.PickleError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise UnpackableError(f"{type(item).__name__}: {error}") from error
    return [stream.getbuffer(), *packer.arrays]


def unpack(parts: Sequence[memoryview]) -> Any:
    """Give the item that was packed, in memory of its own."""
    return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301  our own process, or a child of it, has written it


class _Packer(pickle.Pickler):
    """Takes arrays out of the pickle. Other things that would lie beside it stay in: they would come back as views."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=5, buffer_callback=self._stays_in)
        self.arrays: list[pickle.PickleBuffer] = []

    def reducer_override(self, found: Any) -> Any:
        """Be asked for each thing that pickle does not know by itself."""
        if type(found) is np.ndarray and found.dtype.itemsize and not found.dtype.hasobject:
            order = "C" if found.flags.c_contiguous or not found.flags.f_contiguous else "F"
            flat = np.ascontiguousarray(found.T if order == "F" else found).reshape(-1).view(np.uint8)
            dtype = found.dtype if found.dtype.names or found.dtype.metadata else found.dtype.str
            return _array, (self._taken_out(flat), dtype, found.shape, order)
        if _is_plain_tensor(found):
            whole = found.resolve_conj().resolve_neg().contiguous().reshape(-1)
            flat = whole.view(sys.modules["torch"].uint8).numpy()
            return _tensor, (self._taken_out(flat), found.dtype, tuple(found.shape))
        return NotImplemented

    def _taken_out(self, flat: Any) -> pickle.PickleBuffer:
        self.arrays.append(pickle.PickleBuffer(flat))
        return self.arrays[-1]

    def _stays_in(self, buffer: pickle.PickleBuffer) -> bool:
        return not any(buffer is each for each in self.arrays)


def _is_plain_tensor(found: Any) -> bool:
    """A tensor of PyTorch's own class, with its numbers in this memory and nothing that hangs on it."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    if tensor is None or type(found) is not tensor or found.device.type != "cpu":
        return False
    is_dense = "strided" in str(found.layout) and not getattr(found, "is_quantized", False)
    return is_dense and not found.requires_grad and not vars(found)


def _array(buffer: memoryview, dtype: Any, shape: tuple[int, ...], order: Any) -> Any:
    made = np.empty(shape, dtype, order)
    if made.size:
        (made.T if order == "F" else made).reshape(-1).view(np.uint8)[:] = np.frombuffer(buffer, np.uint8)
    return made


def _tensor(buffer: memoryview, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Whoever reads the type's name has imported PyTorch by that."""
    torch: Any = sys.modules["torch"]
    made = torch.empty(shape, dtype=dtype)
    if made.numel():
        made.reshape(-1).view(torch.uint8).numpy()[:] = np.frombuffer(buffer, np.uint8)
    return made
