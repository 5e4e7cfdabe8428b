"""The sentences below a table: what did not finish, what was disturbed, what is not settled yet."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import floor

from laptime.model.process import NODE_IS_GONE, REACHES, Dnf, ProcessRun
from laptime.model.quantities import Missing, percent, size
from laptime.model.record import NOT_RELIABLE, CodeChange, Finding, HeatResult, LaneResult, Record
from laptime.model.rows import GONE
from laptime.questions.doctor.nouns import CARD_NOT_SEEN
from laptime.show.pages.layout import clean, flow, wrap
from laptime.show.pages.page import Said
from laptime.show.pages.words import (
    about,
    duration,
    factor,
    joined,
    over,
    short_name,
    short_names,
    spread,
    whole_minutes,
)

WORTH_A_FOOTNOTE = 1.03
OVER_BUDGET = 1.2
LARGE_SPREAD = 2.0
STDERR_LINES = 5
STDERR_ROWS_A_LINE = 3
FIGURE_IN_TEXT = re.compile(r"\d+(?:\.\d+)?")


def distrust(record: Record) -> list[Said]:
    """Return why the figures cannot be relied on, for the top of the page."""
    found = [finding_words(finding) for finding in record.findings if finding.rule == NOT_RELIABLE]
    if not found and record.distrust:
        found = [f"{short_names(record.distrust)}."]
    return [Said(f"NOT RELIABLE: {why}", "bad") for why in found]


def finding_words(finding: Finding) -> str:
    """Return what a finding says, and what to do."""
    return short_names(f"{finding.says} {finding.advice}".rstrip())


def apply_words(record: Record, change: CodeChange, place: int, *, is_tested: bool = True) -> str:
    """Return where a remedy changes the user's code, and the command for it. `place` is that among all changes.

    One that was not tested has to be chosen by its number.
    """
    number = f" --remedy {place + 1}" if place or not is_tested else ""
    return f"{clean(change.file)}:{change.line}: laptime apply {record.id}{number}"


def failure_sentences(record: Record) -> list[str]:
    """Report in a sentence a lane how its last unfinished heat ended, with the last words of its process."""
    sentences = []
    for lane in record.lanes:
        ended = [result.heat.process.dnf for result in lane.heats if result.heat.process.dnf is not None]
        if ended and lane.status == "dnf":
            last = [line.strip() for line in ended[-1].stderr_tail.splitlines() if clean(line).strip()][-1:]
            words = f": {last[0]}" if last and last[0] not in ended[-1].reason else ""
            sentences.append(f"{short_name(lane.name)} did not finish, {_end_words(ended[-1])}{words}")
        elif ended:
            why = f": {NODE_IS_GONE}" if all(dnf.lost_its_node for dnf in ended) else ""
            sentences.append(f"{short_name(lane.name)}: {len(ended)} of {len(lane.heats)} heats did not finish{why}.")
        elif lane.status == "dnf" and lane.reason:
            sentences.append(f"{short_name(lane.name)} did not finish: {lane.reason}")
    return sentences


def doubts(record: Record) -> list[str]:
    """Return what limits how far the figures can be trusted, and what was proven about them."""
    proven = [finding_words(finding) for finding in _judged(record) if finding.sure == "proven"]
    # Report factors of lanes that timed other steps, where the number of a step matters
    lanes = {lane.name: lane for lane in record.lanes}
    other_steps = [
        f"{short_name(comparison.lane)} timed steps {_steps_words(lanes[comparison.lane])} and "
        f"{short_name(comparison.reference)} steps {_steps_words(lanes[comparison.reference])}, and their steps change "
        "with the number: the factor is of these steps."
        for comparison in record.answer.comparisons
        if comparison.steps == "other" and comparison.lane in lanes and comparison.reference in lanes
    ]
    sentences = [
        *record.answer.alone,
        *other_steps,
        _nodes(record),
        _no_lap(record),
        _disturbance(record),
        *proven,
    ]
    return [sentence for sentence in sentences if sentence]


def reaches(processes: Iterable[ProcessRun]) -> list[str]:
    """Say from what the system could not keep processes that were in a sandbox."""
    found = {reach for process in processes for reach in process.reaches or ()}
    words = [reach for reach in REACHES if reach in found]
    return [f"This system cannot keep a candidate from {joined(words)} (docs/limits.md)."] if words else []


def _steps_words(lane: LaneResult) -> str:
    counted = [result.heat.windows[place] for result in _finished(lane) for place in result.counted or ()]
    known = [
        (window.first_step, window.first_step + window.steps - 1) for window in counted if window.first_step is not None
    ]
    return f"{min(first for first, _ in known):,} to {max(last for _, last in known):,}" if known else "-"


def forecast_sentence(record: Record) -> list[str]:
    """Return how long the whole training would take on each lane."""
    wholes = [(short_name(lane.name), lane.whole) for lane in record.lanes if lane.whole is not None]
    if not wholes:
        return []
    laps = wholes[0][1].laps
    parts = joined([f"{duration(whole.whole_s.median)} on {name}" for name, whole in wholes])
    return [f"A whole training ({laps:,} lap{'s' * (laps != 1)}) would take {parts}."]


def failures(record: Record, width: int) -> list[str]:
    """Report where and why the last unfinished heat of each lane ended."""
    lines: list[str] = []
    for lane in record.lanes:
        of_lane = heat_failures(lane.name, [result.heat.process.dnf for result in lane.heats], width)
        if not of_lane and lane.status == "dnf" and lane.reason:
            of_lane = wrap(f"{short_name(lane.name)} did not finish: {lane.reason}", width, "  ")
        lines += of_lane
    return lines


def heat_failures(lane: str, dnfs: Sequence[Dnf | None], width: int) -> list[str]:
    """Report how many of a lane's heats did not finish, and how the last of these ended."""
    ended = [dnf for dnf in dnfs if dnf is not None]
    if not ended:
        return []
    heats = "" if len(ended) == len(dnfs) else f": {len(ended)} of {len(dnfs)} heats"
    return end_lines(f"{short_name(lane)}{heats}", ended[-1], width)


def end_lines(who: str, dnf: Dnf, width: int, more: str = "") -> list[str]:
    """Report where and why a process ended, and what it printed last."""
    lines = wrap(f"{who} did not finish, {_end_words(dnf)}{more}", width, "  ")
    printed = [line.rstrip() for line in dnf.stderr_tail.splitlines() if clean(line).strip()]
    for line in printed[-STDERR_LINES:]:
        broken = wrap(f"  | {clean(line).strip()}", width, "  |   ")
        lines += broken[:STDERR_ROWS_A_LINE]
        lines += ["  |   (and more)"] if len(broken) > STDERR_ROWS_A_LINE else []
    return lines


def remarks(record: Record) -> list[str]:
    """Return what a reader must know before trusting the figures."""
    # The heats that were not flat, by lane and class
    unsteady = []
    for lane in record.lanes:
        classes = Counter(heat.steady for heat in _finished(lane) if heat.steady)
        odd = [
            f"{kind} in {count} of {classes.total()} heats" for kind, count in sorted(classes.items()) if kind != "flat"
        ]
        if odd:
            unsteady.append(f"{short_name(lane.name)}: {', '.join(odd)}")
    # How much slower steps are until every item was decoded once
    wholes = [(lane, lane.whole.fresh_factor) for lane in record.lanes if lane.whole is not None]
    slower = [f"{short_name(lane.name)} {factor(times)} times" for lane, times in wholes if times > WORTH_A_FOOTNOTE]
    decoded = f"Until every one of the {record.workload.items} was decoded once, a step takes longer"
    sentences = [
        *record.answer.alone,
        _nodes(record),
        _no_lap(record),
        f"{'; '.join(unsteady)}." if unsteady else "",
        _disturbance(record),
        f"{decoded}: {', '.join(slower)}." if slower else "",
        *notes(record),
    ]
    sentences += [f"{finding.sure}: {finding_words(finding)}" for finding in _judged(record)]
    return [sentence for sentence in sentences if sentence]


def _nodes(record: Record) -> str:
    """Return on which nodes of a cluster the heats of each lane ran, if there was more than one."""
    if any(lane.where is not None for lane in record.lanes):  # its name says where
        return ""
    ran = {
        short_name(lane.name): sorted({result.heat.process.node or "" for result in lane.heats})
        for lane in record.lanes
    }
    if len({node for nodes in ran.values() for node in nodes}) < 2:
        return ""
    where = joined([f"{lane} on {' and '.join(filter(None, nodes))}" for lane, nodes in ran.items() if any(nodes)])
    return f"The heats ran on several nodes, which may differ: {where}."


def _judged(record: Record) -> list[Finding]:
    """Return the findings that are not shown above the table."""
    return [finding for finding in record.findings if finding.rule not in {CARD_NOT_SEEN, NOT_RELIABLE}]


def starts(record: Record, width: int) -> list[str]:
    """Return each lane's first step and start-up, which are not part of any lap."""
    lanes = [lane for lane in record.lanes if lane.first_step_ms is not None or lane.startup_s is not None]
    parts = [f"{short_name(lane.name)} {_about(lane.first_step_ms, 1e3)} + {_about(lane.startup_s)}" for lane in lanes]
    return flow(parts, width, "first step + start-up: ") if parts else []


def origins(record: Record, width: int) -> list[str]:
    """Return how the heats were started, and which of them were proven, where these differ from heat to heat."""
    heats = [heat for lane in record.lanes for heat in lane.heats]
    forked = [result.heat.process.template for result in heats if result.heat.process.template is not None]
    repeat = sum(
        bool(result.heat.first_losses) and not result.heat.proofs and result.heat.seed is None for result in heats
    )
    replays = sum(len(result.heat.replays) for result in heats)
    parts = []
    if forked:
        parts.append(f"{len(forked)} of {len(heats)} forked from {len(set(forked))} processes that only imported")
    if repeat:
        parts.append(f"{repeat} not proven again: their first losses are those of a proven heat")
    if replays:
        parts.append(f"{replays} timed turns taken again by the code of the first lane, from where they began")
    return flow(parts, width, "heats: ") if parts else []


def forecasts(record: Record, width: int) -> list[str]:
    """Return how long the whole training would take on each lane, and what is included."""
    wholes = [(short_name(lane.name), lane.whole) for lane in record.lanes if lane.whole is not None]
    if not wholes:
        return []
    _, any_ = wholes[0]
    looks = [word for word, seconds in (("validation", any_.validation_s), ("test", any_.test_s)) if seconds]
    held = f" with {' and '.join(looks)}" if looks else ""
    parts = [f"{name} {duration(whole.whole_s.median)} {spread(whole.whole_s)}".rstrip() for name, whole in wholes]
    return flow(parts, width, f"forecast of all {any_.laps:,} lap{'s' * (any_.laps != 1)}{held}: ")


def closing(record: Record) -> str:
    """Return how many heats there were, how long they took, and what is not settled."""
    return " ".join(part for part in [_extent(record), _unsettled(record)] if part)


def _end_words(dnf: Dnf) -> str:
    """Return phase, reason, signal or exit code, and peak memory of the end."""
    parts = [f"in {dnf.phase}: {dnf.reason}"]
    if dnf.signal and dnf.signal not in dnf.reason:
        parts.append(dnf.signal)
    if dnf.exit_code is not None and not dnf.signal:
        parts.append(f"exit code {dnf.exit_code}")
    if not isinstance(dnf.peak_memory_bytes, Missing):
        parts.append(f"peak memory {size(dnf.peak_memory_bytes)}")
    return ", ".join(parts)


def _no_lap(record: Record) -> str:
    """Return why lanes have no lap, in one sentence for all of them."""
    lacking = [lane for lane in record.lanes if lane.step_ms is not None and lane.lap_s is None]
    reasons = [f"{short_name(lane.name)}: {lane.absent['lap'].missing}" for lane in lacking if "lap" in lane.absent]
    if reasons:
        return f"No lap of {'; '.join(reasons)}."
    return "No lap: the training does not say how many steps make one." if lacking else ""


def _disturbance(record: Record) -> str:
    """Count the disturbed windows, name the worst of each kind, and count the rounds that they make worth little."""
    results = [result for lane in record.lanes for result in lane.heats]
    windows = disturbed([window.flag for result in results for window in result.heat.windows])
    rounds = {result.heat.round for result in results}
    few = {result.heat.round for result in results if result.hardly_counts}
    if not windows or not few:
        return windows
    weighed = "was disturbed and hardly counts" if len(few) == 1 else "were disturbed and hardly count"
    return f"{windows} {len(few)} of {len(rounds)} rounds {weighed}."


def disturbed(flags: Sequence[str | None]) -> str:
    """Count the windows that have a flag, and name the worst of each kind. Return "" if there is none."""
    kinds: dict[str, list[str]] = {}
    for flag in filter(None, flags):
        kinds.setdefault(FIGURE_IN_TEXT.sub("", flag), []).append(flag)
    if not kinds:
        return ""
    count = sum(map(len, kinds.values()))
    worst = ", ".join(max(kind, key=_first_figure) for kind in kinds.values())
    windows = "window" if len(flags) == 1 else "windows"
    return f"{count} of {len(flags)} {windows} {'was' if count == 1 else 'were'} disturbed, at worst: {worst}."


def _first_figure(flag: str) -> float:
    found = FIGURE_IN_TEXT.search(flag)
    return float(found.group()) if found else 0.0


def notes(record: Record) -> list[str]:
    """Return each note once, with all its lanes."""
    about: dict[str, list[str]] = {}
    for lane in record.lanes:
        for note in dict.fromkeys(lane.notes):
            about.setdefault(note, []).append(short_name(lane.name))
    return [f"{', '.join(names)}: {note}" for note, names in about.items()]


def _about(value: float | None, per_second: float = 1) -> str:
    return "-" if value is None else about(value / per_second)


def _finished(lane: LaneResult) -> list[HeatResult]:
    return [result for result in lane.heats if result.heat.process.status == "ok"]


def _extent(record: Record) -> str:
    """Return how many heats there are, with the status of a race that is not finished."""
    elapsed = duration(record.elapsed_s)
    if record.status == "finished":
        compared = record.answer.comparisons
        is_settled = bool(compared) and all(comparison.settled for comparison in compared)
        settled = f", settled within {percent(record.ask.margin)}" if is_settled else ""
        return f"{runs_words(record)}, {elapsed}{settled}."
    counts = [len(_finished(lane)) for lane in record.lanes if lane.status != "unusable"]
    planned = f" of {record.ask.heats * len(counts)}" if record.ask.heats else ""
    kept = f"{sum(counts)}{planned} heat{'s' * (bool(planned) or sum(counts) != 1)} kept, {elapsed}."
    return f"{status_words(record)}: {kept}"


def runs_words(record: Record) -> str:
    """Return what was run: `5 duets`, `3 heats each`, `12 duets in 2 parts`."""
    compared = record.answer.comparisons
    rounds = {comparison.pairs for comparison in compared if comparison.in_turns}
    if len(rounds) == 1 and all(comparison.in_turns for comparison in compared):
        (count,) = rounds
        plural = "s" * (count != 1)
        ran = f"{count} duet{plural}" if len(compared) == 1 else f"{count} round{plural} in turns"
    else:  # the lanes took no turns, or not all equally often
        counts = [len(_finished(lane)) for lane in record.lanes if lane.status == "ok"]
        fewest = min(counts, default=0)
        most = max(counts, default=0)
        heats = f"{most} heat{'s' * (most != 1)}"
        ran = f"{heats} each" if fewest == most else f"{fewest} to {heats} each"
        ran = ran if most else "No heat finished"
    return f"{ran} in {len(record.parts)} parts" if record.parts else ran


def spent_words(record: Record, noun: str) -> list[str]:
    """Say at which confidence the intervals are, where that is less than in one go."""
    says = f"The intervals hold at {sure_at(record.confidence)}, because they were seen before the {noun} went on."
    return [says] if record.error_times > 1 else []


def sure_at(confidence: float) -> str:
    """Return a confidence as intervals name it; never more than it is."""
    return f"{floor(1000 * confidence + 1e-6) / 10:g} %"


def status_words(record: Record) -> str:
    """Return the status of an unfinished record: how it ended, if it did."""
    if record.status == "ended":
        return f"ended: {GONE}"
    return "running, or ended" if record.status == "running" and record.writer is None else record.status


def over_budget(record: Record) -> str:
    """Return that even the least needed more than the budget, with a budget to try; empty where it did not."""
    took_s = record.elapsed_s - record.beyond_budget_s
    budget_s = record.ask.budget_s
    is_in_one_go = record.ask.heats is None and not record.parts
    if not is_in_one_go or record.status != "finished" or took_s <= OVER_BUDGET * budget_s:
        return ""
    least = f"one round of all lanes took {duration(took_s)}, more than the budget of {duration(budget_s)}"
    return f"{least}. Try --budget {whole_minutes(2 * took_s)}."


def _unsettled(record: Record) -> str:
    """Return which lanes vary by more than the margin, or else what ended the race before it was settled."""
    open_ = [comparison for comparison in record.answer.comparisons if not comparison.settled]
    if not open_:
        return ""
    margin = percent(record.ask.margin)
    if least := over_budget(record):
        return f"Not settled within {margin}: {least}"
    if all(comparison.in_turns and comparison.pairs > 1 for comparison in open_):
        parts = []
        for comparison in open_:
            if comparison.ratios:
                apart = max(comparison.ratios) / min(comparison.ratios)
                # Per cents of more than 100 are no figure of speech
                words = percent(apart - 1) if apart < LARGE_SPREAD else f"a factor of {factor(apart)}"
                parts.append(f"{short_name(comparison.lane)} by {words}")
        return f"Not settled within {margin}: the ratio varies from duet to duet, of {', '.join(parts)}."
    spreads = {}  # the difference between the fastest and the slowest heat, as a share of the median
    for lane in record.lanes:
        steps = sorted(heat.step_ms for heat in _finished(lane) if heat.step_ms is not None)
        spreads[lane.name] = over(steps[-1] - steps[0], steps[len(steps) // 2]) if len(steps) > 1 else 0.0
    concerned = {
        name: spreads.get(name, 0.0) for comparison in open_ for name in (comparison.lane, comparison.reference)
    }
    varying = [
        f"{short_name(name)} varies {percent(share)}" for name, share in concerned.items() if share > record.ask.margin
    ]
    if varying:
        return f"Not settled: {', '.join(varying)} from heat to heat."
    if record.ask.heats is not None:
        return f"Not settled within {margin}: too few heats."
    return f"Not settled within {margin}: the budget of {duration(record.ask.budget_s)} allowed too few heats."
