"""What a cause is judged by: the lane as it is, its trials and readings, the parts of its step, its ceilings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from laptime.analysis.diagnosis.lane_readings import (
    LaneReadings,
    Pauses,
    find_pauses,
    first_script,
    first_symptoms,
    read_lane,
)
from laptime.analysis.heats import ALPHA, bounds
from laptime.model.machine import Machine
from laptime.model.quantities import Estimate, Factor, Missing, times
from laptime.model.record import Finding, LaneResult
from laptime.model.script import TrainingLoop
from laptime.model.stats import log_mean_interval
from laptime.model.symptoms import NO_INPUT, NOT_LOOKED, StepSymptoms, TimedPlace
from laptime.questions.why.nouns import STEP_STAGES, CauseStanding, Ceiling, PartOf, Stage, StepPart, Trial, Verdict

FACT_NOT_MEASURED = Missing("it was not measured")
LANE_WITHOUT_STEP = Missing("the lane has no step: no heat of it finished")
MORE_THREADS_SAVE = 0.5  # of what they could at most: not all of a step can be shared
THREADS_LEAST_MS = 5.0  # of computing
PARTS_TIMED = Missing("the parts of its own steps were timed instead")
COPIES_NOTHING = Missing("a lane on the processor copies nothing to a device")
NO_INSTRUMENT = Missing("no instrument was read")
SHOWN_ORDER: tuple[PartOf, ...] = ("loader", "copy", "compute", "host", "outside")  # as a batch passes through them


@dataclass(frozen=True, slots=True)
class WhyFacts:
    """One lane with all that is known of it.

    `trials` are the experiments by name, each compared with the lane as it is; `ceilings_lanes` are the lanes of one
    stage alone. `unseen` are findings about cards that exist but are not used. A gain up to `margin` does not count.
    `what` and `items` are words for the subject and its items. `convolves` says whether a step has convolutions, where
    its operators were counted, and `slow_with_denormals` whether this processor is, where that was timed. `watched` is
    what the rules of `laptime watch` found in a script.
    """

    lane: LaneResult
    machine: Machine
    trials: dict[str, Trial] = field(default_factory=dict)
    unseen: tuple[Finding, ...] = ()
    margin: float = 0.05
    ceilings_lanes: dict[Stage, LaneResult] = field(default_factory=dict)
    what: str = ""
    items: str = "items"
    lap_steps: float | None = None
    convolves: bool | None = None
    slow_with_denormals: bool | None = None
    watched: tuple[Finding, ...] | None = None

    @property
    def on_processor(self) -> bool:
        return self.lane.device.kind == "cpu"

    @property
    def cores(self) -> int:
        return self.machine.processor.cores_usable

    @property
    def step_ms(self) -> float | None:
        return None if self.lane.step_ms is None else self.lane.step_ms.median

    @property
    def symptoms(self) -> StepSymptoms | None:
        return first_symptoms(self.lane)

    def symptom(self, name: str) -> float | Missing:
        """Return one of the symptoms, or why it is unknown."""
        symptom: float | Missing = NOT_LOOKED if self.symptoms is None else getattr(self.symptoms, name)
        return symptom

    @property
    def is_redrawn(self) -> bool:
        """Whether an item of the data set differs when it is fetched again: what keeps items freezes them."""
        return self.symptoms is not None and self.symptoms.redrawn is True

    @property
    def is_timed(self) -> bool:
        """Whether the steps of a script say themselves how long they waited for data and computed.

        Then sentence and bar are of these steps, and no stage has to run alone.
        """
        symptoms = self.symptoms
        if symptoms is None or places_of(symptoms) is None or isinstance(symptoms.compute_ns, Missing):
            return False
        return NO_INPUT in symptoms.notes or not isinstance(symptoms.wait_ns, Missing)

    def readings(self) -> LaneReadings:
        return read_lane(self.lane, self.machine)

    def throttled_share(self) -> float | None:
        """Return the share of the time for which a quota held this container back."""
        share = self.readings().growth_per_s("host", "held back")
        if share is not None:
            return min(share, 1.0)
        noises = [
            (window.noise, window.end_ns - window.start_ns)
            for result in self.lane.heats
            for window in result.heat.windows
        ]
        read = [(noise.throttled_ms, lasted_ns / 1e6) for noise, lasted_ns in noises if noise is not None]
        known = [(held, lasted) for held, lasted in read if not isinstance(held, Missing)]
        return min(sum(held for held, _ in known) / sum(lasted for _, lasted in known), 1.0) if known else None

    def factor(self, name: str) -> Factor | None:
        trial = self.trials.get(name)
        return None if trial is None else trial.factor

    def moved(self, name: str, least: float | None = None) -> bool:
        """Whether an experiment's whole interval is above the bound: then what it changed was a cause."""
        factor = self.factor(name)
        bound = 1 + self.margin if least is None else least
        return factor is not None and factor.is_above(bound)

    def stays(self, name: str, least: float | None = None) -> bool:
        """Whether an experiment's whole interval is below the bound: then what it changed is not a cause."""
        factor = self.factor(name)
        bound = 1 + self.margin if least is None else least
        return factor is not None and factor.is_below(bound)

    def pauses(self) -> Pauses | None:
        return find_pauses(self.lane)

    def stage_ms(self, stage: Stage) -> float | Missing:
        """Return the time of a step with one stage alone: from its lane, else its trial, else the steps taken apart."""
        if self.step_ms is None:
            return LANE_WITHOUT_STEP
        if stage == "copy" and self.on_processor:
            return 0.0
        if self.is_timed:
            return self.breakdown_ms(stage)
        alone = self.ceilings_lanes.get(stage)
        if alone is not None and alone.status == "ok" and alone.step_ms is not None:
            ours = self.lane.items_per_step
            theirs = alone.items_per_step
            return usual_ms(alone) * (ours / theirs if ours and theirs else 1.0)
        factor = self.factor(stage)
        return self.breakdown_ms(stage) if factor is None else self.step_ms / factor.ratio

    def breakdown_ms(self, stage: Stage) -> float | Missing:
        """Return a stage's time in the steps that were taken apart; for the loader, how long the step waited for it."""
        took_ns = self.symptom({"loader": "wait_ns", "copy": "copy_ns", "compute": "compute_ns"}[stage])
        if isinstance(took_ns, Missing):
            return took_ns
        if self.symptoms is None or not self.symptoms.steps:
            return FACT_NOT_MEASURED
        if self.is_timed and self.step_ms is not None and (known := places_of(self.symptoms)) is not None:
            # Its share of the iterations that had parts, of a step of all heats
            return took_ns / known[1] * self.step_ms
        return took_ns / self.symptoms.steps / 1e6

    def busy(self, lane: LaneResult | None = None) -> float | Missing:
        """Return the share of the time in which the device was busy; a processor has no such figure."""
        of = self.lane if lane is None else lane
        if of.device.kind == "cpu":
            return Missing("this lane computes on the processor")
        if of.usage is not None and not isinstance(of.usage.device_percent, Missing):
            return of.usage.device_percent / 100
        if of.profile is not None and not isinstance(of.profile.device_ms, Missing):
            return min(1.0, of.profile.device_ms / of.profile.plain_ms)
        busy = NO_INSTRUMENT if of.usage is None else of.usage.device_percent
        return busy if isinstance(busy, Missing) else FACT_NOT_MEASURED

    def busy_cores(self, lane: LaneResult | None = None) -> float | Missing:
        """Return how many cores a lane's own processes kept busy."""
        usage = (self.lane if lane is None else lane).usage
        busy = NO_INSTRUMENT if usage is None else usage.processor_percent
        return busy if isinstance(busy, Missing) else busy / 100 * self.cores

    def steps_per_lap(self) -> float | None:
        """Return the steps of a lap: as declared, else as many as fit in the time of a lap."""
        if self.lap_steps is not None:
            return self.lap_steps
        step = self.step_ms
        lap = self.lane.lap_s
        return None if lap is None or not step else 1e3 * lap.median / step


def places_of(symptoms: StepSymptoms) -> tuple[tuple[TimedPlace, ...], int] | None:
    """Return what a script does in its steps next to its training, and how long all steps took; None if not timed."""
    places = symptoms.places
    wall_ns = symptoms.wall_ns
    if isinstance(places, Missing) or isinstance(wall_ns, Missing) or not wall_ns:
        return None
    return places, wall_ns


def usual_ms(lane: LaneResult) -> float:
    """Return a lane's step without its pauses."""
    assert lane.step_ms is not None
    pauses = find_pauses(lane)
    return lane.step_ms.median * (1 - (0.0 if pauses is None else pauses.share))


def split(facts: WhyFacts) -> tuple[StepPart, ...]:
    """Return the parts of a step, including the pauses between steps; together they are 1.

    Each stage claims the time that it takes alone, the computing first. Work that overlaps with the computing costs a
    step nothing, so the copy and then the loader only get what is left of the step.
    """
    whole_ms = facts.step_ms
    parts: list[StepPart] = []
    left = 1.0
    for of, share in _claims(facts, whole_ms) if whole_ms else ():
        given = min(max(share, 0.0), left)
        left -= given
        parts += [StepPart(of, given)] if given > 0 else []
    parts.sort(key=lambda part: SHOWN_ORDER.index(part.of))
    return (*parts, StepPart("unattributed", left))


def more_threads(facts: WhyFacts, threads: int) -> tuple[float, float]:
    """Return the likely and the greatest gain of as many threads as cores over this many.

    Of a short step, threads take longer to begin and to wait for each other than they save.
    """
    computing_ms = facts.stage_ms("compute")
    computing = part_share(facts, "compute") or 1.0
    saved = computing * (1 - threads / facts.cores)
    is_short = not isinstance(computing_ms, Missing) and computing_ms < THREADS_LEAST_MS
    return 1 / (1 - (0.1 if is_short else MORE_THREADS_SAVE) * saved), 1 / (1 - saved)


def largest_part(facts: WhyFacts) -> StepPart | None:
    """Return the part of a step that takes most of it; None where none is known."""
    known = [part for part in split(facts) if part.of != "unattributed"]
    return max(known, key=lambda part: part.share, default=None)


def part_share(facts: WhyFacts, of: PartOf) -> float:
    """Return the share of one part; 0 if the step does not have it."""
    return next((part.share for part in split(facts) if part.of == of), 0.0)


def stage_share(facts: WhyFacts, stage: Stage) -> float | Missing:
    """Return the share of a step that a stage alone takes, without regard to overlap; it may be more than 1."""
    whole_ms = facts.step_ms
    alone = facts.stage_ms(stage)
    if isinstance(alone, Missing):
        return alone
    return alone / whole_ms if whole_ms else FACT_NOT_MEASURED


def ceilings(facts: WhyFacts) -> tuple[Ceiling, ...]:
    """Return the speed of each stage alone. If two or three are known, the slowest binds."""
    rates = {stage: _rate(facts, stage) for stage in STEP_STAGES}
    known = {stage: rate.median for stage, rate in rates.items() if isinstance(rate, Estimate)}
    slowest = min(known.items(), key=lambda pair: pair[1])[0] if len(known) > 1 else None
    made: list[Ceiling] = []
    for stage, rate in rates.items():
        lane = facts.ceilings_lanes.get(stage)
        bounds = (rate, rate) if isinstance(rate, Missing) else (rate.low, rate.high)
        middle = rate if isinstance(rate, Missing) else rate.median
        made.append(Ceiling(stage, middle, bounds[0], bounds[1], stage == slowest, None if lane is None else lane.name))
    return tuple(made)


def _claims(facts: WhyFacts, whole_ms: float) -> list[tuple[PartOf, float]]:
    """Return the share that each part claims, in the order in which the claims are met."""
    pauses = facts.pauses()
    # The share of a script's iterations that is neither loading nor training
    script = first_script(facts.lane)
    if script is not None and isinstance(script.loop, TrainingLoop):
        steady = script.loop.steady
        besides = (steady.outside_s, steady.no_grad_s, steady.checkpoint_s)
        placed = sum(0.0 if isinstance(beside, Missing) else beside for beside in besides) / steady.wall_s
    else:
        known = None if facts.symptoms is None else places_of(facts.symptoms)
        placed = 0.0 if known is None else sum(place.ns for place in known[0]) / known[1]
    compute, copy, loader = (facts.stage_ms(stage) for stage in ("compute", "copy", "loader"))
    if isinstance(compute, Missing) and not isinstance(wait := facts.breakdown_ms("loader"), Missing):
        loader = wait  # a loader that overlaps with the step may take long but cost nothing
    computing = 0.0 if isinstance(compute, Missing) else min(1.0, compute / whole_ms)
    # The device was idle during the computing where it waited for the host
    resident = facts.ceilings_lanes.get("compute")
    busy = Missing("no such lane") if resident is None else facts.busy(resident)
    if isinstance(busy, Missing):
        busy = facts.busy()
        idle = 0.0 if isinstance(busy, Missing) else max(0.0, computing - busy)
    else:
        idle = computing * (1 - min(1.0, busy))
    idle = min(computing, idle)
    if facts.is_timed and not isinstance(loader, Missing):
        # They followed each other: where the times of several heats overfill a step, each gives way alike.
        over = max(1.0, computing + loader / whole_ms)
        computing /= over
        loader /= over
    return [
        ("outside", placed if pauses is None else max(placed, pauses.share)),
        ("compute", computing - idle),
        ("host", idle),
        ("copy", 0.0 if isinstance(copy, Missing) else copy / whole_ms),
        ("loader", 0.0 if isinstance(loader, Missing) else loader / whole_ms),
    ]


def _rate(facts: WhyFacts, stage: Stage) -> Estimate | Missing:
    if stage == "copy" and facts.on_processor:
        return COPIES_NOTHING
    lane = facts.ceilings_lanes.get(stage)
    if lane is None:
        trial = facts.trials.get(stage)
        absent = None if trial is None else trial.experiment.absent
        if absent is None and facts.is_timed:
            return PARTS_TIMED
        return absent or Missing(trial.reason if trial is not None and trial.reason else FACT_NOT_MEASURED.missing)
    if lane.status != "ok" or lane.items_per_s is None:
        return Missing(lane.reason or "no heat of it finished")
    return lane.items_per_s


# Signature and experiments -> the verdict on one cause.

PART_NOT_KNOWN = Missing("not measured")
NO_EXPERIMENT = "no experiment was made"


@dataclass(frozen=True, slots=True)
class Signature:
    """What a lane's own figures say about a cause: that it exists, that it does not, or nothing (None).

    `gain` is what removing it would gain, by these figures alone.
    """

    is_there: bool | None
    says: str
    evidence: dict[str, Any] = field(default_factory=dict)
    gain: float | Missing = PART_NOT_KNOWN


def judge(
    facts: WhyFacts, cause: str, sign: Signature, experiments: Sequence[str] = (), least: float | None = None
) -> Verdict:
    """Judge a cause by its signature and by the experiments of these names. Only a factor above `least` is a gain.

    An experiment that changed the time proves the cause; one that contradicts the signature makes it at most likely.
    """
    bound = 1 + facts.margin if least is None else least
    tried = {name: factor for name in experiments if (factor := facts.factor(name)) is not None}
    moved = {name: factor for name, factor in tried.items() if facts.moved(name, bound)}
    if not tried:
        return _untried(facts, cause, sign, experiments)
    name, best = max((moved or tried).items(), key=lambda pair: pair[1].ratio)
    trial = facts.trials[name]
    came = f"{trial.experiment.did or name} it is {between(best)} as fast"
    came += "" if trial.since is None else f" from step {trial.since} on"
    standing: CauseStanding
    gain: float | Missing = PART_NOT_KNOWN
    if moved:
        standing, gain = "likely" if sign.is_there is False else "proven", best.ratio
    elif all(facts.stays(name, bound) for name in tried):
        standing = "ruled out"
    elif sign.is_there and best.ratio <= 1 and best.ends is not None:
        standing, came = "not tested", f"too few heats to tell: {came}"  # what was seen speaks against the sign
    elif sign.is_there is not None:
        standing, gain = ("likely", sign.gain) if sign.is_there else ("ruled out", PART_NOT_KNOWN)
    elif best.ratio > bound and (best.ends is None or best.is_above(1)):
        standing, gain = "likely", best.ratio
    else:
        standing, came = "not tested", f"too few heats to tell: {came}"
    evidence = {**sign.evidence, "experiments": {name: figures(factor) for name, factor in tried.items()}}
    lanes = (facts.trials[name].lane for name in tried)
    return Verdict(cause, standing, _joined(sign.says, came), evidence, tuple(dict.fromkeys(filter(None, lanes))), gain)


def _untried(facts: WhyFacts, cause: str, sign: Signature, experiments: Sequence[str]) -> Verdict:
    """Judge by the signature alone. If it says nothing, report why there was no experiment."""
    if sign.is_there is not None:
        standing: CauseStanding = "likely" if sign.is_there else "ruled out"
        return Verdict(
            cause, standing, sign.says, dict(sign.evidence), gain=sign.gain if sign.is_there else PART_NOT_KNOWN
        )
    trials = [facts.trials[name] for name in experiments if name in facts.trials]
    absent = [trial.experiment.absent.missing for trial in trials if trial.experiment.absent is not None]
    if trials and len(absent) == len(trials):
        return Verdict(cause, "not testable here", _joined(sign.says, absent[0]), dict(sign.evidence))
    reasons = [trial.reason for trial in trials if trial.reason and trial.experiment.absent is None]
    says = _joined(sign.says, reasons[0] if reasons else NO_EXPERIMENT)
    return Verdict(cause, "not tested", says, dict(sign.evidence))


def _joined(first: str, then: str) -> str:
    return "; ".join(words for words in (first, then) if words)


def mean_factor(ratios: Sequence[float], alpha: float = ALPHA) -> Factor:
    """Return the mean of one ratio per heat, with its interval."""
    interval = log_mean_interval(ratios, alpha)
    return Factor(interval.estimate, *bounds(interval))


def figures(factor: Factor) -> list[float | None]:
    """Return a factor and its interval, as evidence."""
    return [factor.ratio, *factor.drawn_ends]


def between(factor: Factor) -> str:
    """Return a factor and its interval in words."""
    if factor.ends is None:
        return f"{times(factor.ratio)} (no interval)"
    low, high = factor.ends
    return f"{times(factor.ratio)} ({times(low)[:-1]} to {times(high)[:-1]})"
