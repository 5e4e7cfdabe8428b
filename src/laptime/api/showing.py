"""Results as pages for people and as JSON for programs. Nothing runs here, and no file is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields, replace
from functools import wraps
from pathlib import PurePath
from typing import ParamSpec, TypeVar

from laptime.model.ask import DataSource, MadeSet
from laptime.model.errors import RecordError, UsageError
from laptime.model.figure import Report
from laptime.model.frameworks import installed_version
from laptime.model.machine import Machine
from laptime.model.plan import Plan
from laptime.model.protocol import FullPlan, InferPlan, Moment
from laptime.model.questions import find_page, find_question
from laptime.model.record import Progress, Record
from laptime.model.rows import FileCheck, Imported
from laptime.model.workload import WorkloadRow
from laptime.questions.compare import page as compare_page
from laptime.questions.compare.nouns import Compared, History
from laptime.questions.compare.page import CHANGES_SHOWN, render_history
from laptime.questions.doctor.nouns import Checkup
from laptime.questions.doctor.page import card_behind, hardware_rows, peak_lines, render_checkup, render_devices
from laptime.questions.doctor.run import DeviceLimits
from laptime.questions.train import page as laps
from laptime.questions.train.page import lap_step_words, moment_words
from laptime.show.drawing.html import FORMATS as DRAWN
from laptime.show.drawing.html import (
    Made,
    PictureKind,
    as_pixels,
    format_of,
    make_files,
    make_picture,
    one_file,
    plain_name,
)
from laptime.show.drawing.html import as_html as draw_page
from laptime.show.drawing.html import as_notebook as draw_for_notebook
from laptime.show.drawing.pictures import DARK, LIGHT_THEME
from laptime.show.drawing.words import as_charts as draw_charts
from laptime.show.figures import thin
from laptime.show.pages import listing
from laptime.show.pages.footnotes import distrust
from laptime.show.pages.listing import repeat_words
from laptime.show.pages.page import QuestionPage, View, live_page, progress_line
from laptime.show.pages.rows import render_checks, render_imports
from laptime.show.pages.words import chips_words, short_name, trained_words
from laptime.store import schema
from laptime.store.plain_json import indented, to_json
from laptime.trainings.workloads import CATALOGUE, find_workload
from laptime.trainings.workloads.catalogue import list_layers

answer_schema = schema.answer_schema
text_of_schema = schema.text_of_schema

__all__ = ["REPORT_FORMATS", "Made", "View", "format_of", "lap_step_words", "moment_words", "progress_line", "to_json"]

Parameters = ParamSpec("Parameters")
Rendered = TypeVar("Rendered")
JSON_FORMAT = "json"
REPORT_FORMATS = (*DRAWN, JSON_FORMAT)
SHOWING_FAULTS = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError,
)  # fmt: skip
"""What building a page may raise when a record holds figures that no laptime wrote."""


def in_words(show: Callable[Parameters, Rendered]) -> Callable[Parameters, Rendered]:
    """Decorate a function so that what it raises on a bad record becomes a RecordError with a message."""

    @wraps(show)
    def shown(*given: Parameters.args, **named: Parameters.kwargs) -> Rendered:
        try:
            return show(*given, **named)
        except SHOWING_FAULTS as error:
            says = f"this record cannot be shown: it holds what no page expects ({type(error).__name__}: {error})"
            raise RecordError(says, "`laptime show ID --json` prints what it holds.") from error

    return shown


@in_words
def as_text(record: Record, view: View) -> str:
    """Return a record's page."""
    row = find_page(record.question, is_concluded=record.answer.is_concluded)
    page = row.part(QuestionPage).render(record, view).rstrip("\n")
    if not (row.shows_environment and view.details and record.workload.name in CATALOGUE):
        return page
    # As published experiments do, a training begins with its environment
    frameworks = dict.fromkeys(lane.name.split("/", 1)[0] for lane in record.lanes)
    block = environment_as_text(record.machine, frameworks, record.workload.name, record.data, view.width)
    return f"{block}\n\n{page}"


@in_words
def report_of(record: Record, *, holds_record: bool = True) -> Report:
    """Return all that a report shows of a record. A question without figures of its own shows its page.

    Only an HTML page `holds_record`: the whole of it as JSON, and the page with all details, which are long to make.
    """
    question = find_question(record.question)
    view = View(100)
    shown_as = find_page(record.question, is_concluded=record.answer.is_concluded).part(QuestionPage)
    page = shown_as.parts(record, view)
    figures = shown_as.figures(record)
    doubts = [doubt.text for doubt in distrust(record)]
    return Report(
        id=record.id,
        question=question.command,
        title=" · ".join(part for part in trained_words(record).split("  ") if not part.endswith("parameters")),
        machine=chips_words(record),
        started=record.started,
        distrust=tuple(doubts),
        glance=page.glance,
        lanes=tuple(dict.fromkeys((*page.drawn, *(short_name(lane.name) for lane in record.lanes)))),
        answer=tuple(sentence.text for sentence in page.answer if sentence.text not in doubts),
        notes=tuple(filter(None, page.notes)),
        done=page.done,
        figures=thin(figures),
        text=as_text(record, replace(view, details=True)) if holds_record else "",
        command=repeat_words(record),
        record=schema.encode(record).decode() if holds_record else "",
    )


def made_report(
    records: Sequence[Record], form: str | None, output: str | None, *, card: bool, badge: bool, dark: bool
) -> Made:
    """Return what a report writes: the records in a format or, as a picture to share, the answer of one of them."""
    if not card and not badge:
        if dark:
            raise UsageError("dark is for a card", "Ask for a card, too; a page follows its reader's own setting.")
        return as_files(records, format_of(form, output))
    if len(records) > 1 or form is not None or (card and badge):
        says = f"a {'card' if card else 'badge'} shows one record, as SVG or as PNG by the name of its file"
        raise UsageError(says, "Name one record, no format, and a card or a badge.")
    return as_picture(records[0], "card" if card else "badge", output, dark=dark)


@in_words
def as_notebook(record: Record) -> str:
    """Return the answer and its first chart for a notebook, without scripts, and the page folded."""
    report = report_of(record, holds_record=False)
    return draw_for_notebook(report, as_text(record, View(100)))


@in_words
def as_picture(record: Record, kind: PictureKind, output: str | None = None, *, dark: bool = False) -> Made:
    """Return the answer of a record as a picture to share, a card of 1200 x 630 or a badge: SVG, or PNG by its name."""
    made = make_picture(report_of(record, holds_record=False), kind, DARK if dark else LIGHT_THEME)
    ending = "" if output in {None, "-"} else PurePath(output or "").suffix.lower()
    if ending not in {"", ".svg", ".png"}:
        raise UsageError(f"'{output}' ends with {ending}, and a {kind} is a picture", "Name a .svg or a .png file.")
    return as_pixels(made) if ending == ".png" else made


@in_words
def as_html(record: Record) -> str:
    """Return a record's report as one HTML page."""
    return draw_page([report_of(record)])


@in_words
def as_files(records: Sequence[Record], form: str) -> Made:
    """Return what a report in this format writes."""
    if form not in REPORT_FORMATS:
        raise UsageError(f"'{form}' is no format of a report", f"formats: {', '.join(REPORT_FORMATS)}")
    if form == JSON_FORMAT:
        return one_file(f"{plain_name(records[0].id)}.{form}", records_as_json(records).encode())
    return make_files([report_of(record, holds_record=DRAWN[form].holds_record) for record in records], form)


def only_text(made: Made) -> str:
    """Return the text of a report that is one file; pictures cannot be printed."""
    if made.is_folder:
        raise UsageError("pictures are several files, and cannot be printed", "name a folder: -o charts")
    (data,) = made.files.values()
    return data.decode().rstrip("\n")


@in_words
def as_charts(record: Record, width: int, *, blocks: bool) -> str:
    """Return all that a report draws, for a terminal."""
    return draw_charts(report_of(record, holds_record=False), width, blocks=blocks)


@in_words
def live_lines(record: Record | None, progress: Progress, view: View) -> list[str]:
    """Return the lines that a terminal shows while a question runs; before there is a record, what is done."""
    if record is None:
        return live_page("", progress, (), view)
    return find_question(record.question).part(QuestionPage).live(record, progress, view)


@in_words
def lap_lines(moment: Moment, view: View) -> list[str]:
    """Return the lines that a terminal shows while a lap runs."""
    return laps.live_lap_lines(moment, view)


@in_words
def as_json(record: Record) -> str:
    """Return a record as JSON, as it is saved but indented."""
    return indented(schema.encode(record))


def records_as_json(records: Sequence[Record]) -> str:
    """Return one record as a JSON object, or several as a list."""
    if len(records) == 1:
        return as_json(records[0])
    return indented(b"[" + b",".join(map(schema.encode, records)) + b"]")


def device_rows(machine: Machine) -> list[dict[str, object]]:
    """Return a row for each device of each framework, for each framework that cannot run, and for the hardware."""
    rows: list[dict[str, object]] = []
    for framework in machine.frameworks:
        version = {"framework": framework.name, "version": framework.version, "notes": framework.notes}
        if framework.problem:
            rows.append(
                {**version, "name": framework.name, "kind": "framework", "usable": False, "reason": framework.problem}
            )
        rows += [{**version, **asdict(device), "card": card_behind(device, machine)} for device in framework.devices]
    return rows + hardware_rows(machine)


def peaks_as_text(limits: DeviceLimits, width: int) -> str:
    return "\n".join(peak_lines(limits, width))


def plan_as_text(planned: Plan | FullPlan | InferPlan, width: int) -> str:
    return listing.render_plan(planned, width).rstrip("\n")


def devices_as_text(machine: Machine, width: int) -> str:
    return render_devices(machine, width).rstrip("\n")


def checkup_as_text(checkup: Checkup, width: int, *, color: bool = False) -> str:
    return render_checkup(checkup, width, color=color).rstrip("\n")


@in_words
def compared_as_text(found: Compared, view: View) -> str:
    return compare_page.render_compared(found, view).rstrip("\n")


@in_words
def compared_as_markdown(found: Compared) -> str:
    """Return the summary of a comparison for a pull request."""
    return compare_page.markdown(found).rstrip("\n")


@in_words
def history_as_text(found: History, view: View, *, is_short: bool = True) -> str:
    """Return the page of a history, of at most 40 lines if it `is_short`."""
    lines_most = CHANGES_SHOWN if is_short else None
    return render_history(found, view, lines_most=lines_most).rstrip("\n")


def workloads_as_text(width: int) -> str:
    return listing.render_workloads(CATALOGUE.values(), width).rstrip("\n")


def workload_as_text(name: str, width: int) -> str:
    """Return the page of one built-in training: its layers, how it is trained, and what was published."""
    workload = find_workload(name)
    return listing.render_workload(workload, list_layers(workload), width).rstrip("\n")


def workload_row(name: str) -> WorkloadRow:
    """Return one built-in training for a program. Its layers have their output shapes and parameters."""
    workload = find_workload(name)
    optimizer = {"name": type(workload.optimizer).__name__.lower(), **asdict(workload.optimizer)}
    own = {field.name: getattr(workload, field.name) for field in fields(workload)}
    return WorkloadRow(**{**own, "optimizer": optimizer, "layers": list_layers(workload)})


def environment_as_text(
    machine: Machine, frameworks: Iterable[str], name: str, data: DataSource | None, width: int
) -> str:
    """Return the environment block at the top of a full training's page. `data` is what the training reads."""
    workload = find_workload(name)
    rows = list_layers(workload)
    version = installed_version()
    block = listing.render_environment(machine, frameworks, workload, rows, data, width=width, version=version)
    return block.rstrip("\n")


def checks_as_text(rows: Sequence[FileCheck], width: int) -> str:
    return render_checks(rows, width).rstrip("\n")


def imports_as_text(rows: Sequence[Imported], width: int) -> str:
    return render_imports(rows, width).rstrip("\n")


def made_data_as_text(rows: Sequence[MadeSet], width: int) -> str:
    return listing.render_sets(rows, width).rstrip("\n")


def made_as_text(row: MadeSet, seconds: float, *, was_there: bool) -> str:
    return listing.render_made(row, seconds, was_there=was_there).rstrip("\n")


def removed_as_text(row: MadeSet) -> str:
    return listing.render_removed(row).rstrip("\n")
