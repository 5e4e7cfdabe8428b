"""What a heat hands over: raw samples, before anybody draws a conclusion."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from laptime.model.missing import Missing
from laptime.model.signs import Signs
from laptime.model.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Noise:
    """What else happened on this machine while a window was open.

    `other_cores` is the processor time that other processes took, in cores; `throttled_ms` the time for which the
    container's quota held this one back.
    """

    other_cores: float | Missing
    load_1m: float | Missing
    throttled_ms: float | Missing


@dataclass(frozen=True, slots=True)
class Window:
    """Some steps, fenced at both ends and nowhere between. Times are of the monotonic clock.

    `step_ns` holds the time of each step: by the host clock on a processor, by device events on an accelerator. Where
    a window has thousands they are those of its beginning.
    `flag` names the breach of quiet, if there was one.
    """

    start_ns: int
    end_ns: int
    steps: int
    step_ns: tuple[int, ...] = ()
    noise: Noise | None = None
    flag: str | None = None


@dataclass(frozen=True, slots=True)
class ProofRun:
    """What one lane did in the proof: each step's loss, and a fingerprint of how the weights moved.

    `start` is the length of all weights before the first step. `shrink` is the movement's share along the weights
    themselves, in units of their squared length; `moves` holds the length of each array's movement.
    """

    precision: str
    losses: tuple[float, ...]
    start: float
    shrink: float
    moves: tuple[float, ...]
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Reference:
    """The float64 run that every lane is held against, and a float32 twin: how far rounding alone strays."""

    key: str
    exact: ProofRun
    twin: ProofRun
    depth: int
    weights: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Appeal:
    """A second proof of a lane, from other weights and on other batches, held against a reference of its own.

    Rounding may put one value on the other side of a rectifier, or let another pixel win a pooling. Such chance moves
    the weights otherwise, and does not come twice; other work does.
    """

    seed: int
    reference: Reference
    runs: tuple[ProofRun, ...]


@dataclass(frozen=True, slots=True)
class Examination:
    """What looking at some test items took, with nothing trained, so that a whole validation can be foretold.

    `ns` is for these `items`; `first_ns` what the first look of all took on top, `read_ns` having so many at hand in
    memory, which happens once a training (nothing, where they are decoded anew each time).
    """

    items: int
    ns: int
    first_ns: int
    read_ns: int


@dataclass(frozen=True, slots=True)
class FreshSteps:
    """Steps on items that were decoded for them, where the loader then holds them: as steps are until each was seen."""

    steps: int
    ns: int


@dataclass(frozen=True, slots=True)
class Dnf:
    """Why and where a heat did not finish; it is a result like any other."""

    phase: str
    reason: str
    signal: str | None = None
    exit_code: int | None = None
    peak_memory_bytes: int | Missing = field(default_factory=lambda: Missing("the process was gone"))
    stderr_tail: str = ""


@dataclass(frozen=True, slots=True)
class Heat:
    """One fresh process that ran one lane once.

    `burst` is how many batches its loader may hand over at once, where it was seen to do so and then to let steps wait.
    """

    lane: str
    order: int
    round: int
    status: Literal["ok", "dnf"]
    parameters: int | None = None
    items_per_step: int | None = None
    steps_per_lap: int | None = None
    phases_s: dict[str, float] = field(default_factory=dict)
    first_step_ns: int | None = None
    proofs: tuple[ProofRun, ...] = ()
    windows: tuple[Window, ...] = ()
    losses: tuple[float, ...] = ()
    examination: Examination | None = None
    fresh: FreshSteps | None = None
    burst: int | None = None
    peak_memory_bytes: int | Missing = field(default_factory=lambda: Missing("not read"))
    device_memory_bytes: int | Missing = field(default_factory=lambda: Missing("not read"))
    versions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    dnf: Dnf | None = None
    timeline: Timeline | None = None
    signs: Signs | None = None
