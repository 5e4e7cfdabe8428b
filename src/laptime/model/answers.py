"""The answers that all rooms know, and how far a question is on the way to one. Those of other questions are in the
nouns of their folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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


# How far a question is: made by the question, and drawn by one place for the terminal, the notebook and a file.


@dataclass(frozen=True, slots=True)
class Progress:
    """What is being done now, and how much of the time is gone.

    `lanes` holds what each lane does now, by its name. `left_s` is what is still to come, the most of it where it
    `is_most`, and None where it is not known. Where there is no terminal, it has a line only if it `is_news`. What
    `stays` is a notice: a terminal keeps its line above what is drawn next.
    """

    doing: str
    elapsed_s: float = 0.0
    left_s: float | None = None
    is_most: bool = True
    lanes: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_news: bool = True
    stays: bool = False

    @property
    def share(self) -> float | None:
        """The share of the time that is gone, or None where the rest is not known."""
        if self.left_s is None:
            return None
        whole_s = self.elapsed_s + self.left_s
        return self.elapsed_s / whole_s if whole_s > 0 else 1.0
