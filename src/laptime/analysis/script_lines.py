"""Timed lines of a watched script -> on which of them each part of an iteration is spent; its memory -> a trend."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from laptime.analysis.heats import ALPHA
from laptime.analysis.script_units import Unit, laid_out
from laptime.attach import kinds
from laptime.model.quantities import Missing
from laptime.model.script import GrowingList, MemoryTrend, Phases, SeenLine, SeenReads, SpanPart
from laptime.model.stats import mean_interval

SHARE_LEAST = 0.02  # of the time of a part: a line that takes less is not kept
LINES_KEPT = 16  # of each part
TIMED_PLACES_MOST = 4096
READS_KEPT = 16
LISTS_KEPT = 16


class LineTimes:
    """Adds up what the script's lines took, for each part of an iteration."""

    def __init__(self) -> None:
        self._ns: Counter[tuple[SpanPart, int]] = Counter()
        self._waited: Counter[tuple[SpanPart, int]] = Counter()  # of that, in which nothing was computed
        self._runs: dict[int, float] = {}  # how often they run in a step, if often
        self._fetches: Counter[int] = Counter()  # of what else makes batches: the training only waits for it
        self._reads: dict[int, tuple[int, int]] = {}
        self._steps = 0  # in which reads were counted
        self._lists: dict[tuple[int, str], GrowingList] = {}
        self._alive: list[tuple[int, int]] = []  # after how many steps how many tensors were alive: first and last

    def add(self, unit: Unit) -> None:
        """Take an iteration whose lines were timed. A line that runs through several parts has a share in each."""
        if unit.spans is None:
            return
        for span in laid_out(unit.begin, unit.end, unit.spans):
            first = unit.begin + span.start_ns
            last = unit.begin + span.end_ns
            for place, begin, end in unit.lines:
                key = span.part, place & kinds.PLACE_MASK
                if begin < last and end > first and (key in self._ns or len(self._ns) < TIMED_PLACES_MOST):
                    took = min(last, end) - max(first, begin)
                    self._ns[key] += took
                    self._waited[key] += took if place & kinds.LINE_WAITED else 0

    def add_fetch(self, place: int, begin: int, end: int) -> None:
        """Take a line of a fetch in a worker process, or in a thread that makes batches."""
        place &= kinds.PLACE_MASK
        if place in self._fetches or len(self._fetches) < TIMED_PLACES_MOST:
            self._fetches[place] += end - begin

    def read(self, places: Mapping[int, tuple[int, int]], steps: int) -> None:
        """Take how often lines read a value of a tensor in some steps, and for how many nanoseconds."""
        self._steps += steps
        for place, (times, ns) in places.items():
            if place in self._reads or len(self._reads) < READS_KEPT:
                before = self._reads.get(place, (0, 0))
                self._reads[place] = (before[0] + times, before[1] + ns)

    def run_often(self, places: Mapping[int, int], steps: int) -> None:
        """Take how often lines ran in some steps."""
        for place, times in places.items():
            if place in self._runs or len(self._runs) < TIMED_PLACES_MOST:
                self._runs[place] = times / max(steps, 1)

    def grows(self, place: int, found: GrowingList) -> None:
        """Take a list that a line made longer. The last that is said of it holds."""
        if (place, found.name) in self._lists or len(self._lists) < LISTS_KEPT:
            self._lists[place, found.name] = found

    def alive(self, tensors: int, step: int) -> None:
        """Take how many tensors were alive behind a step."""
        self._alive = [*self._alive[:1], (step, tensors)]

    @property
    def tensors_per_step(self) -> float | None:
        """How many more tensors were alive with each step; None where that was counted once."""
        if len(self._alive) < 2 or self._alive[1][0] <= self._alive[0][0]:
            return None
        (first, before), (last, after) = self._alive
        return (after - before) / (last - first)

    def lines(
        self, name: Callable[[int], str | None], calls_of: Callable[[int], tuple[str, ...] | None]
    ) -> tuple[SeenLine, ...]:
        """Return the lines that take the most of each part."""
        found: list[SeenLine] = []
        times: dict[SpanPart, dict[int, int]] = {}
        for (part, place), ns in self._ns.items():
            times.setdefault(part, {})[place] = ns
        if self._fetches:
            times["data"] = self._fetches
        for part, here in times.items():
            whole = sum(here.values())
            longest = sorted(here, key=lambda place: -here[place])[:LINES_KEPT]
            for place in longest if whole else ():
                where = name(place)
                if where is None or here[place] < SHARE_LEAST * whole:
                    continue
                found.append(
                    SeenLine(
                        where,
                        part,
                        here[place] / whole,
                        waited=self._waited[part, place] / whole,
                        per_step=self._runs.get(place),
                        calls=calls_of(place) or (),
                    )
                )
        return tuple(found)

    def reads(self, name: Callable[[int], str | None]) -> tuple[SeenReads, ...]:
        """Return the lines that read a value of a tensor, the most frequent first."""
        found = [
            SeenReads(where, times / self._steps, ns / self._steps / 1e6)
            for place, (times, ns) in self._reads.items()
            if self._steps and (where := name(place)) is not None
        ]
        return tuple(sorted(found, key=lambda line: -line.per_step))

    def lists(self, name: Callable[[int], str | None]) -> tuple[GrowingList, ...]:
        """Return the lists that grow; those that keep the graphs of tensors are first."""
        found = [
            GrowingList(where, grown.name, grown.per_step, grown.holds, grown.bytes_each)
            for (place, _), grown in self._lists.items()
            if (where := name(place)) is not None
        ]
        return tuple(
            sorted(found, key=lambda grown: (grown.holds not in {"graph", "sum"}, -grown.bytes_each * grown.per_step))
        )


def shares_of_lines(lines: Sequence[SeenLine], parts: Phases) -> list[tuple[SeenLine, float]]:
    """Return the lines of the user's own code, each with its share of an iteration."""
    backward = _seconds(parts.backward_s)
    seconds: dict[SpanPart, float] = {
        "forward": parts.forward_backward_s - backward,
        "backward": backward,
        "data": _seconds(parts.data_wait_s),
        "optimizer": _seconds(parts.optimizer_s),
        "outside": _seconds(parts.outside_s),
        "no_grad": _seconds(parts.no_grad_s),
        "unattributed": parts.unattributed_s,
    }
    whole = parts.wall_s or 1.0
    return [(line, line.share * max(seconds.get(line.part, 0.0), 0.0) / whole) for line in lines]


def by_line(shares: Iterable[tuple[SeenLine, float]]) -> list[tuple[str, float]]:
    """Return each line with its share in all parts, the largest first."""
    found: defaultdict[str, float] = defaultdict(float)
    for line, share in shares:
        found[line.where] += share
    return sorted(found.items(), key=lambda pair: -pair[1])


def longest_lines(lines: Sequence[SeenLine], parts: Phases) -> list[tuple[str, float]]:
    """Return lines of the user's own code with their shares of an iteration, the longest first."""
    return by_line(shares_of_lines(lines, parts))


def _seconds(part: float | Missing) -> float:
    return 0.0 if isinstance(part, Missing) else part


def join_workers(loading: Sequence[Sequence[SeenLine]]) -> tuple[SeenLine, ...]:
    """Return the lines that take most of the fetches of several worker processes, each with its mean share."""
    shares: dict[str, float] = {}
    for seen_line in (line for lines in loading for line in lines):
        shares[seen_line.where] = shares.get(seen_line.where, 0.0) + seen_line.share / len(loading)
    longest = sorted(shares, key=lambda where: -shares[where])[:LINES_KEPT]
    return tuple(SeenLine(where, "data", shares[where], in_worker=True) for where in longest)


# Memory that grows: looks at it four times a second, each with the number of iterations at that time.

LOOKS_MOST = 1024  # of more, every second is kept
LOOKS_LEAST = 12  # of a trend
MEMORY_WARM_UP = 1 / 3  # of the iterations: memory is taken then that is used again later
TREND_BLOCKS = 6
GROWN_LEAST_BYTES = 8 << 20  # in what was looked at: less is the allocator's
GROWN_LEAST = 0.02  # of the memory at the begin of it
RISES_LEAST = 4  # of those from block to block: what is taken at once is no trend


@dataclass(frozen=True, slots=True)
class MemoryLook:
    """How many bytes there were after how many iterations."""

    iterations: int
    bytes: int


class MemoryLooks:
    """Keeps some looks at the memory, of very many every second, fourth ..."""

    def __init__(self) -> None:
        self._kept: list[MemoryLook] = []
        self._every = 1
        self._seen = 0

    def add(self, iterations: int, size: int) -> None:
        """Take the next look."""
        self._seen += 1
        if self._seen % self._every == 0:
            self._kept.append(MemoryLook(iterations, size))
        if len(self._kept) > LOOKS_MOST:
            self._kept = self._kept[1::2]
            self._every *= 2

    def _steady(self) -> list[MemoryLook]:
        """Return the looks behind the warm-up."""
        last = self._kept[-1].iterations if self._kept else 0
        return [memory_look for memory_look in self._kept if memory_look.iterations >= MEMORY_WARM_UP * last]

    def per_iteration(self) -> float | None:
        """Return by how much a total becomes more with each iteration behind the warm-up; None for few looks."""
        kept = self._steady()
        passed = kept[-1].iterations - kept[0].iterations if len(kept) >= LOOKS_LEAST else 0
        return (kept[-1].bytes - kept[0].bytes) / passed if passed > 0 else None

    def trend(self) -> MemoryTrend | None:
        """Return by how much memory grows with each iteration behind the warm-up; None where there were few looks."""
        kept = self._steady()
        if len(kept) < LOOKS_LEAST:
            return None
        edges = [number * len(kept) // TREND_BLOCKS for number in range(TREND_BLOCKS + 1)]
        blocks = [kept[first:end] for first, end in pairwise(edges)]
        sizes = [median(memory_look.bytes for memory_look in block) for block in blocks]
        at = [fmean(memory_look.iterations for memory_look in block) for block in blocks]
        passed = (at[-1] - at[0]) / (TREND_BLOCKS - 1)
        if passed <= 0:
            return None
        rises = [(later - before) / passed for before, later in pairwise(sizes)]
        mean, low, high = mean_interval(rises, ALPHA)
        grown = sizes[-1] - sizes[0]
        enough = max(GROWN_LEAST_BYTES, GROWN_LEAST * sizes[0])
        grows = low > 0 and grown >= enough and sum(rise > 0 for rise in rises) >= RISES_LEAST
        return MemoryTrend(mean, low, high, round(sizes[0]), round(sizes[-1]), grows=grows)
