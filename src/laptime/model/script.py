"""What was seen of a script: its processes, and the training loop of each that trained."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from laptime.model.quantities import Estimate, IntervalFigure, Missing
from laptime.model.symptoms import DenormalCensus, TimedPlace

CountedBy = Literal["optimizer steps", "backward passes", "Keras batches", "steps"]
GapKind = Literal["validation", "checkpoint", "loader start", "between epochs", "timing lines"]
SpanPart = Literal[
    "data",
    "copy",
    "no_grad",
    "forward",
    "backward",
    "step",
    "optimizer",
    "checkpoint",
    "disk",
    "outside",
    "unattributed",
]


@dataclass(frozen=True, slots=True)
class Phases:
    """The parts of a time; their sum is `wall_s`.

    `forward_backward_s` is from the batch's arrival to the end of the backward pass, without `copy_s`, in which tensors
    were copied to a card, and `no_grad_s`, in which no gradients were computed (evaluation, metrics); `backward_s` is
    the part of it in backward passes. `outside_s` is from the end of an optimizer's step to the next fetch.
    """

    wall_s: float
    data_wait_s: float | Missing
    forward_backward_s: float
    backward_s: float | Missing
    optimizer_s: float | Missing
    checkpoint_s: float
    outside_s: float | Missing
    unattributed_s: float
    copy_s: float | Missing = field(default_factory=lambda: Missing("copies were not looked at"))
    no_grad_s: float | Missing = field(default_factory=lambda: Missing("evaluation was not looked at"))


@dataclass(frozen=True, slots=True)
class LoopWindow:
    """Some iterations in a row. `start_ns` and `end_ns` are of the monotonic clock; `wall_ns` is without gaps.

    Windows grow as a training gets longer.
    """

    start_ns: int
    end_ns: int
    wall_ns: int
    iterations: int
    items: int
    data_ns: int
    forward_backward_ns: int
    backward_ns: int
    optimizer_ns: int
    checkpoint_ns: int
    outside_ns: int
    shortest_ns: int
    longest_ns: int
    copy_ns: int = 0
    no_grad_ns: int = 0


@dataclass(frozen=True, slots=True)
class IterationSpan:
    """What one stretch of an iteration was spent on, in nanoseconds from the begin of the iteration.

    "step" is all that is seen as one call, "disk" a wait until a disk had what was written.
    """

    part: SpanPart
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class TypicalIteration:
    """One iteration as it was: the `number`th, the middle one by its time `of` some of the steady state.

    Its `spans` follow each other without a hole.
    """

    number: int
    of: int
    wall_ns: int
    spans: tuple[IterationSpan, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """All times of one kind that were between iterations."""

    kind: GapKind
    times: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Multiplicity:
    """What an iteration consists of, on average."""

    fetches: float
    backwards: float
    optimizer_steps: float
    skipped_steps: float


# The parts of an iteration: in words, and the field of `Phases`.
ITERATION_PARTS = (
    ("waiting for data", "data_wait_s"),
    ("copying to the card", "copy_s"),
    ("forward + backward", "forward_backward_s"),
    ("without gradients", "no_grad_s"),
    ("optimizer", "optimizer_s"),
    ("checkpoints", "checkpoint_s"),
    ("outside the step", "outside_s"),
    ("unattributed", "unattributed_s"),
)

FUSIBLE = ("Adam", "AdamW", "SGD", "Adagrad")  # optimizers of PyTorch that have one


@dataclass(frozen=True, slots=True)
class SeenOptimizer:
    """An optimizer, and how many parameters it has on each device, in how many `tensors`.

    `threads`, `finds_anomalies` and `has_mkldnn` are what held in its process as it took its first step.
    """

    name: str
    parameters: dict[str, int]
    dtypes: tuple[str, ...] = ()
    tensors: int | None = None
    is_fused: bool | None = None
    threads: int | None = None
    finds_anomalies: bool | None = None
    has_mkldnn: bool | None = None


@dataclass(frozen=True, slots=True)
class SeenLoader:
    """A data loader by its settings; `batches` is its length, where it has one.

    `prefetched` is how many batches each of its workers may have ready, `queue` how many all workers of Keras may have
    besides those that they work at. The items of one that `is_iterable` have no numbers; those of one that
    `is_in_memory` are rows of tensors.
    """

    batch: int | None
    batches: int | None
    workers: int | None
    pins_memory: bool | None = None
    keeps_workers: bool | None = None
    kind: str = "DataLoader"
    prefetched: int | None = None
    is_iterable: bool | None = None
    queue: int | None = None
    is_in_memory: bool | None = None


@dataclass(frozen=True, slots=True)
class LoopLevels:
    """What an iteration takes before the last lasting level of a training, and what its last iterations take."""

    first_ms: float
    last_ms: float
    last_iterations: int


@dataclass(frozen=True, slots=True)
class TrainingLoop:
    """The iterations of one process.

    `counted` says what was counted as an iteration; "steps" are the batches of `laptime.steps`. `steady_from` is the
    first window that counts for `step_ms` and `steady`: of all but the `warm_iterations` at the beginning, which took
    `warm_s`. Where others take another time later, there are `levels`.
    `unsure` says why the count may be wrong. Of several `trainings` of Keras, with other models or batches, it is the
    longest. `typical` is one of its iterations in time, where their events were kept. Loaders whose worker
    processes start again for each epoch took `restarts_s` for that, also those of a validation. A thread of Keras's
    engine made batches for `made_share` of an iteration. For the share `started_anew` of its iterations, a loader of
    several batches was started.
    """

    counted: CountedBy
    iterations: int
    epochs: int | Missing
    first_ms: float
    step_ms: Estimate | None
    items_per_s: float | Missing
    items_per_iteration: float | Missing
    per_iteration: Multiplicity
    whole: Phases
    steady: Phases
    steady_kind: str
    steady_from: int
    windows: tuple[LoopWindow, ...]
    gaps: tuple[Gap, ...] = ()
    compilations: int = 0
    compile_s: float = 0.0
    losses: tuple[tuple[int, float], ...] = ()
    unsure: str | None = None
    trainings: int = 1
    typical: TypicalIteration | None = None
    restarts_s: float = 0.0
    made_share: float = 0.0
    started_anew: float = 0.0
    warm_iterations: int = 1
    warm_s: float = 0.0
    levels: LoopLevels | None = None


@dataclass(frozen=True, slots=True)
class SeenLine:
    """A line of the script, and its share of the time of a part, in the few iterations whose lines were timed.

    What a library does counts as the script's line that called it. With `in_worker`, worker processes of the data
    loader ran it. `waited` is the share of the part in which the line's thread computed nothing. It ran `per_step`
    times in a step, if often, and `calls` are the names of what it calls, such as torch.save.
    """

    where: str
    part: SpanPart
    share: float
    in_worker: bool = False
    waited: float = 0.0
    per_step: float | None = None
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeenReads:
    """A line that reads values of tensors: how often in a step, and how long a step waits for them."""

    where: str
    per_step: float
    ms: float


@dataclass(frozen=True, slots=True)
class BusyThread:
    """Another thread of Python, where it was last, and for which share of the time it computed.

    For the share `idle`, the thread of the training did not.
    """

    where: str | None
    ran: float
    idle: float


@dataclass(frozen=True, slots=True)
class SeenGraph:
    """How many steps of computing are behind a loss. `is_made` says that its backward pass makes one of its own.

    With each step of the training, there are `per_step` more where what came before is not let go.
    """

    nodes: int
    is_made: bool
    per_step: float = 0.0


@dataclass(frozen=True, slots=True)
class GrowingList:
    """A list, dict or set that a line makes longer in each step, by `per_step` items.

    `holds` says what the last of them was: "graph" a tensor that keeps all that it was computed from. `bytes_each` are
    those of its tensors alone.
    """

    where: str
    name: str
    per_step: float
    holds: str
    bytes_each: int


@dataclass(frozen=True, slots=True)
class MemoryTrend(IntervalFigure):
    """By how many bytes memory became more with each iteration, behind the first third of them.

    `grows` says that this was sure and much; `first_bytes` and `last_bytes` are those of the first and the last sixth.
    """

    bytes_each: float
    low: float
    high: float
    first_bytes: int
    last_bytes: int
    grows: bool


@dataclass(frozen=True, slots=True)
class ScriptProcess:
    """One Python process of the command that reported to laptime.

    `loop` is None where it trained nothing that was seen. `lost` counts events that could not be sent, and `failed`
    holds the hooks that were switched off, with the reason. `census` is the latest count of denormal numbers, among a
    few of the numbers of one optimizer on a processor. `lines` are those that take most of each part of an iteration,
    `places` those of evaluation, checkpoints and waits for the disk, within iterations or (`between`) not, `double_at`
    the one that made numbers float64. `tensors_per_step` is how many more are alive with each step;
    `memory` and `card_memory` say whether these grow;
    None where they were looked at too seldom. `busy_thread` and `graph` are of iterations whose lines were timed.
    What was `left_on` slows each step down, such as a profiler.
    In an iteration, the system hands out `faults` pages of memory, and Python looks for garbage for `collected_ns`.
    """

    pid: int
    parent: int
    python: str
    executable: str
    loop: TrainingLoop | None
    versions: dict[str, str] = field(default_factory=dict)
    rank: int | None = None
    world: int | None = None
    optimizers: tuple[SeenOptimizer, ...] = ()
    loaders: tuple[SeenLoader, ...] = ()
    lost: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    census: DenormalCensus | None = None
    lines: tuple[SeenLine, ...] = ()
    reads: tuple[SeenReads, ...] = ()
    lists: tuple[GrowingList, ...] = ()
    places: tuple[TimedPlace, ...] = ()
    between: tuple[TimedPlace, ...] = ()
    double_at: str | None = None
    tensors_per_step: float | None = None
    memory: MemoryTrend | None = None
    card_memory: MemoryTrend | None = None
    busy_thread: BusyThread | None = None
    graph: SeenGraph | None = None
    faults: float | None = None
    collected_ns: float | None = None
    left_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankSkew(IntervalFigure):
    """How the processes of one training differ: the rank that the others wait for, and by how much.

    In the backward pass, all ranks wait for the slowest. `own_ms` is what an iteration of each rank takes without it,
    and `spread` is the greatest of these over the least. All ranks are compared over the same `iterations`.
    """

    ranks: tuple[int, ...]
    own_ms: tuple[float, ...]
    slowest: int
    spread: float
    low: float | Missing = field(default_factory=lambda: Missing("this record is from before intervals"))
    high: float | Missing = field(default_factory=lambda: Missing("this record is from before intervals"))
    iterations: int = 0
