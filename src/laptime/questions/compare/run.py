"""What is asked of records that are there: compare two, compare the trainings of one, run one again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from laptime.errors import RecordError, UsageError
from laptime.model.ask import Ask
from laptime.model.lane import OF_TRAINING
from laptime.model.plan import Subject
from laptime.model.questions import find_question
from laptime.model.record import Record
from laptime.questions.compare import reduce as compared

FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What a comparison may raise where a record holds figures that no laptime wrote."""

Parameters = ParamSpec("Parameters")
Found = TypeVar("Found")


def in_words(compare: Callable[Parameters, Found]) -> Callable[Parameters, Found]:
    """Decorate a function so that what it raises on a bad record becomes a RecordError."""

    @wraps(compare)
    def compared_in_words(*given: Parameters.args, **named: Parameters.kwargs) -> Found:
        try:
            return compare(*given, **named)
        except FAULTS as error:
            says = f"a record holds what no comparison expects ({type(error).__name__}: {error})"
            raise RecordError(says, "`laptime show ID --json` prints what it holds.") from error

    return compared_in_words


compare_records = in_words(compared.compare_records)
compare_trainings = in_words(compared.compare_trainings)


def check_gate(ask: Ask, *, repeats: bool) -> None:
    """Refuse a threshold for a race that has nothing to hold against it."""
    if not ask.others and not repeats:
        raise UsageError(
            "--fail-above compares two trainings, and one is named",
            "laptime race BASE.py:f HEAD.py:f --fail-above 5%, or laptime race --against ID --fail-above 5%",
        )


def ask_again(record: Record, label: str | None = None) -> Ask:
    """Return the ask that runs a recorded race again: the same trainings, lanes by their full names, and options."""
    if record.question != "race":
        again = f"laptime {find_question(record.question).command}"
        says = f"{record.id} is no race, and --against runs a race again"
        raise UsageError(says, f"run {again} {record.ask.what} again, then: laptime compare {record.id} latest")
    places = dict.fromkeys(lane.name.partition(OF_TRAINING)[0] for lane in record.lanes)
    if not places:
        raise UsageError(f"{record.id} has no lane to race again", "give the id of a race that has")
    others = zip(record.ask.others, (each.subject for each in record.others), strict=False)
    # The lanes' names hold their batches, and name what `every` found.
    return replace(
        record.ask,
        what=_found_again(record.ask.what, record.workload),
        others=tuple(_found_again(what, subject) for what, subject in others),
        lanes=tuple(places),
        batches=(),
        variants=(),
        every=False,
        label=label,
    )


def _found_again(what: str, training: Subject) -> str:
    """Return what a training is called from this folder: its name in the record, or its whole path."""
    if training.file is None or training.function is None:
        return what
    named = Path(what if what.endswith(".py") else what.rpartition(":")[0])
    return what if named.absolute() == Path(training.file) else f"{training.file}:{training.function}"
