"""Lists for people: saved records, workloads, devices, and what a plan would run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from laptime.model.machine import Device, Framework, Machine
from laptime.model.missing import Missing
from laptime.model.workload import Workload
from laptime.report.devices import hardware
from laptime.report.figures import whole_size
from laptime.report.layout import Cell, Column, Row, lay_out, wrap
from laptime.report.phrases import machine_words


class RecordRow(Protocol):
    """What a list shows of one record; the store has such rows, and this room does not know the store."""

    @property
    def id(self) -> str: ...
    @property
    def started(self) -> str: ...
    @property
    def question(self) -> str: ...
    @property
    def workload(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def unreadable(self) -> str | None: ...


def render_records(rows: Sequence[RecordRow], width: int) -> str:
    """List saved records in the order given; one that cannot be read says why."""
    if not rows:
        return "No records yet; laptime race makes one.\n"
    columns = [
        Column("record"),
        Column("started"),
        Column("workload", least=10),
        Column("status"),
        Column("result", least=20),
    ]
    return _page(columns, [_record_row(row) for row in rows], width)


def render_workloads(workloads: Iterable[Workload], width: int) -> str:
    """List the catalogue."""
    columns = [
        Column("workload"),
        Column("parameters", right=True),
        Column("batch", right=True),
        Column("steps a lap", right=True),
        Column("laps", right=True),
        Column("what it is", least=20),
    ]
    return _page(columns, [_workload_row(each) for each in workloads], width)


def render_devices(machine: Machine, width: int) -> str:
    """Tell of the hardware, then what each installed framework can use of it, and why not where it cannot."""
    container = [f"container {machine.container}"] if machine.container else []
    about = ", ".join([machine.system, f"Python {machine.python}", *container])
    head = [*wrap(machine_words(machine), width, "  "), *wrap(about, width, "  "), *hardware(machine, width)]
    columns = [
        Column("framework", least=10),
        Column("device"),
        Column("what it is", least=14),
        Column("memory", right=True),
        Column("usable", least=20),
    ]
    rows = [row for framework in machine.frameworks for row in _framework_rows(framework)]
    page = "\n".join(head) + "\n" + _page(columns, rows, width)
    notes = list(dict.fromkeys(note for framework in machine.frameworks for note in framework.notes))
    if all(each.name == "python" for each in machine.frameworks):
        notes.append("No framework is installed. pip install 'laptime[torch]'")
    return page + "".join(f"{line}\n" for note in notes for line in wrap(note, width, "  "))


def _page(columns: Sequence[Column], rows: Sequence[Row], width: int) -> str:
    """Set a table, or each row as a sentence where no table fits."""
    lines = lay_out(columns, rows, width, color=False)
    if lines is None:
        lines = [line for row in rows for line in wrap(", ".join(cell.text for cell in row.cells), width, "  ")]
    return "\n".join(lines) + "\n"


def _record_row(row: RecordRow) -> Row:
    if row.unreadable is not None:
        return Row((Cell(row.id), Cell(f"unreadable: {row.unreadable}")), spans=True)
    started = row.started[:16].replace("T", " ")
    return Row((Cell(row.id), Cell(started), Cell(row.workload), Cell(row.status), Cell(row.summary)))


def _workload_row(workload: Workload) -> Row:
    counts = (workload.parameters, workload.batch, workload.steps_per_lap, workload.laps)
    return Row((Cell(workload.name), *(Cell(f"{each:,}") for each in counts), Cell(workload.title)))


def _framework_rows(framework: Framework) -> list[Row]:
    name = Cell(f"{framework.name} {framework.version}")
    if framework.problem:
        return [Row((name, Cell(f"cannot run: {framework.problem}")), spans=True)]
    if not framework.devices:
        return [Row((name, Cell("not asked yet for its devices")), spans=True)]
    return [Row((name, *_device_cells(device))) for device in framework.devices]


def _device_cells(device: Device) -> tuple[Cell, ...]:
    memory = "-" if isinstance(device.memory_bytes, Missing) else whole_size(device.memory_bytes)
    features = f": {', '.join(device.features)}" if device.features else ""
    usable = f"yes{features}" if device.usable else f"no: {device.reason or 'no reason given'}"
    capability = f", capability {device.details['capability']}" if "capability" in device.details else ""
    return Cell(device.name), Cell(f"{device.label}{capability}"), Cell(memory), Cell(usable)
