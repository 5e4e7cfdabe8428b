"""What an experiment may gain: the expectation chooses the next experiment, the prediction is shown with its remedy.

Both are factors, from the parts of a step, its symptoms and the readings. With an expectation of at most 1, an
experiment is not run.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import fsum, inf

from laptime.analysis.diagnosis.findings import FAULTS_SHARE, RUN_THROTTLED_SHARE, denormals_of
from laptime.analysis.diagnosis.lane_readings import find_pauses, finished, number_types
from laptime.analysis.step_states import find_lane_state
from laptime.model.quantities import Missing
from laptime.model.record import LaneResult
from laptime.questions.why.compute_causes import (
    NEAR_PEAK,
    SHAPES_USUAL,
    free_cores,
    given_back_memory,
    processor_limited,
)
from laptime.questions.why.facts import WhyFacts, more_threads, part_share, split
from laptime.questions.why.nouns import STEP_STAGES, Experiment, PartOf
from laptime.questions.why.step_causes import NEARLY_BUSY, WORTH_SHARE, memory_full, too_little_work

Expect = Callable[[WhyFacts], float]
Chance = Callable[[WhyFacts], float]
Predict = Callable[[WhyFacts, Experiment], "float | Missing"]
WORKERS = re.compile(r"workers=(\d+)")
LEAST_LEFT = 0.02  # of a step: no prediction removes all of it
UNKNOWN_GAIN = 1.02  # if nothing is known, an experiment is worth it, after those that signatures point to
SHORT_MS = 2.0
QUICK_MS = 50.0
NO_GAIN = 0.0


BOUND_LEAST = 1.05  # an experiment that could gain less at most is not made
SHOWN_SHAPES = 10  # this many shapes in the steps that were looked at are no chance
NEARLY_ALL = 0.99
LARGE_WEIGHTS, SMALL_CHANCE = 5_000_000, 0.15  # in six scripts with fewer, products in bfloat16 took as long or longer


def bound_of(facts: WhyFacts, of: tuple[PartOf, ...]) -> float:
    """Return what an experiment gains at most that shortens these parts of a step, by the shares that were timed.

    What nobody attributed may be computing.
    """
    if not of or any(isinstance(facts.stage_ms(stage), Missing) for stage in STEP_STAGES if stage in of):
        return inf
    parts = (*of, "unattributed") if "compute" in of else of
    return 1 / (1 - min(fsum(step_part.share for step_part in split(facts) if step_part.of in parts), NEARLY_ALL))


def surely(_facts: WhyFacts) -> float:
    return 1.0


def unless_redrawn(facts: WhyFacts) -> float:
    """Kept items are of little use where the data set draws them again each time: they change the learning."""
    return 0.3 if facts.is_redrawn else 1.0


def where_cores_are_free(facts: WhyFacts) -> float:
    """Worker processes need cores, unless all that they do is wait."""
    return 1.0 if expect_workers(facts) >= BOUND_LEAST else 0.1


def where_cores_are_idle(facts: WhyFacts) -> float:
    """More threads need cores that other processes leave idle."""
    wanted = facts.readings().threads_wanted()
    if wanted is None or wanted >= facts.cores:
        return 1.0
    return min(max((free_cores(facts) - wanted) / (facts.cores - wanted), 0.2), 1.0)


def where_products_are_large(facts: WhyFacts) -> float:
    """On a processor, numbers are converted for each product: small ones take longer so."""
    weights = next((heat.heat.process.parameters for heat in facts.lane.heats if heat.heat.process.parameters), None)
    return 1.0 if weights is None or weights >= LARGE_WEIGHTS else SMALL_CHANCE


def where_slow_with_denormals(facts: WhyFacts) -> float:
    """Numbers that were counted cost nothing by themselves: steps that became slow, or this processor, show it."""
    if find_lane_state(facts.lane) is not None or facts.slow_with_denormals:
        return 1.0
    return 0.0 if facts.slow_with_denormals is False else 0.5


def expect_no_loader(facts: WhyFacts) -> float:
    loader = part_share(facts, "loader")
    return 1 / (1 - min(loader, 0.99)) if loader >= WORTH_SHARE else NO_GAIN


def expect_other_loader(part: float) -> Expect:
    """Expect a part of the gain without any loader."""
    return lambda facts: 1 + part * (expect_no_loader(facts) - 1) if expect_no_loader(facts) else NO_GAIN


def expect_workers(facts: WhyFacts) -> float:
    """Expect that loading goes on while the step computes, as far as cores are free for it."""
    gain = expect_no_loader(facts)
    busy = facts.busy_cores()
    if not gain or isinstance(busy, Missing) or not facts.on_processor:
        return 1 + 0.9 * (gain - 1) if gain else NO_GAIN
    return 1 + 0.9 * (1 / _left_of_step(facts, facts.cores, busy) - 1)


def _left_of_step(facts: WhyFacts, workers: int, busy: float) -> float:
    """Return what is left of a step whose loading goes on in worker processes.

    No step is shorter than the rest of it, than its loading divided by the workers, or than all work on all cores.
    """
    loader = part_share(facts, "loader")
    return max(1 - loader, loader / workers, min(busy / facts.cores, 1.0), LEAST_LEFT)


def expect_twice_the_batch(facts: WhyFacts) -> float:
    """An idle device promises the largest gain; on a processor short steps do."""
    if too_little_work(facts).standing == "ruled out":
        return NO_GAIN
    busy = facts.busy()
    if not isinstance(busy, Missing):
        return min(2.0, 1 / max(busy, 0.01)) if busy < NEARLY_BUSY else NO_GAIN
    step_ms = facts.step_ms or QUICK_MS
    computing = part_share(facts, "compute") or 1.0
    if not facts.on_processor:
        return 1 + 0.5 * computing  # it is unknown how busy the card is; an idle card is the usual problem
    return 1 + computing * (0.8 if step_ms < SHORT_MS else 0.15 if step_ms < QUICK_MS else 0.02)


def expect_four_times_the_batch(facts: WhyFacts) -> float:
    """Only worth an experiment if twice the batch gained."""
    twice = facts.factor("batch 2x")
    if twice is None or twice.ratio < 1 + 2 * facts.margin:
        return NO_GAIN
    once = 1.0
    double = 2 / twice.ratio
    return 4 / max(once + 3 * (double - once), 0.1)


def expect_graph(facts: WhyFacts) -> float:
    """A graph removes the time in which the host starts kernels."""
    if facts.on_processor:
        return NO_GAIN
    host = part_share(facts, "host")
    return (
        1 / (1 - min(host, 0.9))
        if host >= WORTH_SHARE
        else NO_GAIN
        if not isinstance(facts.busy(), Missing)
        else UNKNOWN_GAIN
    )


def expect_steps_at_once(facts: WhyFacts) -> float:
    step_ms = facts.step_ms or QUICK_MS
    return expect_graph(facts) if not facts.on_processor else 1.3 if step_ms < SHORT_MS else UNKNOWN_GAIN


def expect_kernels(gain: float) -> Expect:
    def expect(facts: WhyFacts) -> float:
        computing = part_share(facts, "compute") + part_share(facts, "host") or 1.0
        limit = facts.lane.roofline
        if computing < 0.5 or (limit is not None and limit.share > NEAR_PEAK):
            return NO_GAIN
        return 1 + computing * (gain - 1)

    return expect


def of_own_trainings(expect: Expect) -> Expect:
    """Expect nothing of a script: `laptime tune` tries it there."""
    return lambda facts: NO_GAIN if facts.watched is not None else expect(facts)


def on_card_only(expect: Expect) -> Expect:
    return lambda facts: NO_GAIN if facts.on_processor else expect(facts)


def where_listed(name: str, expect: Expect) -> Expect:
    """Expect nothing of an experiment that this kind of training does not have."""
    return lambda facts: expect(facts) if name in facts.trials else NO_GAIN


def where_it_convolves(expect: Expect) -> Expect:
    return lambda facts: NO_GAIN if facts.convolves is False else expect(facts)


def expect_deferred_reads(facts: WhyFacts) -> float:
    reads = facts.symptom("reads")
    if facts.on_processor or (not isinstance(reads, Missing) and reads <= 0):
        return NO_GAIN
    if isinstance(reads, Missing):
        return UNKNOWN_GAIN
    host = part_share(facts, "host")
    return max(1.3, 1 / (1 - min(host, 0.9)))


def expect_threads(facts: WhyFacts) -> float:
    if not facts.on_processor and (facts.throttled_share() or 0.0) <= RUN_THROTTLED_SHARE:
        return NO_GAIN
    verdict = processor_limited(facts)
    throttled = facts.throttled_share() or 0.0
    wanted = facts.readings().threads_wanted()
    if wanted is not None and wanted > facts.cores:
        return 2.0
    if throttled > RUN_THROTTLED_SHARE:
        return max(1.2, 1 / (1 - min(throttled, 0.9)))
    if wanted is not None:
        return more_threads(facts, wanted)[0] if wanted < facts.cores else NO_GAIN
    busy = facts.busy_cores()
    idle_cores = not isinstance(busy, Missing) and busy < 0.65 * facts.cores and facts.cores > 1
    return 1.4 if idle_cores else UNKNOWN_GAIN if verdict.standing == "not tested" else NO_GAIN


def expect_one_thread(facts: WhyFacts) -> float:
    if not facts.on_processor or facts.cores < 2:
        return NO_GAIN
    wanted = facts.readings().threads_wanted()
    throttled = facts.throttled_share() or 0.0
    return 1.15 if throttled > RUN_THROTTLED_SHARE or (wanted or 0) > facts.cores else NO_GAIN


def expect_kept_memory(facts: WhyFacts) -> float:
    """Page faults show what is fetched again; without any, kept memory gains nothing."""
    if not facts.on_processor or facts.lane.settings.malloc == "keep":
        return NO_GAIN
    costs = facts.readings().faults_share()
    if costs is None:
        return UNKNOWN_GAIN
    if given_back_memory(facts).standing == "ruled out":
        return UNKNOWN_GAIN if costs >= FAULTS_SHARE / 2 else NO_GAIN
    return 1 / (1 - min(costs, 0.8))


def expect_flushed_denormals(facts: WhyFacts) -> float:
    """A few denormal numbers may cost most of a step; steps that became slow say how much."""
    if not facts.on_processor:
        return NO_GAIN
    census = denormals_of(facts.lane)
    if census is None:
        return UNKNOWN_GAIN
    state = find_lane_state(facts.lane)
    slowed = 1.0 if state is None else 1 / (1 - min(state.share, 0.99))
    return max(3.0, slowed) if census.cost else 1.1 if census.share > 0 else NO_GAIN


def expect_single_numbers(facts: WhyFacts) -> float:
    """A processor computes twice as many float32 numbers at once, and most cards far more."""
    computing = part_share(facts, "compute") + part_share(facts, "host") or 1.0
    return 1 + computing if "float64" in number_types(facts.lane) else NO_GAIN


def expect_one_shape(facts: WhyFacts) -> float:
    shapes = facts.symptom("shapes")
    compiles = facts.symptom("compiles")
    if isinstance(shapes, Missing) and isinstance(compiles, Missing):
        return UNKNOWN_GAIN
    if not isinstance(compiles, Missing) and compiles > 0:
        return 3.0
    if isinstance(shapes, Missing) or shapes <= SHAPES_USUAL:
        return NO_GAIN
    return 1 + 0.3 * min(1.0, shapes / SHOWN_SHAPES)


def expect_half_batch(facts: WhyFacts) -> float:
    return 1.5 if memory_full(facts).standing == "likely" else NO_GAIN


def predict_decoded(facts: WhyFacts, _experiment: Experiment) -> float | Missing:
    """Decoded batches from memory remove the loader, and its work at the end of a lap.

    On a processor only the computing is left, and the first heats show its speed. The loader's part would be too low
    there: after waiting for a loader, threads and caches are slow for a while.
    """
    first_ms = _first_ms(facts.lane)
    computing_ms = _first_ms(facts.ceilings_lanes.get("compute"))
    if facts.on_processor and first_ms is not None and computing_ms is not None:
        return first_ms / computing_ms
    if not _knows_parts(facts):
        return Missing("what the loader takes of a step was not measured")
    # The share of the pauses, if the loader alone has them too; else 0
    pauses = facts.pauses()
    loader = facts.ceilings_lanes.get("loader")
    pauses_of_loader = (
        pauses.share if pauses is not None and loader is not None and find_pauses(loader) is not None else 0.0
    )
    return _without(part_share(facts, "loader") + pauses_of_loader)


def predict_resident(facts: WhyFacts, _experiment: Experiment) -> float | Missing:
    """Batches on the device remove loader and copy; the steps that were taken apart show what is left."""
    wait = facts.breakdown_ms("loader")
    copy = 0.0 if facts.on_processor else facts.breakdown_ms("copy")
    compute = facts.breakdown_ms("compute")
    if isinstance(compute, Missing) or isinstance(wait, Missing) or isinstance(copy, Missing) or not compute:
        if not _knows_parts(facts):
            return Missing("no step of this lane was taken apart")
        return _without(part_share(facts, "loader") + part_share(facts, "copy"))
    return (wait + copy + compute) / compute


def predict_workers(facts: WhyFacts, experiment: Experiment) -> float | Missing:
    """Workers share the loading; on a processor they use the training's cores.

    The step takes at least the loader's time over the workers, the rest of the step, and all work over all cores.
    """
    found = WORKERS.search("+".join(experiment.settings))
    loader, compute, copy = (facts.stage_ms(stage) for stage in ("loader", "compute", "copy"))
    if found is None or isinstance(loader, Missing) or isinstance(compute, Missing):
        return Missing("the loader alone, or the computing alone, was not measured")
    workers = max(1, int(found[1]))
    busy = facts.busy_cores()
    if facts.is_timed and facts.on_processor and not isinstance(busy, Missing):
        return 1 / _left_of_step(facts, workers, busy)
    rest = compute + (0.0 if isinstance(copy, Missing) else copy)
    # How many cores the loader keeps busy; 1 if it is unknown. A loader that waits for a disk uses none.
    alone = facts.ceilings_lanes.get("loader")
    loading = Missing("no such lane") if alone is None else facts.busy_cores(alone)
    work = loader * min(1.0 if isinstance(loading, Missing) else loading, facts.cores)  # core-milliseconds of a batch
    rest += work / facts.cores if facts.on_processor else 0.0
    able = workers if work < 0.5 * loader else min(workers, max(1, facts.cores - (not facts.on_processor)))
    already = max(1, facts.lane.settings.workers or 1)
    return (facts.step_ms or 0.0) / max(loader * already / able, rest)


def predict_twice_the_batch(facts: WhyFacts, _experiment: Experiment) -> float | Missing:
    """A device that is idle for half of a step can do twice the work in the same step."""
    busy = facts.busy()
    if isinstance(busy, Missing):
        return Missing("how a step grows with its batch shows when it was doubled")
    loading = part_share(facts, "loader") + part_share(facts, "copy")
    return 2 / (2 * loading + max(1 - loading, 2 * busy))


def predict_batch(times: float) -> Predict:
    """A step's time is a linear function of its batch: once and twice the batch are two points of it."""

    def predict(facts: WhyFacts, _experiment: Experiment) -> float | Missing:
        twice = facts.factor("batch 2x")
        if twice is None:
            return Missing("twice the batch was not tried")
        once_ms = facts.step_ms or 0.0
        twice_ms = 2 * once_ms / twice.ratio
        there_ms = max(once_ms + (times - 1) * (twice_ms - once_ms), LEAST_LEFT * once_ms)
        return times * once_ms / there_ms

    return predict


def predict_kept_memory(facts: WhyFacts, _experiment: Experiment) -> float | Missing:
    costs = facts.readings().faults_share()
    return Missing("page faults were not read") if costs is None else _without(costs)


def predict_threads(facts: WhyFacts, _experiment: Experiment) -> float | Missing:
    """A quota's counter shows what the quota costs; the cost of too many threads is not known in advance."""
    throttled = facts.throttled_share()
    wanted = facts.readings().threads_wanted()
    if facts.on_processor and wanted is not None and wanted < facts.cores and not (throttled or 0.0):
        return more_threads(facts, wanted)[0]
    if throttled is None or throttled <= RUN_THROTTLED_SHARE:
        return Missing("what threads cost that wait for each other shows only when they are fewer")
    return _without(throttled)


def predict_deferred_reads(facts: WhyFacts, _experiment: Experiment) -> float | Missing:
    """The device no longer waits for the host."""
    reads = facts.symptom("reads")
    if isinstance(reads, Missing):
        return Missing(f"reads were not counted: {reads.missing}")
    if reads <= 0 or facts.on_processor:
        return 1.0
    if isinstance(facts.busy(), Missing):
        return Missing("how long the device waits was not read")
    return _without(part_share(facts, "host"))


def predict_launched_at_once(facts: WhyFacts, _experiment: Experiment) -> float | Missing:
    """A graph removes the time in which the host starts each kernel."""
    if isinstance(facts.busy(), Missing):
        return Missing("how long the device waits for the host was not read")
    return _without(part_share(facts, "host"))


def predict_flushed_denormals(facts: WhyFacts, _experiment: Experiment) -> float | Missing:
    """Steps that became slow say what the numbers cost that have become denormal."""
    census = denormals_of(facts.lane)
    state = find_lane_state(facts.lane)
    if census is None:
        return Missing("denormals were not counted")
    if census.cost and state is not None:
        return _without(state.share)
    return 1.0 if census.share <= 0 else Missing("what denormals cost is known by no processor but the run's")


def _without(share: float) -> float:
    return 1 / max(1 - share, LEAST_LEFT)


def _first_ms(lane: LaneResult | None) -> float | None:
    """Return the mean step of a lane's first heat."""
    heats = [] if lane is None else finished(lane)
    return heats[0].step_ms if heats else None


def _knows_parts(facts: WhyFacts) -> bool:
    return not isinstance(facts.stage_ms("loader"), Missing)
