"""The page of a tuning: what the best settings gain, and what each of them is worth alone."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from laptime.model.figure import Bar, Bars, FactorKind, Factors, Figure, Glance, GlanceFact, ShownFactor, Table, folded
from laptime.model.quantities import Factor, Missing, times
from laptime.model.record import Record
from laptime.model.visible import as_command
from laptime.questions.tune.nouns import Learned, SettingWorth, TuneAnswer, TunedLane, Tuning
from laptime.show.figures import fact_figures, lane_bars, proof_figures, reading_figures
from laptime.show.pages import footnotes
from laptime.show.pages.footnotes import finding_words
from laptime.show.pages.lanes import energy_words, lane_table, money_words, proof_sentence, usage_lines
from laptime.show.pages.layout import Column, clean, table_or_sentences, wrap
from laptime.show.pages.live import live_lanes
from laptime.show.pages.page import NARROWEST, PageParts, QuestionPage, Said, View, bar, header, quiet
from laptime.show.pages.summaries import lanes_failed, summary_of_race
from laptime.show.pages.words import duration, factor, four_places, joined, place_words, short_name, tiny

GAIN_BAR = 20
NARROW_GAIN_BAR = 10
WIDE_PAGE = 90
SETTINGS_SHOWN = 8  # settings on the usual page
PATH_MOST = 24  # sets of settings in the picture of a search
CHANGES_WORDS = {"": "", "arithmetic": "the arithmetic", "learning": "the learning"}


def page_parts(record: Record, view: View) -> PageParts:
    """Return what the page says."""
    tuning = tuning_of(record)
    view = replace(view, width=max(view.width, NARROWEST))
    winners = _of_winners(record, tuning)
    energy = energy_words(winners) if record.ask.aim.unit == "J" else []
    over = footnotes.over_budget(record)  # the budget left no time for a search, where even the first heats took more
    short_of_time = f"There was no time to search further: {over}" if over else ""
    # A row for each setting that was tried alone, the best first; then what the lane and its winner learned
    figures: list[str] = []
    for lane in tuning.lanes:
        alone = [setting for setting in lane.settings if setting.alone is not None][:SETTINGS_SHOWN]
        rows = [*_table(alone, lane, record, view.inner), *learned_table(lane, view.inner)]
        rows += _change_lines(lane, record, view.inner.width)
        figures += [short_name(lane.asked)] * bool(rows and len(tuning.lanes) > 1) + rows
    then = [next_command(lane, record) for lane in tuning.lanes if lane.standing == "confirmed"]
    left = any(lane.untried or lane.standing == "not confirmed" for lane in tuning.lanes)
    if not then and (left or record.status == "interrupted"):
        then = [f"Next: laptime tune --more {record.id}"]
    # The lane as asked is no set of settings that was tried; records of old versions have no path.
    sets = sum(len(lane.path) or max(0, lane.tried - 1) for lane in tuning.lanes)
    pairs = min((lane.pairs for lane in tuning.lanes if lane.gain is not None), default=0)
    again = f" The winner then raced the lane as asked in {pairs} fresh rounds." if pairs else ""
    tried = f"{sets} set{'s' * (sets != 1)} of settings {'was' if sets == 1 else 'were'} raced.{again}"
    done = [tried, short_of_time, proof_sentence(winners), footnotes.closing(record)]
    done += footnotes.spent_words(record, "search")
    return PageParts(
        answer=[*footnotes.distrust(record), Said(f"{place_words(record)}: {tuning.says}")],
        figures=figures,
        notes=[
            *energy,
            *money_words(winners),
            *(note for lane in tuning.lanes for note in _notes_by_name(lane, record, len(tuning.lanes) > 1)),
            *footnotes.doubts(record),
        ],
        done=" ".join(filter(None, done)),
        then=then,
        details=_details(record, tuning, view),
        glance=glance_of(record, tuning),
    )


def _of_winners(record: Record, tuning: Tuning) -> Record:
    """Return the record with the lanes as asked and their winners alone."""
    shown = {name for lane in tuning.lanes for name in (lane.asked, lane.winner)}
    return replace(record, lanes=tuple(lane for lane in record.lanes if lane.name in shown))


def tuning_of(record: Record) -> Tuning:
    """Return what was concluded: without that, a record is shown as a race."""
    assert isinstance(record.answer, TuneAnswer)
    assert record.answer.tuning is not None
    return record.answer.tuning


def _change_lines(tuned: TunedLane, record: Record, width: int) -> list[str]:
    """Return the diffs that make a winner of the user's own code, each below the command that makes it."""
    if tuned.standing != "confirmed":
        return []
    lines = []
    for change in tuned.changes:
        place = [code_change for lane in tuning_of(record).lanes for code_change in lane.changes].index(change)
        lines += ["", *wrap(footnotes.apply_words(record, change, place), width)]
        if isinstance(change.diff, Missing):
            lines += wrap(f"Its lines are not shown: {change.diff.missing}.", width)
        else:
            lines += [clean(line) for line in change.diff.splitlines() if not line.startswith("diff ")]
    return lines


def _table(shown: Sequence[SettingWorth], tuned: TunedLane, record: Record, view: View) -> list[str]:
    """Return a row for each of these settings: what it is worth alone, and whether it is taken."""
    if not shown:
        return []
    most = max((worth.alone.ratio for worth in shown if worth.alone is not None), default=1.0)
    wide = GAIN_BAR if view.width >= WIDE_PAGE else NARROW_GAIN_BAR

    def bars(worth: SettingWorth) -> str:
        return bar(None if worth.alone is None else worth.alone.ratio, most, wide, blocks=view.blocks)

    def between(worth: SettingWorth) -> str:
        ends = None if worth.alone is None else worth.alone.ends
        return "-" if ends is None else f"{times(ends[0])} and {times(ends[1])}"

    changes: list[Column[SettingWorth]] = [Column("changes", lambda worth: CHANGES_WORDS[worth.changes])]
    columns: list[Column[SettingWorth]] = [
        Column("setting", lambda worth: worth.word),
        Column("", bars, is_drawn=True),
        Column(
            f"alone {record.ask.aim.per}".rstrip(),
            lambda worth: "-" if worth.alone is None else times(worth.alone.ratio),
            right=True,
        ),
        Column("between", between),
        Column("taken", lambda worth: "yes" if _is_taken(worth, tuned) else "-"),
        *(changes if any(worth.changes for worth in shown) else []),
    ]
    return table_or_sentences(columns, shown, view.width, color=view.color)


def _is_taken(worth: SettingWorth, tuned: TunedLane) -> bool:
    """Whether a setting is in what fresh heats confirmed: the best of a search that they did not is nothing to take."""
    return worth.in_winner and tuned.standing == "confirmed"


def _notes_by_name(tuned: TunedLane, record: Record, several: bool) -> list[str]:  # noqa: FBT001
    """Return the notes on a lane, with what was not raced; each names the lane if there are several."""
    found = _notes(tuned, record)
    if tuned.standing not in {"no gain", "not compared"}:
        lost = [setting for setting in tuned.settings if setting.reason is not None and setting.in_winner]
        for reason in dict.fromkeys(worth.reason for worth in lost):
            words = tuple(worth.word for worth in lost if worth.reason == reason)
            verb = "was" if len(words) == 1 else "were"
            is_all = len(words) == len(tuned.words) > 1
            which = "No setting of it was" if is_all else f"{', '.join(words)} {verb} not"
            found.append(f"{which} raced alone: {reason}.")
    return [f"{short_name(tuned.asked)}: {note[0].lower()}{note[1:]}" for note in found] if several else found


def _notes(tuned: TunedLane, record: Record) -> list[str]:
    """Return what the winner changes, how to set it in your own training, and what is as good."""
    found = learned_notes(tuned, record)
    if tuned.standing == "not confirmed" and tuned.words:
        found.append("Its code is shown once fresh heats have confirmed it.")
    if tuned.standing != "confirmed":
        return found  # all of the code, or none
    found += [
        f"{setting.word} has no certain place in the code ({setting.reason}). Write: {setting.code}"
        for setting in tuned.unplaced
    ]
    if tuned.code and not (tuned.changes or tuned.unplaced):
        found.append(f"In a training of your own: {'; '.join(tuned.code)}")
    if tuned.environment:
        pairs = " ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(tuned.environment.items()))
        found.append(f"Set before it starts: {pairs}")
    if tuned.ties:
        found.append(f"As good, as far as can be told at a percent a setting: {', '.join(tuned.ties[:3])}.")
    return found


def _details(record: Record, tuning: Tuning, view: View) -> list[list[str]]:
    """Return all that was found, in sections."""
    width = view.width
    color = view.color
    sections: list[list[str]] = [header(record, width, color=color)]
    aim = record.ask.aim
    for lane in tuning.lanes:
        known = [one for one in lane.settings if one.alone is not None]
        gain = "no fresh heats" if lane.gain is None else f"{times(lane.gain.ratio)} in {lane.pairs} fresh rounds"
        seemed = "" if lane.seemed is None else f"; in the search it seemed {times(lane.seemed)}"
        standing = f"{lane.winner} is {lane.standing}: {gain}{seemed}."
        if lane.standing == "not compared":
            standing = f"nothing was compared: {lane.reason}."
        elif not lane.words:
            standing = f"as asked, it {aim.does} {aim.as_much} as all that was tried."
        sections += [
            wrap(f"{short_name(lane.asked)}: {standing}", width, "  "),
            _table(known, lane, record, view),
            learned_table(lane, view),
            _change_lines(lane, record, width),
            *(wrap(note, width, "    ") for note in _notes(lane, record)),
            *(wrap(f"- {one.word}: {one.reason}", width, "    ") for one in lane.settings if one.reason is not None),
        ]
    return [
        *sections,
        lane_table(record, width, color=color),
        usage_lines(record, width, color=color),
        footnotes.failures(record, width),
        *(wrap(remark, width, "  ") for remark in footnotes.remarks(record)),
        quiet(footnotes.starts(record, width), color=color),
    ]


# What the winner of a tuning changes besides the time: how far its proof was off, and what whole laps taught it.

NO_WINNER = "No lap was trained: no other settings are in the winner."
LEARNING_NOT_SEEN = "How well it then learns was not measured."


def learned_table(tuned: TunedLane, view: View) -> list[str]:
    """Return the loss and accuracy of the lane as asked and of its winner."""
    rows = tuned.learned
    known = [row for row in rows if not isinstance(row.loss, Missing) or not isinstance(row.accuracy, Missing)]
    if not known:
        return []
    columns: list[Column[Learned]] = [
        Column(f"learned in {laps_words(known[0].laps)}", lambda row: short_name(row.lane)),
        Column(f"{known[0].over} loss", lambda row: four_places(row.loss), right=True),
        Column(f"{known[0].over} accuracy", lambda row: four_places(row.accuracy), right=True),
    ]
    return table_or_sentences(columns, rows, view.width, color=view.color)


def laps_words(laps: int) -> str:
    return f"{laps:,} lap{'s' * (laps != 1)}"


def learned_notes(tuned: TunedLane, record: Record) -> list[str]:
    """Return what the winner changes, and why figures of its learning are missing."""
    differences = [
        finding_words(finding)
        for finding in record.findings
        if finding.rule == "learning" and finding.evidence["lane"] == tuned.winner
    ]
    return [*_changes(tuned, record), *_missing(tuned, record), *differences]


def changes_of(tuned: TunedLane) -> list[str]:
    """Return the settings of the winner that change the arithmetic or the learning."""
    return [setting.word for setting in tuned.settings if setting.in_winner and setting.changes]


def _changes(tuned: TunedLane, record: Record) -> list[str]:
    """Return what each kind of change does, as far as the proof shows it."""
    notes = []
    parity = next((lane.parity for lane in record.lanes if lane.name == tuned.winner), None)
    exact = [setting.word for setting in tuned.settings if setting.in_winner and setting.changes == "arithmetic"]
    if exact and parity is not None and parity.worst is not None:
        # How far the losses of the proof were off, and what is allowed
        off = f"in the proof's {parity.steps} step{'s' * (parity.steps != 1)} its loss is off by"
        distance = _distance(parity.worst, parity.tolerance)
        if parity.strays is None:
            off += f" up to {distance}"
        else:
            coarse = _distance(parity.strays, parity.strays_tolerance)
            off += f" up to {coarse} in {parity.strays_precision}, and by {distance} in fp32"
        notes.append(f"{joined(exact)} {_verb(exact)} the arithmetic: {off}.")
    others = [setting.word for setting in tuned.settings if setting.in_winner and setting.changes == "learning"]
    if others:
        unseen = "" if tuned.learned else f" {LEARNING_NOT_SEEN}"
        notes.append(f"{joined(others)} {_verb(others)} the learning.{unseen}")
    return notes


def _verb(words: Sequence[str]) -> str:
    return "changes" if len(words) == 1 else "change"


def _distance(off: float | None, allowed: float | None) -> str:
    return f"{tiny(off or 0.0)}{'' if allowed is None else f' (allowed {tiny(allowed)})'}"


def _missing(tuned: TunedLane, record: Record) -> list[str]:
    """Return why a lane has no loss or accuracy, each reason once."""
    if record.ask.tune is None or record.ask.tune.laps is None:
        return []
    if not tuned.learned:
        return [NO_WINNER]
    lanes_by_lack: dict[tuple[str, str], list[str]] = {}
    for learned in tuned.learned:
        figures = [("loss", learned.loss), ("accuracy", learned.accuracy)]
        if learned.loss == learned.accuracy and isinstance(learned.loss, Missing):
            figures = [("loss and accuracy", learned.loss)]
        for name, value in figures:
            if isinstance(value, Missing):
                lanes_by_lack.setdefault((name, value.missing), []).append(short_name(learned.lane))
    return [f"No {lacks} of {joined(lanes)}: {why}." for (lacks, why), lanes in lanes_by_lack.items()]


def next_command(tuned: TunedLane, record: Record) -> str:
    """Return the command to type next: what the winner learns, if that was not seen, else a race of the two."""
    lanes = [short_name(tuned.asked), tuned.winner]
    if record.workload.command:
        behind = ["--", *record.ask.command] if record.ask.command else []
        return f"Next: {as_command(['laptime', 'race', *filter(None, [record.ask.what]), *lanes, *behind])}"
    if changes_of(tuned) and not tuned.learned:
        return f"Next: {as_command(['laptime', 'train', record.ask.what, *lanes])} --laps 1"
    return f"Next: {as_command(['laptime', 'race', record.workload.name, *lanes])}"


# The figures of a tuning: the search in its order, what each setting alone is worth, the lane as asked and its winner.


def figures(record: Record) -> list[Figure]:
    """Return all figures of a tuning."""
    tuning = tuning_of(record)
    # The lines that make each winner in the files of the user's own code
    lines = []
    for lane in tuning.lanes:
        for change in lane.changes if lane.standing == "confirmed" else ():
            diff = () if isinstance(change.diff, Missing) else change.diff.splitlines()
            changed = tuple((line,) for line in diff if line[:1] in {"+", "-"} and line[:3] not in {"+++", "---"})
            if changed:
                says = f"They do in {change.file} what {'+'.join(lane.words)} does on {short_name(lane.asked)}."
                table = Table((f"`from line {change.line} on",), changed)
                lines.append(Figure(f"The lines of {change.file}", table, says))
    return [
        *lines,
        *(figure for lane in tuning.lanes for figure in (*_search_path(lane, record), *_worths(lane, record))),
        *lane_bars(_of_winners(record, tuning)),
        *folded(*proof_figures(record), *reading_figures(record), *fact_figures(record)),
    ]


def _worths(tuned: TunedLane, record: Record) -> list[Figure]:
    """Return what single settings are worth, around 1; those that could not be tried are folded."""
    aim = record.ask.aim
    lane = short_name(tuned.asked)
    rows = []
    bars = []
    for setting in tuned.settings:
        if setting.alone is None or setting.alone.ratio <= 0:
            bars.append(Bar(setting.word, None, words=setting.reason or "", kind="failed"))
            continue
        low, high = setting.alone.drawn_ends
        taken = " (taken)" * _is_taken(setting, tuned)
        rows.append(
            ShownFactor(setting.word + taken, setting.alone.ratio, low, high, words=_bounded_words(setting.alone))
        )
    rows.sort(key=lambda row: -row.value)
    says = f"{lane} with one setting alone: how many times {aim.as_much} it {aim.does}, with 95 % intervals."
    title = f"What each setting is worth on {lane}"
    found = [Figure(title, Factors(lane, tuple(rows)), says, more=bool(tuned.path))] if rows else []
    return [*found, *([Figure(f"Not tried on {lane}", Bars("times", tuple(bars)), more=True)] if bars else [])]


def _search_path(tuned: TunedLane, record: Record) -> list[Figure]:
    """Return the sets of settings in the order of the search, and last what fresh heats say of the winner."""
    aim = record.ask.aim
    lane = short_name(tuned.asked)
    rated = [(number, tried, tried.factor) for number, tried in enumerate(tuned.path, 1) if tried.factor is not None]
    shown = [(number, tried, found) for number, tried, found in rated if found.ratio > 0]
    room = max(PATH_MOST - sum(tried.kept for _, tried, _ in shown), 0)
    left = [number for number, tried, _ in shown if not tried.kept][room:]
    rows = []
    for number, tried, found in shown:
        if number in left:
            continue
        low, high = found.drawn_ends
        words = f"{_bounded_words(found)}, {'kept' if tried.kept else 'not kept'}"
        kind: FactorKind = "kept" if tried.kept else "left"
        rows.append(ShownFactor(f"{number}. {'+'.join(tried.words)}", found.ratio, low, high, words=words, kind=kind))
    if not rows:
        return []
    says = f"Each set of settings as it was tried: how many times {aim.as_much} as {lane} it {aim.does}, at 95 %."
    says += " From a set that was kept, the search went on."
    says += f" {len(left)} that were not kept are not drawn." if left else ""
    if tuned.gain is not None:
        low, high = tuned.gain.drawn_ends
        words = f"{_bounded_words(tuned.gain)}, {tuned.standing}"
        name = f"again: {'+'.join(tuned.words)}"
        rows.append(ShownFactor(name, tuned.gain.ratio, low, high, words=words, kind="confirmed"))
        says += " The last row is the winner again, on fresh heats."
    return [Figure(f"The search on {lane}, in its order", Factors(lane, tuple(rows)), says)]


def _bounded_words(found: Factor) -> str:
    return f"{times(found.ratio)} ({_ends_words(found)})" if found.ends is not None else times(found.ratio)


def _ends_words(found: Factor) -> str:
    return "-".join(factor(end, found.ratio) for end in found.ends or ())


def glance_of(record: Record, tuning: Tuning) -> Glance | None:
    """Return the gain of the first lane's winner, as fresh heats confirmed it."""
    tuned = tuning.lanes[0]
    gain = tuned.gain
    if gain is None:
        return None
    facts = [
        GlanceFact(" ".join(tuned.words) or "as it was", f"{tuned.standing}; {tuned.tried} sets of settings tried")
    ]
    facts += [GlanceFact("Code", code, is_command=True) for code in tuned.code[:2]]
    facts += [GlanceFact(f"{tuned.pairs} fresh pairs", duration(record.elapsed_s))]
    return Glance(times(gain.ratio), f"{_ends_words(gain)} at 95 %" if gain.ends else "", tuning.says, tuple(facts))


def summary(record: Record) -> list[str]:
    answer = record.answer
    if not isinstance(answer, TuneAnswer) or answer.tuning is None:
        return summary_of_race(record)
    gains = [lane for lane in answer.tuning.lanes if lane.standing == "confirmed" and lane.gain is not None]
    per = f" {record.ask.aim.per}".rstrip()
    words = [
        f"{short_name(gain.asked)} {gain.gain.ratio:.2f}x{per} with {'+'.join(gain.words)}"
        for gain in gains
        if gain.gain
    ]
    return [*(words or ["no settings gain"]), *lanes_failed(record)]


PART = QuestionPage(page_parts, summary, live_lanes, figures)
