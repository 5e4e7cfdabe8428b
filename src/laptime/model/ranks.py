"""What the processes of one lane (its ranks) report, where several train one network together."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.model.missing import Missing

RANK_IS_GONE = "its process is gone"


@dataclass(frozen=True, slots=True)
class RankTimes:
    """How long each rank took for a window's steps.

    `slowest_ns` adds up the slowest rank of each single step: if the ranks have to wait for each other in every step,
    they take that long even if nothing is exchanged.
    """

    rank_ns: tuple[int, ...]
    slowest_ns: int


@dataclass(frozen=True, slots=True)
class RankReport:
    """One rank over a whole heat. `waited_s` is how long its threads were ready to run and had no core."""

    rank: int
    device: str
    host: str
    first_step_ns: int
    peak_memory_bytes: int | Missing
    device_memory_bytes: int | Missing
    waited_s: float | Missing
    timed_s: float


@dataclass(frozen=True, slots=True)
class Exchange:
    """The time of one all-reduce of this many bytes among the ranks of a heat, with nothing else to do."""

    size_bytes: int
    ns: float
