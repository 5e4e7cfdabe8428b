"""The blocks of a card's memory that PyTorch's caching allocator would take and keep for a sequence of tensors.

Its rules, as of PyTorch 2 without expandable segments: sizes are rounded up to 512 bytes. Up to 1 MiB, blocks are cut
from segments of 2 MiB; below 10 MiB, from segments of 20 MiB; a larger one has a segment of its own, rounded up to
2 MiB. The smallest free block that is large enough is taken, and what is left of it is cut off if it is worth it. A
freed block joins its free neighbours. A segment is never given back.
"""

from __future__ import annotations

from bisect import bisect_left, insort

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Optional

LEAST_BLOCK = 512  # bytes of a block
SMALL = 1 << 20
SMALL_SEGMENT = 2 << 20
MIDDLE = 10 << 20
MIDDLE_SEGMENT = 20 << 20
LARGE_STEP = 2 << 20  # a larger segment is a multiple of this


def block_bytes(size: int) -> int:
    """Return the bytes of the block for a tensor of a size."""
    return -(-size // LEAST_BLOCK) * LEAST_BLOCK if size > 0 else 0


class CardBlock:
    """A part of a segment, between its neighbours."""

    __slots__ = ("after", "at", "before", "is_free", "is_small", "size")

    def __init__(self, at: int, size: int, *, is_small: bool) -> None:
        self.at = at
        self.size = size
        self.is_small = is_small
        self.is_free = False
        self.before: Optional[CardBlock] = None
        self.after: Optional[CardBlock] = None


class CachingAllocator:
    """Takes and frees blocks. `reserved` are the bytes of all segments."""

    def __init__(self) -> None:
        self.reserved = self._end = 0
        # Free blocks of small and of all other segments, by size and address: both are sorted lists.
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        self._by_address: dict[int, CardBlock] = {}

    def take(self, size: int) -> Optional[CardBlock]:
        """Return a block for a tensor of a size; none for an empty one."""
        size = block_bytes(size)
        if not size:
            return None
        is_small = size <= SMALL
        free = self._free[is_small]
        at = bisect_left(free, (size, 0))
        if at < len(free):
            block = self._by_address.pop(free.pop(at)[1])
            block.is_free = False
        else:
            large = -(-size // LARGE_STEP) * LARGE_STEP
            whole = SMALL_SEGMENT if is_small else MIDDLE_SEGMENT if size < MIDDLE else large
            block = CardBlock(self._end, whole, is_small=is_small)
            self.reserved += whole
            self._end += whole + 1  # no segment touches another
        left = block.size - size
        if left >= LEAST_BLOCK if is_small else left > SMALL:
            rest = CardBlock(block.at + size, left, is_small=is_small)
            rest.before = block
            rest.after = block.after
            if block.after is not None:
                block.after.before = rest
            block.after = rest
            block.size = size
            self._keep(rest)
        return block

    def free(self, block: Optional[CardBlock]) -> None:
        if block is None:
            return
        for other in (block.before, block.after):
            if other is None or not other.is_free:
                continue
            free = self._free[other.is_small]
            free.pop(bisect_left(free, (other.size, other.at)))
            del self._by_address[other.at]
            first, second = (block, other) if block.at < other.at else (other, block)
            first.size += second.size
            first.after = second.after
            if second.after is not None:
                second.after.before = first
            block = first
        self._keep(block)

    def _keep(self, block: CardBlock) -> None:
        block.is_free = True
        insort(self._free[block.is_small], (block.size, block.at))
        self._by_address[block.at] = block
