"""The messages between parent and child: one JSON object per line, with a version that both must share.

The child speaks first (`Hello`). It then reports each phase as it begins, each proof, and each window. After its last
planned window it sends `Ready`; a script that takes turns does so after its first step, too, and waits for `GoOn`. The
parent answers `Again` (more windows), `TakeTurn` or `Enough`; between turns also `KeepTurn`, to which `TurnKept` is the
answer, `ShowTurn`, to which it is `TurnShown`, and `ReplayTurn`, to which it is `TurnReplayed`. `Fresh` steps of a
loader that holds its items come first; `Paced` gives the windows' length. `Examined`, `Counted`, `TookLate`, `Between`
and `Signed` come last, if ordered. A whole training reports lap by lap: `Resumed` with the laps of its checkpoint,
`Stepped`, `LapDone` when a lap is saved (it then waits for `GoOn`), and `Tested` at the end. A heat of inference
reports its `FirstCall`, what it `Answered` in the proof, its single `Calls`, then for each batch size every window, and
`BatchDone`. A side of a verdict on learning reports each `LegTrained`, and waits for `GoOn` or `Enough`; its judge
reports the `ItemsDrawn`, and a `LossWeighed` for each `WeighLoss`. A profiled lane
reports its first step, then what it `Profiled`; a scout what it has `Seen`, then `Inspected`; peaks are `Rated` singly.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from laptime.model.errors import WireError
from laptime.model.hardware import Peak, PeakOrder, StepWork
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, OwnTraining, RankPlace, Subject
from laptime.model.process import Exchange, RankReport, Sandbox
from laptime.model.protocol import (
    AnswerReference,
    AnswerRun,
    Evaluation,
    FullOrder,
    InferOrder,
    LapResult,
    LearningOrder,
    Predictions,
)
from laptime.model.quantities import Missing
from laptime.model.sample import Examination, FreshSteps, LateStep, ProofRun, Reference, TurnTakenAgain, Window
from laptime.model.script import ScriptProcess
from laptime.model.symptoms import DenormalCensus, Profile, ProfileOrder, StepSymptoms

WIRE_VERSION = 33
NOT_TOLD = Missing("not told")


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The child has started, and uses this version."""

    version: int
    pid: int


class Confined(msgspec.Struct, frozen=True, tag=True):
    """The child is in its sandbox, out of which it `reaches` these: the system can do no better."""

    reaches: tuple[str, ...] = ()


class Warmed(msgspec.Struct, frozen=True, tag=True):
    """The child has imported what the order will need, has done nothing else, and waits for its order."""


class Phase(msgspec.Struct, frozen=True, tag=True):
    """A phase begins; the one before it has ended."""

    name: str
    at_ns: int


class Built(msgspec.Struct, frozen=True, tag=True):
    """The training is built. `sources` are digests of the user's own files; a built-in workload has none."""

    parameters: int
    items_per_step: int
    steps_per_lap: int | None
    versions: dict[str, str]
    notes: tuple[str, ...] = ()
    sources: dict[str, str] = {}


class Proved(msgspec.Struct, frozen=True, tag=True):
    run: ProofRun


class FirstStep(msgspec.Struct, frozen=True, tag=True):
    """The very first step, including any compiling; and the first losses, if they are compared from heat to heat."""

    ns: int
    losses: tuple[float, ...] = ()


class Closed(msgspec.Struct, frozen=True, tag=True):
    """A window has closed. The loss is that of its last step; NaN travels as null.

    `digest` is of the training's state now, where a turn may be taken again.
    """

    window: Window
    loss: float | None
    digest: str = ""


class TurnKept(msgspec.Struct, frozen=True, tag=True):
    """The turn that ended last is kept, and takes so much memory; or it is not, for this reason."""

    size_bytes: int = 0
    reason: str = ""


class TurnShown(msgspec.Struct, frozen=True, tag=True):
    """The turn that was to be shown is in the file, or is not, for this reason."""

    reason: str = ""


class TurnReplayed(msgspec.Struct, frozen=True, tag=True):
    """What came of taking another heat's turn again, or why that could not be done. The reason may be `of_its_own`."""

    replay: TurnTakenAgain | None
    reason: str = ""
    of_its_own: bool = False


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The planned windows are done, or there are none; the child asks whether to run more. It took `steps` so far."""

    device_memory_bytes: int | Missing = NOT_TOLD
    steps: int = 0


class Fresh(msgspec.Struct, frozen=True, tag=True):
    steps: FreshSteps


class TurnNeeds(msgspec.Struct, frozen=True):
    """What a heat needs of its turns, where it takes turns: an estimate of a step, and how many steps make a turn.

    A turn has at least `least` steps, and a multiple of `unit`; the steps before it are a multiple of `stride`. The
    first `warm` steps after a pause are not timed.
    """

    step_ns: float
    stride: int = 1
    least: int = 1
    unit: int = 1
    warm: int = 0


class Paced(msgspec.Struct, frozen=True, tag=True):
    """How long a window should take. `burst` is how many batches its loader hands over at once, before steps wait."""

    window_ns: int
    burst: int | None = None
    needs: TurnNeeds | None = None


class Examined(msgspec.Struct, frozen=True, tag=True):
    examination: Examination


class Signed(msgspec.Struct, frozen=True, tag=True):
    signs: StepSymptoms
    script: ScriptProcess | None = None


class Counted(msgspec.Struct, frozen=True, tag=True):
    """The denormal numbers of a training after its windows."""

    census: DenormalCensus


class Worked(msgspec.Struct, frozen=True, tag=True):
    """What an iteration of a script computes, or why that could not be counted."""

    work: StepWork | None = None
    uncounted: str | None = None


class Between(msgspec.Struct, frozen=True, tag=True):
    """What a script did between its `steps`, such as validation: that is in no window."""

    ns: int
    steps: int


class Early(msgspec.Struct, frozen=True, tag=True):
    """The times of the steps before the first window, from the very first one on."""

    step_ns: tuple[int, ...]


class TookLate(msgspec.Struct, frozen=True, tag=True):
    """A step of the proof after the windows."""

    step: LateStep


class Resumed(msgspec.Struct, frozen=True, tag=True):
    """The training begins, or continues from a checkpoint: these laps are done."""

    laps: tuple[LapResult, ...]


class Stepped(msgspec.Struct, frozen=True, tag=True):
    """The progress of a lap: `step` of its `steps` are done, in `ns`. NaN travels as null."""

    lap: int
    step: int
    steps: int
    ns: int
    loss: float | None
    accuracy: float | None


class LapDone(msgspec.Struct, frozen=True, tag=True):
    """A lap is trained, validated and saved."""

    lap: LapResult


class Tested(msgspec.Struct, frozen=True, tag=True):
    """The test after the last lap."""

    test: Evaluation | None
    predictions: Predictions | None


class LegTrained(msgspec.Struct, frozen=True, tag=True):
    """A leg of `steps` is trained, and took `ns`. The weights are in their file."""

    steps: int
    ns: int


class ItemsDrawn(msgspec.Struct, frozen=True, tag=True):
    """The items on which a loss is judged, and whether the training holds them out; or why no loss can be judged."""

    items: int
    batches: int = 0
    is_held_out: bool = False
    reason: str = ""


class LossWeighed(msgspec.Struct, frozen=True, tag=True):
    """The loss of some weights; null where it is not finite. `misfit` says why they do not fit the network."""

    loss: float | None
    misfit: str = ""


class FirstCall(msgspec.Struct, frozen=True, tag=True):
    """The very first call, including any compiling, and its number of items."""

    ns: int
    items: int


class Answered(msgspec.Struct, frozen=True, tag=True):
    run: AnswerRun


class Calls(msgspec.Struct, frozen=True, tag=True):
    """The times of the single calls, each measured between two fences."""

    ns: tuple[int, ...]


class BatchDone(msgspec.Struct, frozen=True, tag=True):
    """A batch size is measured, or cannot be."""

    batch: int
    reason: str | None
    is_tried: bool = True


class Profiled(msgspec.Struct, frozen=True, tag=True):
    """What a profiler recorded of some steps, or the reason why there is no profile."""

    profile: Profile | None
    reason: str | None = None


class Noted(msgspec.Struct, frozen=True, tag=True):
    notes: tuple[str, ...]


class RanksMeet(msgspec.Struct, frozen=True, tag=True):
    """The first rank waits for those on other nodes, the first of which has this place."""

    place: RankPlace


class Finished(msgspec.Struct, frozen=True, tag=True):
    """All is done. Where several processes trained together, also what each reports, and what an exchange takes.

    `changed` is what the training's code replaced of what judges it.
    """

    peak_memory_bytes: int | Missing
    device_memory_bytes: int | Missing
    ranks: tuple[RankReport, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    changed: tuple[str, ...] = ()


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The child could not go on. `kind` is the error's class; where a user's own code raised, `source` is its line."""

    phase: str
    reason: str
    kind: str
    peak_memory_bytes: int | Missing
    source: str = ""


class Seen(msgspec.Struct, frozen=True, tag=True):
    """A scout's answer: what one framework sees. Its own version comes first in `versions`."""

    versions: dict[str, str]
    devices: tuple[Device, ...]


class Inspected(msgspec.Struct, frozen=True, tag=True):
    own: OwnTraining


class Referenced(msgspec.Struct, frozen=True, tag=True):
    reference: Reference


class Proven(msgspec.Struct, frozen=True, tag=True):
    """The runs of a lane's proof without a heat after it, one for each precision that the proof needs."""

    runs: tuple[ProofRun, ...]


class AnswersReferenced(msgspec.Struct, frozen=True, tag=True):
    reference: AnswerReference


class Rated(msgspec.Struct, frozen=True, tag=True):
    """One peak of a device, or why it is not known."""

    limit: str
    peak: Peak | None
    reason: str | None = None


class Gauged(msgspec.Struct, frozen=True, tag=True):
    """All requested peaks have been reported."""


class Warm(msgspec.Struct, frozen=True, tag=True):
    """An instruction before the order: import a framework, and wait."""

    framework: str


class Run(msgspec.Struct, frozen=True, tag=True):
    """The parent's one order to a child: run this heat ..."""

    order: HeatOrder


class Train(msgspec.Struct, frozen=True, tag=True):
    """... or train this lane whole ..."""

    order: FullOrder


class Infer(msgspec.Struct, frozen=True, tag=True):
    """... or time this lane's answers ..."""

    order: InferOrder


class Learn(msgspec.Struct, frozen=True, tag=True):
    """... or train one side of a verdict on learning ..."""

    order: LearningOrder


class Judge(msgspec.Struct, frozen=True, tag=True):
    """... or judge the loss that weights have in this training's network, on its items, in `batches` of them ..."""

    order: HeatOrder
    batches: int | None = None


class Observe(msgspec.Struct, frozen=True, tag=True):
    """... or run some of this lane's steps under a profiler ..."""

    order: ProfileOrder


class Refer(msgspec.Struct, frozen=True, tag=True):
    """... or compute this training's float64 reference ..."""

    order: HeatOrder


class Prove(msgspec.Struct, frozen=True, tag=True):
    """... or run a lane's proof alone ..."""

    order: HeatOrder


class ReferAnswers(msgspec.Struct, frozen=True, tag=True):
    """... or compute its network's answers in float64 ..."""

    order: HeatOrder


class Gauge(msgspec.Struct, frozen=True, tag=True):
    """... or measure a device's peaks ..."""

    order: PeakOrder


class Look(msgspec.Struct, frozen=True, tag=True):
    """... or report what this framework sees, unless it must stay unused, and then what a user's function returns."""

    framework: str
    subject: Subject | None = None
    stays_unused: bool = False


class TakeTurn(msgspec.Struct, frozen=True, tag=True):
    """Run one window of `steps`, after steps that are not timed: the other heats of the round wait.

    `after` is how many steps the training has taken when the window opens, so that all lanes time the same steps. With
    `begins`, the turn is one that may be taken again: it begins after that many steps, in all lanes.
    """

    steps: int | None = None
    after: int | None = None
    begins: int | None = None


class KeepTurn(msgspec.Struct, frozen=True, tag=True):
    """Keep the turn that ended last: what it began with, and what it came to. It may take the place of another."""

    instead: int | None = None


class ShowTurn(msgspec.Struct, frozen=True, tag=True):
    """Write the kept turn in this place to this file."""

    place: int
    path: str


class ReplayTurn(msgspec.Struct, frozen=True, tag=True):
    """Take the turn that another heat has shown in a file, from the same place in the data as your own kept turn.

    It is the one in this `place` among those that you kept. `began` and `ended` are the digests that the other gave
    before it was asked; the first is empty where none is known.
    """

    place: int
    path: str
    began: str
    ended: str


class WeighLoss(msgspec.Struct, frozen=True, tag=True):
    """Return the loss of the weights in this file. Those of before the first step show what begins alike."""

    weights: str
    are_first: bool = False


class Again(msgspec.Struct, frozen=True, tag=True):
    windows: int


class Enough(msgspec.Struct, frozen=True, tag=True):
    """Run no more windows."""


class GoOn(msgspec.Struct, frozen=True, tag=True):
    """The lap is recorded: train the next one. Or the others have built: the script may go on to its proof."""


FromHeat = (
    Phase
    | Built
    | Proved
    | FirstStep
    | Closed
    | TurnKept
    | TurnShown
    | TurnReplayed
    | Ready
    | Fresh
    | Paced
    | Examined
    | Counted
    | Worked
    | TookLate
    | Between
    | Early
    | Signed
)
FromAll = Hello | Confined | Warmed | Noted | RanksMeet | Finished | Failed
FromTraining = Resumed | Stepped | LapDone | Tested | LegTrained | ItemsDrawn | LossWeighed
FromInference = FirstCall | Answered | Calls | BatchDone
FromScout = Seen | Inspected | Referenced | Proven | AnswersReferenced | Rated | Gauged
FromChild = FromAll | FromHeat | FromTraining | FromInference | Profiled | FromScout
Order = Run | Train | Learn | Judge | Infer | Observe | Refer | Prove | ReferAnswers | Gauge | Look
FromParent = Warm | Order | TakeTurn | KeepTurn | ShowTurn | ReplayTurn | Again | Enough | GoOn | WeighLoss

_encoder = msgspec.json.Encoder()
_from_child: msgspec.json.Decoder[FromChild] = msgspec.json.Decoder(FromChild)
_from_parent: msgspec.json.Decoder[FromParent] = msgspec.json.Decoder(FromParent)
_sandbox: msgspec.json.Decoder[Sandbox] = msgspec.json.Decoder(Sandbox)
SANDBOX = "LAPTIME_SANDBOX"  # a variable of a child's environment: it has a sandbox before it hears anything


def write(message: FromChild | FromParent) -> bytes:
    """Return a message as one line of JSON."""
    return _encoder.encode(message) + b"\n"


def read_from_child(line: bytes) -> FromChild:
    return cast("FromChild", decode(_from_child, line, "child"))


def read_from_parent(line: bytes) -> FromParent:
    return cast("FromParent", decode(_from_parent, line, "parent"))


def write_sandbox(sandbox: Sandbox) -> str:
    """Return a sandbox as the value of that variable."""
    return _encoder.encode(sandbox).decode()


def read_sandbox(word: str) -> Sandbox:
    return cast("Sandbox", decode(_sandbox, word.encode(), "parent"))


def check_version(hello: Hello) -> None:
    """Refuse a child of another laptime: its figures may mean something else."""
    if hello.version != WIRE_VERSION:
        says = f"the child process speaks version {hello.version} of the wire, this laptime {WIRE_VERSION}"
        raise WireError(says, "two laptimes are mixed in one environment; install it again")


def decode(decoder: msgspec.json.Decoder[Any], line: bytes, sender: str) -> Any:
    """Return a message. Raise WireError if it cannot be read, also if it is nested too deep for the decoder."""
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        shown = line[:120].decode("utf-8", "replace").rstrip()
        raise WireError(f"unreadable message from the {sender}: {shown!r} ({error})") from error
