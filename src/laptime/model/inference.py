"""Inference: how long a heat measures, what the child is ordered to do, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.model.plan import HeatOrder, Plan
from laptime.model.process import ProcessRun
from laptime.model.sample import Noise, Window
from laptime.model.timeline import Mark

BATCHES = (1, 8, 64, 256)
PROOF_ITEMS = 8


@dataclass(frozen=True, slots=True)
class InferPace:
    """How many heats, and how long each part of a heat takes: the single calls, then each batch size.

    `measure_s` is how long a part takes where calls are fast. A batch size is left out if its first two calls would
    take more than `patience_s`. Where a heat `takes_turns` with those of other lanes, a turn is single calls for
    `window_s`, or one window.
    """

    heats: int
    measure_s: float
    window_s: float
    patience_s: float
    batches: tuple[int, ...] = BATCHES
    calls_min: int = 100
    calls_max: int = 10_000
    windows_min: int = 5
    takes_turns: bool = False


@dataclass(frozen=True, slots=True)
class InferPlan:
    """What inference would run: the lanes' plan, and how long each part is measured."""

    plan: Plan
    pace: InferPace


@dataclass(frozen=True, slots=True)
class InferOrder:
    """All that a child needs to know to run one heat of inference."""

    heat: HeatOrder
    pace: InferPace


@dataclass(frozen=True, slots=True)
class AnswerRun:
    """What a network answers to the items of the proof: some values from all answers, and the length of all of them."""

    precision: str
    values: tuple[float, ...]
    length: float
    count: int


@dataclass(frozen=True, slots=True)
class AnswerReference:
    """The float64 answers that every lane is compared with, and a float32 twin: the effect of rounding alone."""

    exact: AnswerRun
    twin: AnswerRun
    depth: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class BatchRun:
    """The windows of one batch size; a window's steps are calls. `reason` says why there are no windows, or no more."""

    batch: int
    windows: tuple[Window, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CallTurn:
    """How many single calls one turn held. `flag` names the disturbance, if there was one."""

    turn: int
    calls: int
    flag: str | None = None


@dataclass(frozen=True, slots=True)
class InferHeat:
    """One fresh process in which one lane answered; `calls_ns` are its single calls, each between two fences.

    `calls_noise` is what other processes did on this machine meanwhile; `calls_flag` names the disturbance, if there
    was one; in turns, the noise is of the last one, and `call_turns` divides the calls. `items_a_call` is
    1, except for a network that only takes batches of its own size. `marks` say when each part began.
    """

    process: ProcessRun
    order: int
    round: int
    items_a_call: int | None = None
    first_call_ns: int | None = None
    calls_ns: tuple[int, ...] = ()
    calls_noise: Noise | None = None
    calls_flag: str | None = None
    call_turns: tuple[CallTurn, ...] = ()
    batches: tuple[BatchRun, ...] = ()
    proofs: tuple[AnswerRun, ...] = ()
    marks: tuple[Mark, ...] = ()
