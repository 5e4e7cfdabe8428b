"""A dataset that decodes each item once. Decoded items are kept in memory that all loader workers share.

An item is kept as a few buffers: its arrays as they are in memory, the rest as a short pickle. A returned item has
its own memory, so changing it in place does not change the kept one. NumPy arrays and PyTorch tensors on the
processor are copied once; anything else is pickled as it would be for a worker. PyTorch is not imported here: if
there is a tensor, the script has imported it.
"""

from __future__ import annotations

import io
import operator
import pickle
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from laptime.errors import UsageError
from laptime.remedies.shared_items import SharedItemStore, check_memory, make_store, read_memory

OWN_ATTRIBUTES = frozenset({"_laptime_dataset", "_laptime_store"})
NOT_TAKEN_FOR = {"builtins", "numpy", "collections"}  # C code checks the real type of these, so imitation would fail


class UnpackableError(Exception):
    """The item cannot be pickled, so it cannot be kept."""


def pack(item: Any) -> list[Any]:
    """Return a pickle, then the arrays that it refers to. An array that is contiguous is not copied."""
    stream = io.BytesIO()
    packer = _Packer(stream)
    try:
        packer.dump(item)
    except (pickle.PickleError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise UnpackableError(f"{type(item).__name__}: {error}") from error
    return [stream.getbuffer(), *packer.arrays]


def unpack(parts: Sequence[memoryview]) -> Any:
    """Return the item that was packed, in its own memory."""
    return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301  our own process, or a child of it, has written it


class _Packer(pickle.Pickler):
    """A pickler that takes arrays out of the pickle. Other buffers stay in it: they would come back as views."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=5, buffer_callback=self._stays_in)
        self.arrays: list[pickle.PickleBuffer] = []

    def reducer_override(self, found: Any) -> Any:
        """Return how to rebuild an array or tensor; pickle calls this for each object that is not a basic type."""
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
    """Whether this is a dense tensor of PyTorch's own class in host memory, without gradients or extra attributes."""
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
    """Return a tensor. Reading `dtype` from the pickle has imported PyTorch."""
    torch: Any = sys.modules["torch"]
    made = torch.empty(shape, dtype=dtype)
    if made.numel():
        made.reshape(-1).view(torch.uint8).numpy()[:] = np.frombuffer(buffer, np.uint8)
    return made


@dataclass(frozen=True, slots=True)
class Kept:
    """What a cached dataset has done so far, in all processes together.

    `items` of the dataset's `of` items are kept, in `used_bytes` of the given `room_bytes`. A hit was served from
    memory, a miss was decoded. `not_kept` counts misses that did not fit or cannot be pickled; they are decoded again
    in each lap.
    """

    items: int
    of: int
    used_bytes: int
    room_bytes: int
    hits: int
    misses: int
    not_kept: int


def cached(dataset: Any, memory: str | int = "4 GB") -> Any:
    """Wrap a dataset so that each item is decoded once and then served from memory, to every loader worker.

        dataset = laptime.cached(Photographs("train"), memory="4 GB")
        loader = DataLoader(dataset, batch_size=64, num_workers=4, persistent_workers=True)

    The dataset needs `__len__` and `__getitem__`: a PyTorch Dataset, a Keras PyDataset (whose items are batches), or a
    list. The result can replace the dataset: its items are equal and have their own memory, and its attributes are
    the dataset's. Items that do not fit into `memory` are decoded each time, as before. Nothing is evicted, so every
    lap after the first costs the same. The memory is freed when the last process that uses it ends.

    What the dataset draws at random is drawn once and then kept. So put random transforms outside, in a dataset
    around this one. `cached(...).kept` shows what was kept and how often it was used.
    """
    _check_dataset(dataset)
    size = read_memory(memory)
    check_memory(size)
    return Cached(dataset, make_store(len(dataset), size))


class Cached:
    """The wrapped dataset; `cached` makes it. It imitates the dataset that it wraps, including its class."""

    _laptime_dataset: Any
    _laptime_store: SharedItemStore

    def __init__(self, dataset: Any, store: SharedItemStore) -> None:
        object.__setattr__(self, "_laptime_dataset", dataset)
        object.__setattr__(self, "_laptime_store", store)

    @property
    def kept(self) -> Kept:
        """What is kept, and how often it was used."""
        store = self._laptime_store
        told = store.count()
        return Kept(
            told.items, store.items, told.used_bytes, store.room_bytes, told.hits, told.misses, told.not_kept
        )  # fmt: skip

    def __getitem__(self, index: Any) -> Any:
        """Return an item, from memory if it was decoded before. Slices and names go to the dataset."""
        number = self._number(index)
        if number is None:
            return self._laptime_dataset[index]
        parts = self._laptime_store.get(number)
        if parts is not None:
            return unpack(parts)
        item = self._laptime_dataset[index]
        self._keep(number, item)
        return item

    def __len__(self) -> int:
        return len(self._laptime_dataset)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"laptime.cached({self._laptime_dataset!r})"

    def __getattr__(self, name: str) -> Any:
        """Return the dataset's own attributes, but no special methods: `__getitems__` would bypass this class."""
        if name in OWN_ATTRIBUTES or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"a cached dataset has no {name}")
        return getattr(self._laptime_dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._laptime_dataset, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._laptime_dataset, name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The dataset's class: Keras recognizes a PyDataset by it."""
        kind = type(self._laptime_dataset)
        return Cached if kind.__module__.split(".")[0] in NOT_TAKEN_FOR else kind

    def __reduce__(self) -> tuple[Any, tuple[Any, SharedItemStore]]:
        return Cached, (self._laptime_dataset, self._laptime_store)

    def _number(self, index: Any) -> int | None:
        try:
            number = operator.index(index)
        except TypeError:
            return None
        number += self._laptime_store.items if number < 0 else 0
        return number if 0 <= number < self._laptime_store.items else None

    def _keep(self, number: int, item: Any) -> None:
        try:
            self._laptime_store.put(number, pack(item))
        except UnpackableError:
            self._laptime_store.refuse()


def _check_dataset(dataset: Any) -> None:
    kind = type(dataset).__name__
    has_items = hasattr(dataset, "__getitem__") and not _is_iterable_only(dataset)
    if has_items and _has_length(dataset):
        return
    missing = "length (__len__)" if has_items else "items by number (__getitem__)"
    hint = "give a dataset with __getitem__ and __len__, or a list: what is only iterated has no numbers to keep it by"
    if type(dataset).__module__.startswith("tensorflow."):
        hint = "tf.data keeps for itself: dataset.cache().shuffle(...).batch(...).prefetch(tf.data.AUTOTUNE)"
    elif kind == "DataLoader":
        hint = "wrap the dataset that the loader reads: DataLoader(laptime.cached(dataset), ...)"
    raise UsageError(f"laptime.cached was given {kind}, which has no {missing}", hint)


def _is_iterable_only(dataset: Any) -> bool:
    """Whether this is PyTorch's IterableDataset, which inherits a `__getitem__` that raises."""
    return any(each.__name__ == "IterableDataset" for each in type(dataset).__mro__)


def _has_length(dataset: Any) -> bool:
    try:
        return len(dataset) >= 0
    except (TypeError, NotImplementedError):
        return False
