"""A dataset that decodes each item once. Decoded items are kept in memory that all loader workers share.

An item is kept as a few buffers: its arrays as they are in memory, the rest as a short pickle. A returned item has its
own memory, so changing it in place does not change the kept one. NumPy arrays and PyTorch tensors on the processor are
copied once; anything else is pickled as it would be for a worker. PyTorch is not imported here: if there is a tensor,
the script has imported it.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import mmap
import operator
import os
import pickle
import re
import secrets
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from laptime.machine.sensors.cgroup import memory_left_bytes, memory_limit_bytes
from laptime.model.errors import UsageError
from laptime.model.quantities import Missing, brief
from laptime.store.disk import is_alive

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
        return not any(buffer is array for array in self.arrays)


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
        counts = store.count()
        return Kept(
            items=counts.items,
            of=store.items,
            used_bytes=counts.used_bytes,
            room_bytes=store.room_bytes,
            hits=counts.hits,
            misses=counts.misses,
            not_kept=counts.not_kept,
        )

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
    has_items = hasattr(dataset, "__getitem__")
    if any(base.__name__ == "IterableDataset" for base in type(dataset).__mro__):
        has_items = False  # PyTorch's class has a `__getitem__` that raises
    with contextlib.suppress(TypeError, NotImplementedError):
        if has_items and len(dataset) >= 0:
            return
    missing = "length (__len__)" if has_items else "items by number (__getitem__)"
    hint = "give a dataset with __getitem__ and __len__, or a list: what is only iterated has no numbers to keep it by"
    if type(dataset).__module__.startswith("tensorflow."):
        hint = "tf.data keeps for itself: dataset.cache().shuffle(...).batch(...).prefetch(tf.data.AUTOTUNE)"
    elif kind == "DataLoader":
        hint = "wrap the dataset that the loader reads: DataLoader(laptime.cached(dataset), ...)"
    raise UsageError(f"laptime.cached was given {kind}, which has no {missing}", hint)


# Numbered items in memory that all processes of a training share. The first process that has an item writes it.
#
# An item's place is published in one word after the item is written, so a reader sees it whole or not at all. Readers
# need no lock. Writers take turns only while they reserve room and publish a place. The lock is the kernel's: it is
# released when its holder dies, and then only the reserved room is lost. What does not fit is not kept, and nothing is
# ever evicted, so each lap costs the same.
#
# On Linux the memory is a file without a name: it disappears however the processes end, and the size of /dev/shm does
# not matter. A child process opens it through its parent, under /proc. Elsewhere it is a file in the temporary folder,
# which the process that made it removes when it ends.

BYTES_UNITS = {"B": 1}
BYTES_UNITS |= {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)}
BYTES_UNITS |= {f"{letter}IB": 1024**power for power, letter in enumerate("KMGT", 1)}
WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?B)\s*", re.IGNORECASE)
SIZE_HOW = 'write it as "4 GB", "512MB", "1.5 GiB", or give the bytes as a whole number'
NAMELESS = hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir()

_paths: dict[int, str] = {}  # by descriptor, for files that have a name
COUNTER_BYTES = 8
CACHE_LINE = 64  # a processor's cache line: everything begins on one, so that arrays are aligned
# Words of the head. Up to `GIVEN_WORD` the system has allocated the memory.
KIND_WORD, TOKEN_WORD, ITEMS_WORD, NEXT_WORD, GIVEN_WORD = range(5)
OUR_KIND = 0x6C61_7074_0001
COUNTERS = 256  # how many processes at a time have their own counter
WHO_COUNTER, HITS_COUNTER, MISSES_COUNTER, NOT_KEPT_COUNTER = range(4)  # words of a counter
COUNTERS_BYTES = CACHE_LINE * (1 + COUNTERS)
COUNTER_PLACES = range(CACHE_LINE // COUNTER_BYTES, COUNTERS_BYTES // COUNTER_BYTES, CACHE_LINE // COUNTER_BYTES)
ALLOCATED_CHUNK_BYTES = 16 << 20  # allocated from the system at once
LEFT_FREE_BYTES = 64 << 20

_open: weakref.WeakValueDictionary[int, SharedItemStore] = weakref.WeakValueDictionary()


def read_memory(memory: str | int) -> int:
    """Return the bytes that the argument `memory` means."""
    if isinstance(memory, int) and not isinstance(memory, bool):
        if memory > 0:
            return memory
        raise UsageError(f"memory={memory}: expected more than 0 bytes", SIZE_HOW)
    found = WRITTEN.fullmatch(memory) if isinstance(memory, str) else None
    unit = BYTES_UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None:
        raise UsageError(f"memory={memory!r}: that is no amount of memory", SIZE_HOW)
    size = int(float(found[1]) * unit)
    if size < 1:
        raise UsageError(f"memory={memory!r}: expected more than 0 bytes", SIZE_HOW)
    return size


def check_memory(size: int) -> None:
    """Refuse more memory than is free: the system kills a training that fills all memory, without a message."""
    free, whose = free_memory()
    if size > free:
        raise UsageError(
            f"memory={write_memory(size)}: {write_memory(free)} are free {whose}",
            "state less: items that do not fit are decoded each time, and all others are kept",
        )


def free_memory() -> tuple[int, str]:
    """Return the bytes that may still be used, and what limits them: the machine or a container."""
    free = int(psutil.virtual_memory().available)
    limit = memory_limit_bytes()
    left = memory_left_bytes()
    if isinstance(limit, Missing) or isinstance(left, Missing) or free <= left:
        return free, f"on this machine of {write_memory(psutil.virtual_memory().total)}"
    return left, f"within this container's limit of {write_memory(limit)}"


def write_memory(size: int) -> str:
    """Return bytes as text, in the largest unit of which there is at least one."""
    for unit in ("TB", "GB", "MB", "KB"):
        if size >= BYTES_UNITS[unit]:
            return f"{brief(size / BYTES_UNITS[unit])} {unit}"
    return f"{size} B"


def open_memory(size: int) -> int:
    """Return a descriptor of `size` bytes of memory. None of it is allocated before it is written."""
    try:
        if NAMELESS:
            descriptor = os.memfd_create("laptime", os.MFD_CLOEXEC)
        else:
            descriptor, path = tempfile.mkstemp(prefix="laptime-")
            _paths[descriptor] = path
        os.ftruncate(descriptor, size)
    except (OSError, OverflowError) as error:
        says = f"memory={write_memory(size)}: the system gives no such shared memory: {error}"
        raise UsageError(says, "state less") from error
    return descriptor


def path_of(descriptor: int) -> str:
    """Return the path by which another process can open the memory while this one runs."""
    return _paths.get(descriptor) or f"/proc/{os.getpid()}/fd/{descriptor}"


def open_others(path: str) -> int:
    """Open the memory that another process made."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(
            f"the memory of a cached dataset cannot be opened by its path {path}: {error.strerror}",
            "pickle it only for processes that are started, by the same user, while it is in use",
        ) from error
    if not path.startswith("/proc/"):
        _paths[descriptor] = path
    return descriptor


def close_memory(descriptor: int, owner: int | None) -> None:
    """Close the memory. Only the owner removes its file: a forked child also comes here, and must not."""
    path = _paths.pop(descriptor, None)
    os.close(descriptor)
    if path is not None and os.getpid() == owner:
        with contextlib.suppress(OSError):
            Path(path).unlink()


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """The sums of what all processes have counted."""

    items: int
    used_bytes: int
    hits: int
    misses: int
    not_kept: int


class SharedItemStore:
    """One process's view of the shared memory. `make_store` makes it; `reopen` opens it in another process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._bytes = memoryview(mmap.mmap(descriptor, os.fstat(descriptor).st_size))
        self._words = self._bytes.cast("q")
        self.token = self._words[TOKEN_WORD]
        self.after_fork()
        _open[self.token] = self

    def after_fork(self) -> None:
        """Reset what belongs to one process: the locks of its threads, and its counter."""
        self._turn = threading.Lock()
        self._counting = threading.Lock()
        self._counter = 0

    @property
    def items(self) -> int:
        return self._words[ITEMS_WORD]

    @property
    def room_bytes(self) -> int:
        return len(self._bytes)

    def get(self, number: int) -> list[memoryview] | None:
        """Return views of an item's parts in the shared memory. The caller must not change them."""
        place = self._words[COUNTERS_BYTES // COUNTER_BYTES + number]
        if not place:
            self._count(MISSES_COUNTER)
            return None
        self._count(HITS_COUNTER)
        first = place // COUNTER_BYTES
        lengths = self._words[first + 1 : first + 1 + self._words[first]].tolist()
        begin = place + _rounded(COUNTER_BYTES * (1 + len(lengths)))
        parts = []
        for length in lengths:
            parts.append(self._bytes[begin : begin + length])
            begin += _rounded(length)
        return parts

    def put(self, number: int, parts: Sequence[Any]) -> bool:
        """Keep an item. Return whether there was room for it."""
        views = [memoryview(part).cast("B") for part in parts]
        head = _rounded(COUNTER_BYTES * (1 + len(views)))
        place = self._take(head + sum(_rounded(len(view)) for view in views))
        if not place:
            self.refuse()
            return False
        first = place // COUNTER_BYTES
        begin = place + head
        self._words[first] = len(views)
        for offset, view in enumerate(views, 1):
            self._words[first + offset] = len(view)
            self._bytes[begin : begin + len(view)] = view
            begin += _rounded(len(view))
        with self._alone():  # the lock makes the writes before it visible to later holders
            self._words[COUNTERS_BYTES // COUNTER_BYTES + number] = place
        return True

    def refuse(self) -> None:
        """Count an item that was not kept."""
        self._count(NOT_KEPT_COUNTER)

    def count(self) -> StoreCounts:
        """Return the sums over all processes, and what is kept now."""
        first = COUNTERS_BYTES // COUNTER_BYTES
        empty = self._words[first : first + self.items].tolist().count(0)
        used = self._words[NEXT_WORD] - _first_place(self.items)
        return StoreCounts(
            items=self.items - empty,
            used_bytes=used,
            hits=sum(self._words[at + HITS_COUNTER] for at in COUNTER_PLACES),
            misses=sum(self._words[at + MISSES_COUNTER] for at in COUNTER_PLACES),
            not_kept=sum(self._words[at + NOT_KEPT_COUNTER] for at in COUNTER_PLACES),
        )

    def _take(self, size: int) -> int:
        """Reserve `size` bytes. Return where they begin, or 0 if there is no room."""
        with self._alone():
            place = self._words[NEXT_WORD]
            if place + size > self.room_bytes or not self._give(place + size):
                return 0
            self._words[NEXT_WORD] = place + size
            return place

    def _give(self, end: int) -> bool:
        """Allocate memory up to `end` now. If a mere write found no memory, the system would kill the process."""
        given = self._words[GIVEN_WORD]
        if end <= given:
            return True
        until = min(self.room_bytes, max(end, given + ALLOCATED_CHUNK_BYTES))
        if until - given + LEFT_FREE_BYTES > free_memory()[0]:
            return False
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self._descriptor, given, until - given)
            except OSError:
                return False
        self._words[GIVEN_WORD] = until
        return True

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock. The kernel's lock is between processes, so threads of one process take another one first."""
        with self._turn:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def _count(self, what: int) -> None:
        if not self._counter:
            # Take a counter that no living process has, and go on from its value.
            own = os.getpid()
            at = 0
            with self._alone():
                for at in COUNTER_PLACES:
                    holder = self._words[at + WHO_COUNTER]
                    if holder in {0, own} or not is_alive(holder):
                        self._words[at + WHO_COUNTER] = own
                        break
            self._counter = at  # with more processes than counters, the last counter is shared, and may miss a few
        with self._counting:
            self._words[self._counter + what] += 1

    def __reduce__(self) -> tuple[Any, tuple[str, int]]:
        """Pickle the path and the token, so that a process started while this one runs can reopen the memory."""
        return reopen, (path_of(self._descriptor), self.token)


def make_store(items: int, room_bytes: int) -> SharedItemStore:
    """Make a store for `items` items with room for `room_bytes`, allocated as items are written."""
    least = _first_place(items)
    if room_bytes < least + CACHE_LINE:
        raise UsageError(
            f"memory={write_memory(room_bytes)}: the table of {items:,} items alone takes {write_memory(least)}",
            "state more memory",
        )
    descriptor = open_memory(room_bytes // CACHE_LINE * CACHE_LINE)
    with mmap.mmap(descriptor, least) as head, memoryview(head) as view, view.cast("q") as words:
        words[KIND_WORD] = OUR_KIND
        words[TOKEN_WORD] = secrets.randbits(62)
        words[ITEMS_WORD] = items
        words[NEXT_WORD] = words[GIVEN_WORD] = least
    store = SharedItemStore(descriptor)
    weakref.finalize(store, close_memory, descriptor, os.getpid())
    return store


def reopen(path: str, token: int) -> SharedItemStore:
    """Return this process's store, or open it. Two stores in one process would release each other's locks."""
    held = _open.get(token)
    if held is not None:
        return held
    descriptor = open_others(path)
    with mmap.mmap(descriptor, COUNTERS_BYTES, prot=mmap.PROT_READ) as head, memoryview(head) as view:
        marks = view.cast("q")[: TOKEN_WORD + 1].tolist()
    if marks != [OUR_KIND, token]:
        close_memory(descriptor, None)
        raise UsageError("a cached dataset came from a process that is gone, and what it kept with it",
                         "pickle it only for processes that are started while it is in use")  # fmt: skip
    store = SharedItemStore(descriptor)
    weakref.finalize(store, close_memory, descriptor, None)
    return store


def _first_place(items: int) -> int:
    return COUNTERS_BYTES + _rounded(COUNTER_BYTES * items)


def _rounded(size: int) -> int:
    return -(-size // CACHE_LINE) * CACHE_LINE


def _renew_all() -> None:
    for store in list(_open.values()):
        store.after_fork()


os.register_at_fork(after_in_child=_renew_all)
