"""All that is known of a lane -> the answer: verdict, parts, ceilings, causes, remedies, and whether to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt

from laptime.analysis.diagnosis.lane_readings import others_cores
from laptime.model.quantities import Missing, percent, times
from laptime.questions.why.causes import freezes, judge_causes, predict, sum_up
from laptime.questions.why.experiments import PRESET
from laptime.questions.why.facts import WhyFacts, ceilings, split
from laptime.questions.why.nouns import LEARNING, NO_CHANGE, STEP_STAGES, WHAT_IT_DOES, Remedy, Trial, Verdict, Why
from laptime.questions.why.own_code import untested_advice

NEARLY_AS_GOOD = 0.9  # as good: a remedy that changes nothing is then preferred to one that takes memory
MEMORY_WORDS = ("memory", "RAM")
FROZEN = " (freezes items that are drawn again each time)"
WIDEST_SPREAD = 0.25  # half of an interval, and the spread between heats
SQRT_2 = sqrt(2)
PAIRS_LEAST = 2
OTHERS_FEW_CORES = 0.1  # that other processes took: they do not make a step a quarter longer


def explain(facts: WhyFacts, missing: tuple[str, ...] = (), *, is_whole: bool = True) -> Why:
    """Judge every cause. `missing` names the experiments worth their time for which there was none.

    Unless the question `is_whole`, it was interrupted, and no larger budget is what they need.
    """
    verdicts = judge_causes(facts)
    says, first = sum_up(facts, verdicts)
    distrust = find_distrust(facts)
    return Why(
        lane=facts.lane.name,
        says=f"{says}{_say_tried(facts, missing, is_whole=is_whole)}",
        first=first,
        parts=split(facts),
        ceilings=ceilings(facts),
        causes=verdicts,
        remedies=(*remedies(facts, facts.trials, verdicts), *untested_advice(facts)),
        missing=missing if is_whole else (),
        trusted=distrust is None,
        distrust=distrust,
    )


def _say_tried(facts: WhyFacts, missing: tuple[str, ...], *, is_whole: bool) -> str:
    """Return how many experiments were tried, where some were not, and why not."""
    if not missing:
        return ""
    # The trials that are no stage alone; several may share a lane
    experiments = [trial for name, trial in facts.trials.items() if name not in STEP_STAGES]
    tried = len({trial.lane for trial in experiments if trial.lane is not None})
    whole = tried + len(missing)
    if not tried:
        return f" None of {whole} experiments was tried: {'there was no time' if is_whole else 'it was interrupted'}."
    why_not = "there was no time for the others" if is_whole else "it was interrupted"
    return f" {tried} of {whole} experiments were tried: {why_not}."


def remedies(facts: WhyFacts, trials: Mapping[str, Trial], verdicts: Sequence[Verdict]) -> tuple[Remedy, ...]:
    """Return a row for each remedy that the lane can have: measured ones by their gain, others by their prediction.

    The best of those that change nothing or only take memory is recommended, or a line to be left out that gains more.
    One that changes nothing is preferred if it gains nearly as much. None is recommended whose cause is ruled out: what
    seemed to gain was noise. What keeps items that the data set draws again each time changes the learning, and is
    last.
    """
    possible = [trial for trial in trials.values() if trial.experiment.is_remedy and trial.experiment.absent is None]
    drawn = [trial for trial in possible if freezes(facts, trial.experiment)]
    kept = [_row(facts, trial) for trial in possible if trial not in drawn]
    frozen = [replace(row, says=row.says + FROZEN, changes=LEARNING) for row in (_row(facts, trial) for trial in drawn)]
    rows = [*sorted(kept, key=_place), *sorted(frozen, key=_place)]
    ruled_out = {verdict.cause for verdict in verdicts if verdict.standing == "ruled out"}
    least = 1 + facts.margin
    gaining = []
    for row in rows:
        if row.measured is None or row.measured.ratio <= least or row.cause in ruled_out:
            continue
        # A single pair has no interval: its figure counts if a gain was predicted
        is_predicted = not isinstance(row.predicted, Missing) and row.predicted > least
        if is_predicted if row.measured.ends is None else row.measured.is_above(1):
            gaining.append(row)
    free = [row for row in gaining if row.changes == NO_CHANGE]
    memory = [row for row in gaining if any(word in row.changes for word in MEMORY_WORDS)]
    # Put a single change before the preset that sets it and more, where it gains as much
    if not free or PRESET not in trials or free[0].says != trials[PRESET].experiment.says:
        parts_first = free
    else:
        parts = [row for row in free[1:] if _ratio(row) >= NEARLY_AS_GOOD * _ratio(free[0])]
        parts_first = [*parts[:1], *free]
    # Choose between the best of both groups; both are sorted
    if not parts_first or not memory:
        best = parts_first[0] if parts_first else memory[0] if memory else None
    else:
        best = parts_first[0] if _ratio(parts_first[0]) >= NEARLY_AS_GOOD * _ratio(memory[0]) else memory[0]
    lines = [row for row in gaining if row.changes == WHAT_IT_DOES]
    best = max([*filter(None, [best]), *lines], key=_ratio, default=None)
    return tuple(replace(row, recommended=True) if row is best else row for row in rows)


def _ratio(row: Remedy) -> float:
    return row.measured.ratio if row.measured is not None else 0.0


def _row(facts: WhyFacts, trial: Trial) -> Remedy:
    tried = trial.experiment
    reason = trial.reason
    if trial.factor is None and reason is None:
        reason = "it was not tried"
    return Remedy(
        cause=tried.cause,
        says=tried.says if trial.since is None else f"{tried.says} (from step {trial.since} on)",
        predicted=predict(facts, tried),
        measured=trial.factor,
        changes=tried.changes,
        code=tried.code,
        is_code=tried.is_code,
        lane=trial.lane,
        reason=None if trial.factor is not None else reason,
        change=tried.change,
        unchanged=tried.unchanged,
    )


def _place(row: Remedy) -> tuple[bool, float]:
    """Sort measured remedies first, and each group by its gain."""
    if row.measured is not None:
        return False, -row.measured.ratio
    return True, 0.0 if isinstance(row.predicted, Missing) else -row.predicted


def find_distrust(facts: WhyFacts) -> str | None:
    """Return why the noise is too large for any conclusion, or None."""
    # A heat that ran alone may have gone further than those in turns, to steps that take longer.
    together = [
        result for result in facts.lane.heats if result.heat.windows and result.heat.windows[0].turn is not None
    ]
    heats = together if len(together) >= PAIRS_LEAST else facts.lane.heats
    step = facts.lane.step_ms
    steps = [heat.step_ms for heat in heats if heat.step_ms]
    if step is None or not steps:
        return f"the lane as it is did not finish: {facts.lane.reason or 'no heat of it gave a figure'}"
    apart = max(steps) / min(steps) - 1
    if step.half is not None:
        half = step.half / step.median
        if half > WIDEST_SPREAD and apart > WIDEST_SPREAD:
            # Other processes may make steps vary, unless they were seen to take next to nothing
            others = others_cores(facts.lane)
            disturbs = "something else works on this machine"
            if others is not None and others <= OTHERS_FEW_CORES:
                disturbs = (
                    f"other processes took {others:.2f} cores, so that its own steps or the machine's clock must vary"
                )
            return (
                f"the step of the lane as it is varies by {percent(apart)} from heat to heat, so that it is known to "
                f"\N{PLUS-MINUS SIGN}{percent(half)} only: {disturbs}"
            )
    trials = {trial.lane: trial.factor for trial in facts.trials.values() if trial.factor is not None}
    known = [factor.ends for factor in trials.values() if factor.ends is not None]
    if len(known) > 1 and all(low < 1 / SQRT_2 and high > SQRT_2 for low, high in known):
        return f"the noise hides every gain: each experiment may be {times(SQRT_2)} as fast or as slow"
    return None
