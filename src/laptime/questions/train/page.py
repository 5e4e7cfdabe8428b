"""The page of whole trainings: which lane trains faster, what it learned, and what to know of it."""

from __future__ import annotations

from dataclasses import replace

from laptime.model.missing import Missing
from laptime.model.protocol import LapFactor
from laptime.model.questions import training_of
from laptime.model.record import Record
from laptime.pages import footnotes
from laptime.pages.bars import Row, bar_rows
from laptime.pages.layout import Cell
from laptime.pages.numbers import duration, factor, over
from laptime.pages.page import NARROWEST, PageParts, Said, View, rendered
from laptime.pages.usage import money_words
from laptime.pages.words import above_one, joined, place_words, short_name
from laptime.questions.race.page import proof_sentence, spoken_name
from laptime.questions.train.laps_page import (
    against_first_lane,
    count_kept,
    ends_with,
    final_score,
    first_lap_words,
    later_laps,
    mean,
    published_laps,
    reached_words,
    runs_of,
    total,
    training_details,
    training_name,
)


def page_parts(record: Record, view: View) -> PageParts:
    """Return what the page says."""
    view = replace(view, width=max(view.width, NARROWEST))
    return PageParts(
        answer=[*footnotes.distrust(record), Said(f"{place_words(record)}: {_answer(record)}")],
        figures=_bars(record, view.inner),
        notes=_notes(record, view.width),
        done=" ".join(filter(None, [proof_sentence(record), _closing(record)])),
        details=training_details(record, view),
        command="laptime show" if _is_whole(record) else "to go on: laptime resume",
    )


render = rendered(page_parts)


def _answer(record: Record) -> str:
    """Return which lane trained faster and by how much or, of a single lane, how long it took."""
    full = training_of(record)
    trained = [lane for lane in record.lanes if runs_of(record, lane.name)]
    if not trained:
        return "no lap was trained."
    count = full.protocol.laps
    laps = f"{count:,} lap{'s' * (count != 1)}"
    fair = [(each, each.later_laps) for each in full.factors if each.same_work is not False]
    known = [(each, ratio) for each, ratio in fair if isinstance(ratio, float)]
    if not known:
        whole = all(total(lane, record).style == "" for lane in trained)
        told = joined([f"{total(lane, record).text} on {short_name(lane.name)}" for lane in trained])
        return f"{laps} took {told}." if whole else f"not finished; trained are {told}."
    fastest, ratio = max(known, key=lambda pair: pair[1])
    names = (fastest.lane, fastest.reference) if ratio >= 1 else (fastest.reference, fastest.lane)
    faster, slower = spoken_name(names[0], names[1]), spoken_name(names[1], names[0])
    totals = {lane.name: total(lane, record).text for lane in trained}
    took = f"{totals.get(names[0], '-')} against {totals.get(names[1], '-')}"
    how_much = f"{factor(max(ratio, over(1, ratio)))}x as fast as {slower}{_between(fastest, ratio)}"
    a_lap = {lane.name: later_laps(lane, record) for lane in trained}
    later = f"a later lap takes {a_lap.get(names[0], '-')} against {a_lap.get(names[1], '-')}"
    return f"{faster} trains {how_much}: {later}; {'both laps' if count == 2 else f'all {laps}'} took {took}."


def _between(found: LapFactor, ratio: float) -> str:
    size, low, high = above_one(ratio, found.low, found.high)
    if isinstance(low, Missing) or isinstance(high, Missing):
        return " (one training of each)"
    return f" ({factor(low, size)}-{factor(high, size)})"


def _bars(record: Record, view: View) -> list[str]:
    """Return a row a lane: the time of its later laps as a bar, all laps, and what it learned."""
    rows = []
    for lane in record.lanes:
        trained = runs_of(record, lane.name)
        later = [each.train_s for run in trained for each in run.laps if not each.fresh]
        whole = total(lane, record) if trained else Cell("")
        against = against_first_lane(lane, record)
        accuracy = final_score(lane, record, "accuracy") if ends_with(record) else "-"
        figures = (
            Cell(f"{later_laps(lane, record)} a lap" if later else ""),
            Cell("") if against.text in {"1", "-"} else replace(against, text=against.text.replace("x faster", "x")),
            replace(whole, text=f"{whole.text} in all" if whole.text and not whole.style else whole.text),
            Cell("" if accuracy == "-" else f"{ends_with(record)} accuracy {accuracy}"),
        )
        failed = "" if trained else "DNF" if lane.status == "dnf" else "not trained"
        rows.append(Row(short_name(lane.name), mean(later), figures, failed))
    return bar_rows(rows, view)


def _notes(record: Record, width: int) -> list[str]:
    """Return what a reader must know, the most important first."""
    return [
        *_ended_runs(record),
        *[footnotes.finding_words(each) for each in record.findings if each.rule == "learning"],
        *footnotes.doubts(record),
        *footnotes.notes(record),
        *money_words(record),
        *filter(None, [first_lap_words(record), reached_words(record), published_laps(record, width)]),
    ]


def _ended_runs(record: Record) -> list[str]:
    """Return why trainings ended early, a sentence each."""
    full = training_of(record)
    ended = [(run, run.process.dnf) for run in full.runs if run.process.dnf is not None]
    said = [
        f"{training_name(run, full)} did not finish, in {dnf.phase}: {dnf.reason}"
        for run, dnf in ended
        if dnf is not None
    ]
    told = {run.process.lane for run, _ in ended}
    others = [lane for lane in record.lanes if lane.status == "dnf" and lane.name not in told]
    return [*said, *(f"{short_name(lane.name)} did not finish: {lane.reason}" for lane in others)]


def _closing(record: Record) -> str:
    full = training_of(record)
    laps, elapsed = sum(map(count_kept, full.runs)), duration(record.elapsed_s)
    if _is_whole(record):
        return f"{laps:,} lap{'s' * (laps != 1)}, {elapsed}."
    wanted = full.protocol.laps * full.protocol.seeds * len(record.lanes)
    begin = "" if record.status == "finished" else f"{footnotes.status_words(record)}: "
    return f"{begin}{laps:,} of {wanted:,} laps kept, {elapsed}."


def _is_whole(record: Record) -> bool:
    return record.status == "finished" and all(run.process.status == "ok" for run in training_of(record).runs)
