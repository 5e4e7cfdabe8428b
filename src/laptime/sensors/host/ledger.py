"""Counters of a tree of processes whose members come and go: what an ended one had used is there, and there once.

When a process is waited for, the kernel adds what it used to what its parent's ended children used. Nobody is told of
one whose parent ended before it, or does not care for its children. So what an ended member was last seen with is held
against what its nearest living ancestor has taken over since: what that falls short of is kept here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

Counts = tuple[float, ...]


class Relative(Protocol):
    """One process of the tree, known by its parent."""

    @property
    def parent(self) -> Self | None: ...


M = TypeVar("M", bound=Relative)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a process shows: its counts with those of its ended children, and what grows as it takes over children's."""

    total: Counts
    taken: Counts


class Ledger(Generic[M]):
    def __init__(self, width: int) -> None:
        self._kept = self._most = (0.0,) * width
        self._last: Mapping[M, Shown] = {}

    def add_up(self, shown: Mapping[M, Shown]) -> Counts:
        """Give the whole tree's counts; they never fall."""
        if not self._last.keys() <= shown.keys():
            self._settle(shown)
        self._last = shown
        columns = zip(*(each.total for each in shown.values()), self._kept, self._most, strict=True)
        self._most = tuple(max(sum(column[:-1]), column[-1]) for column in columns)
        return self._most

    def _settle(self, shown: Mapping[M, Shown]) -> None:
        owed: dict[M | None, list[Counts]] = {}
        for member, last in self._last.items():
            if member not in shown:
                owed.setdefault(_heir(member, shown), []).append(last.total)
        for heir, debts in owed.items():
            grown = self._grown(heir, shown)
            short = (max(0.0, sum(debt) - each) for debt, each in zip(zip(*debts, strict=True), grown, strict=True))
            self._kept = tuple(kept + each for kept, each in zip(self._kept, short, strict=True))

    def _grown(self, heir: M | None, shown: Mapping[M, Shown]) -> Counts:
        """Give what an heir has taken over since it was seen last; nobody takes nothing."""
        if heir is None:
            return (0.0,) * len(self._kept)
        now = shown[heir].taken
        before = self._last[heir].taken if heir in self._last else (0.0,) * len(now)
        return tuple(after - earlier for after, earlier in zip(now, before, strict=True))


def _heir(member: M, shown: Mapping[M, Shown]) -> M | None:
    heir = member.parent
    while heir is not None and heir not in shown:
        heir = heir.parent
    return heir
