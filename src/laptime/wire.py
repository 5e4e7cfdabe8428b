"""What parent and child say to each other: one JSON object a line, with a version that both must share.

The child speaks first (`Hello`), then tells each phase as it begins, what it proved and every window as it closes;
after its last planned window it asks `Ready` and the parent answers `Again` (run that many windows more, because some
were disturbed) or `Enough`. Where a loader holds its items, `Fresh` steps come before the windows, whose length
is told once it is `Paced`. A heat that was asked to look at test items ends with what it `Examined`, and
one that was asked to take some steps apart with what it `Signed`.

A whole training is told lap by lap: `Resumed` with the laps of its checkpoint, `Stepped` about twice a second,
`LapDone` when the lap is validated and kept, whereupon the child waits for `GoOn`, and `Tested` at the end.

A heat of inference tells its `FirstCall`, what it `Answered` in the proof, its single `Calls`, then for each batch size
every window as it closes and `BatchDone`.

What a device can do at most is told limit by limit, as `Rated`, and ends with `Gauged`: a child that dies on the way
leaves what it measured before.
A lane that is profiled tells its first step as a heat does, and then what it `Profiled`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from laptime.errors import WireError
from laptime.model.inference import AnswerReference, AnswerRun, InferOrder
from laptime.model.limits import Peak, PeakOrder
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder
from laptime.model.profile import Profile, ProfileOrder
from laptime.model.protocol import Evaluation, FullOrder, LapResult, Predictions
from laptime.model.sample import Examination, FreshSteps, ProofRun, Reference, Window
from laptime.model.signs import Signs

VERSION = 9


class Hello(msgspec.Struct, frozen=True, tag=True):
    """The child is up, and speaks this version."""

    version: int
    pid: int


class Warmed(msgspec.Struct, frozen=True, tag=True):
    """All is imported that the order will need, and nothing else was done; the child waits for its order."""


class Phase(msgspec.Struct, frozen=True, tag=True):
    """A phase begins; what came before it has ended."""

    name: str
    at_ns: int


class Built(msgspec.Struct, frozen=True, tag=True):
    """The training stands: its size, what a step takes in, and the versions that run it."""

    parameters: int
    items_per_step: int
    steps_per_lap: int | None
    versions: dict[str, str]
    notes: tuple[str, ...] = ()


class Proved(msgspec.Struct, frozen=True, tag=True):
    run: ProofRun


class FirstStep(msgspec.Struct, frozen=True, tag=True):
    """The first step of all, with whatever compiling it took."""

    ns: int


class Closed(msgspec.Struct, frozen=True, tag=True):
    """A window has closed. The loss is that of its last step; NaN travels as null."""

    window: Window
    loss: float | None


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The planned windows are done; is any to be run again?"""


class Fresh(msgspec.Struct, frozen=True, tag=True):
    steps: FreshSteps


class Paced(msgspec.Struct, frozen=True, tag=True):
    """How long a window should take; `burst` is how many batches its loader hands over at once, before steps wait."""

    window_ns: int
    burst: int | None = None


class Examined(msgspec.Struct, frozen=True, tag=True):
    examination: Examination


class Signed(msgspec.Struct, frozen=True, tag=True):
    """Some steps were taken apart, after all windows."""

    signs: Signs


class Resumed(msgspec.Struct, frozen=True, tag=True):
    """Training begins, or goes on from a checkpoint: these laps are done."""

    laps: tuple[LapResult, ...]


class Stepped(msgspec.Struct, frozen=True, tag=True):
    """A lap under way: so many of its steps are done, in this time; what is no number travels as null."""

    lap: int
    step: int
    steps: int
    ns: int
    loss: float | None
    accuracy: float | None


class LapDone(msgspec.Struct, frozen=True, tag=True):
    """A lap is trained, validated and kept."""

    lap: LapResult


class Tested(msgspec.Struct, frozen=True, tag=True):
    """The test after the last lap."""

    test: Evaluation | None
    predictions: Predictions | None


class FirstCall(msgspec.Struct, frozen=True, tag=True):
    """The first call of all, of so many items, with whatever compiling it took."""

    ns: int
    items: int


class Answered(msgspec.Struct, frozen=True, tag=True):
    run: AnswerRun


class Calls(msgspec.Struct, frozen=True, tag=True):
    """The single calls, each between two fences."""

    ns: tuple[int, ...]


class BatchDone(msgspec.Struct, frozen=True, tag=True):
    """A batch size is measured, or cannot be."""

    batch: int
    reason: str | None


class Profiled(msgspec.Struct, frozen=True, tag=True):
    """What a profiler saw of some steps; without a profile, why there is none."""

    profile: Profile | None
    reason: str | None = None


class Noted(msgspec.Struct, frozen=True, tag=True):
    """What had to be left out or done in another way, as it turned out."""

    notes: tuple[str, ...]


class Finished(msgspec.Struct, frozen=True, tag=True):
    peak_memory_bytes: int | Missing
    device_memory_bytes: int | Missing


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The child could not go on; `usage` tells a user's mistake from a failure."""

    phase: str
    reason: str
    kind: str
    peak_memory_bytes: int | Missing


class Seen(msgspec.Struct, frozen=True, tag=True):
    """A scout's answer: what one framework sees."""

    version: str
    versions: dict[str, str]
    devices: tuple[Device, ...]
    problem: str | None = None


class Referenced(msgspec.Struct, frozen=True, tag=True):
    reference: Reference


class Proven(msgspec.Struct, frozen=True, tag=True):
    """What a lane did in a proof with no heat after it, in each precision that it has to show."""

    runs: tuple[ProofRun, ...]


class AnswersReferenced(msgspec.Struct, frozen=True, tag=True):
    reference: AnswerReference


class Rated(msgspec.Struct, frozen=True, tag=True):
    """A device's peak is known, or why it is not."""

    limit: str
    peak: Peak | None
    reason: str | None = None


class Gauged(msgspec.Struct, frozen=True, tag=True):
    """All limits have been told that were asked for."""


class Warm(msgspec.Struct, frozen=True, tag=True):
    """Before its order a child may be told to import a framework, and to wait."""

    framework: str


class Run(msgspec.Struct, frozen=True, tag=True):
    """The parent's one order to a child: run this heat ..."""

    order: HeatOrder


class Train(msgspec.Struct, frozen=True, tag=True):
    """... or train this lane whole ..."""

    order: FullOrder


class Infer(msgspec.Struct, frozen=True, tag=True):
    """... or let this lane answer ..."""

    order: InferOrder


class Observe(msgspec.Struct, frozen=True, tag=True):
    """... or take some of this lane's steps under a profiler ..."""

    order: ProfileOrder


class Refer(msgspec.Struct, frozen=True, tag=True):
    """... or compute this training's float64 reference ..."""

    order: HeatOrder


class Prove(msgspec.Struct, frozen=True, tag=True):
    """... or take a lane's proof alone ..."""

    order: HeatOrder


class ReferAnswers(msgspec.Struct, frozen=True, tag=True):
    """... or what its network answers in float64 ..."""

    order: HeatOrder


class Gauge(msgspec.Struct, frozen=True, tag=True):
    """... or measure what a device can do at most ..."""

    order: PeakOrder


class Look(msgspec.Struct, frozen=True, tag=True):
    """... or say what this framework sees."""

    framework: str


class Again(msgspec.Struct, frozen=True, tag=True):
    windows: int


class Enough(msgspec.Struct, frozen=True, tag=True):
    """No window more."""


class GoOn(msgspec.Struct, frozen=True, tag=True):
    """The lap is written down: train the next one."""


FromHeat = (
    Phase | Built | Proved | FirstStep | Closed | Ready | Fresh | Paced | Examined | Signed | Noted | Finished | Failed
)
FromTraining = Resumed | Stepped | LapDone | Tested
FromInference = FirstCall | Answered | Calls | BatchDone
FromScout = Seen | Referenced | Proven | AnswersReferenced | Rated | Gauged
FromChild = Hello | Warmed | FromHeat | FromTraining | FromInference | Profiled | FromScout
FromParent = Warm | Run | Train | Infer | Observe | Refer | Prove | ReferAnswers | Gauge | Look | Again | Enough | GoOn

_encoder = msgspec.json.Encoder()
_from_child: msgspec.json.Decoder[FromChild] = msgspec.json.Decoder(FromChild)
_from_parent: msgspec.json.Decoder[FromParent] = msgspec.json.Decoder(FromParent)


def write(message: FromChild | FromParent) -> bytes:
    """Give the line that says this message."""
    return _encoder.encode(message) + b"\n"


def read_from_child(line: bytes) -> FromChild:
    message: FromChild = _read(_from_child, line, "child")
    return message


def read_from_parent(line: bytes) -> FromParent:
    message: FromParent = _read(_from_parent, line, "parent")
    return message


def check_version(hello: Hello) -> None:
    """Refuse a child of another laptime: its figures may mean something else."""
    if hello.version != VERSION:
        raise WireError(
            f"the child process speaks version {hello.version} of the wire, this laptime {VERSION}",
            "two laptimes are mixed in one environment; install it again",
        )


def _read(decoder: msgspec.json.Decoder[Any], line: bytes, sender: str) -> Any:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        shown = line[:120].decode("utf-8", "replace").rstrip()
        raise WireError(f"unreadable message from the {sender}: {shown!r} ({error})") from error
