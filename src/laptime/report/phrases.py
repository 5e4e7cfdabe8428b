"""What is said of one lane, in the few words of a table's cell."""

from __future__ import annotations

import re

from laptime.model.lane import AS_WRITTEN
from laptime.model.machine import Machine
from laptime.model.missing import Missing
from laptime.model.plan import Subject
from laptime.model.record import Comparison, LaneResult, Parity, Record
from laptime.report.figures import factor, lap, number, spread, step, tiny, whole_size
from laptime.report.layout import Cell

TRADE_WORDS = re.compile(r"\((R|TM)\)|®|™|\b\d+-Core\b|\bProcessor\b|\bCPU\b|@ [\d.]+ ?GHz")
NOT_SAME = "not the same work"


def short_name(lane: str) -> str:
    """Leave out the preset that needs no mention."""
    return lane.removesuffix(f"/{AS_WRITTEN}")


def subject_words(subject: Subject) -> str:
    """Name the workload and its size."""
    facts = [
        (subject.parameters, "{:,} parameters"),
        (subject.batch, "batch {:,}"),
        (subject.steps_per_lap, "{:,} steps a lap"),
    ]
    return "  ".join([subject.name, *(words.format(value) for value, words in facts if value is not None)])


def machine_words(machine: Machine) -> str:
    """Name the processor, what of it may be used, and the memory."""
    chip = machine.processor
    name = chip_words(chip.name) or chip.architecture
    usable = f"{chip.cores_usable} core{'s' * (chip.cores_usable != 1)}"
    may = usable if chip.cores_usable == chip.cores_visible else f"{usable} usable"
    limit = machine.memory_limit_bytes
    memory = machine.memory_bytes if isinstance(limit, Missing) else min(limit, machine.memory_bytes)
    return f"{chip.cores_visible} x {name} ({may}), {whole_size(memory)}"


def chip_words(name: str) -> str:
    """Leave out what makers add to every name."""
    return " ".join(TRADE_WORDS.sub(" ", name).split())


def accelerator_words(record: Record) -> str:
    """Name the accelerators that raced, each kind once."""
    raced = {(lane.device.name, lane.device.label) for lane in record.lanes if lane.device.kind != "cpu"}
    labels = [label for _, label in sorted(raced)]
    counts = {label: labels.count(label) for label in labels}
    return ", ".join(label if count == 1 else f"{count} x {label}" for label, count in counts.items())


def reference_name(record: Record) -> str | None:
    """Give the lane that all others are compared with: the first that finished, where nothing is compared."""
    if record.comparisons:
        return record.comparisons[0].reference
    return next((lane.name for lane in record.lanes if lane.status == "ok" and lane.step_ms), None)


def against_title(record: Record) -> str:
    reference = reference_name(record)
    if reference is None or reference in {lane.name for lane in record.lanes[:1]}:
        return "against first"
    return f"against {short_name(reference)}"


def against_first(lane: LaneResult, record: Record) -> Cell:
    """Say by what factor a lane differs from the first, unless one of the two did other work."""
    reference = reference_name(record)
    others = {each.name: each for each in record.lanes}
    both = [lane, others[reference]] if reference in others else [lane]
    if any(each.parity.status == "differs" for each in both):
        return Cell(NOT_SAME, "bad")
    if lane.name == reference:
        return Cell("1")
    comparison = next((each for each in record.comparisons if each.lane == lane.name), None)
    return Cell("-") if comparison is None else _compared(comparison)


def same_work(lane: LaneResult, record: Record) -> Cell:
    """Say whether the lane did the same work; the first that did also says how that was proven."""
    parity = lane.parity
    if parity.status == "differs":
        return Cell(f"no: {parity.reason or _distance(parity)}", "bad")
    if parity.status == "unproven":
        return Cell(f"unproven: {parity.reason}" if parity.reason else "unproven", "quiet")
    first = next(each.name for each in record.lanes if each.parity.status == "same" and each.status == lane.status)
    parts = [f"yes{_proof(parity)}" if lane.name == first else "yes", *_batch(lane, record)]
    return Cell("; ".join([", but ".join(parts), *_strays(parity)]), "good")


def _compared(comparison: Comparison) -> Cell:
    low, high = comparison.low, comparison.high
    if isinstance(low, Missing) or isinstance(high, Missing):
        why = "one pair, no interval" if comparison.pairs == 1 else "no interval"
        return Cell(f"{factor(comparison.ratio)}x ({why})")
    if comparison.verdict == "not distinguishable":
        return Cell(f"not distinguishable ({factor(low)}-{factor(high)})")
    if comparison.verdict == "slower":
        return Cell(_factors(1 / comparison.ratio, 1 / high, 1 / low, "slower"), "bad")
    return Cell(_factors(comparison.ratio, low, high, "faster"), "good")


def _factors(ratio: float, low: float, high: float, word: str) -> str:
    return f"{factor(ratio)}x {word} ({factor(low, ratio)}-{factor(high, ratio)})"


def _proof(parity: Parity) -> str:
    if not parity.steps:
        return ""
    worst = "" if parity.worst is None else f", worst {tiny(parity.worst)}"
    return f" (proof: {parity.steps} step{'s' * (parity.steps != 1)}{worst})"


def _batch(lane: LaneResult, record: Record) -> list[str]:
    meant, taken = record.workload.batch, lane.settings.batch
    return [f"batch {taken}"] if taken is not None and meant is not None and taken != meant else []


def _strays(parity: Parity) -> list[str]:
    if parity.strays is None:
        return []
    return [f"{parity.strays_precision or 'its precision'} strays {tiny(parity.strays)}"]


def _distance(parity: Parity) -> str:
    if parity.worst is None:
        return "the proof failed"
    allowed = "" if parity.tolerance is None else f", {tiny(parity.tolerance)} is allowed"
    return f"strays {tiny(parity.worst)} from float64{allowed}"


def failure_words(lane: LaneResult) -> str:
    """Say why a lane has no figures; nothing, where it has."""
    if lane.status == "unusable":
        return f"unusable: {lane.reason}" if lane.reason else "unusable"
    if lane.status == "dnf":
        phases = [heat.dnf.phase for heat in lane.heats if heat.dnf is not None]
        return f"DNF in {phases[-1]}" if phases else "DNF"
    return ""


def lap_words(lane: LaneResult) -> str:
    return "-" if lane.lap_s is None else lap(lane.lap_s.median)


def step_words(lane: LaneResult) -> str:
    """Give the step with half its interval, where it has one."""
    return "-" if lane.step_ms is None else f"{step(lane.step_ms.median)} {spread(lane.step_ms)}".rstrip()


def rate_words(lane: LaneResult) -> str:
    return "-" if lane.items_per_s is None else number(lane.items_per_s.median)
