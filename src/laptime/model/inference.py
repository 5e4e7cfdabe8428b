"""Inference: how long a heat of it measures, what it is ordered to do, and what it hands over."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder, Plan
from laptime.model.sample import Dnf, Noise, Window
from laptime.model.timeline import Mark, Timeline

BATCHES = (1, 8, 64, 256)
PROOF_ITEMS = 8


@dataclass(frozen=True, slots=True)
class InferPace:
    """How many heats, and how long each part of one: the single calls, then each batch size.

    `measure_s` is what a part takes where calls are quick. A batch is left out whose two first calls would take more
    than `patience_s`.
    """

    heats: int
    measure_s: float
    window_s: float
    patience_s: float
    batches: tuple[int, ...] = BATCHES
    calls_min: int = 100
    calls_max: int = 10_000
    windows_min: int = 5


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
    """What a network answers to the items of the proof: some values spread over all, and the length of all."""

    precision: str
    values: tuple[float, ...]
    length: float
    count: int


@dataclass(frozen=True, slots=True)
class AnswerReference:
    """The float64 answers that every lane is held against, and a float32 twin: how far rounding alone strays."""

    exact: AnswerRun
    twin: AnswerRun
    depth: int
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class BatchRun:
    """The windows of one batch size; a window's steps are calls. `reason` says why there are none, or no more."""

    batch: int
    windows: tuple[Window, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class InferHeat:
    """One fresh process in which one lane answered; `calls_ns` are its single calls, each between two fences.

    `calls_noise` is what others did on this machine meanwhile, `calls_flag` names the breach of quiet, if any.
    `items_a_call` is 1, but for a network that takes no batch other than its own. `marks` tell when each part began.
    """

    lane: str
    order: int
    round: int
    status: Literal["ok", "dnf"]
    parameters: int | None = None
    items_a_call: int | None = None
    phases_s: dict[str, float] = field(default_factory=dict)
    first_call_ns: int | None = None
    calls_ns: tuple[int, ...] = ()
    calls_noise: Noise | None = None
    calls_flag: str | None = None
    batches: tuple[BatchRun, ...] = ()
    proofs: tuple[AnswerRun, ...] = ()
    peak_memory_bytes: int | Missing = field(default_factory=lambda: Missing("the heat did not finish"))
    device_memory_bytes: int | Missing = field(default_factory=lambda: Missing("the heat did not finish"))
    versions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    dnf: Dnf | None = None
    timeline: Timeline | None = None
    marks: tuple[Mark, ...] = ()
