"""What the winner of a tuning changes besides the time: how far its proof was off, and what whole laps taught it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from laptime.model.missing import Missing
from laptime.model.record import Parity, Record
from laptime.pages.footnotes import finding_words
from laptime.pages.layout import Column, table_or_sentences
from laptime.pages.numbers import four_places, tiny
from laptime.pages.page import View
from laptime.pages.words import joined, short_name
from laptime.questions.tune.nouns import Learned, TunedLane

NO_WINNER = "No lap was trained: no other settings are in the winner."
NOT_SEEN = "How well it then learns was not measured."


def learned_table(tuned: TunedLane, view: View) -> list[str]:
    """Return the loss and accuracy of the lane as asked and of its winner."""
    rows = tuned.learned
    return table_or_sentences(_columns(rows), rows, view.width, color=view.color) if _is_known(rows) else []


def _is_known(rows: Sequence[Learned]) -> bool:
    return any(not isinstance(each.loss, Missing) or not isinstance(each.accuracy, Missing) for each in rows)


def _columns(rows: Sequence[Learned]) -> list[Column[Learned]]:
    known = next(each for each in rows if not isinstance(each.loss, Missing) or not isinstance(each.accuracy, Missing))
    return [
        Column(f"learned in {laps_words(known.laps)}", lambda each: short_name(each.lane)),
        Column(f"{known.over} loss", lambda each: four_places(each.loss), right=True),
        Column(f"{known.over} accuracy", lambda each: four_places(each.accuracy), right=True),
    ]


def laps_words(laps: int) -> str:
    return f"{laps:,} lap{'s' * (laps != 1)}"


def learned_notes(tuned: TunedLane, record: Record) -> list[str]:
    """Return what the winner changes, and why figures of its learning are missing."""
    return [*_changes(tuned, record), *_missing(tuned, record), *_differences(tuned, record)]


def changes_of(tuned: TunedLane) -> list[str]:
    """Return the settings of the winner that change the arithmetic or the learning."""
    return [each.word for each in tuned.settings if each.in_winner and each.changes]


def _changes(tuned: TunedLane, record: Record) -> list[str]:
    """Return what each kind of change does, as far as the proof shows it."""
    said = []
    parity = next((lane.parity for lane in record.lanes if lane.name == tuned.winner), None)
    exact = [each.word for each in tuned.settings if each.in_winner and each.changes == "arithmetic"]
    if exact and parity is not None and parity.worst is not None:
        said.append(f"{joined(exact)} {_verb(exact)} the arithmetic: {_off(parity)}.")
    others = [each.word for each in tuned.settings if each.in_winner and each.changes == "learning"]
    if others:
        unseen = "" if tuned.learned else f" {NOT_SEEN}"
        said.append(f"{joined(others)} {_verb(others)} the learning.{unseen}")
    return said


def _verb(words: Sequence[str]) -> str:
    return "changes" if len(words) == 1 else "change"


def _off(parity: Parity) -> str:
    """Return how far the losses of the proof were off, and what is allowed."""
    steps = f"in the proof's {parity.steps} step{'s' * (parity.steps != 1)}"
    exact = _distance(parity.worst, parity.tolerance)
    if parity.strays is None:
        return f"{steps} its loss is off by up to {exact}"
    coarse = _distance(parity.strays, parity.strays_tolerance)
    return f"{steps} its loss is off by up to {coarse} in {parity.strays_precision}, and by {exact} in fp32"


def _distance(off: float | None, allowed: float | None) -> str:
    return f"{tiny(off or 0.0)}{'' if allowed is None else f' (allowed {tiny(allowed)})'}"


def _missing(tuned: TunedLane, record: Record) -> list[str]:
    """Return why a lane has no loss or accuracy, each reason once."""
    if record.ask.tune is None or record.ask.tune.laps is None:
        return []
    if not tuned.learned:
        return [NO_WINNER]
    told: dict[tuple[str, str], list[str]] = {}
    for each in tuned.learned:
        for lack in _lacks(each):
            told.setdefault(lack, []).append(short_name(each.lane))
    return [f"No {lacks} of {joined(lanes)}: {why}." for (lacks, why), lanes in told.items()]


def _lacks(each: Learned) -> list[tuple[str, str]]:
    """Return which figures are missing, with the reason."""
    loss, accuracy = each.loss, each.accuracy
    if isinstance(loss, Missing) and loss == accuracy:
        return [("loss and accuracy", loss.missing)]
    figures = (("loss", loss), ("accuracy", accuracy))
    return [(name, value.missing) for name, value in figures if isinstance(value, Missing)]


def _differences(tuned: TunedLane, record: Record) -> list[str]:
    found = (each for each in record.findings if each.rule == "learning" and each.evidence["lane"] == tuned.winner)
    return [finding_words(each) for each in found]


def next_command(tuned: TunedLane, record: Record) -> str:
    """Return the command to type next: what the winner learns, if that was not seen, else a race of the two."""
    lanes = [short_name(tuned.asked), tuned.winner]
    if changes_of(tuned) and not tuned.learned:
        return f"Next: {shlex.join(['laptime', 'train', record.ask.what, *lanes])} --laps 1"
    return f"Next: {shlex.join(['laptime', 'race', record.workload.name, *lanes])}"
