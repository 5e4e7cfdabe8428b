"""The functions of `import laptime`: those that run something, each of which asks one question, and those that take
saved results.

Their options are those of the table, with the defaults of the command line; `functions.pyi` has their types. Arguments
that several functions share are explained once, in `race` and on docs/library.md.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from laptime import api
from laptime.engine.run.child import refuse_within_a_heat
from laptime.library.asking import (
    DurationLike,
    LaneNames,
    OneTraining,
    PathLike,
    ShareLike,
    Trainings,
    What,
    make_ask,
    name_subject,
    options_as_arguments,
    read_argument,
    with_options,
)
from laptime.library.notebook import progress_shown, write_report
from laptime.library.results import DevicesResult, DoctorResult, PlanResult, QuestionCall, Result
from laptime.model.ask import DEFAULT_WORKLOAD, Ask
from laptime.model.errors import LaptimeError, RecordError, StoreError, UsageError
from laptime.model.option_kinds import read_count, read_share
from laptime.model.questions import QUESTIONS, find_question
from laptime.model.record import Record
from laptime.model.rows import RecordRow
from laptime.questions.compare.call import CompareResult, HistoryResult
from laptime.questions.compare.nouns import HISTORY_POINTS


@with_options("plan")
def plan(what: What | Trainings = DEFAULT_WORKLOAD, lanes: LaneNames = (), **given: Any) -> PlanResult:
    """Return what `race` would run with these arguments. Give an `Ask` to see a whole training or inference."""
    refuse_within_a_heat()
    ask = make_ask(what, lanes, "plan", **given)
    with options_as_arguments():
        return PlanResult(api.outline(ask))


def resume(
    name: str = "latest",
    *,
    changed: bool = False,
    again: bool = False,
    trust: str | None = None,
    progress: bool | None = None,
) -> Result:
    """Continue the whole trainings of a record from the checkpoints of their last laps.

    A training whose sources have changed since then goes on only with `changed`. Finished laps whose checkpoint is gone
    are trained again only with `again`. A record that you did not make here goes on only if `trust` is its id.
    """
    return Result(*run(partial(api.resume, name, changed=changed, again=again, trust=trust), progress=progress))


def devices(
    frameworks: Iterable[str] | None = None,
    *,
    measure: bool = False,
    patience: DurationLike = "2m",
    progress: bool | None = None,
) -> DevicesResult:
    """Describe this machine and what each installed framework sees of it. With `measure`, measure what each can do."""
    refuse_within_a_heat()
    seconds = read_argument("patience", patience)
    with options_as_arguments():
        machine = api.devices(frameworks, patience_s=seconds)
    if not measure:
        return DevicesResult(machine, api.kept_peaks(machine))
    unsaved: list[StoreError] = []
    with progress_shown(wanted=progress) as line:
        limits = api.measure_peaks(machine, line.write, unsaved.append, patience_s=seconds)
    warn(unsaved)
    return DevicesResult(machine, limits)


def doctor(
    data: PathLike | None = None, *, frameworks: Iterable[str] | None = None, progress: bool | None = None
) -> DoctorResult:
    """Check whether each installed framework can really use each device. `data` is a folder to look at too."""
    refuse_within_a_heat()
    with options_as_arguments(), progress_shown(wanted=progress) as line:
        return DoctorResult(api.doctor(Path(data) if data else None, line.write, frameworks=frameworks))


# Runs one question for a call of the library: with its progress, and with a warning of what could not be saved.


def answer(question: str, ask: Ask, *, progress: bool | None) -> tuple[Record, bool]:
    return run(partial(api.answer, question, ask), progress=progress)


def run(ask: Callable[..., Record], *, progress: bool | None) -> tuple[Record, bool]:
    """Run a question. Return its record, and whether it was saved to the end."""
    refuse_within_a_heat()
    unsaved: list[StoreError] = []
    with options_as_arguments(), progress_shown(wanted=progress) as line:
        record = ask(show=line.show, tell=line.tell, warn=unsaved.append)
    warn(unsaved)
    return record, not unsaved


def warn(unsaved: Sequence[StoreError]) -> None:
    """Warn, once, of what could not be saved: the result is there all the same."""
    if unsaved:
        warnings.warn(str(unsaved[-1]), RuntimeWarning, stacklevel=5)


# The functions of `import laptime` that take saved results: load, records, compare, history and report.

Recorded: TypeAlias = str | os.PathLike[str] | Result

FOLLOWED = {row.command: row.name for row in QUESTIONS if row.is_followed}


def load(name: str = "latest") -> Result:
    """Return a saved result by its id, its beginning, a file, or "@label". That of `why` has a verdict.

    That of `watch` has the loop that was seen.
    """
    record = api.load(name)
    return find_question(record.question).part(QuestionCall).result(record)


def records() -> tuple[RecordRow, ...]:
    """Return a row for each saved record, newest first."""
    return api.records()


def compare(first: Recorded, second: Recorded | None = None, *, fail_above: ShareLike | None = None) -> CompareResult:
    """Compare the second result with the first, lane by lane; with one, compare the trainings of its race.

    Each is a result, or what `laptime.load` finds: an id, a file, "latest", "@label". With `fail_above` ("5%", or
    0.05), `.failing` names the lanes that take more than that longer for certain.
    """
    share = read_threshold(fail_above)
    return compared_of(record_of(first), None if second is None else record_of(second), share)


def history(
    what: OneTraining,
    lane: str | None = None,
    *,
    question: Literal["race", "train", "infer", "watch"] | None = None,
    limit: int | None = None,
) -> HistoryResult:
    """Follow one lane of a training through the saved records: `.points`, and where it changed beyond noise.

    `what` is a function, the name of a built-in workload, or "file.py:function". `lane` is by default the one that most
    records have. The newest 30 records are taken, or `limit`; 0 takes all.
    """
    if question is not None and question not in FOLLOWED:
        raise UsageError(f"question={question!r}: a history is of one question", f"such as {', '.join(FOLLOWED)}")
    with options_as_arguments():
        of = None if question is None else FOLLOWED[question]
        found = api.history(name_subject(what), lane, question=of, limit=_read_limit(limit))
    return HistoryResult(found, is_short=limit is None)


def report(
    *results: Recorded,
    output: str | os.PathLike[str] | None = None,
    format: str | None = None,  # noqa: A002  the command's option
    card: bool = False,
    badge: bool = False,
    dark: bool = False,
    open: bool = False,  # noqa: A002  the command's option
) -> Path:
    """Write a report of one or several results, and return its file, or its folder for pictures.

    Each is a result, or what `laptime.load` finds; by default it is the latest. The report is written to `output`, by
    default next to you under the first id, in the `format` html, md, csv, svg, png or json: by default the one that
    `output` ends with, or html. A `card` is one picture of 1200 x 630 with the answer, to share, `dark` or light; a
    `badge` is a small one. With `open`, a browser shows it then.
    """
    records = [record_of(result) for result in results or ("latest",)]
    return write_report(records, output, format, card=card, badge=badge, dark=dark, opens=open)


def record_of(given: Recorded) -> Record:
    """Return the record that a result holds, or that a name finds."""
    if isinstance(given, Result):
        return given.record
    if not isinstance(given, str | os.PathLike):
        raise UsageError(f"{given!r} is no result", "give a result, an id, a file, 'latest' or '@label'")
    return api.load(os.fspath(given))


def compared_of(before: Record, after: Record | None, fail_above: float | None) -> CompareResult:
    """Return how the second record compares with the first or, without a second, the trainings of the first."""
    if after is None:
        return CompareResult(api.compare_trainings(before, fail_above))
    return CompareResult(api.compare_records(before, after, fail_above))


def judge(before: Record | None, record: Record, fail_above: float | None) -> CompareResult | LaptimeError | None:
    """Return how a race compares, or why it does not; None where nothing was asked. The race itself is kept anyway."""
    if before is None and fail_above is None:
        return None
    if record.status == "interrupted":
        return RecordError(f"{record.id} was interrupted, and not compared", "Race it again.")
    try:
        if before is None:
            return compared_of(record, None, fail_above)
        return compared_of(before, record, fail_above)
    except (RecordError, UsageError) as error:
        return error


def read_threshold(given: ShareLike | None) -> float | None:
    """Return the share that `fail_above` names."""
    try:
        return None if given is None else read_share(given)
    except ValueError as error:
        raise UsageError(f"fail_above={given!r}: {error}", "such as '5%' or 0.05") from None


def _read_limit(given: int | None) -> int:
    try:
        limit = HISTORY_POINTS if given is None else read_count(given)
    except TypeError as error:
        raise UsageError(f"limit={given!r}: {error}", "such as 100, or 0 for all") from None
    if limit < 0:
        raise UsageError(f"limit={given!r}: expected a whole number from 0", "such as 100, or 0 for all")
    return limit
