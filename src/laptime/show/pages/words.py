"""Short texts for a lane, a workload and a machine, for table cells and page headers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite, nan

from laptime.model import quantities
from laptime.model.machine import Machine
from laptime.model.plan import Subject
from laptime.model.process import AS_WRITTEN
from laptime.model.quantities import Estimate, Missing, number, size, step
from laptime.model.record import LaneResult, Record
from laptime.model.rows import parts_of
from laptime.show.pages.layout import Cell, Style, clean

TRADE_WORDS = re.compile(r"\((R|TM)\)|®|™|\b\d+-Core\b|\bProcessor\b|\bCPU\b|@ [\d.]+ ?GHz")
NOT_SAME = "not the same work"


def short_name(lane: str) -> str:
    """Return a lane's name without the default preset."""
    place, rest = parts_of(lane)
    return f"{place.removesuffix(f'/{AS_WRITTEN}')}{rest}"


def short_names(text: str) -> str:
    """Return a sentence in which lanes are named without the default preset."""
    return text.replace(f"/{AS_WRITTEN}", "")


def subject_words(subject: Subject, *others: Subject) -> str:
    """Return the workload's name and size, or the names of several trainings."""
    if others:
        return joined([training.name for training in (subject, *others)])
    facts = [
        (subject.parameters, "{:,} parameters"),
        (subject.batch, "batch {:,}"),
        (subject.steps_per_lap, "{:,} steps a lap"),
    ]
    return "  ".join([subject.name, *(words.format(value) for value, words in facts if value is not None)])


def trained_words(record: Record) -> str:
    """Return what was trained."""
    return subject_words(record.workload, *(other.subject for other in record.others))


def joined(words: Sequence[str]) -> str:
    """Join words by commas, and the last by "and"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def place_words(record: Record) -> str:
    """Return what was trained, and on which chips."""
    return f"{joined([*record.trainings])} on {chips_words(record)}"


def chips_words(record: Record) -> str:
    """Return the chips that computed: the cards, and the processor if a lane was on it."""
    chip = record.machine.processor
    processor = f"{chip.cores_visible} x {chip_words(chip.name) or chip.architecture}"
    on_processor = any(lane.device.kind == "cpu" for lane in record.lanes) or not record.lanes
    return joined([*filter(None, [accelerator_words(record)]), *([processor] if on_processor else [])])


def machine_words(machine: Machine) -> str:
    """Return the processor, its usable cores, and the memory."""
    chip = machine.processor
    name = chip_words(chip.name) or chip.architecture
    usable = f"{chip.cores_usable} core{'s' * (chip.cores_usable != 1)}"
    may = usable if chip.cores_usable == chip.cores_visible else f"{usable} usable"
    limit = machine.memory_limit_bytes
    memory = machine.memory_bytes if isinstance(limit, Missing) else min(limit, machine.memory_bytes)
    return f"{chip.cores_visible} x {name} ({may}), {whole_size(memory)}"


def processor_words(machine: Machine) -> str:
    """Return the processor with all its known facts."""
    chip = machine.processor
    quota = "" if isinstance(chip.quota_cores, Missing) else f" (quota {chip.quota_cores:g})"
    cores = f"{chip.cores_usable} of {chip.cores_visible} cores usable{quota}"
    return ", ".join(filter(None, [chip.name, chip.architecture, cores, " ".join(chip.features)]))


def memory_words(machine: Machine) -> str:
    limit = machine.memory_limit_bytes
    if isinstance(limit, Missing) or limit >= machine.memory_bytes:
        return whole_size(machine.memory_bytes)
    return f"{whole_size(machine.memory_bytes)}, of which {whole_size(limit)} may be used"


def chip_words(name: str) -> str:
    """Return a chip's name without what makers add to every name."""
    return " ".join(TRADE_WORDS.sub(" ", name).split())


def accelerator_words(record: Record) -> str:
    """Return the accelerators that raced, each kind once."""
    raced = {(lane.device.name, lane.device.label) for lane in record.lanes if lane.device.kind != "cpu"}
    labels = [label for _, label in sorted(raced)]
    counts = {label: labels.count(label) for label in labels}
    return ", ".join(label if count == 1 else f"{count} x {label}" for label, count in counts.items())


def reference_name(record: Record) -> str | None:
    """Return the lane that all others are compared with. If nothing is compared, return the first that finished."""
    if record.answer.comparisons:
        return record.answer.comparisons[0].reference
    for lane in record.lanes:
        if lane.status == "ok" and lane.step_ms:
            return lane.name
    return None


def against_title(record: Record) -> str:
    reference = reference_name(record)
    if reference is None or reference in {lane.name for lane in record.lanes[:1]}:
        return "against first"
    return f"against {short_name(reference)}"


def against_first(lane: LaneResult, record: Record) -> Cell:
    """Return a lane's factor against the reference lane, unless one of the two did other work."""
    reference = reference_name(record)
    by_name = {other.name: other for other in record.lanes}
    both = [lane, by_name[reference]] if reference in by_name else [lane]
    if any(other.parity.status == "differs" for other in both):
        return Cell(NOT_SAME, "bad")
    if lane.name == reference:
        return Cell("1")
    comparisons = [comparison for comparison in record.answer.comparisons if comparison.lane == lane.name]
    if not comparisons:
        return Cell("-")
    comparison = comparisons[0]
    why = "one pair, no interval" if comparison.pairs == 1 else "no interval"
    found = ratio_cell(comparison.ratio, comparison.low, comparison.high, comparison.verdict, why)
    # A later look may withdraw a factor, and a busy machine's proves nothing: neither is green.
    return Cell(found.text) if record.status == "running" or record.distrust else found


def same_work(lane: LaneResult, record: Record) -> Cell:
    """Return whether the lane did the same work. The first that did also has the proof's figures."""
    parity = lane.parity
    if parity.status == "differs":
        why = "the proof failed"
        if parity.reason:
            why = parity.reason
        elif parity.worst is not None:
            allowed = "" if parity.tolerance is None else f", {tiny(parity.tolerance)} is allowed"
            why = f"strays {tiny(parity.worst)} from float64{allowed}"
        return Cell(f"no: {why}", "bad")
    if parity.status == "unproven":
        return Cell(f"unproven: {parity.reason}" if parity.reason else "unproven", "quiet")
    proven = [other.name for other in record.lanes if other.parity.status == "same" and other.status == lane.status]
    words = "yes"
    if lane.name == proven[0] and parity.steps:
        by = "losses" if record.workload.command else "proof"
        worst = "" if parity.worst is None else f", worst {tiny(parity.worst)}"
        words += f" ({by}: {parity.steps} step{'s' * (parity.steps != 1)}{worst})"
    batch = lane.settings.batch
    if batch is not None and record.workload.batch not in {None, batch}:
        words += f", but batch {batch}"
    if parity.strays is not None:
        words += f"; {parity.strays_precision or 'its precision'} strays {tiny(parity.strays)}"
    return Cell(words, "good")


def above_one(
    ratio: float, low: float | Missing, high: float | Missing
) -> tuple[float, float | Missing, float | Missing]:
    """Return a ratio with its interval, or those of the other lane where it is below 1."""
    if ratio >= 1:
        return ratio, low, high
    least = high if isinstance(high, Missing) else over(1, high)
    most = low if isinstance(low, Missing) else over(1, low)
    return over(1, ratio), least, most


def ratio_cell(
    ratio: float, low: float | Missing, high: float | Missing, verdict: str, no_interval: str = "no interval"
) -> Cell:
    """Return a ratio as "faster" or "slower", so that it is above 1, with its interval or why there is none."""
    if isinstance(low, Missing) or isinstance(high, Missing):
        return Cell(f"{factor(ratio)}x ({no_interval})")
    if verdict == "not distinguishable":
        return Cell(f"{verdict} ({factor(low)}-{factor(high)})")
    size, *between = above_one(ratio, low, high)
    least, most = (factor(end, size) for end in between if not isinstance(end, Missing))
    ends = f"({least}-{most})"
    style: Style = "good" if ratio > 1 else "bad"
    return Cell(f"{faster_or_slower(ratio)} {ends}", style, brief=f"{times_as_fast(ratio)} {ends}")


def faster_or_slower(ratio: float) -> str:
    if factor(ratio) == "1.00":
        return "as fast, 1.00x"
    return f"{factor(ratio)}x faster" if ratio >= 1 else f"{factor(over(1, ratio))}x slower"


def times_as_fast(ratio: float) -> str:
    """Return the same where "faster" goes without saying."""
    return f"{factor(ratio)}x" if ratio >= 1 and factor(ratio) != "1.00" else faster_or_slower(ratio)


def failure_words(lane: LaneResult) -> str:
    """Return why a lane has no figures, or "" if it has."""
    if lane.status == "unusable":
        return f"unusable: {lane.reason}" if lane.reason else "unusable"
    if lane.status == "dnf":
        phases = [result.heat.process.dnf.phase for result in lane.heats if result.heat.process.dnf is not None]
        return f"DNF in {phases[-1]}" if phases else "DNF"
    return ""


def lap_words(lane: LaneResult) -> str:
    """Return the lap with half its interval, or with a remark that there is one heat only."""
    if lane.lap_s is None:
        return "-"
    return f"{lap(lane.lap_s.median)} {spread(lane.lap_s) or '(1 heat)'}"


def step_words(lane: LaneResult) -> str:
    """Return the step, with half its interval if it has one."""
    return "-" if lane.step_ms is None else f"{step(lane.step_ms.median)} {spread(lane.step_ms)}".rstrip()


def rate_words(lane: LaneResult) -> str:
    return "-" if lane.items_per_s is None else number(lane.items_per_s.median)


# Numbers as text: three digits, and a unit that fits.

WIDE_INTERVAL = 0.5  # half an interval, as a share of its figure


def lap(seconds: float) -> str:
    """Return a time in seconds and fractions of them, or milliseconds; from a minute on as a duration."""
    if seconds < 0.1:
        return step(seconds * 1e3)
    return f"{number(seconds)} s" if quantities.rounded(seconds) < 60 else duration(seconds)


def duration(seconds: float) -> str:
    """Return a time in whole seconds: `58 s`, `7 min 33 s`, `13 h`."""
    if not isfinite(seconds):
        return "not a number"
    minutes, left = divmod(round(seconds), 60)
    if minutes < 60:
        return _joined((minutes, "min"), (left, "s"))
    hours, left = divmod(round(seconds / 60), 60)
    return _joined((hours, "h"), (left, "min"))


def rough(value: float) -> str:
    """Return two digits of what was predicted: `1.5`, `15`, `150`, `0.000063`."""
    return quantities.plain(float(f"{value:.2g}"))


def whole_minutes(seconds: float) -> str:
    """Return a time as an option takes it: `2m`."""
    return f"{max(1, round(seconds / 60))}m"


def about(seconds: float) -> str:
    """Return a time with two digits only, for what happens once."""
    if not isfinite(seconds) or seconds >= 10:
        return duration(seconds)
    return f"{seconds:.2g} s" if seconds >= 0.0995 else f"{seconds * 1e3:.2g} ms"


def published_lap(seconds: float) -> str:
    """Return a published lap in seconds, with three digits; from 10 minutes on as a duration."""
    return f"{seconds:.3g} s" if seconds < 600 else duration(seconds)


def training_lap(seconds: float) -> str:
    """Return a lap's time, in seconds up to 10 minutes, so that similar laps differ."""
    return lap(seconds) if seconds < 60 else published_lap(seconds)


def spread(estimate: Estimate) -> str:
    """Return half the interval in percent of the figure, or "" if there is no interval.

    Half an interval that is more than half of the figure says nothing that a percentage could.
    """
    if estimate.half is None or not estimate.median:
        return ""
    if estimate.half > WIDE_INTERVAL * estimate.median:
        return "(varies too much)"
    return f"±{quantities.percent(estimate.half / estimate.median)}"


def factor(ratio: float, like: float | None = None) -> str:
    """Return a factor with as many decimals as `like` has, so that an interval matches its figure."""
    size = abs(ratio if like is None else like)
    if not isfinite(ratio):
        return "not a number"
    return f"{ratio:,.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}"


def four_places(value: float | Missing | None) -> str:
    """Return a loss or a share with four decimals, as published curves have them."""
    return "-" if value is None or isinstance(value, Missing) else f"{value:.4f}"


def tiny(value: float) -> str:
    """Return one digit and a power of ten: `3e-6`."""
    if not isfinite(value):
        return "not a number"
    digit, _, power = f"{value:.0e}".partition("e")
    return f"{digit}e{int(power)}" if value else "0"


def whole_size(count_bytes: float) -> str:
    """Return a computer's memory in whole GB."""
    return f"{count_bytes / 1e9:,.0f} GB" if count_bytes >= 1e9 else size(count_bytes)


def over(value: float, by: float) -> float:
    """Divide, and return NaN for a division by 0, which a damaged record may ask for."""
    return value / by if by else nan


def _joined(large: tuple[int, str], small: tuple[int, str]) -> str:
    words = [f"{count} {unit}" for count, unit in (large, small) if count]
    return " ".join(words) or f"0 {small[1]}"


def escape_markdown(text: str) -> str:
    """Return a sentence whose signs mean nothing to Markdown: no tag, link, mention, or cell."""
    escaped = "".join(f"\\{sign}" if sign in "\\`*_[]|#<>~" else sign for sign in clean(text))
    return escaped.replace("@", "`@`")


# Rates of computing and copying.

FLOPS_UNIT = "FLOP/s"
BYTES_UNIT = "B/s"
PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))


def rates(values: Sequence[float], unit: str) -> str:
    """Return rates with the prefix that fits the last: `96 of 235 GFLOP/s`."""
    last = float(f"{values[-1]:.3g}")
    fitting = [row for row in PREFIXES if last >= row[0]] or PREFIXES[-1:]
    size, prefix = fitting[0]
    return f"{' of '.join(number(value / size) for value in values)} {prefix}{unit}"
