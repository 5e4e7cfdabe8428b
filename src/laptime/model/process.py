"""What every fresh process reports, whatever it was asked to do. Heats, trainings and profiles each hold one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from laptime.model.missing import Missing
from laptime.model.timeline import Timeline

ProcessStatus = Literal["ok", "dnf", "running", "interrupted"]
NOT_FINISHED = Missing("the process did not finish")
NODE_IS_GONE = "its node is gone"


@dataclass(frozen=True, slots=True)
class Dnf:
    """Why and where a process did not finish; it is a result like any other."""

    phase: str
    reason: str
    signal: str | None = None
    exit_code: int | None = None
    peak_memory_bytes: int | Missing = field(default_factory=lambda: Missing("the process was gone"))
    stderr_tail: str = ""

    @property
    def lost_its_node(self) -> bool:
        return self.reason.startswith(NODE_IS_GONE)


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """One lane in one fresh process. A training that was resumed keeps the phases of its first process.

    `timeline` is what the sensors read, where the process was watched. `items_per_step` and `parameters` are what the
    process found once its network was built. `node` is the computer of a cluster on which it ran.
    """

    lane: str
    status: ProcessStatus
    versions: dict[str, str] = field(default_factory=dict)
    parameters: int | None = None
    items_per_step: int | None = None
    phases_s: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    dnf: Dnf | None = None
    peak_memory_bytes: int | Missing = NOT_FINISHED
    device_memory_bytes: int | Missing = NOT_FINISHED
    timeline: Timeline | None = None
    node: str | None = None
