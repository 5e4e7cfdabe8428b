"""What is not the same in two records: machine, versions, settings, seed, data, work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from laptime.analysis.parity import compare_references
from laptime.model.machine import Machine
from laptime.model.missing import Missing
from laptime.model.questions import InferAnswer
from laptime.model.record import LaneResult, Record
from laptime.questions.compare.nouns import Difference
from laptime.questions.infer.reduce import answer_distance, answer_tolerance

MEMORY_ALIKE = 0.02  # what a kernel keeps for itself differs from start to start
NOT_SET = "not set"
Pair = tuple[LaneResult, LaneResult]


def find_differences(before: Record, after: Record, pairs: Sequence[Pair]) -> tuple[Difference, ...]:
    """Return what differs between two records, what may be the reason for a ratio first."""
    found = [
        *_of_machines(before.machine, after.machine),
        *_of_lanes(pairs),
        *_of_asks(before, after),
        *_of_versions(before, after, pairs),
    ]
    return tuple(dict.fromkeys(sorted(found, key=lambda each: not each.doubtful)))


def _of_machines(before: Machine, after: Machine) -> Iterator[Difference]:
    yield from _differing("processor", before.processor.name, after.processor.name, doubtful=True)
    yield from _differing("cores", before.processor.cores_usable, after.processor.cores_usable, doubtful=True)
    if abs(before.memory_bytes - after.memory_bytes) > MEMORY_ALIKE * max(before.memory_bytes, after.memory_bytes):
        yield from _differing("memory", _memory(before), _memory(after), doubtful=True)
    yield from _differing("cards", _cards(before), _cards(after), doubtful=True)
    yield from _differing("system", before.system, after.system)


def _memory(machine: Machine) -> str:
    return f"{machine.memory_bytes / 1e9:,.1f} GB"


def _cards(machine: Machine) -> str:
    names = sorted(each.name for each in machine.cards if isinstance(each.name, str))
    return ", ".join(names) or "none"


def _of_lanes(pairs: Sequence[Pair]) -> Iterator[Difference]:
    for before, after in pairs:
        of = f" of {before.name}"
        yield from _differing(f"device{of}", before.device.label, after.device.label, doubtful=True)
        settings = [{**asdict(each.settings), **each.settings.extra, "extra": None} for each in (before, after)]
        for name in dict.fromkeys((*settings[0], *settings[1])):
            yield from _differing(f"{name}{of}", settings[0].get(name), settings[1].get(name), doubtful=True)
        if before.settings.batch == after.settings.batch:
            yield from _differing(f"items in a step{of}", before.items_per_step, after.items_per_step)


def _of_asks(before: Record, after: Record) -> Iterator[Difference]:
    yield from _differing("seed", before.ask.seed, after.ask.seed)
    yield from _differing("starting weights", _weights(before), _weights(after), doubtful=True)
    yield from _differing("data", _data(before), _data(after), doubtful=True)
    yield from _differing("heats", _turns(before), _turns(after), doubtful=True)
    if before.ask.seed == after.ask.seed and _data(before) == _data(after):
        work = find_other_work(before, after)
        if isinstance(work, str):
            yield Difference("work", "as proven", work, doubtful=True)


def _weights(record: Record) -> str:
    return "pre-trained" if record.ask.pretrained else "drawn"


def _data(record: Record) -> str:
    """Return which data a record's lanes read: two folders with the same items are the same data."""
    data = record.data
    if data is None:
        return f"{record.ask.items:,} made items" if record.ask.items else "its own"
    return f"{'made' if data.made else 'real'}, {data.train_items:,} items, digest {data.digest[:8]}"


def _turns(record: Record) -> str:
    """Return with how many others a lane took turns: they share caches and memory."""
    if record.question == "full" or len(record.lanes) == 1:
        return "one lane at a time"
    return "one lane at a time" if record.ask.alone else f"{len(record.lanes)} lanes in turns"


def find_other_work(before: Record, after: Record) -> str | Missing | None:
    """Return how the float64 references of two records differ; None if they did the same work."""
    if isinstance(before.answer, InferAnswer) and isinstance(after.answer, InferAnswer):
        one, other = before.answer.reference, after.answer.reference
        if one is None or other is None:
            return Missing("a reference is missing")
        apart = answer_distance(one.exact, other.exact)
        return f"its answers differ by {apart:.0e}" if apart > answer_tolerance(other, "fp32") else None
    if before.reference is None or after.reference is None:
        return Missing("a reference is missing")
    return compare_references(after.reference, before.reference)


def _of_versions(before: Record, after: Record, pairs: Sequence[Pair]) -> Iterator[Difference]:
    yield from _differing("laptime", before.tool.get("version"), after.tool.get("version"))
    yield from _differing("python", before.machine.python, after.machine.python)
    for one, other in pairs:
        for name in dict.fromkeys((*one.framework, *other.framework)):
            yield from _differing(name, one.framework.get(name), other.framework.get(name))


def _differing(what: str, before: object, after: object, *, doubtful: bool = False) -> Iterator[Difference]:
    if before != after:
        yield Difference(what, _shown(before), _shown(after), doubtful)


def _shown(value: object) -> str:
    return NOT_SET if value is None else str(value)
