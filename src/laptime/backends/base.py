"""What a back end must know how to do. It never reads the clock: the loop does, so that one file times everybody."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, Protocol

from laptime.backends.exercise import Exercises
from laptime.model.inference import AnswerReference, AnswerRun
from laptime.model.limits import StepWork
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.profile import Observed
from laptime.model.protocol import Predictions, Score
from laptime.model.sample import ProofRun, Reference
from laptime.model.signs import Signs

# What a network raises that was given a batch of a size for which it was not made.
REFUSALS = (RuntimeError, ValueError, IndexError, AssertionError)


class Examiner(Protocol):
    """Looks at a network from outside, on the test items; nothing is trained."""

    def read(self, items: int) -> None:
        """Have the first so many test items at hand, where they are kept in memory; called off the clock."""

    def score(self, items: int) -> Score:
        """Score the first so many items of the test set (as many as there are)."""

    def predict(self, items: int) -> Predictions:
        """Give what is predicted of the first so many items of the test set, and the truth."""


class Apart(Protocol):
    """A training whose steps are taken one part after another; the loop fences and times them."""

    stride: int
    """How many steps one round of the parts takes."""

    def fetch(self) -> Any:
        """Wait for the loader's next batch; it may still lie on the host."""

    def move(self, batch: Any) -> Any:
        """Bring it to where it is used."""

    def compute(self, batch: Any) -> None:
        """Do all else of a step."""

    def describe(self, batch: Any) -> Hashable:
        """Take account of a batch that was used, and give its shapes: others may be compiled, or searched, anew for.

        Called off the clock.
        """

    def look(self, steps: int, timed: int) -> Signs:
        """Take so many rounds more, off the clock, and count what can be counted; `timed` were taken before.

        A part that cannot be told from the others is `Missing` with its reason; one that is left as it was not looked
        at is what the loop has timed.
        """


class Runner(Protocol):
    """A training that stands ready. It is told how many steps to take: a framework may have a loop of its own."""

    @property
    def examiner(self) -> Examiner | None:
        """Who looks at the network that is trained; nobody, where none is."""

    ready_batches: int
    """How many batches its loader may hold ready; they are run down before a window opens."""

    holds: bool
    """Whether its loader keeps items decoded in memory, so that steps cost less once each was seen."""

    stride: int
    """How many steps the framework takes at once; only multiples of it can be asked for."""

    def run(self, steps: int) -> None:
        """Start so many optimizer updates; on an accelerator they may still be running on return."""

    def run_marked(self, steps: int) -> Sequence[object]:
        """Start them, and mark the points before, between and after: host time, or an accelerator's own events."""

    def fence(self) -> None:
        """Wait until all that was started is done."""

    def step_ns(self, marks: Sequence[object]) -> tuple[int, ...]:
        """Give the nanoseconds between neighbouring marks; called after a fence."""

    def loss(self) -> float:
        """Give the loss of the last step; called after a fence, off the clock."""

    def repeat(self) -> None:
        """Step on batches that were trained before; called where the loader holds their items."""

    def apart(self) -> Apart | Missing:
        """Give the same training in parts, after its windows, or why its steps cannot be taken apart."""

    def close(self) -> tuple[str, ...]:
        """Let go of threads and memory, and say what had to be left out, or done in another way."""


class Learner(Protocol):
    """A whole training: it steps like a runner, and keeps account of what it got right without waiting for it."""

    @property
    def examiner(self) -> Examiner:
        """Who looks at the network that is trained."""

    def begin(self, steps_done: int, state: Any | None) -> None:
        """Stand ready for the step after so many; `state` is what `state` gave by then, nothing at the start."""

    stride: int
    """How many steps the framework takes at once; a lap's last ones may be fewer."""

    def run(self, steps: int) -> None:
        """Start so many optimizer updates; their losses and right answers are added to the account, on the device."""

    def fence(self) -> None:
        """Wait until all that was started is done."""

    def score(self) -> Score:
        """Give the running means since the account was opened; called after a fence."""

    def open_account(self) -> None:
        """Begin a new account; called off the clock."""

    def state(self) -> Any:
        """Give all that the next step depends on: dicts, lists, numbers, words and numpy arrays."""

    def close(self) -> tuple[str, ...]:
        """Let go of threads and memory, and say what had to be left out, or done in another way."""


class Predictor(Protocol):
    """A network that only answers: in evaluation mode, with no gradient, in the lane's own way of running."""

    parameters: int
    notes: tuple[str, ...]

    def read_items(self, most: int) -> None:
        """Have so many items at hand in host memory; called off the clock."""

    def sizes(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        """Give the batch sizes that the items can be cut to: those that are wanted, or the one that they come in."""

    def keep_whole(self, why: str) -> bool:
        """Give up cutting the items, since the network refused them; tell whether that is another way at all."""

    def take(self, batch: int) -> None:
        """Lay out a batch of so many items in host memory; called off the clock."""

    def call(self) -> None:
        """Bring the batch to the device, through the network, and start bringing its answers back to the host."""

    def fence(self) -> None:
        """Wait until all that was started is done, and the answers are on the host."""

    def let_go(self) -> None:
        """Give back the memory of the batch before: the next may need it."""

    def prove(self, precision: str, batch: int) -> AnswerRun:
        """Give what is answered to the first so many items at this precision."""

    def reference(self) -> AnswerReference:
        """Give what the same weights answer in float64 on the processor, and in float32 beside it."""

    def device_memory_bytes(self) -> int | Missing:
        """Give the most that the framework's allocator held on the device."""


class Profiler(Protocol):
    """A framework's own profiler. Whoever starts or stops it has fenced before; it may be started more than once."""

    by: str
    """Its name and version, as it is told to people."""

    def start(self) -> None:
        """Watch from here on."""

    def stop(self) -> None:
        """Watch no longer."""

    def read(self) -> Observed:
        """Tell what it saw since it was last started."""

    def write_trace(self, path: Path) -> None:
        """Write the same as a trace of Chrome's, in plain JSON."""


class Training(Protocol):
    """What a heat order built: it can be proven, and it can be run."""

    parameters: int
    items_per_step: int
    steps_per_lap: int | None
    notes: tuple[str, ...]

    def prove(self, precision: str) -> ProofRun:
        """Take the proof's steps at this precision, in the lane's own way of running."""

    def reference(self) -> Reference:
        """Take the proof's steps in float64 on the processor, and in float32 beside it."""

    def start(self) -> Runner:
        """Make the training that is timed."""

    def learn(self) -> Learner:
        """Make the training that is run whole."""

    def profiler(self, scratch: Path) -> Profiler | Missing:
        """Give the profiler of the training that `start` made, or why there is none; it may write into `scratch`."""

    def work(self) -> StepWork | Missing:
        """Count what one step has to compute and to move, off the clock, or say why that is not told."""

    def device_memory_bytes(self) -> int | Missing:
        """Give the most that the framework's allocator held on the device."""


class Backend(Protocol):
    """One framework."""

    name: str

    def versions(self) -> dict[str, str]:
        """Give the framework's version first, then those of what it stands on."""

    def devices(self) -> tuple[Device, ...]:
        """Give every device that the framework sees, usable or not."""

    def warm_up(self) -> None:
        """Import what a training will need besides; compute nothing, and touch no device."""

    def build(self, order: HeatOrder) -> Training:
        """Make the order's training on the order's device with the order's settings."""

    def predict(self, order: HeatOrder) -> Predictor:
        """Make the order's network, with its weights, on the order's device: nothing else that only training needs."""

    def exercises(self, device: Device) -> Exercises:
        """Make a device ready to show what it can do at most."""

    def clock(self) -> int:
        """Give the monotonic time in nanoseconds: the machine's, or a fake's own."""
