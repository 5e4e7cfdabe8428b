"""The table of questions: the answer type of each, and where its parts are. A question is a row here and two files.

A part is named like an entry point ("module:name"), and is imported when it is used. So a record can be read and shown
where no framework is installed, and `laptime --help` imports no part.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from laptime.model.frameworks import FleetNode
from laptime.model.protocol import AnswerReference, FullRun, InferPace, LapFactor, Protocol
from laptime.model.record import Answer, Comparison, InferFactor, InferLane, Record
from laptime.model.script import WatchAnswer
from laptime.questions.scale.nouns import ScaleLane, Scaling
from laptime.questions.sweep.nouns import Sweep
from laptime.questions.tune.nouns import Tuning
from laptime.questions.why.nouns import Why


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
    `figures` what a report draws; without them a report has the page alone. `result` is the class of `import laptime`
    that holds its record. `says` is the help text of its command; a command with options of its own has a module.
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
    result: str = "laptime.library.results:Result"
    rates: str = ""  # yields the rates of a lane, by which records are compared and followed; without it they are not
    typed: str = ""  # the command, where that has another name
    spoken: str = ""  # how a sentence names a record of it
    field: str = ""  # how an `Ask` means it, in Python
    own_command: str = ""  # of a question that a package adds, where its command is not made from `says`
    has_magic: bool = False  # for cells of a notebook
    runs_on_clusters: bool = False
    predicts_cards: bool = False  # what cards that are not here would bring

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
        prepare="laptime.questions.race.run:prepare_race",
        run="laptime.questions.race.run:Race",
        render="laptime.questions.race.page:render",
        live="laptime.questions.race.live:live_lines",
        summary="laptime.pages.listing:of_race",
        parts="laptime.questions.race.page:page_parts",
        figures="laptime.questions.race.page:figures",
        rates="laptime.questions.compare.reduce:rates_of_heats",
        spoken="a race",
        has_magic=True,
        runs_on_clusters=True,
        predicts_cards=True,
    ),
    Question(
        name="full",
        answer=TrainingAnswer,
        prepare="laptime.questions.train.run:prepare_full",
        run="laptime.questions.train.run:WholeTrainings",
        render="laptime.showing:training_page",
        live="laptime.questions.train.page:live_lines",
        summary="laptime.pages.listing:of_training",
        parts="laptime.questions.train.page:page_parts",
        figures="laptime.questions.train.page:figures",
        typed="train",
        rates="laptime.questions.compare.reduce:rates_of_trainings",
        spoken="a training",
        field="full=FullAsk(...)",
        has_magic=True,
    ),
    Question(
        name="infer",
        answer=InferAnswer,
        prepare="laptime.questions.infer.run:prepare_infer",
        run="laptime.questions.infer.run:InferenceRace",
        render="laptime.questions.infer.page:render",
        live="laptime.questions.infer.page:live_lines",
        summary="laptime.pages.listing:of_inference",
        parts="laptime.questions.infer.page:page_parts",
        figures="laptime.questions.infer.page:figures",
        rates="laptime.questions.compare.reduce:rates_of_answers",
        spoken="of inference",
        field="infer=True",
        has_magic=True,
    ),
    Question(
        name="why",
        answer=WhyAnswer,
        prepare="laptime.questions.why.run:prepare_why",
        run="laptime.questions.why.run:WhySearch",
        render="laptime.questions.why.page:render",
        live="laptime.questions.race.live:live_lines",
        summary="laptime.pages.listing:of_why",
        parts="laptime.questions.why.page:page_parts",
        figures="laptime.questions.why.page:figures",
        result="laptime.library.results:WhyResult",
        spoken="a why",
        has_magic=True,
        predicts_cards=True,
    ),
    Question(
        name="scale",
        answer=ScaleAnswer,
        prepare="laptime.questions.scale.run:prepare_scale",
        run="laptime.questions.scale.run:ScaleRace",
        render="laptime.questions.scale.page:render",
        live="laptime.questions.race.live:live_lines",
        summary="laptime.pages.listing:of_scale",
        parts="laptime.questions.scale.page:page_parts",
        figures="laptime.questions.scale.page:figures",
        result="laptime.library.results:ScaleResult",
        spoken="a scale",
        field="scale=ScaleAsk(...)",
        runs_on_clusters=True,
    ),
    Question(
        name="tune",
        answer=TuneAnswer,
        prepare="laptime.questions.tune.run:prepare_tune",
        run="laptime.questions.tune.run:Tune",
        render="laptime.questions.tune.page:render",
        live="laptime.questions.race.live:live_lines",
        summary="laptime.pages.listing:of_tune",
        parts="laptime.questions.tune.page:page_parts",
        figures="laptime.questions.tune.page:figures",
        result="laptime.library.results:TuneResult",
        spoken="a tuning",
        field="tune=TuneAsk(...)",
    ),
    Question(
        name="sweep",
        answer=SweepAnswer,
        prepare="laptime.questions.sweep.run:prepare_sweep",
        run="laptime.questions.sweep.run:SweepRace",
        render="laptime.questions.sweep.page:render",
        live="laptime.questions.race.live:live_lines",
        summary="laptime.pages.listing:of_sweep",
        parts="laptime.questions.sweep.page:page_parts",
        figures="laptime.questions.sweep.page:figures",
        result="laptime.library.results:SweepResult",
        spoken="a sweep",
        field="sweep=SweepAsk(...)",
    ),
    Question(
        name="profile",
        answer=ProfileAnswer,
        prepare="laptime.questions.profile.run:prepare_profile",
        run="laptime.questions.profile.run:Profiles",
        render="laptime.questions.profile.page:render",
        live="laptime.questions.race.live:live_lines",
        summary="laptime.pages.listing:of_profile",
        parts="laptime.questions.profile.page:page_parts",
        figures="laptime.questions.profile.page:figures",
        spoken="a profile",
        has_magic=True,
    ),
    Question(
        name="watch",
        answer=WatchAnswer,
        prepare="laptime.questions.watch.run:prepare_watch",
        run="laptime.questions.watch.run:Watch",
        render="laptime.questions.watch.page:render",
        live="laptime.questions.watch.page:live_lines",
        summary="laptime.pages.listing:of_watch",
        parts="laptime.questions.watch.page:page_parts",
        figures="laptime.questions.watch.page:figures",
        result="laptime.library.results:WatchResult",
        spoken="a watched script",
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
