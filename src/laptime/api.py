"""The whole pipeline in one screen: ask -> plan -> heats -> record; the one place where the rooms are joined."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from laptime.data import MadeSet, describe_set, made_sets, make_source, remove_set
from laptime.errors import StoreError
from laptime.machine import look_around, look_at_machine
from laptime.model.ask import Ask
from laptime.model.checkup import Checkup
from laptime.model.dataset import DataSource
from laptime.model.inference import InferPlan
from laptime.model.machine import Machine
from laptime.model.plan import Plan
from laptime.model.protocol import FullPlan, Moment, Protocol
from laptime.model.record import Record
from laptime.questions.asking import Prepared, names_a_lane, prepare, scout_machine
from laptime.questions.doctor import examine
from laptime.questions.full import Stage, order_words, run_full
from laptime.questions.gauge import Limits, PeakShelf, add_limits, known_limits, measure_limits
from laptime.questions.infer import prepare_infer, run_infer
from laptime.questions.outside import Outside
from laptime.questions.profile import prepare_profile, run_profiles
from laptime.questions.protocol import prepare_full, prepare_rest
from laptime.questions.race import run_race
from laptime.report import datasets, environment, layers, listing, profile_page, terminal
from laptime.report import doctor as report_doctor
from laptime.report import full as report_full
from laptime.report import infer as report_infer
from laptime.report import json as report_json
from laptime.report import peaks as report_peaks
from laptime.report import plan as report_plan
from laptime.report.devices import card_of, hardware_rows
from laptime.report.full_words import moment_words
from laptime.store import checkpoints, files, peaks, references, schema, traces
from laptime.store.rows import RecordRow
from laptime.workloads import CATALOGUE, find_workload
from laptime.workloads.layers import list_layers

if TYPE_CHECKING:
    from rich.console import RenderableType


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
    names = [each.name for each in machine.frameworks] if frameworks is None else frameworks
    return scout_machine(machine, names, patience_s)


def kept_peaks(machine: Machine) -> Limits:
    """Give what each usable device can do at most, where that was measured before, or why it is not known."""
    return known_limits(machine, peaks.load_peaks)


def measure_peaks(machine: Machine, tell: Callable[[str], None], warn: Warn, *, patience_s: float = 120.0) -> Limits:
    """Measure what each usable device can do at most, and keep it; what cannot be saved is told to `warn`."""
    return measure_limits(machine, PeakShelf(peaks.load_peaks, _journal(warn, peaks.save_peaks), tell), patience_s)


def doctor(data: Path | None, tell: Callable[[str], None], *, patience_s: float = 120.0) -> Checkup:
    """Tell whether each framework here can use each device that is here, and try it; `data` is a folder to look at."""
    around = look_around(look_at_machine(), (data or Path.cwd(),))
    machine = scout_machine(around, [each.name for each in around.frameworks], patience_s)
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


def as_text(record: Record, width: int, *, color: bool = False, kept: bool = True) -> str:
    """Give a record as the page that ends it; one that is not kept does not say where it is.

    Whole trainings begin with their environment, as the first of the published experiments does.
    """
    if record.infer is not None:
        return report_infer.render(record, width, color=color, kept=kept).rstrip("\n")
    if record.question == "profile":
        return profile_page.render(record, width, color=color, kept=kept).rstrip("\n")
    if record.full is None:
        return terminal.render(record, width, color=color, kept=kept).rstrip("\n")
    page = report_full.render(record, width, color=color, kept=kept).rstrip("\n")
    if record.workload.name not in CATALOGUE:
        return page
    frameworks = dict.fromkeys(lane.name.split("/", 1)[0] for lane in record.lanes)
    block = environment_as_text(record.machine, frameworks, record.workload.name, record.data, width)
    return f"{block}\n\n{page}"


def live_table(record: Record, note: str) -> RenderableType:
    """Give a running race as something that rich can draw again and again."""
    if record.infer is not None:
        from laptime.report.infer_live import live_answers  # noqa: PLC0415  as below

        return live_answers(record, note)
    from laptime.report.live import live_table as draw  # noqa: PLC0415  rich is 60 ms that only a terminal needs

    return draw(record, note)


def lap_bar(moment: Moment) -> RenderableType:
    """Give the lap under way as something that rich can draw again and again."""
    from laptime.report.full_live import lap_bar as draw  # noqa: PLC0415  as above

    return draw(moment)


def as_json(record: Record) -> str:
    """Give a record as it is kept, laid out to be read."""
    return report_json.render(schema.encode(record)).rstrip("\n")


def records_as_json(records: Sequence[Record]) -> str:
    """Give one record, or a list of several."""
    if len(records) == 1:
        return as_json(records[0])
    return report_json.render(b"[" + b",".join(map(schema.encode, records)) + b"]").rstrip("\n")


def to_json(values: object) -> str:
    """Give plans, workloads, devices and lists for other programs."""
    return report_json.render(msgspec.json.encode(values)).rstrip("\n")


def device_rows(machine: Machine) -> list[dict[str, object]]:
    """Give every device of every framework as one object, a framework that cannot run as one too; then the hardware."""
    rows: list[dict[str, object]] = []
    for each in machine.frameworks:
        version = {"framework": each.name, "version": each.version, "notes": each.notes}
        if each.problem:
            rows.append({**version, "name": each.name, "kind": "framework", "usable": False, "reason": each.problem})
        rows += [{**version, **asdict(device), "card": card_of(device, machine)} for device in each.devices]
    return rows + hardware_rows(machine)


def peaks_as_text(limits: Limits, width: int) -> str:
    return "\n".join(report_peaks.peak_lines(limits, width))


def plan_as_text(planned: Plan | FullPlan | InferPlan, width: int) -> str:
    return report_plan.render_plan(planned, width).rstrip("\n")


def devices_as_text(machine: Machine, width: int) -> str:
    return listing.render_devices(machine, width).rstrip("\n")


def checkup_as_text(checkup: Checkup, width: int, *, color: bool = False) -> str:
    return report_doctor.render_checkup(checkup, width, color=color).rstrip("\n")


def workloads_as_text(width: int) -> str:
    return listing.render_workloads(workloads, width).rstrip("\n")


def workload_as_text(name: str, width: int) -> str:
    """Give one built-in training whole: its layers, how it is trained, and what was published."""
    workload = find_workload(name)
    return layers.render_workload(workload, list_layers(workload), width).rstrip("\n")


def workload_row(name: str) -> dict[str, object]:
    """Give one built-in training whole as an object, its layers with their output shapes and parameters."""
    workload = find_workload(name)
    optimizer = {"name": type(workload.optimizer).__name__.lower(), **asdict(workload.optimizer)}
    return {**asdict(workload), "optimizer": optimizer, "layers": list_layers(workload)}


def environment_as_text(
    machine: Machine, frameworks: Iterable[str], name: str, data: DataSource | None, width: int
) -> str:
    """Give the block that a full training of the named workload begins with; `data` is what it will read."""
    workload = find_workload(name)
    rows = list_layers(workload)
    block = environment.render_environment(machine, frameworks, workload, rows, data, width=width, version=version())
    return block.rstrip("\n")


def records_as_text(rows: Sequence[RecordRow], width: int) -> str:
    return listing.render_records(rows, width).rstrip("\n")


def made_data_as_text(rows: Sequence[MadeSet], width: int) -> str:
    return datasets.render_sets(rows, width).rstrip("\n")


def made_as_text(row: MadeSet, seconds: float, *, was_there: bool) -> str:
    return datasets.render_made(row, seconds, was_there=was_there).rstrip("\n")


def removed_as_text(row: MadeSet) -> str:
    return datasets.render_removed(row).rstrip("\n")


load = files.load
made_data = made_sets
remove_data = remove_set
records = files.list_records
encode = schema.encode
workloads = tuple(CATALOGUE.values())

__all__ = [
    "add_limits",
    "as_json",
    "as_text",
    "checkup_as_text",
    "device_rows",
    "devices",
    "devices_as_text",
    "doctor",
    "encode",
    "environment_as_text",
    "full",
    "infer",
    "kept_peaks",
    "lap_bar",
    "live_table",
    "load",
    "made_as_text",
    "made_data",
    "made_data_as_text",
    "make_data",
    "measure_peaks",
    "moment_words",
    "names_a_lane",
    "outline",
    "peaks_as_text",
    "plan",
    "plan_as_text",
    "profile",
    "race",
    "records",
    "records_as_json",
    "records_as_text",
    "remove_data",
    "removed_as_text",
    "resume",
    "to_json",
    "version",
    "workload_as_text",
    "workload_row",
    "workloads",
    "workloads_as_text",
]
