"""What is said of inference around its tables: factors, parts of the first answer, what was left out, what failed."""

from __future__ import annotations

from laptime.model.inference import InferHeat
from laptime.model.missing import Missing
from laptime.model.record import Estimate, Inference, InferFactor, InferLane, Parity, Record
from laptime.report.afterwords import disturbed, end_words, last_words
from laptime.report.figures import about, duration, factor, spread, step, tiny
from laptime.report.layout import SEPARATOR, Cell, flow, wrap
from laptime.report.phrases import NOT_SAME, short_name

HOW = (
    "inference: one call goes from inputs in the host's memory to answers in the host's memory, in evaluation mode, "
    "with no gradient; percentiles are of single calls, each between two fences"
)


def answers_of(record: Record) -> Inference:
    assert record.infer is not None
    return record.infer


def latency_words(estimate: Estimate | None) -> str:
    """Give a time with half its interval, where it has one."""
    return "-" if estimate is None else f"{step(estimate.median)} {spread(estimate)}".rstrip()


def against(record: Record, lane: str, batch: int | None) -> Cell:
    """Say by what factor a lane differs from the first, unless one of the two gave other answers."""
    lanes = {each.name: each for each in record.lanes}
    answering = [each for each in record.lanes if each.step_ms is not None]
    first = answering[0] if answering else lanes[lane]
    if "differs" in {lanes[lane].parity.status, first.parity.status}:
        return Cell(NOT_SAME, "bad")
    found = next((each for each in answers_of(record).factors if (each.lane, each.batch) == (lane, batch)), None)
    if found is None:
        return Cell("1" if lane == first.name and lanes[lane].step_ms is not None else "-")
    return _factor(found)


def _factor(found: InferFactor) -> Cell:
    low, high, ratio = found.low, found.high, found.ratio
    if isinstance(low, Missing) or isinstance(high, Missing):
        return Cell(f"{factor(ratio)}x (one pair, no interval)")
    if found.verdict == "not distinguishable":
        return Cell(f"not distinguishable ({factor(low)}-{factor(high)})")
    if found.verdict == "slower":
        return Cell(f"{factor(1 / ratio)}x slower ({factor(1 / high, 1 / ratio)}-{factor(1 / low, 1 / ratio)})", "bad")
    return Cell(f"{factor(ratio)}x faster ({factor(low, ratio)}-{factor(high, ratio)})", "good")


def batch_factors(record: Record, width: int) -> list[str]:
    """Give each lane's factors by batch size, once a lane."""
    lines: list[str] = []
    for lane in answers_of(record).lanes:
        mine = [each for each in answers_of(record).factors if each.lane == lane.lane and each.batch is not None]
        if mine and all(each.same_work for each in mine):
            parts = [f"batch {each.batch} {_factor(each).text}" for each in mine]
            start = f"{short_name(lane.lane)} in {record.workload.items}/s against {short_name(mine[0].reference)}: "
            lines += flow(parts, width, start)
    return lines


def left_out(record: Record, width: int) -> list[str]:
    """Say why a batch size has no figure, or not from every heat."""
    lines: list[str] = []
    for lane in answers_of(record).lanes:
        for each in lane.batches:
            if each.reason:
                lines += wrap(f"{short_name(lane.lane)} batch {each.batch}: {each.reason}", width, "  ")
    return lines


def failures(record: Record, width: int) -> list[str]:
    """Tell of every lane with an unfinished heat where and why the last of them ended."""
    lines: list[str] = []
    for lane in answers_of(record).lanes:
        ended = [heat.dnf for heat in lane.heats if heat.dnf is not None]
        if ended:
            heats = "" if len(ended) == len(lane.heats) else f": {len(ended)} of {len(lane.heats)} heats"
            said = f"{short_name(lane.lane)}{heats} did not finish, {end_words(ended[-1])}"
            lines += [*wrap(said, width, "  "), *last_words(ended[-1].stderr_tail, width)]
    return lines


def remarks(record: Record) -> list[str]:
    """Say what a reader must know before trusting the figures."""
    said = [_own_batch(lane) for lane in answers_of(record).lanes]
    said += [_steadiness(lane) for lane in answers_of(record).lanes]
    said += [disturbed(_flags(record))]
    notes: dict[str, list[str]] = {}
    for lane in record.lanes:
        for note in lane.notes:
            notes.setdefault(note, []).append(short_name(lane.name))
    return [*(each for each in said if each), *(f"{', '.join(names)}: {note}" for note, names in notes.items())]


def _flags(record: Record) -> list[str | None]:
    """Give the flag of every window; the single calls of a heat are one."""
    heats = [heat for lane in answers_of(record).lanes for heat in lane.heats]
    calls = [heat.calls_flag for heat in heats if heat.calls_ns]
    return [*calls, *(window.flag for heat in heats for run in heat.batches for window in run.windows)]


def _own_batch(lane: InferLane) -> str:
    if lane.items_a_call in {None, 1}:
        return ""
    return f"{short_name(lane.lane)}: a call is of {lane.items_a_call} items, the only batch that it takes."


def _steadiness(lane: InferLane) -> str:
    odd = [f"{kind} in {count} of {sum(lane.steady.values())} heats"
           for kind, count in sorted(lane.steady.items()) if kind != "flat"]  # fmt: skip
    return f"{short_name(lane.lane)}: single calls were {', '.join(odd)}." if odd else ""


def published(record: Record) -> str:
    """Quote what authors said of one item, and say what of ours it is to be held against."""
    results = record.published.results if record.published else ()
    quotes = [f"{each.device} {each.infer_one_s:g} s" for each in results if each.infer_one_s is not None]
    if not quotes:
        return ""
    said = f"published for one item: {SEPARATOR.join(quotes)}."
    lane = next((each for each in answers_of(record).lanes if each.wait is not None), None)
    if lane is None or lane.wait is None or isinstance(lane.wait.further_call_s, Missing):
        return said
    first, further = about(lane.wait.first_answer_s), step(lane.wait.further_call_s * 1e3)
    return f"{said} Here the first answer takes {first} ({short_name(lane.lane)}), a further one {further}."


def same_answers(record: Record, width: int) -> list[str]:
    """Say whether every lane answers as the reference does, and by what measure."""
    told: dict[str, list[str]] = {}
    for lane in record.lanes:
        if lane.step_ms is not None or lane.parity.status == "differs":
            told.setdefault(_parity_words(lane.parity), []).append(short_name(lane.name))
    who = len(told) > 1 or len(record.lanes) > 1
    return flow(
        (f"{', '.join(names)} {said}" if who else said for said, names in told.items()), width, "same answers: "
    )


def _parity_words(parity: Parity) -> str:
    if parity.status != "same":
        return f"{'no' if parity.status == 'differs' else 'unproven'}: {parity.reason or 'no reason given'}"
    worst = "" if parity.worst is None or parity.tolerance is None else (
        f" ({tiny(parity.worst)} from float64, {tiny(parity.tolerance)} allowed)"
    )  # fmt: skip
    strays = "" if parity.strays is None else f"; {parity.strays_precision} strays {tiny(parity.strays)}"
    return f"yes{worst}{strays}"


def closing(record: Record) -> str:
    """Say how many heats there are, how many single calls, and how long it took."""
    answers = answers_of(record)
    heats = [sum(heat.status == "ok" for heat in lane.heats) for lane in answers.lanes]
    elapsed = duration(record.elapsed_s)
    if record.status != "finished":
        planned = answers.pace.heats * len(answers.lanes)
        begin = "interrupted" if record.status == "interrupted" else "running, or ended unawares"
        return f"{begin}: {sum(heats)} of {planned} heats kept, {elapsed}."
    calls = sum(lane.calls for lane in answers.lanes)
    fewest, most = min(heats, default=0), max(heats, default=0)
    each = f"{most}" if fewest == most else f"{fewest} to {most}"
    short = ""
    if 0 < most < answers.pace.heats:
        short = f" The budget of {duration(record.ask.budget_s)} allowed no more of {answers.pace.heats}."
    return f"{each} heat{'s' * (most != 1)} each, {calls:,} single calls, {elapsed}.{short}"


def part_words(seconds: float | Missing) -> str:
    return "-" if isinstance(seconds, Missing) else about(seconds)


def has_answers(heats: tuple[InferHeat, ...]) -> bool:
    return any(heat.calls_ns for heat in heats)
