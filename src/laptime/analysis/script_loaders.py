"""Events of data loaders -> what it took to start them again for later epochs: also those of a validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from laptime.attach import kinds

LOADERS_MOST = 64  # a script may make a new one for each epoch


@dataclass(slots=True)
class _Begins:
    """How often a loader began, and what it took to begin and to end, and until its first batches came."""

    times: int = 0
    started_ns: int = 0
    firsts: int = 0
    first_ns: int = 0


@dataclass(slots=True)
class _Starts:
    """One loader: its first time, later ones, and its other batches."""

    first: _Begins = field(default_factory=_Begins)
    later: _Begins = field(default_factory=_Begins)
    others: int = 0
    other_ns: int = 0
    waits_for_first: bool = False


class LoaderStarts:
    """Adds up what each loader takes to begin, to have its first batch, and to end.

    Of very many loaders, all further ones count as the last of those that have a place.
    """

    def __init__(self) -> None:
        self._found: dict[int, _Starts] = {}
        self._last = 0

    def take(self, kind: int, begin: int, end: int, value: int) -> None:
        """Take a start of a loader, a batch of it, or its end."""
        loader = value >> kinds.ITEMS_SHIFT if kind == kinds.FETCH else value
        if loader not in self._found and len(self._found) >= LOADERS_MOST:
            loader = self._last
        found = self._found.setdefault(loader, _Starts())
        self._last = loader
        took = end - begin
        if kind == kinds.LOADER_OPEN:
            found.waits_for_first = True
            (found.later if found.first.times else found.first).times += 1
        now = found.later if found.later.times else found.first
        if kind != kinds.FETCH:
            now.started_ns += took
        elif not found.waits_for_first:
            found.others += 1
            found.other_ns += took
        else:
            found.waits_for_first = False
            now.firsts += 1
            now.first_ns += took

    def again_s(self, loaders: Sequence[int]) -> float:
        """Return what loaders that are alike took to begin, but for the first time of the first one.

        That is more than as many other batches were waited for.
        """
        known = [self._found[loader] for loader in loaders if loader in self._found]
        again = [starts.later for starts in known] + [starts.first for starts in known[1:]]
        others = sum(starts.others for starts in known)
        usual = sum(starts.other_ns for starts in known) / others if others else 0.0
        waited = sum(begins.first_ns for begins in again) - usual * sum(begins.firsts for begins in again)
        return (sum(begins.started_ns for begins in again) + max(0.0, waited)) / 1e9
