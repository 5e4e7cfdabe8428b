"""What a profiler saw in some steps of a lane, off the clock: operators by time and by memory, kernels, a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from laptime.model.limits import StepWork
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder

Side = Literal["processor", "device"]
NOT_TOLD = Missing("the profiler does not tell")
STEPS_LEAST = 3


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator, for a step on average: its own time, without that of operators that it calls in turn.

    `where` is the side on which the time was spent: the processor, or the device that works beside it. On the device
    `calls` are kernels and copies. Where several threads compute at once, their times are added up. `memory_bytes` is
    what it took anew, less what it gave back in the same call.
    """

    name: str
    where: Side
    calls: float
    own_ms: float
    memory_bytes: float | Missing = NOT_TOLD


@dataclass(frozen=True, slots=True)
class Profile:
    """Some steps of a lane under its framework's own profiler.

    `plain_ms` is a step without the profiler, taken just before and after in the same process, `profiled_ms` one under
    it: their ratio is what the profiler costs. `device_busy` is the share of the profiled time in which the device had
    a kernel running, and `device_ms` so much of a step; kernels are those of a step. `trace` is the file that Perfetto
    and chrome://tracing open. `absent` says, by name, why something is not told that one would look for.
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
    device_ms: float | Missing = NOT_TOLD
    absent: dict[str, Missing] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def cost(self) -> float:
        """Give how many times as long a step takes under the profiler."""
        return self.profiled_ms / self.plain_ms


@dataclass(frozen=True, slots=True)
class OperatorSum:
    """One operator in all the steps that a profiler saw, as a back end tells of it."""

    name: str
    where: Side
    calls: int
    own_ns: float
    memory_bytes: float | Missing = NOT_TOLD


@dataclass(frozen=True, slots=True)
class DeviceSum:
    """What a device did in all the steps that a profiler saw: the time with a kernel running, and the kernels' own."""

    busy_ns: float
    kernels: int
    kernels_ns: float


@dataclass(frozen=True, slots=True)
class Observed:
    """All that a framework's profiler tells of the steps that it saw; `device` may be absent, with the reason."""

    operators: tuple[OperatorSum, ...]
    device: DeviceSum | Missing
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileOrder:
    """All that a child needs to know to profile one lane; `trace` is the file that it writes, `scratch` a folder.

    As many steps as take so many `seconds` are profiled, at least three and at most `steps`. The lane's steps are
    taken as in a heat, but for the proof, which every heat has.
    """

    heat: HeatOrder
    trace: str
    scratch: str
    steps: int = 20
    seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class ProfileRun:
    """What came of profiling one lane: a profile, or the reason why there is none. `is_dnf`: its process failed."""

    profile: Profile | None
    reason: str | None
    is_dnf: bool
    versions: dict[str, str]
    parameters: int | None
    items_per_step: int | None
    first_step_ns: int | None
    phases_s: dict[str, float]
    peak_memory_bytes: int | Missing
    device_memory_bytes: int | Missing
    notes: tuple[str, ...]
