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
    ask_again,
    check_threshold,
    make_ask,
    name_subject,
    options_as_arguments,
    read_argument,
    with_options,
)
from laptime.library.notebook import progress_shown, write_report
from laptime.library.results import DevicesResult, DoctorResult, PlanResult, RaceResult, Result
from laptime.model.ask import DEFAULT_WORKLOAD, Ask
from laptime.model.errors import LaptimeError, RecordError, StoreError, UsageError
from laptime.model.option_kinds import read_count, read_share
from laptime.model.questions import QUESTIONS, find_question
from laptime.model.record import Record
from laptime.model.rows import RecordRow
from laptime.questions.compare.call import CompareResult, HistoryResult
from laptime.questions.compare.nouns import HISTORY_POINTS


@with_options("race")
def race(
    what: What | Trainings = DEFAULT_WORKLOAD,
    lanes: LaneNames = (),
    *,
    against: Recorded | None = None,
    trust: str | None = None,
    fail_above: ShareLike | None = None,
    progress: bool | None = None,
    **given: Any,
) -> RaceResult:
    """Race the lanes: which is faster, by how much, and did they learn the same?

    `what` is a function that returns a `laptime.Training`, the name of a built-in workload, "file.py:function", or
    an `Ask`; a list of functions or files races these against each other. `lanes` are named as on the command line:
    ["cpu", "cuda/best"]. With no lane, every usable device races, as written and at its best; with `every`, every
    installed framework.

    The race ends within `budget` ("1m", or seconds), when every ratio is known to `margin` ("5%", or 0.05), or
    after `heats`. `data` is a folder of real data, `items` how many are made where there is none. `patience` is for
    starting and compiling, `watchdog` for a heat that sends nothing. `sensors` are those to read, `sensor_rate` how
    often a second. Each lane races once for every `batch`. `price` (of a kWh) and `rate` (of the machine per hour)
    add costs. `label` names the record: `laptime.load("@label")`. `progress` shows a live table in a notebook, where it
    is the default, and one line elsewhere.

    "train.py" may also be a script that knows nothing of laptime: `arguments` are its own, and each of its runs is
    stopped after `steps` timed steps, or when enough is known.

    `on` names a cluster: "ray", "ray://host:10001" or "slurm". Each heat then runs on a node of it. `each` is a label
    of a Ray cluster's nodes: each lane races on each type of them. `prices` are per hour: {"small": 0.1, "big": 1.2}.

    `against` (a result, an id, a file, "@label") runs that race again as it was, and compares: `.comparison`. Next to
    it only `label`, `trust`, `fail_above` and `progress` can be given. A record that you did not make here is run again
    only if `trust` is its id: it starts what it names. With `fail_above` ("5%", or 0.05) the lanes that take
    more than that longer for certain are in `.comparison.failing`; without `against`, the further trainings of a list
    are compared with its first.
    """
    before = None if against is None else record_of(against)
    share = read_threshold(fail_above)
    if before is not None:
        found_as = os.fspath(against) if isinstance(against, str | os.PathLike) else None
        ask = ask_again(before, what, lanes, found_as=found_as, trust=trust, given=given)
    elif trust is not None:
        raise UsageError("trust is for a record that is run again", "laptime.race(against=ID, trust=ID)")
    else:
        ask = make_ask(what, lanes, **given)
    check_threshold(ask, before, share)
    record, is_saved = answer("race", ask, progress=progress)
    return RaceResult(record, is_saved, judge(before, record, share))


@with_options("train")
def train(
    what: What = DEFAULT_WORKLOAD, lanes: LaneNames = (), *, progress: bool | None = None, **given: Any
) -> Result:
    """Train each lane whole, one after another: laps, validation, a test. The record is saved after every lap.

    `laps` and `steps_per_lap` replace what was published. Each lane is trained from `seeds` seeds, and once for every
    pair of `lr` and `batch`. `until_accuracy` (0.7 or "70%") says when that was reached. For the rest see `race`.
    """
    return Result(*answer("full", make_ask(what, lanes, "train", **given), progress=progress))


@with_options("infer")
def infer(
    what: What = DEFAULT_WORKLOAD, lanes: LaneNames = (), *, progress: bool | None = None, **given: Any
) -> Result:
    """Time answers, not training: how long one takes, and how many there are a second in batches. See `race`."""
    return Result(*answer("infer", make_ask(what, lanes, "infer", **given), progress=progress))


@with_options("profile")
def profile(
    what: What = DEFAULT_WORKLOAD, lanes: LaneNames = (), *, progress: bool | None = None, **given: Any
) -> Result:
    """Run some steps of each lane under its framework's profiler: operators, kernels, and a saved trace. See `race`."""
    return Result(*answer("profile", make_ask(what, lanes, "profile", **given), progress=progress))


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

FOLLOWED = {row.command: row.name for row in QUESTIONS if row.rates or row.name == "watch"}


def load(name: str = "latest") -> Result:
    """Return a saved result by its id, its beginning, a file, or "@label". That of `why` has a verdict.

    That of `watch` has the loop that was seen.
    """
    record = api.load(name)
    made: Result = find_question(record.question).part("result")(record)
    return made


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
