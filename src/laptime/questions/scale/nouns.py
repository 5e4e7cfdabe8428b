"""What several devices bring, why it is not N times as much, and what more of them would bring; and that in one
sentence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from laptime.model.quantities import Bounded, Missing, percent, times
from laptime.model.record import Answer, Comparison, QuestionAnswer
from laptime.questions.scale.options import Mode

Role = Literal["one", "several", "alone", "one ready", "several ready", "part", "all cores"]
"""What a lane is for: one device; several; these without their exchange; one and several on kept batches, without it;
one device on its part of the batch; and on a processor, one process on all cores."""
LostTo = Literal["computing", "smaller batch", "host", "loader", "straggler", "waiting", "exchange"]
"""Where a step's time goes on several devices. `computing` is what one device alone takes, and is not lost."""


@dataclass(frozen=True, slots=True)
class ScaleLane:
    """A lane of a scale: of which of the asked lanes, what for, and on how many devices."""

    of: str
    mode: Mode
    role: Role
    devices: int
    name: str


@dataclass(frozen=True, slots=True)
class ScalePoint:
    """One count of devices, as measured. `speedup` is in items per second, against one device."""

    devices: int
    lane: str
    step_ms: float | None
    items_per_step: int | None
    speedup: Bounded | None
    reason: str | None = None

    @property
    def efficiency(self) -> float | None:
        return None if self.speedup is None or not self.devices else self.speedup.value / self.devices


@dataclass(frozen=True, slots=True)
class LostPart:
    """A part of a step on several devices, as a share of it. All parts of a step add up to 1."""

    of: LostTo
    share: Bounded


@dataclass(frozen=True, slots=True)
class Straggler:
    """The slowest rank: how much longer than the others it computes, and what share of its time it had no core.

    `mean_waited` is that share of all ranks.
    """

    rank: int
    device: str
    host: str
    slower: float
    waited: float | Missing
    mean_waited: float | Missing


@dataclass(frozen=True, slots=True)
class LostTime:
    """Why N devices are not N times as fast: the parts of a step, the largest loss first."""

    devices: int
    lane: str
    parts: tuple[LostPart, ...]
    straggler: Straggler | None
    first: LostTo | None


@dataclass(frozen=True, slots=True)
class ProfiledExchange:
    """The exchange as the framework's profiler saw it in one rank, as shares of a step on the largest count.

    A collective was `in_progress`, and it was `exposed`: nothing was computed then. Unlike the part of a step that an
    experiment finds, both hold what this rank waited for others within a collective.
    """

    by: str
    in_progress: Bounded
    exposed: Bounded


@dataclass(frozen=True, slots=True)
class LinkCost:
    """What an all-reduce costs among the devices, with nothing else to do.

    It takes `latency_us` a hop, and moves `gb_per_s` over each link of a ring. `hidden_ms` of it a step hides; below 0,
    a step pays more than that.
    """

    latency_us: float
    gb_per_s: float
    size_bytes: int
    hidden_ms: float


@dataclass(frozen=True, slots=True)
class Projection:
    """What a count of devices would bring, and what would limit them most."""

    devices: int
    speedup: Bounded
    binds: LostTo | None


@dataclass(frozen=True, slots=True)
class HeldOut:
    """How well the smaller counts predict the largest one that was measured."""

    devices: int
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1 if self.measured else math.inf


@dataclass(frozen=True, slots=True)
class ScaleCurve:
    """One of the asked lanes over the counts of devices. `all_cores` is one process on all cores of a processor.

    `profiled` is the exchange by the framework's profiler. `absent` says, by name, why `lost`, `link`, `beyond`,
    `held_out` or `profiled` is missing.
    """

    of: str
    mode: Mode
    points: tuple[ScalePoint, ...]
    lost: LostTime | None = None
    link: LinkCost | None = None
    beyond: tuple[Projection, ...] = ()
    held_out: HeldOut | None = None
    all_cores: ScalePoint | None = None
    absent: dict[str, Missing] = field(default_factory=dict)
    profiled: ProfiledExchange | None = None

    def why_not(self, name: str) -> str:
        """Return why a part is missing."""
        missing = self.absent.get(name)
        return "no reason is known" if missing is None else missing.missing


@dataclass(frozen=True, slots=True)
class RankRow:
    """One rank of the largest count: its first step and its memory."""

    lane: str
    rank: int
    device: str
    host: str
    first_step_ms: float
    memory_bytes: int | Missing
    device_memory_bytes: int | Missing


@dataclass(frozen=True, slots=True)
class Scaling:
    """The whole answer."""

    says: str
    curves: tuple[ScaleCurve, ...]
    ranks: tuple[RankRow, ...] = ()


@dataclass(frozen=True, slots=True)
class ScaleAnswer(Answer):
    """What several devices bring. Empty while the heats run. `roles` says what each lane is for."""

    roles: tuple[ScaleLane, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    scaling: Scaling | None = None
    alone: tuple[str, ...] = ()

    @property
    def is_concluded(self) -> bool:
        return self.scaling is not None and bool(self.scaling.curves)


# The verdict of a scale in one sentence: what the devices bring, and what the largest loss is.

NOUNS = {"cuda": "card", "mps": "device", "xpu": "card", "tpu": "TPU", "cpu": "process"}
NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
WORTH_NAMING = 0.02  # of a step
NOTHING_FOUND = "nothing was found that they lose"


def say_curve(curve: ScaleCurve, kind: str) -> str:
    """Return what the largest measured count brings, and why it is not more."""
    most = next((point for point in reversed(curve.points) if point.speedup is not None and point.devices > 1), None)
    if most is None or most.speedup is None:
        return f"no count of {_several(kind)} has a result."
    of = "" if curve.mode == "weak" else " of one batch"
    brings = f"{count_words(most.devices, kind)} give {gain_words(most.speedup)} the rate of one{of}"
    if curve.lost is None:
        profiled = curve.profiled
        if profiled is None or profiled.exposed.value < WORTH_NAMING:
            return f"{brings}."
        exposed = percent(profiled.exposed.value)
        return f"{brings}: by the profiler, {exposed} of a step is an exchange of gradients that nothing hides."
    return f"{brings}: {say_loss(curve.lost, most, kind)}."


def say_loss(lost: LostTime, point: ScalePoint, kind: str) -> str:
    """Return the largest loss in words."""
    share_of = {part.of: part.share.value for part in lost.parts}
    if lost.first not in share_of:
        return NOTHING_FOUND
    share = percent(share_of[lost.first])
    match lost.first:
        case "exchange":
            return f"{share} of a step is an exchange of gradients that nothing hides"
        case "straggler" if lost.straggler is not None:
            slow = lost.straggler
            if isinstance(slow.waited, Missing) or isinstance(slow.mean_waited, Missing):
                waited = ", and all wait for it"
            elif slow.waited - slow.mean_waited > slow.slower / 3:  # the slow rank waited for a core more than others
                waited = f": it had no core for {percent(slow.waited)} of its time"
            else:
                waited = ", and all wait for it"
            return f"rank {slow.rank} ({slow.device}) takes {percent(slow.slower)} longer than the others{waited}"
        case "straggler" | "waiting":
            return f"for {share} of a step its ranks wait for the slowest one, each time another"
        case "host":
            return f"{share} of a step is lost because the {_several(kind)} slow each other down on this machine"
        case "loader":
            return f"for {share} of a step they wait for loaders, which do not keep up with {point.devices}"
        case _:
            return f"{share} of a step is lost because smaller batches keep a device less busy"


def count_words(devices: int, kind: str) -> str:
    """Return `two cards`, `16 processes`."""
    noun = NOUNS.get(kind, "device")
    number = NUMBER_WORDS[devices] if devices < len(NUMBER_WORDS) else f"{devices:,}"
    return f"{number} {noun if devices == 1 else _several(kind)}"


def gain_words(found: Bounded) -> str:
    """Return `1.62x (1.55-1.70)`."""
    if found.ends is None:
        return f"{times(found.value)} (one round)"
    low, high = found.ends
    return f"{times(found.value)} ({times(low)[:-1]}-{times(high)[:-1]})"


def name_loss(of: LostTo) -> str:
    """Return a part of a step in a few words."""
    return {
        "computing": "computing",
        "smaller batch": "smaller batches",
        "host": "shared machine",
        "loader": "loaders",
        "straggler": "slow rank",
        "waiting": "slowest of each step",
        "exchange": "exchange of gradients",
    }[of]


def _several(kind: str) -> str:
    noun = NOUNS.get(kind, "device")
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


PART = QuestionAnswer(ScaleAnswer)
