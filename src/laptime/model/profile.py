"""What a profiler saw in some steps of a lane, outside the timing: operators by time and memory, kernels, a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from laptime.model.limits import StepWork
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.process import ProcessRun

ComputedOn = Literal["processor", "device"]
PROFILER_TELLS_NOT = Missing("the profiler does not tell")
PROFILED_STEPS_LEAST = 3


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator, averaged per step: its own time, without that of the operators that it calls.

    `where` is the side on which the time was spent: the processor, or the device. On the device `calls` are kernels and
    copies. Where several threads compute at once, their times are added up. `memory_bytes` is what it allocated, minus
    what it freed in the same call.
    """

    name: str
    where: ComputedOn
    calls: float
    own_ms: float
    memory_bytes: float | Missing = PROFILER_TELLS_NOT


@dataclass(frozen=True, slots=True)
class Profile:
    """Some steps of a lane under its framework's own profiler.

    `plain_ms` is a step without the profiler, timed just before and after in the same process; `profiled_ms` is a step
    under it. Their ratio is what the profiler costs. `device_busy` is the share of the profiled time in which the
    device had a kernel running, `device_ms` that time per step; `kernels` are those of one step. `trace` is the file
    that Perfetto and chrome://tracing open. `absent` holds, by name, why an expected figure is missing.
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
    device_ms: float | Missing = PROFILER_TELLS_NOT
    absent: dict[str, Missing] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def cost(self) -> float:
        """How many times as long a step takes under the profiler."""
        return self.profiled_ms / self.plain_ms


@dataclass(frozen=True, slots=True)
class OperatorSum:
    """One operator in all the steps that a profiler saw, as a back end reports it."""

    name: str
    where: ComputedOn
    calls: int
    own_ns: float
    memory_bytes: float | Missing = PROFILER_TELLS_NOT


@dataclass(frozen=True, slots=True)
class DeviceSum:
    """What a device did in all profiled steps: the time with a kernel running, and the sum of the kernels' times."""

    busy_ns: float
    kernels: int
    kernels_ns: float


@dataclass(frozen=True, slots=True)
class Observed:
    """All that a framework's profiler reports of the steps that it saw; `device` may be missing, with the reason."""

    operators: tuple[OperatorSum, ...]
    device: DeviceSum | Missing
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileOrder:
    """All that a child needs to know to profile one lane; `trace` is the file that it writes, `scratch` a folder.

    The child profiles as many steps as take `seconds`: at least three and at most `steps`. Steps run as in a heat, but
    without the proof, which every heat has.
    """

    heat: HeatOrder
    trace: str
    scratch: str
    steps: int = 20
    seconds: float = 2.0


@dataclass(frozen=True, slots=True)
class ProfileRun:
    """The result of profiling one lane: a profile, or the reason why there is none."""

    process: ProcessRun
    profile: Profile | None
    reason: str | None
    first_step_ns: int | None

    @property
    def is_dnf(self) -> bool:
        """Whether there is no profile because the process failed."""
        return self.profile is None and self.process.dnf is not None
