"""What a profiler saw in some steps of a lane, off the clock: operators by time and by memory, kernels, a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from laptime.model.limits import StepWork
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator, for a step on average: its own time, without that of operators that it calls in turn.

    `where` is the side on which the time was spent: the processor, or the device that works beside it.
    `memory_bytes` is what it took anew, less what it gave back in the same call.
    """

    name: str
    where: Literal["processor", "device"]
    calls: float
    own_ms: float
    memory_bytes: float | Missing = field(default_factory=lambda: Missing("the profiler does not tell"))


@dataclass(frozen=True, slots=True)
class Profile:
    """Some steps of a lane under its framework's own profiler.

    `plain_ms` is a step without the profiler, taken just before and after in the same process, `profiled_ms` one under
    it: their ratio is what the profiler costs. `device_busy` is the share of the profiled time in which the device had
    a kernel running; kernels are those of a step. `trace` is the file that Perfetto and chrome://tracing open. `absent`
    says, by name, why something is not told that one would look for.
    """

    by: str
    steps: int
    plain_ms: float
    profiled_ms: float
    operators: tuple[Operator, ...]
    device_busy: float | Missing
    kernels: float | Missing
    kernel_mean_us: float | Missing
    trace: str | Missing
    work: StepWork | None
    absent: dict[str, Missing] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileOrder:
    """All that a child needs to know to profile one lane; `trace` is the file that it writes.

    As many steps as take so many `seconds` are profiled, at least three and at most `steps`.
    """

    heat: HeatOrder
    trace: str
    steps: int = 20
    seconds: float = 2.0
