"""What every process reports, whatever it was asked to do. Heats, trainings and profiles each hold one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from laptime.model.missing import Missing
from laptime.model.timeline import Timeline

ProcessStatus = Literal["ok", "dnf", "running", "interrupted"]
NOT_FINISHED = Missing("the process did not finish")
WAITING = "held"  # the phase in which a child waits for its turn while another is timed
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
class Template:
    """The process from which a heat was forked: the framework was imported in it, and nothing computed.

    Each template of a question has its own `number`. `start_s` and `import_s` are how long its start and imports took.
    """

    number: int
    start_s: float
    import_s: float


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """One lane in one process. A training that was resumed keeps the phases of its first process.

    `timeline` is what the sensors read, where the process was watched. `items_per_step` and `parameters` are what the
    process found once its network was built. `node` is the computer of a cluster on which it ran. `template` is set
    where the process was forked: `start` and `import` of `phases_s` are then those of the template, `fork` its own.
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
    template: Template | None = None

    @property
    def spent_s(self) -> float:
        """How long the process itself took, without the time in which it waited for its turn."""
        theirs = ("start", "import") if self.template is not None else ()
        return sum(each for name, each in self.phases_s.items() if name not in (WAITING, *theirs))
