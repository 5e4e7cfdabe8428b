"""The page of a comparison: each lane before and after, what else differs, and whether a threshold was passed."""

from __future__ import annotations

import shlex
from dataclasses import replace

from laptime.model.lane import OF_TRAINING
from laptime.model.missing import Missing
from laptime.pages.layout import Cell, Column, Style, clean, painted, table_or_sentences, wrap
from laptime.pages.numbers import factor, number, over, percent
from laptime.pages.page import INDENT, NARROWEST, View
from laptime.pages.words import above_one, joined, ratio_cell, short_name
from laptime.questions.compare.nouns import Compared, Difference, LaneChange, Side

APART = "The two were measured one after the other, so what the machine did meanwhile is in the ratio."
TOGETHER = "Both were measured in turns within one race, so what the machine did meanwhile falls out of the ratio."
ANSWERED_MOST = 3  # lanes with a sentence of their own
DIFFERENCES_MOST = 8
FAILED, UNJUDGED, PASSED = "FAILED", "NOT JUDGED", "passed"


def render_compared(found: Compared, view: View) -> str:
    """Return the page: the answer, the lanes, what else differs, what is doubtful, and what to do next."""
    view = replace(view, width=max(view.width, NARROWEST))
    lines = [line for text, style in _answers(found) for line in painted(text, view.width, style, color=view.color)]
    table = table_or_sentences(_columns(found), found.lanes, view.inner.width, color=view.color)
    lines += ["", *(INDENT + line for line in table), ""]
    notes = [*found.warnings, *_other_differences(found, details=view.details), *found.unpaired]
    lines += [line for note in notes for line in wrap(_short(note), view.width, INDENT)]
    lines += [line for note in _how(found) for line in wrap(note, view.width, INDENT)]
    return "\n".join(lines) + "\n"


def _answers(found: Compared) -> list[tuple[str, Style]]:
    """Return the sentences of the answer: the gate first, if there is one."""
    gate = gate_words(found)
    style: Style = "good" if gate_state(found) == PASSED else "bad"
    lanes = found.lanes if len(found.lanes) <= ANSWERED_MOST else ()
    said: list[tuple[str, Style]] = [(gate, style)] if gate else []
    said += [(f"{change_words(lane, found)}.", "strong") for lane in lanes]
    return said if lanes else [*said, (_counted(found), "strong")]


def change_words(lane: LaneChange, found: Compared) -> str:
    """Return how one lane changed, in a sentence."""
    one, other = _names(lane, found)
    if isinstance(lane.low, Missing) or isinstance(lane.high, Missing):
        why = lane.low.missing if isinstance(lane.low, Missing) else "no interval"
        return f"{one} runs at {factor(lane.ratio)}x the rate of {other} ({why})"
    if lane.verdict == "not distinguishable":
        return f"{one} is not distinguishable from {other} (ratio {factor(lane.low)}-{factor(lane.high)})"
    ratio, low, high = above_one(lane.ratio, lane.low, lane.high)
    ends = "-".join(factor(end, ratio) for end in (low, high) if not isinstance(end, Missing))
    return f"{one} is {factor(ratio)}x {lane.verdict} than {other} ({ends})"


def _names(lane: LaneChange, found: Compared) -> tuple[str, str]:
    if found.interleaved:
        return f"{lane.training} on {short_name(lane.lane)}", found.before.training
    return f"{short_name(lane.lane)} in {side_words(found.after)}", side_words(found.before)


def side_words(side: Side) -> str:
    """Return a record's label and id."""
    return side.id if side.label is None else f"@{side.label} ({side.id})"


def _counted(found: Compared) -> str:
    verdicts = [lane.verdict for lane in found.lanes]
    counts = [f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts)]
    after = found.after.training if found.interleaved else side_words(found.after)
    before = found.before.training if found.interleaved else side_words(found.before)
    return f"{after} against {before}, {len(verdicts)} lanes: {joined(counts)}."


def gate_state(found: Compared) -> str:
    """Return whether a comparison passed its threshold, failed, or could not be judged."""
    return FAILED if found.failing else UNJUDGED if found.unjudged else PASSED


def gate_words(found: Compared) -> str:
    """Return in a sentence whether the threshold was passed; "" where there is none."""
    if found.fail_above is None:
        return ""
    state, allowed = gate_state(found), percent(found.fail_above)
    if state == FAILED:
        names = joined([f"{_short(name)} (by at least {_least(found, name)})" for name in found.failing])
        return f"Gate {state}: slower by more than {allowed}: {names}."
    if state == UNJUDGED:
        return f"Gate {state}: no result of {joined([_short(name) for name in found.unjudged])}."
    return f"Gate {state}: no lane is slower by more than {allowed} for certain{_not_ruled_out(found)}."


def _not_ruled_out(found: Compared) -> str:
    """Return how much slower a lane may still be, at the other end of its interval."""
    slowest = [(over(1, lane.low) - 1, lane) for lane in found.lanes if not isinstance(lane.low, Missing)]
    most, lane = max(slowest, key=lambda pair: pair[0], default=(0.0, None))
    if lane is None or most <= (found.fail_above or 0.0):
        return ""
    return f", but up to {percent(most)} is not ruled out on {short_name(lane.lane)}"


def _least(found: Compared, name: str) -> str:
    """Return by how much a lane is slower at the end of its interval that is nearest to 1."""
    lane = next(each for each in found.lanes if name in {each.lane, f"{each.lane}{OF_TRAINING}{each.training}"})
    return "" if isinstance(lane.high, Missing) else f"{100 * (over(1, lane.high) - 1):.1f} %"


def _columns(found: Compared) -> list[Column[LaneChange]]:
    several = found.interleaved and len({lane.training for lane in found.lanes}) > 1
    trainings: list[Column[LaneChange]] = [Column("training", lambda lane: lane.training, least=14)]
    return [
        Column("lane", lambda lane: short_name(lane.lane), least=14),
        *(trainings if several else []),
        Column("before", lambda lane: f"{number(lane.before.median)}/s", right=True),
        Column("after", lambda lane: f"{number(lane.after.median)}/s", right=True),
        Column("change", change_cell, least=19),
        Column(found.lanes[0].measured if found.lanes else "heats", _counts),
        Column("same work", _same_work, least=12),
    ]


def change_cell(lane: LaneChange) -> Cell:
    return ratio_cell(lane.ratio, lane.low, lane.high, lane.verdict, "no interval")


def _counts(lane: LaneChange) -> str:
    one, other = lane.counts
    return str(one) if one == other else f"{one} and {other}"


def _same_work(lane: LaneChange) -> Cell:
    if isinstance(lane.same_work, Missing):
        return Cell(f"unproven: {lane.same_work.missing}", "quiet")
    return Cell("yes", "good") if lane.same_work else Cell("no", "bad")


def _other_differences(found: Compared, *, details: bool) -> list[str]:
    """Return what else differs; what is doubtful is in the warnings already."""
    others = [each for each in found.differences if not each.doubtful]
    shown = others if details else others[:DIFFERENCES_MOST]
    more = f" and {len(others) - len(shown)} more (--json has all)" if len(shown) < len(others) else ""
    return [f"Also different: {'; '.join(map(difference_words, shown))}{more}."] if shown else []


def difference_words(each: Difference) -> str:
    return f"{each.what} {each.before} before, {each.after} after"


def _how(found: Compared) -> list[str]:
    """Return how the two were measured and, where that is not the best way, the commands that are."""
    if found.interleaved:
        return [TOGETHER]
    again = f"laptime race --against {shlex.quote(found.before.id)}"
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
    lines += [f"**{plain(gate)}**", ""] if gate else []
    lines += ["| lane | before | after | change | same work |", "| --- | ---: | ---: | --- | --- |"]
    lines += [_row(lane, found) for lane in found.lanes]
    notes = [*found.warnings, *_other_differences(found, details=True), *found.unpaired]
    lines += ["", *(f"- {plain(_short(note))}" for note in (*notes, TOGETHER if found.interleaved else APART))]
    return "\n".join(lines) + "\n"


def _row(lane: LaneChange, found: Compared) -> str:
    name = f"{short_name(lane.lane)}{OF_TRAINING}{lane.training}" if found.interleaved else short_name(lane.lane)
    cells = [code(name), f"{number(lane.before.median)}/s", f"{number(lane.after.median)}/s"]
    return f"| {' | '.join([*cells, plain(change_cell(lane).text), plain(_same_work(lane).text)])} |"


def code(text: str) -> str:
    """Return a name as code, which Markdown neither formats nor links."""
    return "`" + clean(text).replace("`", "'").replace("|", "\\|") + "`"


def plain(text: str) -> str:
    """Return a sentence whose signs mean nothing to Markdown: no tag, link, mention, or cell."""
    escaped = "".join(f"\\{sign}" if sign in "\\`*_[]|#<>~" else sign for sign in clean(text))
    return escaped.replace("@", "`@`")
