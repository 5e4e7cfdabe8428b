"""Events of data loaders -> what it took to start them again for later epochs: also those of a validation."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.attach import kinds

LOADERS_MOST = 64  # a script may make a new one for each epoch


@dataclass(slots=True)
class _Starts:
    """One loader: how often it began, and what it took from its second time on, in nanoseconds."""

    times: int = 0
    started_ns: int = 0  # to begin, and to end
    firsts: int = 0
    first_ns: int = 0  # until its first batches came
    others: int = 0
    other_ns: int = 0
    waits_for_first: bool = False


class LoaderStarts:
    """Adds up what each loader takes to begin, to have its first batch, and to end."""

    def __init__(self) -> None:
        self._found: dict[int, _Starts] = {}

    def take(self, kind: int, begin: int, end: int, value: int) -> None:
        """Take a start of a loader, a batch of it, or its end."""
        loader = value >> kinds.ITEMS_SHIFT if kind == kinds.FETCH else value
        if loader not in self._found and len(self._found) >= LOADERS_MOST:
            return
        found = self._found.setdefault(loader, _Starts())
        took = end - begin
        if kind == kinds.LOADER_OPEN:
            found.times += 1
            found.waits_for_first = True
        if kind != kinds.FETCH:
            found.started_ns += took if found.times > 1 else 0
        elif not found.waits_for_first:
            found.others += 1
            found.other_ns += took
        else:
            found.waits_for_first = False
            if found.times > 1:
                found.firsts += 1
                found.first_ns += took

    def again_s(self, loader: int) -> float:
        """Return what its later starts took: more than as many other batches were waited for."""
        found = self._found.get(loader, _Starts())
        usual = found.other_ns / found.others if found.others else 0.0
        return (found.started_ns + max(0.0, found.first_ns - found.firsts * usual)) / 1e9
