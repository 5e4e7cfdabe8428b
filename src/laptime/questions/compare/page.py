"""The page of a comparison: each lane before and after, what else differs, and whether a threshold was passed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from math import log

from laptime.model.quantities import Missing, number, percent, step
from laptime.model.rows import OF_TRAINING
from laptime.questions.compare.nouns import Compared, Difference, History, HistoryPoint, LaneChange, Side
from laptime.show.pages.layout import FIELD_INDENT, Cell, Column, Style, clean, painted, table_or_sentences, wrap
from laptime.show.pages.page import NARROWEST, View, sparkline
from laptime.show.pages.words import (
    above_one,
    escape_markdown,
    factor,
    faster_or_slower,
    joined,
    over,
    ratio_cell,
    short_name,
    spread,
)

APART = "The two were measured one after the other, so what the machine did meanwhile is in the ratio."
TOGETHER = "Both were measured in turns within one race, so what the machine did meanwhile falls out of the ratio."
# Each lane would need a twin of its own, and a race of many lanes half as many rounds again.
NO_TWIN = "A gate that races the first training against itself, too, on one lane: laptime verdict A B LANE --gate."
ANSWERED_MOST = 3  # lanes with a sentence of their own
DIFFERENCES_MOST = 8
PARTS_SHOWN, PART_MUCH = 3, 0.03  # of an iteration: a part that changed by less is not named
FAILED, UNJUDGED, PASSED = "FAILED", "NOT JUDGED", "passed"


def render_compared(found: Compared, view: View) -> str:
    """Return the page: the answer, the lanes, what else differs, what is doubtful, and what to do next."""
    view = replace(view, width=max(view.width, NARROWEST))
    lines = [line for text, style in _answers(found) for line in painted(text, view.width, style, color=view.color)]
    several = found.interleaved and len({lane.training for lane in found.lanes}) > 1
    trainings: list[Column[LaneChange]] = [Column("training", lambda lane: lane.training, least=14)]
    columns = [
        Column("lane", lambda lane: short_name(lane.lane), least=14),
        *(trainings if several else []),
        Column("before", lambda lane: f"{number(lane.before.median)}/s", right=True),
        Column("after", lambda lane: f"{number(lane.after.median)}/s", right=True),
        Column("change", change_cell, least=19),
        Column(found.lanes[0].measured if found.lanes else "heats", _counts),
        Column("same work", _same_work, least=12),
    ]
    table = table_or_sentences(columns, found.lanes, view.inner.width, color=view.color)
    lines += ["", *(FIELD_INDENT + line for line in table), ""]
    notes = [*_part_words(found), *found.warnings]
    notes += [*_other_differences(found, details=view.details), *found.unpaired]
    lines += [line for note in notes for line in wrap(_short(note), view.width, FIELD_INDENT)]
    lines += [line for note in _how(found) for line in wrap(note, view.width, FIELD_INDENT)]
    return "\n".join(lines) + "\n"


def _answers(found: Compared) -> list[tuple[str, Style]]:
    """Return the sentences of the answer: the gate first, if there is one."""
    gate = gate_words(found)
    style: Style = "good" if gate_state(found) == PASSED else "bad"
    lanes = found.lanes if len(found.lanes) <= ANSWERED_MOST else ()
    sentences: list[tuple[str, Style]] = [(gate, style)] if gate else []
    sentences += [(f"{change_words(lane, found)}.", "strong") for lane in lanes]
    if lanes:
        return sentences
    verdicts = [lane.verdict for lane in found.lanes]
    counts = [f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts)]
    after = found.after.training if found.interleaved else side_words(found.after)
    before = found.before.training if found.interleaved else side_words(found.before)
    return [*sentences, (f"{after} against {before}, {len(verdicts)} lanes: {joined(counts)}.", "strong")]


def change_words(lane: LaneChange, found: Compared) -> str:
    """Return how one lane changed, in a sentence."""
    if found.interleaved:
        one = f"{lane.training} on {short_name(lane.lane)}"
        other = found.before.training
    else:
        one = f"{short_name(lane.lane)} in {side_words(found.after)}"
        other = side_words(found.before)
    if lane.ends is None:
        why = lane.low.missing if isinstance(lane.low, Missing) else "no interval"
        return f"{one} runs at {factor(lane.ratio)}x the rate of {other} ({why})"
    if lane.verdict == "not distinguishable":
        return f"{one} is not distinguishable from {other} (ratio {'-'.join(map(factor, lane.ends))})"
    ratio, low, high = above_one(lane.ratio, lane.low, lane.high)
    ends = "-".join(factor(end, ratio) for end in (low, high) if not isinstance(end, Missing))
    return f"{one} is {factor(ratio)}x {lane.verdict} than {other} ({ends})"


def side_words(side: Side) -> str:
    """Return a record's label and id."""
    return side.id if side.label is None else f"@{side.label} ({side.id})"


def gate_state(found: Compared) -> str:
    """Return whether a comparison passed its threshold, failed, or could not be judged."""
    return FAILED if found.failing else UNJUDGED if found.unjudged else PASSED


def gate_words(found: Compared) -> str:
    """Return in a sentence whether the threshold was passed; "" where there is none."""
    if found.fail_above is None:
        return ""
    state = gate_state(found)
    allowed = percent(found.fail_above)
    if state == FAILED:
        names = joined([f"{_short(name)} (by at least {_least(found, name)})" for name in found.failing])
        return f"Gate {state}: slower by more than {allowed}: {names}."
    if state == UNJUDGED:
        return f"Gate {state}: no result of {joined([_short(name) for name in found.unjudged])}."
    # How much slower a lane may still be, at the other end of its interval
    slowest = [(over(1, lane.ends[0]) - 1, lane) for lane in found.lanes if lane.ends is not None]
    most, lane = max(slowest, key=lambda pair: pair[0], default=(0.0, None))
    if lane is None or most <= (found.fail_above or 0.0):
        not_ruled_out = ""
    else:
        not_ruled_out = f", but up to {percent(most)} is not ruled out on {short_name(lane.lane)}"
    return f"Gate {state}: no lane is slower by more than {allowed} for certain{not_ruled_out}."


def _least(found: Compared, name: str) -> str:
    """Return by how much a lane is slower at the end of its interval that is nearest to 1."""
    lane = next(
        lane_change
        for lane_change in found.lanes
        if name in {lane_change.lane, f"{lane_change.lane}{OF_TRAINING}{lane_change.training}"}
    )
    return "" if lane.ends is None else f"{100 * (over(1, lane.ends[1]) - 1):.1f} %"


def change_cell(lane: LaneChange) -> Cell:
    return ratio_cell(lane.ratio, lane.low, lane.high, lane.verdict, "no interval")


def _counts(lane: LaneChange) -> str:
    one, other = lane.counts
    return str(one) if one == other else f"{one} and {other}"


def _same_work(lane: LaneChange) -> Cell:
    if isinstance(lane.same_work, Missing):
        return Cell(f"unproven: {lane.same_work.missing}", "quiet")
    return Cell("yes", "good") if lane.same_work else Cell("no", "bad")


def _part_words(found: Compared) -> list[str]:
    """Return what the parts of an iteration took before and after, those that changed much; of a watched script."""
    whole_ms = max(sum(part.before_ms for part in found.parts), sum(part.after_ms for part in found.parts))
    much = [part for part in found.parts if abs(part.after_ms - part.before_ms) >= PART_MUCH * whole_ms]
    words = [f"{part.part} from {step(part.before_ms)} to {step(part.after_ms)}" for part in much[:PARTS_SHOWN]]
    return [f"In an iteration: {', '.join(words)}."] if words else []


def _other_differences(found: Compared, *, details: bool) -> list[str]:
    """Return what else differs; what is doubtful is in the warnings already."""
    others = [difference for difference in found.differences if not difference.doubtful]
    shown = others if details else others[:DIFFERENCES_MOST]
    more = f" and {len(others) - len(shown)} more (--json has all)" if len(shown) < len(others) else ""
    return [f"Also different: {'; '.join(map(difference_words, shown))}{more}."] if shown else []


def difference_words(difference: Difference) -> str:
    return f"{difference.what} {difference.before} before, {difference.after} after"


def _how(found: Compared) -> list[str]:
    """Return how the two were measured and, where that is not the best way, the commands that are."""
    if found.interleaved:
        return [TOGETHER] if found.fail_above is None else [TOGETHER, NO_TWIN]
    again = f"laptime race --against {shlex.quote(found.before.id)}"
    if found.question == "watch":
        return [APART, "To measure both in turns: laptime verdict BASE.py CANDIDATE.py."]
    if found.question != "race":
        return [APART]
    return [APART, f"To measure both in turns: laptime race A.py:f B.py:f. To run the first again now: {again}."]


def _short(text: str) -> str:
    return text.replace("/as-written", "")


def markdown(found: Compared) -> str:
    """Return a summary in Markdown, for a pull request."""
    gate = gate_words(found)
    before, after = (
        (found.before.training, found.after.training)
        if found.interleaved
        else (side_words(found.before), side_words(found.after))
    )
    lines = [f"### laptime: {code(after)} against {code(before)}", ""]
    lines += [f"**{escape_markdown(gate)}**", ""] if gate else []
    lines += ["| lane | before | after | change | same work |", "| --- | ---: | ---: | --- | --- |"]
    lines += [_row(lane, found) for lane in found.lanes]
    notes = [*_part_words(found), *found.warnings, *_other_differences(found, details=True), *found.unpaired]
    lines += [
        "",
        *(f"- {escape_markdown(_short(note))}" for note in (*notes, TOGETHER if found.interleaved else APART)),
    ]
    return "\n".join(lines) + "\n"


def _row(lane: LaneChange, found: Compared) -> str:
    name = f"{short_name(lane.lane)}{OF_TRAINING}{lane.training}" if found.interleaved else short_name(lane.lane)
    cells = [code(name), f"{number(lane.before.median)}/s", f"{number(lane.after.median)}/s"]
    return (
        f"| {' | '.join([*cells, escape_markdown(change_cell(lane).text), escape_markdown(_same_work(lane).text)])} |"
    )


def code(text: str) -> str:
    """Return a name as code, which Markdown neither formats nor links."""
    return "`" + clean(text).replace("`", "'").replace("|", "\\|") + "`"


# The page of a history: the newest figure, a line of all figures, and a row a record, the newest first.

CHANGES_SHOWN = 40
FLAT_HEIGHT = 0.4  # of the height, where all values are alike
FLAT = 0.02  # as a difference of logarithms: smaller ones would look like mountains
SEVERAL_MACHINES = "Points of different machines are not compared with each other."


def render_history(found: History, view: View, *, lines_most: int | None = CHANGES_SHOWN) -> str:
    """Return the page. Where there are more lines than it may have, the oldest records are left out."""
    view = replace(view, width=max(view.width, NARROWEST))
    for count in range(len(found.points), 0, -1):
        lines = _lines(found, view, count)
        if lines_most is None or len(lines) <= lines_most:
            break
    return "\n".join(lines) + "\n"


def _lines(found: History, view: View, count: int) -> list[str]:
    """Return the page with this many of the newest points in its table."""
    shown = found.points[-count:][::-1]
    rates = [point.items_per_s.median for point in found.points][-view.inner.width :]
    line = line_of(rates, blocks=view.blocks)
    table = table_or_sentences(_history_columns(found), shown, view.inner.width, color=view.color)
    notes = _notes(found, len(found.points) - count)
    return [
        *(row for text in _answer(found) for row in painted(text, view.width, "strong", color=view.color)),
        "",
        f"{FIELD_INDENT}{line}",
        *(FIELD_INDENT + row for row in table),
        *(["", *(row for note in notes for row in wrap(note, view.width, FIELD_INDENT))] if notes else []),
    ]


def _answer(found: History) -> list[str]:
    """Return the newest figure, and when it last changed beyond noise."""
    newest = found.points[-1]
    count = len(found.points)
    records = f"the newest of {count} records" if count > 1 else "the only record"
    if newest.step_ms is None:
        newest_words = f"{found.what} on {short_name(found.lane)}: {number(newest.items_per_s.median)}/s"
    else:
        newest_words = f"{found.what} takes {step(newest.step_ms.median)} {spread(newest.step_ms)} per iteration"
    sentences = [f"{newest_words} in {records}."]
    changed = [point for point in found.points if is_changed(point)]
    if not changed:
        return [*sentences, "No change beyond noise."] if count > 1 else sentences
    last = changed[-1]
    assert last.change is not None
    since = f", with {joined(last.marks)}" if last.marks else ""
    more = f"; {len(changed)} changes in all" if len(changed) > 1 else ""
    when = f"{faster_or_slower(last.change.ratio)} on {last.started[:10]} ({last.id})"
    return [*sentences, f"Last change beyond noise: {when}{since}{more}."]


def is_changed(point: HistoryPoint) -> bool:
    """Whether a lane changed by more than its heats vary."""
    return point.change is not None and point.change.verdict != "not distinguishable"


def _history_columns(found: History) -> list[Column[HistoryPoint]]:
    has_labels = any(point.label is not None for point in found.points)
    has_marks = any(point.marks for point in found.points)
    labels: list[Column[HistoryPoint]] = [
        Column("label", lambda point: f"@{point.label}" if point.label else "", least=8)
    ]
    is_watched = any(point.step_ms is not None for point in found.points)
    iterations: list[Column[HistoryPoint]] = [
        Column(
            "iteration",
            lambda point: (
                "-" if point.step_ms is None else f"{step(point.step_ms.median)} {spread(point.step_ms)}".rstrip()
            ),
            right=True,
        )
    ]
    findings: list[Column[HistoryPoint]] = [Column("first finding", lambda point: point.finding or "none", least=24)]
    marks: list[Column[HistoryPoint]] = [Column("what changed", lambda point: ", ".join(point.marks), least=12)]
    return [
        Column("started", lambda point: point.started[:16].replace("T", " ")),
        Column("record", lambda point: point.id),
        *(labels if has_labels else []),
        *(iterations if is_watched else [Column("items/s", _rate, right=True)]),
        Column("against the last", _change, least=12),
        *(findings if is_watched else []),
        *(marks if has_marks else []),
    ]


def _rate(point: HistoryPoint) -> str:
    return f"{number(point.items_per_s.median)} {spread(point.items_per_s)}".rstrip()


def _change(point: HistoryPoint) -> Cell:
    """Return how a point compares with the last on its machine; what is beyond noise has a star."""
    if point.change is None:
        return Cell("first on its machine", "quiet")
    if point.change.ends is None:
        return Cell("no interval", "quiet")
    if not is_changed(point):
        return Cell("within noise", "quiet")
    cell = change_cell(point.change)
    return replace(cell, text=f"* {cell.text}")


def _notes(found: History, hidden: int) -> list[str]:
    """Return what the table leaves out, and what one must know to read it."""
    older = found.older + hidden
    machines = {point.machine for point in found.points}
    apart = "Records are measured at different times: what else the machine did then is in each change."
    notes = [
        apart if len(found.points) > 1 else "",
        f"{SEVERAL_MACHINES} There are {len(machines)}." if len(machines) > 1 else "",
        f"{older} older record{'s' * (older != 1)} not shown: --limit 0 shows all." if older else "",
        f"Without a result: {'; '.join(found.left_out)}." if found.left_out else "",
        f"Other lanes: {', '.join(map(short_name, found.others))}." if found.others else "",
    ]
    return [*filter(None, notes)]


def line_of(values: Sequence[float], *, blocks: bool) -> str:
    """Return a sign a value, the highest for the largest; alike where all differ by next to nothing."""
    logs = [log(value) for value in values]
    low = min(logs)
    high = max(logs)
    if high - low < FLAT:
        return sparkline([FLAT_HEIGHT] * len(logs), blocks=blocks)
    return sparkline([(height - low) / (high - low) for height in logs], blocks=blocks)
