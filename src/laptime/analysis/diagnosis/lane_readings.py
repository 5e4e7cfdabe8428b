"""What the heats of a lane show: readings, page faults and threads; and patterns in the times of its steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, pairwise
from math import sqrt
from typing import Literal

from laptime.analysis.heats import steady_windows, step_ms
from laptime.analysis.usage import Span, TimedValue, shown_growth_per_s, shown_within, span_of, watched_card
from laptime.model.machine import Machine
from laptime.model.process import Timeline
from laptime.model.quantities import Missing
from laptime.model.record import Finding, HeatResult, LaneResult
from laptime.model.sample import Meaning, Window
from laptime.model.script import ScriptProcess
from laptime.model.stats import median
from laptime.model.symptoms import StepSymptoms

LONG = 2.0  # a long step takes at least this many usual steps, and more than a mean step
NEIGHBOURS = 2  # a pause may extend over two steps in a row: it counts as one
APART_LEAST = 5  # steps; long steps that are closer, or within a burst, are the rhythm of a loader's workers
DISTANCES_LEAST = 3  # two distances may be equal by chance
EVEN_SHARE = 0.7  # of all distances must be equal
EVEN = 0.1
# The time of one page fault, with the clearing of its page, if no heat measured it: 500 to 1,000 ns on machines with
# two cores, but 2,400 on a virtual machine, whose host has page tables of its own.
FAULT_NS = 700
THREADS_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class TimedHeat:
    """A heat's readings, and the part of them that was timed."""

    timeline: Timeline
    span: Span
    step_ms: float


@dataclass(frozen=True, slots=True)
class LaneReadings:
    """A lane, its machine, and the readings of its heats; `card` is the sensors' name of the lane's card."""

    lane: LaneResult
    machine: Machine
    heats: tuple[TimedHeat, ...]
    card: str | None

    def series(self, device: str, means: Meaning) -> list[tuple[TimedValue, ...]]:
        """Return the readings per heat of what shows this of a device, without the heats that have none."""
        found = [shown_within(heat.timeline, device, means, heat.span) for heat in self.heats]
        return [points for points in found if not isinstance(points, Missing)]

    def values(self, device: str, means: Meaning) -> list[float]:
        return [value for points in self.series(device, means) for _, value in points]

    def card_values(self, means: Meaning) -> list[float]:
        return self.values(self.card, means) if self.card else []

    def finding(
        self, rule: str, says: str, advice: str, sure: Literal["proven", "likely"] = "likely", **evidence: object
    ) -> Finding:
        return Finding(rule, f"{self.lane.name}: {says}", evidence, advice, sure)

    def growth_per_s(self, device: str, means: Meaning) -> float | None:
        """Return how fast a counter grew: the median over the heats."""
        rates = [shown_growth_per_s(heat.timeline, device, means, heat.span) for heat in self.heats]
        known = [rate for rate in rates if not isinstance(rate, Missing)]
        return median(known) if known else None

    def faults_per_step(self) -> float | None:
        """Return the page faults per step, from the sensors' counter over the windows that count."""
        rate = self.growth_per_s("heat", "new pages")
        step = self.lane.step_ms
        return None if rate is None or step is None else rate * step.median / 1e3

    def fault_ns(self) -> float:
        """Return the time of a page fault: as a heat of this lane measured it, else the usual time."""
        symptoms = first_symptoms(self.lane)
        return FAULT_NS if symptoms is None or isinstance(symptoms.fault_ns, Missing) else symptoms.fault_ns

    def faults_share(self) -> float | None:
        """Return the share of a step that its page faults take.

        Threads that fault at the same time wait for each other, so the time is divided by the square root of their
        number. That is a guess, checked with two trainings on two cores: it predicted 3.1 and 1.6 where 3.1 and 1.9
        were measured.
        """
        faults = self.faults_per_step()
        step = self.lane.step_ms
        if faults is None or step is None or not step.median:
            return None
        cores = self.machine.processor.cores_usable
        threads = min(self.threads_wanted() or cores, cores)
        return faults * self.fault_ns() / sqrt(threads) / 1e6 / step.median

    def threads_wanted(self) -> int | None:
        """Return how many threads were requested, or None.

        The lane's own setting comes first, then what the training's process had at its end, then the framework's
        default, then an environment variable.
        """
        lane = self.lane
        symptoms = first_symptoms(lane)
        if lane.settings.threads is not None:
            return lane.settings.threads
        on_processor = lane.device.kind == "cpu"
        if on_processor and symptoms is not None and not isinstance(symptoms.threads, Missing):
            return int(symptoms.threads)
        by_default = lane.device.details.get("threads", "")
        if on_processor and by_default.isdecimal():
            return int(by_default)
        around = self.machine.surroundings
        for name in THREADS_VARIABLES:
            value = "" if around is None else around.variables.get(name, "").split(",")[0]
            if value.isdecimal():
                return int(value)
        return None


def read_lane(lane: LaneResult, machine: Machine) -> LaneReadings:
    heats: list[TimedHeat] = []
    for result in finished(lane):
        timeline = result.heat.process.timeline
        if timeline is not None and timeline.clock is None and result.step_ms is not None:
            heats.append(TimedHeat(timeline, span_of(result), result.step_ms))
    card = watched_card(lane.device, heats[0].timeline) if heats else None
    return LaneReadings(lane, machine, tuple(heats), card)


def first_symptoms(lane: LaneResult) -> StepSymptoms | None:
    """Return the symptoms of the first heat that has some."""
    return next((result.heat.signs for result in lane.heats if result.heat.signs is not None), None)


def first_script(lane: LaneResult) -> ScriptProcess | None:
    """Return what was seen of a script in the first heat whose steps were looked at."""
    return next((result.heat.script for result in lane.heats if result.heat.script is not None), None)


def number_types(lane: LaneResult) -> tuple[str, ...]:
    """Return the types of the weights, as the newest census found them; none if none was taken."""
    return next((result.heat.census.types for result in reversed(lane.heats) if result.heat.census is not None), ())


@dataclass(frozen=True, slots=True)
class Pauses:
    """Steps that take much longer than the others, at even distances: work at the end of a lap, or every N steps.

    `share` is their time beyond a usual step, as a share of the whole time; `every` is the number of steps from one to
    the next, and `pause_ms` how long a pause is.
    """

    share: float
    every: float
    pause_ms: float
    count: int


def find_pauses(lane: LaneResult) -> Pauses | None:
    """Find pauses at even distances; other pauses are noise, or the rhythm of a loader."""
    series = [steps for heat in finished(lane) for steps in runs_ns(heat)]
    if not series:
        return None
    usual = median([step for steps in series for step in steps])
    least = max(LONG * usual, sum(map(sum, series)) / sum(map(len, series)))
    places: list[list[int]] = []
    for steps in series:
        found: list[int] = []
        for place, step in enumerate(steps):
            if step > least and (not found or place - found[-1] >= NEIGHBOURS):
                found.append(place)  # of several long steps in a row, the first
        places.append(found)
    distances = [after - before for found in places for before, after in pairwise(found)]
    if len(distances) < DISTANCES_LEAST:
        return None
    every = median(distances)
    alike = sum(abs(distance - every) <= max(1.0, EVEN * every) for distance in distances)
    burst = max(result.heat.burst or 0 for result in finished(lane))
    if every < APART_LEAST or every <= burst or alike < EVEN_SHARE * len(distances):
        return None
    beyond = sum(step - usual for steps in series for step in steps if step > least)
    count = sum(map(len, places))
    return Pauses(beyond / sum(map(sum, series)), every, beyond / count / 1e6, count)


def long_share(lane: LaneResult) -> float | None:
    """Return the share of the time that all long steps take beyond a usual one, at even distances or not."""
    steps = [step for heat in finished(lane) for step in steps_ns(heat)]
    if not steps:
        return None
    usual = median(steps)
    return sum(step - usual for step in steps if step > LONG * usual) / sum(steps)


def steps_ns(heat: HeatResult) -> tuple[int, ...]:
    """Return all steps from the first window that counts on; none if they were not timed."""
    return tuple(chain.from_iterable(runs_ns(heat)))


def runs_ns(result: HeatResult) -> list[tuple[int, ...]]:
    """Return the same as runs without a gap: in a window of thousands of steps only the first ones are timed.

    Where heats take turns, there are other steps between two windows.
    """
    runs: list[tuple[int, ...]] = []
    joins = False
    for window in result.heat.windows[result.steady_from :]:
        if joins:
            runs[-1] += window.step_ns
        elif window.step_ns:
            runs.append(window.step_ns)
        joins = bool(runs) and len(window.step_ns) == window.steps and window.turn is None
    return runs


def slow_starts(lane: LaneResult) -> list[float]:
    """Return for each heat how many times as long a step took in its first window as in the windows that count.

    It compares the median steps of windows: a pause at the end of a lap is in the first window by chance.
    """
    heats = [heat for heat in finished(lane) if heat.step_ms]
    steps = [(_usual_ms(heat, heat.heat.windows[:1]), _usual_ms(heat, steady_windows(heat))) for heat in heats]
    return [first / later for first, later in steps if later > 0]


def _usual_ms(result: HeatResult, windows: tuple[Window, ...]) -> float:
    """Return the median step of the windows; with a loader that works in bursts, the median of their means."""
    if result.heat.burst is not None:
        return median([*map(step_ms, windows)])
    return median([median(window.step_ns) / 1e6 if window.step_ns else step_ms(window) for window in windows])


def disturbed_slowdowns(lane: LaneResult, is_disturbed: Callable[[Window], bool | None]) -> list[float]:
    """Return for each heat how many times as long a step takes in its disturbed windows as in its quiet ones.

    A heat with only one kind of window is left out. A disturbance changes the level, so the windows before the level
    that counts are used too, unless the heat was warming up there.
    """
    slowdowns: list[float] = []
    for result in finished(lane):
        sides: dict[bool, list[float]] = {True: [], False: []}
        for window in result.heat.windows[result.steady_from if result.steady == "warm-up" else 0 :]:
            side = is_disturbed(window)
            if side is not None:
                sides[side].append(step_ms(window))
        if sides[True] and sides[False]:
            slowdowns.append(median(sides[True]) / median(sides[False]))
    return slowdowns


def others_cores(lane: LaneResult) -> float | None:
    """Return how many cores other processes took: the median of all windows that count."""
    cores = [other for heat in finished(lane) for other in map(others_in, steady_windows(heat)) if other is not None]
    return median(cores) if cores else None


def others_in(window: Window) -> float | None:
    """Return how many of our cores others took; or, in a pod, how many our threads waited for, if that is more."""
    if window.noise is None:
        return None
    found = (window.noise.other_cores, window.noise.waited_cores)
    return max((cores for cores in found if not isinstance(cores, Missing)), default=None)


def finished(lane: LaneResult) -> list[HeatResult]:
    return [result for result in lane.heats if result.heat.process.status == "ok" and result.heat.windows]
