"""Causes in the code of a script: what it does next to its training, and what the rules of `laptime watch` find.

A line that can be left out has an experiment: the script without it. What a line makes that is read is made twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import fsum

from laptime.analysis.diagnosis.lane_readings import first_script
from laptime.analysis.diagnosis.script_findings import script_findings
from laptime.attach.left_out import lines_changed
from laptime.model.machine import Machine
from laptime.model.quantities import Factor, Missing, count, percent
from laptime.model.record import Finding, LaneResult
from laptime.model.symptoms import CHECKPOINTS, TimedPlace
from laptime.model.watched import WatchAnswer
from laptime.questions.why import gains
from laptime.questions.why.facts import Signature, WhyFacts, judge, places_of
from laptime.questions.why.gains import Expect
from laptime.questions.why.nouns import WHAT_IT_DOES, Experiment, Remedy, Verdict
from laptime.questions.why.step_causes import TIMED_LINES, WORTH_SHARE

# Causes in the code of a script, next to its training: evaluation, checkpoints, waits for the disk; with their lines.
#
# The script's own agent timed them within its steps, so each has a gain without an experiment: it is what would be
# left.

LINES_NAMED = 3
NAMED_SHARE = 0.2  # of the time of the line that takes longest


def is_script(facts: WhyFacts) -> bool:
    """Whether the lane is a script whose lines were timed."""
    return facts.symptoms is not None and places_of(facts.symptoms) is not None


def timed_places(cause: str) -> Callable[[WhyFacts], Verdict]:
    """Return the rule for what the script does next to its training."""

    def judge(facts: WhyFacts) -> Verdict:
        symptoms = facts.symptoms
        known = None if symptoms is None else places_of(symptoms)
        if symptoms is None or known is None:
            return Verdict(cause, "not tested", "the lines of this script were not timed")
        places, wall_ns = known
        mine = [place for place in places if place.what == cause]
        share = fsum(place.ns for place in mine) / wall_ns
        says = f"{cause} {_takes(cause)} {percent(share)} of the steps"
        if not mine:
            return Verdict(cause, "ruled out", f"{says}: none was seen within them", {TIMED_LINES: share})
        says += f": {', '.join(_line(place, symptoms.steps) for place in mine[:LINES_NAMED])}"
        most = [place.where for place in mine if place.where and place.ns >= NAMED_SHARE * mine[0].ns]
        evidence = {TIMED_LINES: share, "where": most, "steps": symptoms.steps}
        if share < WORTH_SHARE:
            return Verdict(cause, "ruled out", says, evidence)
        return Verdict(cause, "likely", says, evidence, gain=1 / max(1 - share, gains.LEAST_LEFT))

    return judge


def name_places(verdict: Verdict) -> str:
    """Name what takes the time, and the lines that do it."""
    where = verdict.evidence.get("where", [])[:LINES_NAMED]
    at = f" at {' and '.join(where)}" if where else ""
    return f"{verdict.cause}{at} {_takes(verdict.cause)} {percent(verdict.evidence[TIMED_LINES])} of its steps"


def _takes(cause: str) -> str:
    return "take" if cause == CHECKPOINTS else "takes"


def _line(place: TimedPlace, steps: int) -> str:
    where = place.where or "a line of a library"
    often = place.times / steps if steps else 0.0
    if often >= 1:
        return f"{where} ({count(often)} times a step)"
    return f"{where} (every {count(1 / often)} steps)" if often else where


# What the rules of `laptime watch` find in the iterations of a heat whose lines were timed.

OWN_CODE = "own code"
WITHOUT, TWICE, DONE_SELDOM = "without=", "twice=", "seldom="
BETWEEN_ITERATIONS = "script between iterations"  # the rule whose remedy is to do it in fewer turns
LANE_PLACE = re.compile(r"[\w.-]+:[1-9][0-9]{0,5}")  # what a lane can name
AT_NO_LINE = "FILE:1"  # until a line is known
A_LINE_TWICE, A_LINE_SELDOM = "a line twice", "a line seldom"
OF_LINES = ("without a line", "without another line", A_LINE_TWICE, A_LINE_SELDOM)  # experiments
LINE_WORDS = {
    "without a line": WITHOUT,
    "without another line": WITHOUT,
    A_LINE_TWICE: TWICE,
    A_LINE_SELDOM: DONE_SELDOM,
}
DONE = {
    WITHOUT: ("leave out {}", "without {}"),
    TWICE: ("do without {}", "without {}, by what a second time of it takes,"),
    DONE_SELDOM: (
        "do {} in every tenth turn only",
        "with {} in every tenth turn only, and with the time between iterations,",
    ),
}
NO_LINE = Missing("no line that takes much of a step is known that can be left out")
NOT_LEFT_OUT = "no experiment takes it out"
# What other causes judge, each with experiments of its own; and what takes no time of its own.
JUDGED_ELSEWHERE = frozenset(
    {"script waits for data", "script on one thread", "script has too many threads", "script small batches"}
    | {
        "script gives memory back",
        "script in float64",
        "script on processor",
        "script memory grows",
        "script straggler",
    }
)
KEPT_WORKERS = "kept workers"
BY_SETTING = {"script optimizer": "fused", "script restarts workers": KEPT_WORKERS}  # experiments that are settings


def find_watched(lane: LaneResult, machine: Machine) -> tuple[Finding, ...]:
    """Return what the rules find in the heat of a script whose steps were looked at; what gains most is first."""
    script = first_script(lane)
    answer = WatchAnswer((), None, 0.0, () if script is None else (script,), usage=lane.usage)
    return tuple(finding for finding in script_findings(answer, machine, is_quiet=True) if finding.gain is not None)


def with_lines(
    experiments: Sequence[Experiment], watched: Sequence[Finding], source_of: Callable[[str], bytes | None]
) -> tuple[Experiment, ...]:
    """Return the experiments with the lines that they leave out, or run twice, as far as such are known."""
    named: dict[str, Experiment] = {}
    rows = {experiment.name: experiment for experiment in experiments if experiment.name in OF_LINES}
    for finding in watched:
        if finding.rule == "script in float64":
            continue  # without its line, other weights are drawn, whose losses differ
        file, _, line = (_place_of(finding) or "").rpartition(":")
        place = f"{file.rpartition('/')[2]}:{line}"
        source = source_of(file) if LANE_PLACE.fullmatch(place) else None  # a script says where, and may say anything
        tried = {setting for experiment in named.values() for setting in experiment.settings}
        if source is None or any(word + place in tried for word in DONE):
            continue
        for word in (WITHOUT, DONE_SELDOM if finding.rule == BETWEEN_ITERATIONS else TWICE):
            lines = lines_changed(source, int(line), word.rstrip("="))
            name = next((name for name in rows if name not in named and LINE_WORDS[name] == word), None)
            if lines is not None and (word == WITHOUT or finding.rule not in JUDGED_ELSEWHERE):
                named |= {name: _of_lines(rows[name], finding, f"{word}{place}", lines)} if name is not None else {}
                break
    return tuple(
        named.get(experiment.name, replace(experiment, absent=NO_LINE)) if experiment.name in rows else experiment
        for experiment in experiments
    )


def is_between(experiment: Experiment, watched: Sequence[Finding]) -> bool:
    """Whether what an experiment changes is between the iterations of a script, and so in no window."""
    places = [_place_of(finding) or "" for finding in watched if finding.rule == BETWEEN_ITERATIONS]
    names = {f"{word}{place.rpartition('/')[2]}" for place in places for word in (WITHOUT, DONE_SELDOM)}
    return experiment.name == KEPT_WORKERS or not names.isdisjoint(experiment.settings)


def _place_of(finding: Finding) -> str | None:
    """Return the line that an experiment changes: of an evaluation, that of the training loop which leads to it."""
    if finding.rule == BETWEEN_ITERATIONS and finding.change is not None:
        return f"{finding.change.file}:{finding.change.line}"
    return finding.where


def _of_lines(row: Experiment, finding: Finding, word: str, lines: tuple[int, int]) -> Experiment:
    file = (_place_of(finding) or "").rpartition(":")[0]
    first, last = lines
    where = f"{file}:{first}" if first == last or word.startswith(DONE_SELDOM) else f"{file}:{first}-{last}"
    says, did = (text.format(where) for text in DONE[next(start for start in DONE if word.startswith(start))])
    return replace(
        row,
        settings=(word,),
        says=says,
        did=did,
        code=finding.advice,
        is_code=True,
        change=finding.change,
        unchanged=finding.unchanged,
        absent=None,
    )


def without_it(twice: Factor) -> Factor:
    """Return the factor without a line, by that of a script in which it makes all twice."""
    low, high = (end if isinstance(end, Missing) else _once_less(end) for end in (twice.high, twice.low))
    return Factor(_once_less(twice.ratio), low, high)


def _once_less(ratio: float) -> float:
    return 1 / max(2 - 1 / ratio, gains.LEAST_LEFT)


def as_watched(rule: str, otherwise: Expect) -> Expect:
    """Expect of a script what a rule of `laptime watch` says, if it found something."""

    def expect(facts: WhyFacts) -> float:
        if facts.watched is None:
            return otherwise(facts)
        return max(
            (finding.gain.likely for finding in facts.watched if finding.rule == rule and finding.gain), default=0.0
        )

    return expect


def of_line(name: str) -> Expect:
    """Expect what the finding says whose line an experiment leaves out."""

    def expect(facts: WhyFacts) -> float:
        found = [finding for finding in facts.watched or () if _experiment_of(finding, facts) == name]
        return max((finding.gain.likely for finding in found if finding.gain), default=0.0)

    return expect


def predict_line(facts: WhyFacts, experiment: Experiment) -> float | Missing:
    """Return what the finding says whose line an experiment leaves out."""
    gain = of_line(experiment.name)(facts)
    return gain or NO_LINE


def own_code(facts: WhyFacts) -> Verdict:
    """Judge what the script's own lines do: what was proven, else what gains most by what was timed."""
    found = [finding for finding in facts.watched or () if finding.rule not in JUDGED_ELSEWHERE]
    if not found:
        return Verdict(OWN_CODE, "ruled out", "none of its lines takes much of a step besides its training")
    tried = [(finding, name) for finding in found if (name := _experiment_of(finding, facts)) is not None]
    moved = [
        (factor.ratio, finding, name)
        for finding, name in tried
        if facts.moved(name) and (factor := facts.factor(name)) is not None
    ]
    _, finding, name = max(moved, key=lambda row: row[0], default=(0.0, found[0], None))
    name = name or next((other for of, other in tried if of is finding), None)
    evidence = {
        TIMED_LINES: finding.evidence.get("share"),
        "rule": finding.rule,
        "says": finding.says,
        "where": [finding.where] if finding.where else [],
    }
    gain = Missing("not measured") if finding.gain is None else finding.gain.likely
    sign = Signature(is_there=True, says=finding.says.rstrip("."), evidence=evidence, gain=gain)
    return judge(facts, OWN_CODE, sign, [] if name is None else [name])


def untested_advice(facts: WhyFacts) -> list[Remedy]:
    """Return what the findings advise that no experiment takes out."""
    found = [finding for finding in facts.watched or () if finding.rule not in JUDGED_ELSEWHERE]
    return [
        Remedy(
            cause=OWN_CODE,
            says=f"change {finding.where}" if finding.where else "change its code",
            predicted=NO_LINE if finding.gain is None else finding.gain.likely,
            measured=None,
            changes=WHAT_IT_DOES,
            code=finding.advice,
            reason=NOT_LEFT_OUT,
            change=finding.change,
            unchanged=finding.unchanged,
        )
        for finding in found
        if _experiment_of(finding, facts) is None
    ]


def name_own_code(verdict: Verdict) -> str:
    says: str = verdict.evidence["says"].rstrip(".")
    if verdict.evidence["where"] and says.startswith(verdict.evidence["where"][0]):
        return says
    first = says.partition(" ")[0]
    return says[:1].lower() + says[1:] if first[1:].islower() or len(first) == 1 else says  # and not PyTorch


def _experiment_of(finding: Finding, facts: WhyFacts) -> str | None:
    """Return the name of the experiment that takes out what a finding is about."""
    if finding.rule in BY_SETTING:
        return BY_SETTING[finding.rule]
    place = (_place_of(finding) or "").rpartition("/")[2]
    named = [
        name
        for name, word in LINE_WORDS.items()
        if name in facts.trials and f"{word}{place}" in facts.trials[name].experiment.settings
    ]
    return named[0] if named else None
