"""Does a user's data set return another item when it is asked for the same one again? Then no item may be kept.

Asked after the windows, in the process of the heat: an item that is fetched draws from the same random numbers as any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laptime.backends.python.arrays import list_leaves, read_array
from laptime.model.missing import Missing

ITEMS, TIMES = 8, 4  # a flip of every second item differs in all but one of some thousand looks
ENOUGH_NS = 1_000_000_000
NO_ITEMS = Missing("its data have no items by number")


def find_redrawn(data: Any, clock: Callable[[], int]) -> bool | Missing:
    """Fetch some items several times, for about a second; return whether any of them came out different."""
    items = getattr(data, "dataset", data)
    if not (hasattr(items, "__getitem__") and hasattr(items, "__len__")) or isinstance(items, dict):
        return NO_ITEMS
    if type(items) in {list, tuple} or hasattr(items, "shape"):
        return False  # it holds its items, which may be large
    began_ns = clock()
    try:
        for number in range(min(ITEMS, len(items))):
            first = _values_of(items[number])
            for _ in range(TIMES - 1):
                if _values_of(items[number]) != first:
                    return True
                if clock() - began_ns > ENOUGH_NS:
                    return False
    except Exception as error:  # noqa: BLE001  whatever a user's data set raises where its loader is not
        return Missing(f"fetching an item a second time ended in {type(error).__name__}: {error}")
    return False


def _values_of(item: Any) -> list[Any]:
    """Return all numbers and words of an item, to be compared."""
    return [
        (tuple(leaf.shape), read_array(leaf).tobytes()) if hasattr(leaf, "shape") else leaf
        for leaf in list_leaves(item)
    ]
