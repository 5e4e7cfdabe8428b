"""The table of questions: the answer type of each, and where its parts are. A question is a row here and two files.

A part is named like an entry point ("module:name"), and is imported when it is used. So a record can be read and shown
where no framework is installed, and `laptime --help` imports no part.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from laptime.model.fleet import FleetNode
from laptime.model.inference import AnswerReference, InferPace
from laptime.model.protocol import FullRun, LapFactor, Protocol
from laptime.model.record import Answer, Comparison, InferFactor, InferLane, Record
from laptime.model.scaling import ScaleLane, Scaling
from laptime.model.script import WatchAnswer
from laptime.model.sweeping import Sweep
from laptime.model.tuning import Tuning
from laptime.model.why import Why


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


@dataclass(frozen=True, slots=True)
class WhyAnswer(Answer):
    """Why the first lane is as fast as it is, and how the experiments compare with it. Empty while the heats run.

    `alone` says why heats of a round did not take turns, if so.
    """

    comparisons: tuple[Comparison, ...] = ()
    why: Why | None = None
    alone: tuple[str, ...] = ()

    @property
    def doubt(self) -> str | None:
        return None if self.why is None or self.why.trusted else self.why.distrust or "the noise was too great"


@dataclass(frozen=True, slots=True)
class ScaleAnswer(Answer):
    """What several devices bring. Empty while the heats run. `roles` says what each lane is for."""

    roles: tuple[ScaleLane, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    scaling: Scaling | None = None
    alone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TuneAnswer(Answer):
    """The best settings of each lane. Empty while the heats run. `comparisons` are those of the search."""

    comparisons: tuple[Comparison, ...] = ()
    tuning: Tuning | None = None
    alone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SweepAnswer(Answer):
    """Lanes over a range of values. Empty while the heats run."""

    sweep: Sweep | None = None
    alone: tuple[str, ...] = ()


def training_of(record: Record) -> TrainingAnswer:
    assert isinstance(record.answer, TrainingAnswer)
    return record.answer


def inference_of(record: Record) -> InferAnswer:
    assert isinstance(record.answer, InferAnswer)
    return record.answer


def watch_of(record: Record) -> WatchAnswer:
    assert isinstance(record.answer, WatchAnswer)
    return record.answer


def why_of(record: Record) -> Why:
    assert isinstance(record.answer, WhyAnswer)
    assert record.answer.why is not None
    return record.answer.why


@dataclass(frozen=True, slots=True)
class Question:
    """One question, by the name that its record holds.

    `prepare` turns an ask and a machine into what can be run. `run` is the class that runs it: it takes a job and what
    was prepared, and has `run()` and `reduce(status)`. `render` makes the page of a record, `live` the lines that are
    redrawn while it runs, `summary` the few words in a list. `parts` returns what the page of a record says, and
    `figures` what a report draws; without them a report has the page alone. `says` is the help text of its command; a
    command with options of its own has a module in `laptime.cli`. `typed` is the command, where that has another name.
    """

    name: str
    answer: type[Answer]
    prepare: str
    run: str
    render: str
    live: str
    summary: str
    says: str = ""
    parts: str = ""
    figures: str = ""
    typed: str = ""

    @property
    def command(self) -> str:
        return self.typed or self.name

    def part(self, name: str) -> Any:
        """Return the part of this name; its module is imported now."""
        module, _, inside = getattr(self, name).partition(":")
        return getattr(importlib.import_module(module), inside)


QUESTIONS: list[Question] = [
    Question(
        name="race",
        answer=RaceAnswer,
        prepare="laptime.questions.race:prepare_race",
        run="laptime.questions.race:Race",
        render="laptime.pages.race:render",
        live="laptime.pages.race:live_lines",
        summary="laptime.pages.summaries:of_race",
        parts="laptime.pages.race:page_parts",
        figures="laptime.figures.race:figures",
    ),
    Question(
        name="full",
        answer=TrainingAnswer,
        prepare="laptime.questions.protocol:prepare_full",
        run="laptime.questions.full:WholeTrainings",
        render="laptime.showing:training_page",
        live="laptime.pages.laps:live_lines",
        summary="laptime.pages.summaries:of_training",
        parts="laptime.pages.full:page_parts",
        figures="laptime.figures.training:figures",
        typed="train",
    ),
    Question(
        name="infer",
        answer=InferAnswer,
        prepare="laptime.questions.infer:prepare_infer",
        run="laptime.questions.infer:InferenceRace",
        render="laptime.pages.infer:render",
        live="laptime.pages.infer:live_lines",
        summary="laptime.pages.summaries:of_inference",
        parts="laptime.pages.infer:page_parts",
        figures="laptime.figures.infer:figures",
    ),
    Question(
        name="why",
        answer=WhyAnswer,
        prepare="laptime.questions.why:prepare_why",
        run="laptime.questions.why:WhySearch",
        render="laptime.pages.why:render",
        live="laptime.pages.race:live_lines",
        summary="laptime.pages.summaries:of_why",
        parts="laptime.pages.why:page_parts",
        figures="laptime.figures.why:figures",
    ),
    Question(
        name="scale",
        answer=ScaleAnswer,
        prepare="laptime.questions.scale:prepare_scale",
        run="laptime.questions.scale:ScaleRace",
        render="laptime.pages.scale:render",
        live="laptime.pages.race:live_lines",
        summary="laptime.pages.summaries:of_scale",
        parts="laptime.pages.scale:page_parts",
        figures="laptime.figures.scale:figures",
    ),
    Question(
        name="tune",
        answer=TuneAnswer,
        prepare="laptime.questions.tune:prepare_tune",
        run="laptime.questions.tune:Tune",
        render="laptime.pages.tune:render",
        live="laptime.pages.race:live_lines",
        summary="laptime.pages.summaries:of_tune",
        parts="laptime.pages.tune:page_parts",
        figures="laptime.figures.tune:figures",
    ),
    Question(
        name="sweep",
        answer=SweepAnswer,
        prepare="laptime.questions.sweep:prepare_sweep",
        run="laptime.questions.sweep:SweepRace",
        render="laptime.pages.sweep:render",
        live="laptime.pages.race:live_lines",
        summary="laptime.pages.summaries:of_sweep",
        parts="laptime.pages.sweep:page_parts",
        figures="laptime.figures.sweep:figures",
    ),
    Question(
        name="profile",
        answer=ProfileAnswer,
        prepare="laptime.questions.profile:prepare_profile",
        run="laptime.questions.profile:Profiles",
        render="laptime.pages.profile:render",
        live="laptime.pages.race:live_lines",
        summary="laptime.pages.summaries:of_profile",
        parts="laptime.pages.profile:page_parts",
        figures="laptime.figures.profile:figures",
    ),
    Question(
        name="watch",
        answer=WatchAnswer,
        prepare="laptime.questions.watch:prepare_watch",
        run="laptime.questions.watch:Watch",
        render="laptime.pages.watch:render",
        live="laptime.pages.watch:live_lines",
        summary="laptime.pages.summaries:of_watch",
        parts="laptime.pages.watch:page_parts",
        figures="laptime.figures.watch:figures",
    ),
]


def find_question(name: str) -> Question:
    """Return the row of this name; installed packages add rows by the entry point group `laptime.questions`.

    Raises LookupError where there is none.
    """
    for each in QUESTIONS:
        if each.name == name:
            return each
    for point in metadata.entry_points(group="laptime.questions", name=name):
        found: Question = point.load()
        return found
    raise LookupError(f"no question '{name}'; known: {', '.join(each.name for each in QUESTIONS)}")
