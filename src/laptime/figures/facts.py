"""What every report ends with: findings with their evidence, machine, versions, settings, and the tool's own cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from laptime.model.figure import Figure, Table
from laptime.model.lane import Settings
from laptime.model.missing import Missing
from laptime.model.record import LaneResult, Record
from laptime.pages.numbers import duration, number, size
from laptime.pages.words import memory_words, processor_words, short_name

Row = tuple[str, ...]


def fact_figures(record: Record) -> list[Figure]:
    """Return the tables of all that is not drawn."""
    return [*_findings(record), *_lanes(record), _machine(record), *_settings(record), _own_cost(record)]


def _findings(record: Record) -> list[Figure]:
    rows = tuple((each.says, each.advice, each.sure, _evidence(each.evidence)) for each in record.findings)
    table = Table(("finding", "advice", "how sure", "evidence"), rows)
    return [Figure("Findings", table, "What the instruments and the rules found next to the answer.")] if rows else []


def _evidence(evidence: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in evidence.items())


def _value(value: object) -> str:
    if isinstance(value, Missing):
        return f"- ({value.missing})"
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _lanes(record: Record) -> list[Figure]:
    rows = tuple(_lane_row(lane) for lane in record.lanes)
    heads = ("lane", "state", "=heats", "=step, ms", "=low", "=high", "=items/s", "=lap, s", "=memory", "same work")
    return [Figure("All lanes", Table(heads, rows))] if rows else []


def _lane_row(lane: LaneResult) -> Row:
    step, rate, lap = lane.step_ms, lane.items_per_s, lane.lap_s
    memory = lane.peak_memory_bytes
    ends = (None, None) if step is None else (step.low, step.high)
    return (
        short_name(lane.name),
        f"{lane.status}: {lane.reason}" if lane.reason else lane.status,
        str(sum(heat.process.status == "ok" for heat in lane.heats)),
        _figure(None if step is None else step.median),
        *(_figure(None if isinstance(end, Missing) else end) for end in ends),
        _figure(None if rate is None else rate.median),
        _figure(None if lap is None else lap.median),
        "-" if isinstance(memory, Missing) else size(memory),
        f"{lane.parity.status}: {lane.parity.reason}" if lane.parity.reason else lane.parity.status,
    )


def _figure(value: float | None) -> str:
    return "-" if value is None else number(value)


def _machine(record: Record) -> Figure:
    machine = record.machine
    rows: list[Row] = [
        ("processor", processor_words(machine)),
        ("memory", memory_words(machine)),
        *(("card", each.maker if isinstance(each.name, Missing) else each.name) for each in machine.cards),
        ("system", machine.system),
        ("Python", machine.python),
        *((name, version) for name, version in record.tool.items() if name != "name"),
        *sorted({(name, version) for lane in record.lanes for name, version in lane.framework.items()}),
    ]
    rows += [("data", f"{record.data.folder}, {record.data.train_items:,} items")] if record.data is not None else []
    return Figure("Machine and versions", Table(("what", "which"), tuple(rows)))


def _settings(record: Record) -> list[Figure]:
    """Return the settings in which any lane differs from a lane as written."""
    plain = Settings()
    names = [
        each.name
        for each in fields(Settings)
        if any(lane.settings.value_of(each.name) != plain.value_of(each.name) for lane in record.lanes)
    ]
    if not names:
        return []
    rows = tuple(
        (short_name(lane.name), *(str(lane.settings.value_of(name)) for name in names)) for lane in record.lanes
    )
    says = "Settings that are not named are as written on every lane."
    return [Figure("Settings", Table(("lane", *(name.replace("_", " ") for name in names)), rows), says)]


def _own_cost(record: Record) -> Figure:
    known = {"parent_processor_s": "processor time of laptime's own process", "journal_s": "saving the record"}
    rows: list[Row] = [("from the first word to the last", duration(record.elapsed_s))]
    rows += [(known.get(name, name), f"{number(value)} s") for name, value in record.overhead.items()]
    return Figure("What laptime itself took", Table(("what", "=time"), tuple(rows)))
