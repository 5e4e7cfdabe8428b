"""What ran on a device, as plain figures: the time in which any kernel ran, and the operator of each kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from laptime.model.missing import Missing
from laptime.model.profile import NOT_TOLD, DeviceSum, OperatorSum

COPIES = ("memcpy", "memset")  # run by a card's copy engines; all frameworks use these names


@dataclass(frozen=True, slots=True)
class Activity:
    """A kernel or a copy; `cause` is the operator that launched it, if known."""

    name: str
    start_ns: float
    end_ns: float
    cause: str | None = None

    @property
    def is_kernel(self) -> bool:
        return not self.name.lower().startswith(COPIES)


def sum_device(activities: Iterable[Activity]) -> DeviceSum:
    """Return how long any kernel ran, how many ran, and the sum of their times, in which overlapping ones all count."""
    kernels = [each for each in activities if each.is_kernel]
    busy_ns = unite_ns((each.start_ns, each.end_ns) for each in kernels)
    return DeviceSum(busy_ns, len(kernels), sum(each.end_ns - each.start_ns for each in kernels))


def unite_ns(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the time that the intervals cover together."""
    covered, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        if end > reached:
            covered += end - max(start, reached)
            reached = end
    return covered


def overlap_ns(some: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]) -> float:
    """Return the time that both cover."""
    return unite_ns(some) + unite_ns(others) - unite_ns([*some, *others])


def sum_operators(activities: Sequence[Activity], memory_bytes: Mapping[str, float] | None) -> tuple[OperatorSum, ...]:
    """Return the device's time by operator; a kernel without a known operator, as in a graph, keeps its own name.

    `memory_bytes` is the device memory that each operator allocated, which kernels do not report. Operators that only
    allocated memory are included. Without it, memory figures are missing.
    """
    times: dict[str, list[float]] = {}
    for each in activities:
        times.setdefault(each.cause or each.name, []).append(each.end_ns - each.start_ns)
    taken = memory_bytes or {}
    for name in taken:
        times.setdefault(name, [])
    untold: float | Missing = NOT_TOLD if memory_bytes is None else 0.0
    return tuple(
        OperatorSum(name, "device", len(lengths), sum(lengths), taken.get(name, untold))
        for name, lengths in times.items()
    )
