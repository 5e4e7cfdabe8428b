"""Results as pages for people and as JSON for programs: how each noun is shown; nothing runs, and no file is opened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import msgspec

from laptime.api import version
from laptime.data import MadeSet
from laptime.model.checkup import Checkup
from laptime.model.dataset import DataSource
from laptime.model.inference import InferPlan
from laptime.model.machine import Machine
from laptime.model.plan import Plan
from laptime.model.protocol import FullPlan, Moment
from laptime.model.record import Record
from laptime.questions.gauge import Limits
from laptime.report import datasets, environment, layers, listing, profile_page, terminal
from laptime.report import doctor as report_doctor
from laptime.report import full as report_full
from laptime.report import infer as report_infer
from laptime.report import json as report_json
from laptime.report import peaks as report_peaks
from laptime.report import plan as report_plan
from laptime.report import why as report_why
from laptime.report.devices import card_of, hardware_rows
from laptime.report.full_words import moment_words
from laptime.store import schema
from laptime.store.rows import RecordRow
from laptime.workloads import CATALOGUE, find_workload
from laptime.workloads.layers import list_layers

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["moment_words"]


def as_text(record: Record, width: int, *, color: bool = False, kept: bool = True, blocks: bool = True) -> str:
    """Give a record as the page that ends it; one that is not kept does not say where it is.

    Without `blocks`, letters stand for them.

    Whole trainings begin with their environment, as the first of the published experiments does.
    """
    if record.infer is not None:
        return report_infer.render(record, width, color=color, kept=kept).rstrip("\n")
    if record.question == "profile":
        return profile_page.render(record, width, color=color, kept=kept).rstrip("\n")
    if record.why is not None:
        return report_why.render(record, width, color=color, kept=kept, ascii_only=not blocks).rstrip("\n")
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
    return listing.render_workloads(CATALOGUE.values(), width).rstrip("\n")


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
