"""Which items a batch holds: a shuffled walk through all of them, another each lap, known from the batch's number."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


class Numbering:
    """Gives batch number N of an endless training; a lap's last items that fill no batch wait for the next lap."""

    def __init__(self, items: int, batch: int, seed: int) -> None:
        self._items, self._batch, self._seed = items, min(batch, items), seed
        self._repeats = -(-batch // self._batch)
        self._wanted = batch
        self._lap, self._order = -1, np.empty(0, np.int64)

    def __call__(self, number: int) -> Indices:
        lap, place = divmod(number, self._items // self._batch)
        if lap != self._lap:
            self._lap, self._order = lap, np.random.default_rng([self._seed, 0x0DE2, lap]).permutation(self._items)
        chosen = self._order[place * self._batch : (place + 1) * self._batch]
        return np.tile(chosen, self._repeats)[: self._wanted] if self._repeats > 1 else chosen


def rng_of(seed: int, number: int) -> np.random.Generator:
    """Give the random numbers of one batch: the same whoever makes it, and in whatever order."""
    return np.random.default_rng([seed, 0x7042, number])
