"""What `laptime.cached` gains, and what a hit costs: at most one and a half copies of the item, and 50 us.

    python bench/cached.py              5 rounds (some 40 seconds)
    python bench/cached.py --rounds 2   a short try

A dataset that takes 5 ms for an item of 3x224x224 float32 is read by PyTorch's DataLoader in batches of 16, as it is
and cached, without workers and with two; the cached one in laps after the first. A hit gives an item memory of its own,
so a list's item is copied too. The limit is that of one such copy, half of another for the table and the pages of
shared memory that a process meets for the first time, and 50 us for what is not copying.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import laptime
from common import Figure, figure_of, finish, parser_for, side_by_side
from laptime.model.stats import median, paired_ratio

SHAPE = (3, 224, 224)
DECODE_S = 0.005
BATCH = 16
MOST_COPIES, MOST_BEYOND_US = 1.5, 50.0
ALPHA = 0.05


class Slow:
    """A dataset that is busy for some milliseconds with each item, as a decoder is."""

    def __init__(self, items: int) -> None:
        self.items = items

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> tuple[Any, int]:
        until = time.perf_counter() + DECODE_S
        while time.perf_counter() < until:
            pass
        return np.full(SHAPE, index, np.float32), index


def lap_s(loader: Any) -> float:
    begun = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - begun


def compare_laps(items: int, workers: int, rounds: int) -> tuple[list[Figure], dict[str, Any]]:
    """Read the slow dataset and its cached twin in turns, each by a loader of its own that stays open."""
    from torch.utils.data import DataLoader

    words: dict[str, Any] = {"batch_size": BATCH, "num_workers": workers, "persistent_workers": workers > 0}
    dataset = laptime.cached(Slow(items), items * 700_000)
    plain, cached = DataLoader(Slow(items), **words), DataLoader(dataset, **words)
    first_s = lap_s(cached)
    lap_s(plain)
    took, others = side_by_side(rounds, lambda: lap_s(cached), lambda: lap_s(plain))
    kept = dataset.kept
    assert (kept.items, kept.misses, kept.hits) == (items, items, items * rounds), kept
    name = f"{workers} workers"
    figures = [
        Figure(f"{name}: as it is", items / median(others), "items/s"),
        Figure(f"{name}: cached, later laps", items / median(took), "items/s"),
        Figure(f"{name}: cached, first lap", items / first_s, "items/s"),
        figure_of(f"{name}: cached over as it is", paired_ratio(took, others, ALPHA), "times", least=1.0),
    ]
    return figures, {f"{name}, laps in s": {"cached": took, "as it is": others, "first": first_s}}


def each_us(things: Sequence[Any]) -> float:
    """Return how long one item takes, on average over all of them in order."""
    begun = time.perf_counter()
    for index in range(len(things)):
        things[index]
    return 1e6 * (time.perf_counter() - begun) / len(things)


class Copied:
    """A list whose items are copied as they are taken."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        image, label = self.items[index]
        return image.copy(), label


def compare_hits(items: int, rounds: int) -> tuple[list[Figure], dict[str, Any]]:
    """Take each item from memory, from a list, and from a list with a copy."""
    plain = [(np.full(SHAPE, index, np.float32), index) for index in range(items)]
    small = [(np.full(10, index, np.float32), index) for index in range(items)]
    cached, cached_small = laptime.cached(plain, items * 700_000), laptime.cached(small, "10 MB")
    for dataset in (cached, cached_small):
        for _ in range(2):
            each_us(dataset)
    hits, copies = side_by_side(5 * rounds, lambda: each_us(cached), lambda: each_us(Copied(plain)))
    listed = [each_us(plain) for _ in range(5 * rounds)]
    smalls = [each_us(cached_small) for _ in range(5 * rounds)]
    beyond = median([hit - MOST_COPIES * copy for hit, copy in zip(hits, copies, strict=True)])
    figures = [
        Figure("a hit, 3x224x224 float32", median(hits), "us"),
        Figure("a list's item, copied", median(copies), "us"),
        Figure("a list's item", median(listed), "us"),
        Figure("a hit, 10 floats", median(smalls), "us"),
        Figure(f"a hit beyond {MOST_COPIES} copies", beyond, "us", most=MOST_BEYOND_US),
    ]
    return figures, {"a hit, us": hits, "a copy, us": copies, "a small hit, us": smalls}


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--items", type=int, default=128, metavar="N")
    given = parser.parse_args()
    figures, details = compare_hits(given.items, given.rounds)
    for workers in (0, 2):
        found, told = compare_laps(given.items, workers, given.rounds)
        figures += found
        details |= told
    return finish("cached", figures, given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
