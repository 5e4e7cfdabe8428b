"""What the processes of one lane (its ranks) report, where several train one network together."""

from __future__ import annotations

from dataclasses import dataclass, field

from laptime.model.missing import Missing

RANK_IS_GONE = "its process is gone"
REASON_S = 2.0  # a rank may be lost before it is known how its process ended


@dataclass(frozen=True, slots=True)
class RankTimes:
    """How long each rank took for a window's steps.

    `slowest_ns` adds up the slowest rank of each single step: if the ranks have to wait for each other in every step,
    they take that long even if nothing is exchanged.
    """

    rank_ns: tuple[int, ...]
    slowest_ns: int


@dataclass(frozen=True, slots=True)
class Collectives:
    """What the framework's profiler saw in some steps of one rank, after its windows: times of one step.

    A collective was in progress for `in_progress_ns`. For `exposed_ns` of that, nothing was computed next to it.
    """

    by: str
    steps: int
    step_ns: float
    in_progress_ns: float
    exposed_ns: float


@dataclass(frozen=True, slots=True)
class CollectiveSum:
    """The same, added up over all steps that a profiler saw."""

    in_progress_ns: float
    exposed_ns: float


@dataclass(frozen=True, slots=True)
class RankReport:
    """One rank over a whole heat. `waited_s` is how long its threads were ready to run and had no core.

    `absent` says why `collectives` is missing.
    """

    rank: int
    device: str
    host: str
    first_step_ns: int
    peak_memory_bytes: int | Missing
    device_memory_bytes: int | Missing
    waited_s: float | Missing
    timed_s: float
    collectives: Collectives | None = None
    absent: dict[str, Missing] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exchange:
    """The time of one all-reduce of this many bytes among the ranks of a heat, with nothing else to do."""

    size_bytes: int
    ns: float
