"""The whole pipeline in one screen: ask -> plan -> heats -> record; the one place where the rooms are joined."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from laptime.data import MadeSet, describe_set, made_sets, make_source, remove_set
from laptime.errors import StoreError
from laptime.machine import look_around, look_at_machine
from laptime.model.ask import Ask
from laptime.model.checkup import Checkup
from laptime.model.inference import InferPlan
from laptime.model.machine import Machine
from laptime.model.plan import Plan
from laptime.model.protocol import FullPlan, Moment, Protocol
from laptime.model.record import Record
from laptime.questions.asking import Prepared, installed_of, names_a_lane, prepare, scout_machine
from laptime.questions.doctor import examine
from laptime.questions.full import Stage, order_words, run_full
from laptime.questions.gauge import Limits, PeakShelf, add_limits, known_limits, measure_limits
from laptime.questions.infer import prepare_infer, run_infer
from laptime.questions.outside import Outside
from laptime.questions.profile import prepare_profile, run_profiles
from laptime.questions.protocol import prepare_full, prepare_rest
from laptime.questions.race import run_race
from laptime.questions.why import prepare_why, run_why
from laptime.store import checkpoints, files, peaks, references, schema, traces
from laptime.workloads import CATALOGUE, find_workload

T = TypeVar("T")
Show = Callable[[Record, str], None]
Tell = Callable[[Moment], None]
Warn = Callable[[StoreError], None]


def race(ask: Ask, *, show: Show | None = None, warn: Warn | None = None) -> Record:
    """Race the lanes that are asked for and give the record; it is on disk after every heat.

    `show` is told of progress. A result that cannot be saved raises StoreError at once, or is told to `warn`, and
    the race goes on.
    """
    outside = _look_outside(*_new_name(), warn, show)
    prepared = prepare(ask, look_at_machine())
    return run_race(prepared.plan, prepared.machine, prepared.published, outside)


def full(ask: Ask, *, tell: Tell | None = None, warn: Warn | None = None) -> Record:
    """Train the lanes that are asked for whole, one after another; the record is on disk after every lap.

    `tell` is told each moment of the way.
    """
    outside = _look_outside(*_new_name(), warn)
    return _train(prepare_full(ask, look_at_machine()), outside, tell)


def infer(ask: Ask, *, show: Show | None = None, warn: Warn | None = None) -> Record:
    """Let the lanes that are asked for answer, item by item and in batches; the record is on disk after every heat."""
    outside = _look_outside(*_new_name(), warn, show)
    return run_infer(*prepare_infer(ask, look_at_machine()), outside)


def profile(ask: Ask, *, show: Show | None = None, warn: Warn | None = None) -> Record:
    """Take some steps of each lane under its framework's profiler: operators, kernels, and a trace beside the record.

    With no lane named it is one: the card if there is one, else the processor, as written.
    """
    outside = _look_outside(*_new_name(), warn, show)
    return run_profiles(prepare_profile(ask, look_at_machine()), outside)


def why(ask: Ask, *, show: Show | None = None, warn: Warn | None = None) -> Record:
    """Tell where one lane's time goes, what limits it, and what each remedy gains; the answer is the record's `why`.

    With no lane named it is the card if there is one, else the processor, as written.
    """
    outside = _look_outside(*_new_name(), warn, show)
    return run_why(prepare_why(ask, look_at_machine()), outside)


def resume(name: str, *, tell: Tell | None = None, warn: Warn | None = None) -> Record:
    """Train on where a record of whole trainings ends, from the checkpoints of their last laps."""
    record = files.load(name)
    outside = _look_outside(record.id, record.started, warn)
    return _train(prepare_rest(record, look_at_machine()), outside, tell, record)


def _train(
    prepared: tuple[Prepared, Protocol], outside: Outside, tell: Tell | None, before: Record | None = None
) -> Record:
    (found, protocol), name = prepared, outside.record_id
    stage = Stage(outside, partial(checkpoints.path_of, name), checkpoints.drop, tell or _say_nothing)
    with checkpoints.claim(name):
        return run_full(found, protocol, stage, before)


def _new_name() -> tuple[str, str]:
    """Give a new record's id, and when it was begun."""
    began = dt.datetime.now(dt.UTC)
    return files.new_id(began, random.Random()), began.isoformat(timespec="seconds")


def _look_outside(record_id: str, started: str, warn: Warn | None, show: Show | None = None) -> Outside:
    return Outside(
        record_id=record_id,
        started=started,
        tool={"name": "laptime", "version": version()},
        journal=_journal(warn, files.save),
        recall=references.load_reference,
        keep=references.save_reference,
        show=show or _say_nothing,
        peaks=peaks.load_peaks,
        place_trace=partial(traces.place_trace, record_id),
    )


def _say_nothing(*_told: object) -> None:
    """Show no progress."""


def plan(ask: Ask) -> Plan:
    """Give what `race` would run, without running it."""
    return prepare(ask, look_at_machine()).plan


def outline(ask: Ask) -> Plan | FullPlan | InferPlan:
    """Give what `race`, `full` or `infer` would run, whichever the ask is for, without running it."""
    machine = look_at_machine()
    if ask.full is not None:
        prepared, protocol = prepare_full(ask, machine)
        return FullPlan(prepared.plan, protocol, order_words(protocol.seeds))
    if ask.infer:
        prepared, pace = prepare_infer(ask, machine)
        return InferPlan(prepared.plan, pace)
    return prepare(ask, machine).plan


def devices(frameworks: Iterable[str] | None = None, *, patience_s: float = 120.0) -> Machine:
    """Describe this machine with all its cards, and what each installed framework sees of it."""
    machine = look_around(look_at_machine())
    return scout_machine(machine, installed_of(frameworks, machine), patience_s)


def kept_peaks(machine: Machine) -> Limits:
    """Give what each usable device can do at most, where that was measured before, or why it is not known."""
    return known_limits(machine, peaks.load_peaks)


def measure_peaks(machine: Machine, tell: Callable[[str], None], warn: Warn, *, patience_s: float = 120.0) -> Limits:
    """Measure what each usable device can do at most, and keep it; what cannot be saved is told to `warn`."""
    return measure_limits(machine, PeakShelf(peaks.load_peaks, _journal(warn, peaks.save_peaks), tell), patience_s)


def doctor(
    data: Path | None,
    tell: Callable[[str], None],
    *,
    frameworks: Iterable[str] | None = None,
    patience_s: float = 120.0,
) -> Checkup:
    """Tell whether each framework here can use each device that is here, and try it; `data` is a folder to look at."""
    around = look_around(look_at_machine(), (data or Path.cwd(),))
    machine = scout_machine(around, installed_of(frameworks, around), patience_s)
    return examine(machine, peaks.load_peaks, tell, patience_s)


def version() -> str:
    """Give the installed version; a source folder that is only on the path has none."""
    try:
        return metadata.version("laptime")
    except metadata.PackageNotFoundError:
        return "not installed"


def make_data(what: str, items: int | None, tell: Callable[[str], None]) -> MadeSet:
    """Make a workload's data unless it is there: as many items as take ten seconds, or `items` (0: all)."""
    return describe_set(Path(make_source(find_workload(what), items, tell).folder))


def _journal(warn: Warn | None, save: Callable[[T], object]) -> Callable[[T], None]:
    def journal(result: T) -> None:
        try:
            save(result)
        except StoreError as error:
            if warn is None:
                raise
            warn(error)

    return journal


load = files.load
made_data = made_sets
remove_data = remove_set
records = files.list_records
encode = schema.encode
workloads = tuple(CATALOGUE.values())

__all__ = [
    "add_limits",
    "devices",
    "doctor",
    "encode",
    "full",
    "infer",
    "kept_peaks",
    "load",
    "made_data",
    "make_data",
    "measure_peaks",
    "names_a_lane",
    "outline",
    "plan",
    "profile",
    "race",
    "records",
    "remove_data",
    "resume",
    "version",
    "why",
    "workloads",
]
