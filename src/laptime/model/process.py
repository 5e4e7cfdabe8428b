"""What every process reports, whatever it was asked to do, and what the sensors read meanwhile. Heats, trainings and
profiles each hold one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal

from laptime.model.frameworks import FrameworkRow, find_framework
from laptime.model.quantities import Missing
from laptime.model.rows import parts_of

ProcessStatus = Literal["ok", "dnf", "running", "interrupted"]
PROCESS_NOT_FINISHED = Missing("the process did not finish")
HELD_PHASE = "held"  # the phase in which a child waits for its turn while another is timed
NODE_IS_GONE = "its node is gone"


@dataclass(frozen=True, slots=True)
class Dnf:
    """Why and where a process did not finish; it is a result like any other.

    `kind` is the class of the error, as far as it is one of laptime's, "memory" where the system refused some, or
    "node" where that of a cluster is gone.
    """

    phase: str
    reason: str
    signal: str | None = None
    exit_code: int | None = None
    peak_memory_bytes: int | Missing = field(default_factory=lambda: Missing("the process was gone"))
    stderr_tail: str = ""
    kind: str = ""

    @property
    def lost_its_node(self) -> bool:
        return self.kind == "node"


# Variables that glibc's malloc reads as a process starts. A process sets them later by these numbers of <malloc.h>.
MALLOC_PARAMETERS = {"MALLOC_MMAP_THRESHOLD_": -3, "MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_TOP_PAD_": -2}


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
    `reaches` is what a process in a sandbox can still change outside of it; None where it has no sandbox.
    """

    lane: str
    status: ProcessStatus
    versions: dict[str, str] = field(default_factory=dict)
    parameters: int | None = None
    items_per_step: int | None = None
    phases_s: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    dnf: Dnf | None = None
    peak_memory_bytes: int | Missing = PROCESS_NOT_FINISHED
    device_memory_bytes: int | Missing = PROCESS_NOT_FINISHED
    timeline: Timeline | None = None
    node: str | None = None
    template: Template | None = None
    reaches: tuple[str, ...] | None = None

    @property
    def spent_s(self) -> float:
        """How long the process itself took, without the time in which it waited for its turn."""
        theirs = ("start", "import") if self.template is not None else ()
        return sum(took_s for name, took_s in self.phases_s.items() if name not in (HELD_PHASE, *theirs))


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What the processes of one heat may write to: a `folder`, which is removed after it, and `files` that are there.

    Where it `has_ranks`, these may meet over the network. It `has_namespaces` where the system allows them; then what
    is written in `layered` folders is in a layer of its own, which is removed, too.
    """

    folder: str = ""
    files: tuple[str, ...] = ()
    has_ranks: bool = False
    has_namespaces: bool = False
    layered: tuple[str, ...] = ()


SHM_FOLDER = "/dev/shm"  # noqa: S108
IN_SHARED_MEMORY = "keeping data in shared memory"
REACHES = ("writing files", "using the network", "sending signals", IN_SHARED_MEMORY)
"""From what a system may be unable to keep a process."""


# A lane is one competitor in a race: a framework, a device, and settings.

Preset = Literal["as-written", "best", "fastest"]
Precision = Literal["fp32", "tf32", "bf16", "fp16"]
Execution = Literal["eager", "compile", "graph", "compiled_graph"]
Layout = Literal["framework", "channels_last"]
Optimizer = Literal["framework", "fused"]
Malloc = Literal["system", "keep"]
DenormalMode = Literal["keep", "flush"]
Reads = Literal["at once", "deferred"]
Input = Literal["published", "fast", "cached", "resident", "one", "copy", "only"]

AS_WRITTEN: Preset = "as-written"
# Groups of inputs.
NO_TRAINING: tuple[Input, ...] = ("copy", "only")  # one stage alone: nothing is computed
READY: tuple[Input, ...] = ("cached", "resident", "one")  # kept batches: only the computing is left
KEPT_INPUTS: tuple[Input, ...] = (*READY, "copy")
FROM_FILES: tuple[Input, ...] = ("published", "fast", "only")
# How several devices share a step, as PyTorch calls it: each in a process with all weights, or with its share of them,
# or all in one process.
DATA_PARALLEL = "ddp"
SHARDED = "fsdp"
SPLIT = "dp"
RANKED = (DATA_PARALLEL, SHARDED)  # a process for each device


def is_exactly(name: str, words: str) -> bool:
    """Whether a lane's name is this one, where the default preset may be left out."""
    place, rest = parts_of(name)
    return words in {name, f"{place.removesuffix(f'/{AS_WRITTEN}')}{rest}"}


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane as the user wrote it: `[framework/]device[/setting+setting...]`, before settings are filled in.

    `overrides` holds the settings that were named individually, as (key, value) pairs.
    """

    framework: str
    device: str | None
    preset: Preset = AS_WRITTEN
    overrides: tuple[tuple[str, str], ...] = ()

    @property
    def row(self) -> FrameworkRow:
        return find_framework(self.framework)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a lane, filled in: the preset's values on this device, then the named settings.

    `joined` is how many batches of a user's own data make one step. `extra` holds settings that a row of
    `planner.settings.SETTINGS` adds and that have no field here.
    """

    preset: Preset = AS_WRITTEN
    precision: Precision = "fp32"
    execution: Execution = "eager"
    layout: Layout = "framework"
    optimizer: Optimizer = "framework"
    threads: int | None = None
    malloc: Malloc = "system"
    input: Input = "published"
    workers: int | None = None
    batch: int | None = None
    learning_rate: float | None = None
    steps_per_execution: int | None = None
    denormals: DenormalMode = "keep"
    reads: Reads = "at once"
    joined: int | None = None
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def is_compiled(self) -> bool:
        return self.execution in {"compile", "compiled_graph"}

    @property
    def is_captured(self) -> bool:
        """Whether a step, or an answer, is one CUDA graph."""
        return self.execution in {"graph", "compiled_graph"}

    def value_of(self, name: str) -> Any:
        """Return the value of a field or of an extra setting; None where an extra setting is not set."""
        return getattr(self, name, self.extra.get(name))


# What the processes of one lane (its ranks) report, where several train one network together.

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


# What the sensors read while a heat ran: channels, their values and when, on the heat's own clock.

ChannelKind = Literal["gauge", "counter"]


@dataclass(frozen=True, slots=True)
class Channel:
    """One figure that a sensor reads repeatedly.

    `device` is what the figure belongs to: "host" for the whole machine, "heat" for the heat's processes, else the
    sensor's own name of a card or a package, the same in every reading. A gauge is a current value (or an average over
    the sensor's last moments). A counter only grows; what counts is its growth between two readings.
    """

    device: str
    name: str
    unit: str
    kind: ChannelKind = "gauge"


@dataclass(frozen=True, slots=True)
class Opened:
    """What a sensor will read, in the order of its readings; and what it cannot read, with the reasons."""

    channels: tuple[Channel, ...]
    absent: tuple[tuple[Channel, Missing], ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """One channel's readings, in whole steps of its unit, stored as differences to keep an hour of readings small.

    The first is the difference from 0, each later one from the last reading that had a value; None where there was
    none.
    """

    channel: Channel
    step: float
    changes: tuple[int | None, ...]

    def values(self) -> Iterator[float | None]:
        level = 0
        for change in self.changes:
            level += change or 0
            yield None if change is None else level * self.step


@dataclass(frozen=True, slots=True)
class Track:
    """One sensor's readings.

    `first_ns` is the time of the first one on the parent's monotonic clock, `apart_us` the microseconds from each to
    the next. `lost` says why the readings ended before the heat did; `read_us` is the cost of one reading.
    """

    sensor: str
    first_ns: int
    apart_us: tuple[int, ...]
    series: tuple[Series, ...]
    absent: tuple[tuple[Channel, Missing], ...] = ()
    lost: Missing | None = None
    read_us: float = 0.0

    def times_ns(self) -> tuple[int, ...]:
        return tuple(self.first_ns + 1000 * passed for passed in accumulate(self.apart_us, initial=0))

    def find(self, device: str, name: str) -> Series | None:
        return next(
            (series for series in self.series if (series.channel.device, series.channel.name) == (device, name)), None
        )


@dataclass(frozen=True, slots=True)
class Timeline:
    """All that was read while a heat ran, and what could not be read.

    `clock` is set where the child's clock is not the parent's: then no reading can be matched with a window. In
    `pauses_ns` another heat had its turn: this one was stopped, and nothing was read. `cards` are the lane's devices
    that are watched on their own, each with its name in the channels.
    """

    tracks: tuple[Track, ...] = ()
    absent: tuple[tuple[str, Missing], ...] = ()
    clock: Missing | None = None
    pauses_ns: tuple[tuple[int, int], ...] = ()
    cards: tuple[tuple[str, str], ...] = ()

    def find(self, device: str, name: str) -> tuple[Track, Series] | None:
        """Return a channel's readings, and the track that has their times."""
        found = ((track, track.find(device, name)) for track in self.tracks)
        return next(((track, series) for track, series in found if series is not None), None)

    def why_not(self, device: str, name: str) -> Missing:
        """Return the reason why a channel shows nothing."""
        for track in self.tracks:
            for channel, reason in track.absent:
                if (channel.device, channel.name) == (device, name):
                    return reason
        reasons = [f"{sensor}: {reason.missing}" for sensor, reason in self.absent]
        return Missing("; ".join(reasons) or "no instrument shows it")


@dataclass(frozen=True, slots=True)
class Mark:
    """What a process began to do, and when on its monotonic clock; it did so until the next mark."""

    name: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class Watched:
    """One process of a training as the sensors saw it.

    A training that was resumed has several, each with times of its own computer's clock.
    """

    timeline: Timeline
    marks: tuple[Mark, ...] = ()
