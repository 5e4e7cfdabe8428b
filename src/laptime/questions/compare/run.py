"""What is asked of records that are there: compare two, compare the trainings of one, run one again."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from laptime.model.ask import Ask
from laptime.model.errors import RecordError, UsageError
from laptime.model.frameworks import all_frameworks
from laptime.model.plan import Subject
from laptime.model.process import AS_WRITTEN, is_exactly
from laptime.model.questions import find_question
from laptime.model.record import LaneResult, Record
from laptime.model.rows import BOTH, OF_TRAINING, RecordRow, Selection, is_lane, trains
from laptime.questions.compare import reduce as compared
from laptime.questions.compare.nouns import History
from laptime.questions.compare.reduce import Found, follow_lane, follow_watches, has_loop, has_rate
from laptime.questions.sources import is_copied

COMPARING_FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What a comparison may raise where a record holds figures that no laptime wrote."""

Arguments = ParamSpec("Arguments")
ComparedKind = TypeVar("ComparedKind")


def in_words(compare: Callable[Arguments, ComparedKind]) -> Callable[Arguments, ComparedKind]:
    """Decorate a function so that what it raises on a bad record becomes a RecordError."""

    @wraps(compare)
    def compared_in_words(*given: Arguments.args, **named: Arguments.kwargs) -> ComparedKind:
        try:
            return compare(*given, **named)
        except COMPARING_FAULTS as error:
            says = f"a record holds what no comparison expects ({type(error).__name__}: {error})"
            raise RecordError(says, "`laptime show ID --json` prints what it holds.") from error

    return compared_in_words


compare_kept_records = in_words(compared.compare_records)
compare_kept_trainings = in_words(compared.compare_trainings)


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
    others = zip(record.ask.others, (other.subject for other in record.others), strict=False)
    # The lanes' names hold their batches, and name what `every` found.
    return replace(
        record.ask,
        what=find_again(record.ask.what, record.workload),
        others=tuple(find_again(what, subject) for what, subject in others),
        lanes=tuple(places),
        batches=(),
        variants=(),
        every=False,
        label=label,
    )


def find_again(what: str, training: Subject) -> str:
    """Return what a training is called from this folder: its name in the record, or its whole path."""
    if training.file is None or training.function is None or is_copied(what):
        return what
    named = Path(what if what.endswith(".py") else what.rpartition(":")[0])
    return what if named.absolute() == Path(training.file) else f"{training.file}:{training.function}"


# Which lane a history follows, in which of the saved records, and the history itself.

WATCH_TOO_SHORT = "no training with enough iterations was seen"
WATCH = "watch"  # in place of the name of a lane
Load = Callable[[str], Record]


@in_words
def make_history(
    what: str, lane: str | None, question: str | None, *, rows: Sequence[RecordRow], load: Load, limit: int
) -> History:
    """Return how a lane of a training changed over the newest records that have it. `limit` 0 takes all of them.

    Without a question, it is of races; of a script that was only watched, of its watches.
    """
    if question is None:
        of_what = {row.question for row in rows if row.unreadable is None and _trains_any(row.workload, what)}
        question = "watch" if "watch" in of_what and "race" not in of_what else "race"
    chosen = [
        row
        for row in Selection(question=question).of(rows)
        if row.unreadable is None and row.status != "running" and _trains_any(row.workload, what)
    ]
    functions = dict.fromkeys(row.workload for row in rows if trains(row.workload.rpartition(":")[0], what))
    if not chosen and len(functions) == 1:
        return make_history(next(iter(functions)), lane, question, rows=rows, load=load, limit=limit)
    if not chosen and functions:
        raise UsageError(f"records name several trainings of {what}", f"name one: {', '.join(functions)}")
    if not chosen:
        known = list(dict.fromkeys(row.workload for row in rows if row.workload and row.workload != what))
        alike = difflib.get_close_matches(what, known, n=1)
        near = f"; did you mean {alike[0]}?" if alike else ""
        raise RecordError(f"no record of {question} trained {what}{near}", "`laptime list` shows all.")
    if question == "watch":
        return _history_of_watches(what, lane, chosen, load, limit)
    place, others = choose_lane([_places(row, what) for row in chosen], lane, what)
    having = [row for row in chosen if place in _places(row, what)]
    newest = having[:limit] if limit else having
    found, left_out = _load_each(newest, what, place, load)
    if not found:
        says = f"no record has a result of {place} for {what}: {'; '.join(left_out)}"
        raise RecordError(says, "`laptime list` shows all records.")
    return History(what, place, question, follow_lane(found), tuple(others), tuple(left_out), len(having) - len(newest))


def _history_of_watches(what: str, lane: str | None, chosen: Sequence[RecordRow], load: Load, limit: int) -> History:
    """Return how the iterations of a watched script changed over its records, which have no lanes."""
    if lane is not None:
        raise UsageError(f"{what} was watched, and a watch has no lane '{lane}'", f"laptime history {what}")
    newest = chosen[:limit] if limit else chosen
    records, left_out = _load_readable(newest, load)
    found = [record for record in records if has_loop(record)]
    left_out += [f"{record.id}: {WATCH_TOO_SHORT}" for record in records if not has_loop(record)]
    if not found:
        raise RecordError(
            f"no watch of {what} has a figure: {'; '.join(left_out)}", "`laptime list` shows all records."
        )
    older = len(chosen) - len(newest)
    return History(what, WATCH, "watch", follow_watches(found), left_out=tuple(left_out), older=older)


def choose_lane(places: Iterable[Sequence[str]], lane: str | None, what: str) -> tuple[str, list[str]]:
    """Return the lane that is meant, by default the one that is in most records, and the others."""
    counted = Counter(place for sequence in places for place in sequence)
    known = [place for place, _ in counted.most_common()]
    if not known:
        raise RecordError(f"no record of {what} has a lane", "`laptime list` shows all records.")
    if lane is None:
        return known[0], known[1:]
    meant = [place for place in known if is_exactly(place, lane)] or [place for place in known if is_lane(place, lane)]
    if len(meant) > 1 and lane not in all_frameworks():  # as where a lane is raced: without settings it is as written
        meant = [place for place in meant if place.endswith(f"/{AS_WRITTEN}")] or meant
    if len(meant) > 1:
        raise UsageError(f"'{lane}' may be {len(meant)} lanes: {', '.join(meant)}", "name one of them")
    if not meant:
        raise UsageError(f"no record of {what} has the lane '{lane}'", f"its lanes: {', '.join(known)}")
    return meant[0], [place for place in known if place != meant[0]]


def _places(row: RecordRow, what: str) -> list[str]:
    """Return the lanes of a row that train WHAT, without the name of their training."""
    parted = (name.partition(OF_TRAINING) for name in row.lanes)
    return list(dict.fromkeys(place for place, of, training in parted if not of or _is_training(training, what)))


def _trains_any(workload: str, what: str) -> bool:
    """Whether one of the trainings of a row is WHAT, which may have a longer path than the record has."""
    return any(_is_training(name, what) for name in (workload, *workload.split(BOTH)))


def _is_training(name: str, what: str) -> bool:
    """Whether the name of a training in a record is what it is called on the command line."""
    return trains(name, what) or trains(what, name)


def _load_each(rows: Sequence[RecordRow], what: str, place: str, load: Load) -> tuple[list[Found], list[str]]:
    """Return each record with the lane, the oldest first, and why records have no result of it."""
    found: list[Found] = []
    records, left_out = _load_readable(rows, load)
    for record in records:
        lane = _lane_in(record, what, place)
        if lane is not None and has_rate(record, lane):
            found.append((record, lane))
        else:
            left_out.append(f"{record.id}: {(lane.reason or lane.status) if lane is not None else 'no such lane'}")
    return found, left_out


def _load_readable(rows: Sequence[RecordRow], load: Load) -> tuple[list[Record], list[str]]:
    """Return the records, the oldest first, and why some cannot be read."""
    records = []
    unread = []
    for row in reversed(rows):
        try:
            records.append(load(row.id))
        except RecordError as error:
            unread.append(f"{row.id}: {error.says}")
    return records, unread


def _lane_in(record: Record, what: str, place: str) -> LaneResult | None:
    for lane in record.lanes:
        named, of, training = lane.name.partition(OF_TRAINING)
        if named == place and (not of or _is_training(training, what)):
            return lane
    return None
