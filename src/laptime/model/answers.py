"""The answers that all rooms know. Those of other questions are in the nouns of their folders."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.model.frameworks import FleetNode
from laptime.model.protocol import AnswerReference, FullRun, InferPace, LapFactor, Protocol
from laptime.model.record import Answer, Comparison, InferFactor, InferLane, Record
from laptime.model.script import WatchAnswer


@dataclass(frozen=True, slots=True)
class RaceAnswer(Answer):
    """How the lanes compare with the first lane. `alone` says why heats of a round did not take turns, if so.

    `nodes` are those of a race on several types of nodes.
    """

    comparisons: tuple[Comparison, ...] = ()
    alone: tuple[str, ...] = ()
    nodes: tuple[FleetNode, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingAnswer(Answer):
    """Whole trainings of some lanes; `order` says in which order they ran, and why."""

    protocol: Protocol
    order: str
    runs: tuple[FullRun, ...]
    factors: tuple[LapFactor, ...] = ()


@dataclass(frozen=True, slots=True)
class InferAnswer(Answer):
    """Inference of some lanes: how each answers, and by what factors they differ.

    `alone` says why heats of a round did not take turns, if so.
    """

    pace: InferPace
    lanes: tuple[InferLane, ...]
    factors: tuple[InferFactor, ...] = ()
    reference: AnswerReference | None = None
    alone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProfileAnswer(Answer):
    """The profiles are in the lanes."""


def training_of(record: Record) -> TrainingAnswer:
    assert isinstance(record.answer, TrainingAnswer)
    return record.answer


def inference_of(record: Record) -> InferAnswer:
    assert isinstance(record.answer, InferAnswer)
    return record.answer


def watch_of(record: Record) -> WatchAnswer:
    assert isinstance(record.answer, WatchAnswer)
    return record.answer
