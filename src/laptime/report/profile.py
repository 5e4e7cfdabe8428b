"""What profilers saw of each lane: its heaviest operators, its device's kernels, the profiler's cost, its trace."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.model.missing import Missing
from laptime.model.profile import Operator, Profile
from laptime.model.record import LaneResult, Record
from laptime.report.figures import factor, number, percent, size, step
from laptime.report.layout import Cell, Column, Row, cells_wide, clean, flow, lay_out, paint, wrap
from laptime.report.phrases import short_name

TOP_BELOW_A_RACE = 5
TOP_OF_MEMORY = 5
WORTH_A_WORD = 0.01  # of what the greatest taker of memory took
LEAST_NAME = 16
GAP = 2
ELLIPSIS = "…"
OPENS_IN = "open in https://ui.perfetto.dev or chrome://tracing"
FLOP_UNITS = ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"), (1e3, "kFLOP"))


def profiles(record: Record, width: int, top: int = TOP_BELOW_A_RACE, *, color: bool) -> list[str]:
    """Give every lane's profile with so many operators, or the reason why it has none."""
    lines: list[str] = []
    for lane in record.lanes:
        absent = lane.absent.get("profile")
        if lane.profile is not None:
            lines += _of_lane(lane, lane.profile, width, top, color=color)
        elif absent is not None:
            lines += wrap(f"{short_name(lane.name)}: - (profile: {absent.missing})", width, "  ")
    return lines


def _of_lane(lane: LaneResult, profile: Profile, width: int, top: int, *, color: bool) -> list[str]:
    title = f"{short_name(lane.name)}: {profile.steps} steps under {profile.by}"
    cost = f"a step {step(profile.profiled_ms)}, without it {step(profile.plain_ms)} ({factor(profile.cost)} times)"
    lines = [paint(line, "strong", color=color) for line in wrap(title, width, "  ")]
    lines += wrap(cost, width, "  ")
    shown = profile.operators[:top]
    lines += _table(lane, profile, shown, width, color=color)
    lines += wrap(_others(profile, len(shown)), width, "  ")
    lines += _memory(profile, width)
    lines += [] if lane.device.kind == "cpu" else wrap(_device(profile), width, "  ")
    lines += [] if profile.work is None and lane.roofline is not None else wrap(_work(profile), width, "  ")
    lines += [line for note in profile.notes for line in wrap(note, width, "  ")]
    return lines + _trace(profile, width)


def _table(lane: LaneResult, profile: Profile, shown: Sequence[Operator], width: int, *, color: bool) -> list[str]:
    """Cut names in the middle until the table fits; where none does, say it in sentences."""
    sides = lane.device.kind != "cpu"
    columns = [
        Column("operator"),
        *([Column("where")] if sides else []),
        Column("own time", right=True),
        Column("share", right=True),
        Column("calls", right=True),
        Column("memory", right=True),
    ]
    cells = [_cells(each, profile, sides=sides) for each in shown]
    taken = sum(
        GAP + max(cells_wide(text) for text in (columns[place + 1].title, *(row[place] for row in cells)))
        for place in range(len(columns) - 1)
    )
    names = [cut_middle(clean(each.name), max(width - taken, LEAST_NAME)) for each in shown]
    rows = [Row((Cell(name), *map(Cell, row))) for name, row in zip(names, cells, strict=True)]
    table = lay_out(columns, rows, width, color=color)
    if table is not None:
        return table
    told = [f"{cut_middle(clean(each.name), width)}: {', '.join(row)}" for each, row in zip(shown, cells, strict=True)]
    return [line for sentence in told for line in wrap(sentence, width, "  ")]


def _cells(each: Operator, profile: Profile, *, sides: bool) -> list[str]:
    return [
        *([each.where] if sides else []),
        step(each.own_ms),
        percent(each.own_ms / profile.profiled_ms),
        _count(each.calls),
        _bytes(each.memory_bytes),
    ]


def cut_middle(name: str, places: int) -> str:
    """Leave out the middle of a name that is too long: kernels begin alike, and what they compute stands at the end."""
    if cells_wide(name) <= places:
        return name
    head = (places - 1) // 2
    tail = places - 1 - head
    return name[:head] + ELLIPSIS + name[len(name) - tail :]


def _others(profile: Profile, shown: int) -> str:
    rest = profile.operators[shown:]
    if not rest:
        return ""
    together = sum(each.own_ms for each in rest)
    return f"and {len(rest)} more, {step(together)} together"


def _memory(profile: Profile, width: int) -> list[str]:
    """Name the operators that took the most memory anew, which need not be those that take time."""
    known = [(each, each.memory_bytes) for each in profile.operators if not isinstance(each.memory_bytes, Missing)]
    largest = max((taken for _, taken in known), default=0.0)
    takers = [(taken, each) for each, taken in known if taken > 0 and taken >= WORTH_A_WORD * largest]
    most = sorted(takers, key=lambda pair: -pair[0])[:TOP_OF_MEMORY]
    if most:
        return flow((f"{cut_middle(each.name, 40)} {size(taken)}" for taken, each in most), width, "most memory: ")
    reasons = {each.memory_bytes.missing for each in profile.operators if isinstance(each.memory_bytes, Missing)}
    return wrap(f"- (memory: {'; '.join(sorted(reasons))})", width, "  ") if reasons and not known else []


def _device(profile: Profile) -> str:
    """Tell how busy the device was, and what a step without the profiler leaves of that."""
    busy, own = profile.device_busy, profile.device_ms
    if isinstance(busy, Missing):
        return f"- (device: {busy.missing})"
    words = f"device busy {percent(busy)} of the profiled time"
    if not isinstance(own, Missing):
        words += f": {step(own)} a step, {percent(min(1.0, own / profile.plain_ms))} of one without the profiler"
    if isinstance(profile.kernels, Missing) or isinstance(profile.kernel_mean_us, Missing):
        return words
    return f"{words}; {_count(profile.kernels)} kernels a step of {step(profile.kernel_mean_us / 1e3)} on average"


def _work(profile: Profile) -> str:
    if profile.work is None:
        reason = profile.absent.get("work")
        return f"- (work of a step: {reason.missing})" if reason else ""
    flops = profile.work.flops
    per_unit, unit = next((each for each in FLOP_UNITS if flops >= each[0]), (1.0, "FLOP"))
    return f"work of a step: {number(flops / per_unit)} {unit} in products, {size(profile.work.bytes)} in and out"


def _trace(profile: Profile, width: int) -> list[str]:
    """Keep the file's name whole, whatever the width: it is there to be copied."""
    if isinstance(profile.trace, Missing):
        return wrap(f"- (trace: {profile.trace.missing})", width, "  ")
    line = f"trace: {clean(profile.trace)} ({OPENS_IN})"
    return (
        [line] if cells_wide(line) <= width else [f"trace: {clean(profile.trace)}", *wrap(f"  {OPENS_IN}", width, "  ")]
    )


def _count(value: float) -> str:
    return f"{value:,.0f}" if abs(value - round(value)) < 0.005 else number(value)


def _bytes(value: float | Missing) -> str:
    if isinstance(value, Missing):
        return "-"
    return "0" if not value else f"{'-' * (value < 0)}{size(abs(value))}"
