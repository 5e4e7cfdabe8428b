"""What is seen of steps outside the timing: symptoms that a heat's own process reports (hints at causes, never proofs),
and what a profiler saw.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from laptime.model.hardware import StepWork
from laptime.model.plan import HeatOrder
from laptime.model.process import ProcessRun
from laptime.model.quantities import Missing

NOT_LOOKED = Missing("this heat's steps were not taken apart")
NO_INPUT = "no input"  # the note that says why a script's batches can be neither replayed nor fetched alone
# What takes time at a place.
EVALUATION = "evaluation"
CHECKPOINTS = "checkpoints"
DISK = "waiting for the disk"
DATA_LINE = "line of the data"  # the note that says which line of a script takes most of the wait for its data
LONGEST_LINES = "longest lines"  # the note that says which lines of a script take most of an iteration
MADE_DOUBLE = "float64"  # the note that says which line of a script made its weights float64

WEIGHTS = "weights"
GRADIENTS = "gradients of its weights"
SUMS = "sums of its optimizer"
STATISTICS = "running statistics"
OUTPUTS = "outputs of its layers"
FLOW = "gradients between its layers"
COSTS = 0.001  # of the numbers of a kind: 0.1 to 0.3 % made steps 2.7 to 14 times as slow (Intel Xeon, AVX-512)


@dataclass(frozen=True, slots=True)
class DenormalCensus:
    """How many numbers of a training are denormal after its windows, in its step `step`.

    `shares` has a share for each kind of numbers that was looked at; `unseen` says why others were not. Of large
    arrays, evenly spaced numbers were counted. `flushed` says that this process treats denormal numbers as 0. `types`
    are the types of the weights, and `items` is how many items the batch of that step had.
    """

    shares: dict[str, float] = field(default_factory=dict)
    types: tuple[str, ...] = ()
    flushed: bool = False
    unseen: str | None = None
    step: int = 0
    items: int | None = None

    @property
    def worst(self) -> tuple[float, str]:
        """The largest share, and the kind of numbers that has it; of equal ones, what flows backwards."""
        kind = max(self.shares, key=lambda share: (self.shares[share], share in {GRADIENTS, FLOW}), default="")
        return self.shares.get(kind, 0.0), kind

    @property
    def costs(self) -> bool:
        """Whether this many denormal numbers slow many processors down."""
        return not self.flushed and self.worst[0] >= COSTS


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the user's code, and how often each step reached it."""

    where: str
    what: str
    per_step: float


@dataclass(frozen=True, slots=True)
class TimedPlace:
    """What took time within the steps of a script apart from its training, `times` in all, at one line of it."""

    where: str | None
    what: str
    times: int
    ns: int


@dataclass(frozen=True, slots=True)
class StepSymptoms:
    """Some steps taken apart, after all windows were timed; each part is fenced, so that nothing overlaps.

    `wait_ns` is the time to get the loader's next batch, `copy_ns` the time to copy it to the device (`copied_bytes`,
    in `copied_arrays` arrays), `compute_ns` the rest; each for all `steps` together. `reads` is how often per step the
    host asked the device for a value, and so waited for it; `sites` says where. `shapes` is how many different shapes
    of batch these steps had, `compiles` how often a framework compiled during them. `denormals` is the share of
    denormal numbers among weights, gradients, the optimizer's sums, running statistics or the outputs of layers,
    whichever is largest; `notes` says which. `fault_ns` is the time of one page fault in this process, `threads` how
    many threads the framework computes with. `impossible` says which settings, or words of a lane, a script cannot
    have, and why. `places` are those of a script whose steps took `wall_ns`. `redrawn` says whether an item of the
    user's data set differs when it is fetched again.
    """

    steps: int
    wait_ns: int | Missing = NOT_LOOKED
    copy_ns: int | Missing = NOT_LOOKED
    compute_ns: int | Missing = NOT_LOOKED
    copied_bytes: int | Missing = NOT_LOOKED
    copied_arrays: float | Missing = NOT_LOOKED
    reads: float | Missing = NOT_LOOKED
    sites: tuple[Site, ...] = ()
    shapes: int | Missing = NOT_LOOKED
    compiles: int | Missing = NOT_LOOKED
    denormals: float | Missing = NOT_LOOKED
    fault_ns: float | Missing = NOT_LOOKED
    threads: int | Missing = NOT_LOOKED
    notes: dict[str, str] = field(default_factory=dict)
    impossible: dict[str, str] = field(default_factory=dict)
    places: tuple[TimedPlace, ...] | Missing = NOT_LOOKED
    wall_ns: int | Missing = NOT_LOOKED
    redrawn: bool | Missing = NOT_LOOKED


# The words with which frameworks and numpy refuse memory, and how to find the sentence in an error that has them.

NO_MEMORY_WORDS = (
    "out of memory",  # PyTorch, XLA
    "out_of_memory",  # CUDA's own names
    "oom when allocating",  # TensorFlow
    "dst tensor is not initialized",  # TensorFlow, where data do not fit on a card
    "allocate memory",  # PyTorch on a processor, and the system
    "failed to allocate",
    "unable to allocate",  # numpy
    "not enough memory",
    "status_alloc_failed",  # cuBLAS, cuDNN
    "std::bad_alloc",
)
NO_FAILURE = "not a failure"  # TensorFlow also reports allocations that failed but that it can do without
SENTENCES = 3
SENTENCE_ENDS = re.compile(r"(?<=\.)\s+(?=[A-Z])")
# What precedes the words: the place in the framework, the start of a log line, a status name, C++'s what().
BEFORE = re.compile(r"^(?:\{\{.*?\}\}|what\(\)|.*\.(?:cc|cpp|cu|h):\d+\]?)?[ :]*(?:[A-Z_]+: )?")
AFTER = re.compile(r"\s*\[Op:.*$")


def is_memory_error(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or bool(find_refusal(str(error)))


def refusal_words(error: BaseException) -> str:
    """Return one to three sentences: how much memory was requested, and how much there was."""
    text = str(error).strip()
    return find_refusal(text) or (text.splitlines()[0] if text else "the system gave no more")


def find_refusal(text: str) -> str:
    """Return the last line that refuses memory, without prefix and suffix, or an empty string.

    Frameworks begin with a page about where it happened, and end with advice for other cases.
    """
    lines = [line for line in text.splitlines() if _refuses(line) and NO_FAILURE not in line]
    if not lines:
        return ""
    sentences = SENTENCE_ENDS.split(AFTER.sub("", lines[-1].strip()))
    first = next((place for place, sentence in enumerate(sentences) if _refuses(sentence)), 0)
    kept = [BEFORE.sub("", sentences[first], count=1), *sentences[first + 1 : first + SENTENCES]]
    return " ".join(kept)


def _refuses(line: str) -> bool:
    lowered = line.lower()
    return any(words in lowered for words in NO_MEMORY_WORDS)


# What a profiler saw in some steps of a lane, outside the timing: operators by time and memory, kernels, a trace.

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
