"""Memory with numbered places that processes share: each thing is written once, by whoever has it first.

A thing's place is told after the thing is written, in one word, so a reader sees it whole or not at all. Readers ask
nobody. Writers take turns only while they take room and while they tell a place; the turn is a lock of the kernel's,
which lets go of it when its holder dies, and whoever dies in the middle leaves room that is lost and nothing else.
What does not fit is not kept, and nothing is ever thrown out: each lap then costs the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import secrets
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from laptime.disk import is_alive
from laptime.errors import UsageError
from laptime.remedies.memory import free_memory, write_memory
from laptime.remedies.nameless import close_memory, open_memory, open_others, path_of

WORD = 8
LINE = 64  # a processor's cache line: where each thing begins, so that arrays lie well
KIND, TOKEN, ITEMS, NEXT, GIVEN = range(5)  # words of the head: `GIVEN` is how far the system has given the memory
OURS = 0x6C61_7074_0001
COUNTERS = 256  # how many processes at a time count for themselves
WHO, HITS, MISSES, NOT_KEPT = range(4)  # words of a counter
HEAD_BYTES = LINE * (1 + COUNTERS)
CHUNK_BYTES = 16 << 20  # as much is asked of the system at once
LEFT_FREE_BYTES = 64 << 20

_open: weakref.WeakValueDictionary[int, Shelf] = weakref.WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class Count:
    """What all processes together have counted."""

    items: int
    used_bytes: int
    hits: int
    misses: int
    not_kept: int


class Shelf:
    """One process's hold on the shared memory; `make_shelf` makes it and `reopen` finds it again."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._bytes = memoryview(mmap.mmap(descriptor, os.fstat(descriptor).st_size))
        self._words = self._bytes.cast("q")
        self.token = self._words[TOKEN]
        self.after_fork()
        _open[self.token] = self

    def after_fork(self) -> None:
        """Begin anew what belongs to one process: its turns among its own threads, and its counter."""
        self._turn, self._counting = threading.Lock(), threading.Lock()
        self._counter = 0

    @property
    def items(self) -> int:
        return self._words[ITEMS]

    @property
    def room_bytes(self) -> int:
        return len(self._bytes)

    def get(self, number: int) -> list[memoryview] | None:
        """Give the parts of a thing in place, to be copied by whoever wants to change them."""
        place = self._words[HEAD_BYTES // WORD + number]
        if not place:
            self._count(MISSES)
            return None
        self._count(HITS)
        first = place // WORD
        lengths = self._words[first + 1 : first + 1 + self._words[first]].tolist()
        begin = place + _rounded(WORD * (1 + len(lengths)))
        parts = []
        for length in lengths:
            parts.append(self._bytes[begin : begin + length])
            begin += _rounded(length)
        return parts

    def put(self, number: int, parts: Sequence[Any]) -> bool:
        """Keep a thing; tell whether there was room for it."""
        views = [memoryview(part).cast("B") for part in parts]
        head = _rounded(WORD * (1 + len(views)))
        place = self._take(head + sum(_rounded(len(view)) for view in views))
        if not place:
            self.refuse()
            return False
        first, begin = place // WORD, place + head
        self._words[first] = len(views)
        for offset, view in enumerate(views, 1):
            self._words[first + offset] = len(view)
            self._bytes[begin : begin + len(view)] = view
            begin += _rounded(len(view))
        with self._alone():  # what was written before a lock is there for all who come after it
            self._words[HEAD_BYTES // WORD + number] = place
        return True

    def refuse(self) -> None:
        """Count a thing that was not kept."""
        self._count(NOT_KEPT)

    def count(self) -> Count:
        """Add up what all processes have counted, and look at what is there."""
        first = HEAD_BYTES // WORD
        empty = self._words[first : first + self.items].tolist().count(0)
        used = self._words[NEXT] - _first_place(self.items)
        counters = range(LINE // WORD, HEAD_BYTES // WORD, LINE // WORD)
        hits, misses, not_kept = (sum(self._words[at + of] for at in counters) for of in (HITS, MISSES, NOT_KEPT))
        return Count(self.items - empty, used, hits, misses, not_kept)

    def _take(self, size: int) -> int:
        """Give where so many bytes may be written, or 0 where there is no room for them."""
        with self._alone():
            place = self._words[NEXT]
            if place + size > self.room_bytes or not self._give(place + size):
                return 0
            self._words[NEXT] = place + size
            return place

    def _give(self, end: int) -> bool:
        """Have the system give the memory now: asked by a mere write, it would end the process where it has none."""
        given = self._words[GIVEN]
        if end <= given:
            return True
        until = min(self.room_bytes, max(end, given + CHUNK_BYTES))
        if until - given + LEFT_FREE_BYTES > free_memory()[0]:
            return False
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(self._descriptor, given, until - given)
            except OSError:
                return False
        self._words[GIVEN] = until
        return True

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait for this process's turn: the kernel's lock is one of processes, so threads take turns before it."""
        with self._turn:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)

    def _count(self, what: int) -> None:
        if not self._counter:
            self._counter = self._claim()
        with self._counting:
            self._words[self._counter + what] += 1

    def _claim(self) -> int:
        """Find a counter that nobody alive has, and count on where it stands."""
        own, at = os.getpid(), 0
        with self._alone():
            for at in range(LINE // WORD, HEAD_BYTES // WORD, LINE // WORD):
                holder = self._words[at + WHO]
                if holder in {0, own} or not is_alive(holder):
                    self._words[at + WHO] = own
                    break
        return at  # beyond so many processes the last counter is shared, and may miss a few

    def __reduce__(self) -> tuple[Any, tuple[str, int]]:
        """Be found again by a process that is started while this one lives."""
        return reopen, (path_of(self._descriptor), self.token)


def make_shelf(items: int, room_bytes: int) -> Shelf:
    """Make a shelf for so many things, which takes at most so much memory; it comes as things are written."""
    least = _first_place(items)
    if room_bytes < least + LINE:
        raise UsageError(
            f"memory={write_memory(room_bytes)}: the table of {items:,} items alone takes {write_memory(least)}",
            "state more memory",
        )
    descriptor = open_memory(room_bytes // LINE * LINE)
    with mmap.mmap(descriptor, least) as head, memoryview(head) as view, view.cast("q") as words:
        words[KIND], words[TOKEN], words[ITEMS] = OURS, secrets.randbits(62), items
        words[NEXT] = words[GIVEN] = least
    shelf = Shelf(descriptor)
    weakref.finalize(shelf, close_memory, descriptor, os.getpid())
    return shelf


def reopen(path: str, token: int) -> Shelf:
    """Give the shelf that this process has, or open it; two holds in one process would undo each other's locks."""
    held = _open.get(token)
    if held is not None:
        return held
    descriptor = open_others(path)
    with mmap.mmap(descriptor, HEAD_BYTES, prot=mmap.PROT_READ) as head, memoryview(head) as view:
        told = view.cast("q")[: TOKEN + 1].tolist()
    if told != [OURS, token]:
        close_memory(descriptor, None)
        raise UsageError("a cached dataset came from a process that is gone, and what it kept with it",
                         "pickle it only for processes that are started while it is in use")  # fmt: skip
    shelf = Shelf(descriptor)
    weakref.finalize(shelf, close_memory, descriptor, None)
    return shelf


def _first_place(items: int) -> int:
    return HEAD_BYTES + _rounded(WORD * items)


def _rounded(size: int) -> int:
    return -(-size // LINE) * LINE


def _renew_all() -> None:
    for shelf in list(_open.values()):
        shelf.after_fork()


os.register_at_fork(after_in_child=_renew_all)
