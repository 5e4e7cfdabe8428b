"""All heats of a lane -> its step, lap, rate and forecast; the factor between two lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from laptime.analysis.heats import (
    ALPHA,
    START_PHASES,
    bounds,
    compare_steps,
    estimate,
    largest,
    middle,
    most_memory,
    noise_of_ratio,
    pairs_of_heats,
    rate,
    scaled,
    startup_s,
    steady_windows,
    step_ratio,
    took_turns,
)
from laptime.analysis.parity import is_same_work, judge_parity, tell_chance
from laptime.analysis.script_losses import judge_losses
from laptime.analysis.usage import summarise_usage
from laptime.model import quantities
from laptime.model.plan import Plan, PlannedLane
from laptime.model.process import NO_TRAINING, Dnf
from laptime.model.protocol import Protocol
from laptime.model.quantities import Estimate, Missing
from laptime.model.record import Comparison, Forecast, HeatResult, LaneResult, Parity
from laptime.model.sample import Appeal, FirstLosses, Reference
from laptime.model.stats import median, moderated_interval, quantile, verdict, weighted_interval

NO_HEAT_RUN = "no heat was run"
WIDEST_INTERVAL = 10.0  # times the estimate, or a tenth of it: a wider interval means nothing, and no lap is reported
NO_INSTRUMENT_READ = Missing("no instrument was read")
READY_PHASES = (*START_PHASES, "first step")


def summarise_lane(
    plan: Plan,
    lane: PlannedLane,
    heats: tuple[HeatResult, ...],
    reference: Reference | FirstLosses | str | None,
    protocol: Protocol | None = None,
    *,
    appeal: Appeal | None = None,
    cores: int = 1,
    scale: float = 1.0,
) -> LaneResult:
    """Return what is known of a lane so far; with a protocol, also how long the whole training would take.

    Its step is multiplied by `scale` (see `scales`).
    """
    finished = [heat for heat in heats if heat.step_ms is not None]
    dnf = _why_not_finished(heats)
    items = next(
        (result.heat.process.items_per_step for result in heats if result.heat.process.items_per_step is not None), None
    )
    counted = next((result.heat.steps_per_lap for result in heats if result.heat.steps_per_lap is not None), None)
    steps = steps_of_lap(plan, lane, counted)
    data = plan.data_of(lane)
    trains_nothing = lane.settings.input in NO_TRAINING
    # One estimate: the lap, the rate, the whole training and every factor are computed from this step.
    means = [heat.step_ms for heat in finished if heat.step_ms is not None]
    step = estimate([mean * scale for mean in means], [heat.counts for heat in finished], p95=_p95(finished))
    mean = _sure(step)
    no_lap = _why_no_lap(means, step, steps)
    lap = _lap(mean, steps)
    pace = rate(step, items)
    usage = summarise_usage(finished, lane.computes_on, cores, _middle_of(lap), _middle_of(pace))
    proofs = [result.heat.proofs for result in heats]
    if isinstance(reference, FirstLosses):
        parity = judge_losses(lane, [proof for proof in proofs if proof], reference)
    else:
        parity = (
            judge_parity(lane.settings, proofs, reference, appeal) if heats else Parity("unproven", reason=NO_HEAT_RUN)
        )
        parity = _with_later_batches(parity, heats, items, steps)
    return LaneResult(
        name=lane.name,
        framework=next((result.heat.process.versions for result in heats if result.heat.process.versions), {}),
        device=lane.device,
        settings=lane.settings,
        status="dnf" if dnf else "ok",
        reason=dnf.reason if dnf else None,
        step_ms=step,
        lap_s=lap,
        items_per_s=pace,
        first_step_ms=middle(heat.first_step_ms for heat in finished),
        startup_s=min(filter(None, (startup_s(result.heat.process.phases_s) for result in finished)), default=None),
        peak_memory_bytes=most_memory(
            largest((result.heat.process.peak_memory_bytes for result in heats), NO_HEAT_RUN),
            NO_INSTRUMENT_READ if usage is None else usage.memory_most_bytes,
        ),
        device_memory_bytes=largest((result.heat.process.device_memory_bytes for result in heats), NO_HEAT_RUN),
        energy_j_per_lap=NO_INSTRUMENT_READ if usage is None else usage.energy.j_per_lap,
        parity=parity,
        items_per_step=items,
        heats=heats,
        notes=tuple(
            dict.fromkeys(
                chain(
                    lane.notes,
                    *(result.heat.process.notes for result in heats),
                    tell_chance(parity),
                    _tell_cut(reference),
                )
            )
        ),
        whole=forecast_whole(
            heats,
            mean,
            None if trains_nothing else protocol,
            steps,
            fresh_steps=None if data is None or not items else data.train_items / items,
        ),
        appeal=appeal,
        usage=usage,
        absent={} if no_lap is None else {"lap": no_lap},
        training=None if lane.training is None else lane.training.name,
        devices=lane.devices,
        where=lane.where,
    )


def _why_not_finished(heats: Sequence[HeatResult]) -> Dnf | None:
    """Return why a lane did not finish. One that lost a node and then finished a heat on another did."""
    went_on = bool(heats) and heats[-1].heat.process.status == "ok"
    dnfs = (result.heat.process.dnf for result in heats if result.heat.process.dnf is not None)
    return next((dnf for dnf in dnfs if not (went_on and dnf.lost_its_node)), None)


def _tell_cut(reference: Reference | FirstLosses | str | None) -> tuple[str, ...]:
    """Return a note on a reference whose batches were cut as a lane's devices cut them."""
    if not isinstance(reference, Reference) or reference.shares == 1:
        return ()
    return (f"batch norm sees each of {reference.shares} parts of a batch alone, and so does the lane's reference",)


def steps_of_lap(plan: Plan, lane: PlannedLane, counted: int | None) -> float | None:
    """Return the steps of a lap; with another batch than the workload's, as many as cover the same items."""
    subject = plan.subject_of(lane)
    batch = lane.settings.batch
    steps = counted if counted is not None else subject.steps_per_lap
    if steps is None or batch is None or subject.batch is None:
        return steps
    return steps * subject.batch / batch


def _p95(heats: list[HeatResult]) -> float | Missing:
    steps = [step / 1e6 for heat in heats for window in steady_windows(heat) for step in window.step_ns]
    return quantile(steps, 0.95) if steps else Missing("no step was timed on its own")


def scales(heats: Mapping[str, Sequence[HeatResult]]) -> dict[str, float]:
    """Return for each lane what brings its steps to the rounds that the first lane ran.

    Lanes need not have run in the same rounds. Their factor is that of the rounds which both ran, and a step has to be
    the first lane's step divided by it.
    """
    first, *others = heats
    steps = {
        name: [(heat.step_ms, heat.counts) for heat in of if heat.step_ms is not None] for name, of in heats.items()
    }
    found = dict.fromkeys(heats, 1.0)
    for name in others:
        pairs = pairs_of_heats(heats[name], heats[first])
        if pairs and not len(pairs) == len(steps[name]) == len(steps[first]):
            factor = _mean([(step_ratio(*pair), pair[0].counts) for pair in pairs])
            found[name] = _mean(steps[first]) / factor / _mean(steps[name])
    return found


def _mean(weighed: Sequence[tuple[float, float]]) -> float:
    values, weights = zip(*weighed, strict=True)
    return weighted_interval(values, weights, ALPHA).estimate


def _sure(step: Estimate | None) -> Estimate | None:
    """Return the step, unless its interval is too wide to mean anything.

    One heat has no interval, as its page reports. Two heats that differ by half have one of factors up to ten.
    """
    if step is None or step.ends is None:
        return step
    low, high = step.ends
    return None if low * WIDEST_INTERVAL < step.median or high > WIDEST_INTERVAL * step.median else step


def _why_no_lap(means_ms: Sequence[float], step: Estimate | None, steps: float | None) -> Missing | None:
    if steps is None or not means_ms or _sure(step) is not None:
        return None
    fastest = quantities.step(min(means_ms) * steps)
    slowest = quantities.step(max(means_ms) * steps)
    says = f"its {len(means_ms)} heats give laps of {fastest} to {slowest}"
    return Missing(f"{says}, too far apart to state one; more heats need a longer --budget")


def _lap(mean: Estimate | None, steps: float | None) -> Estimate | None:
    return None if mean is None or steps is None else scaled(mean, steps / 1e3)


def _middle_of(figure: Estimate | None) -> float | None:
    return None if figure is None else figure.median


def _with_later_batches(parity: Parity, heats: Sequence[HeatResult], items: int | None, steps: float | None) -> Parity:
    """Return a proof as unproven where a batch after the timed steps has other items than those of the proof.

    The last batch of a lap may be smaller.
    """
    for census in (result.heat.census for result in heats if result.heat.census is not None):
        ends_lap = steps is not None and census.step % max(1, round(steps)) == 0
        if parity.status == "same" and items and census.items not in {None, items} and not ends_lap:
            says = f"the batch of step {census.step:,} has {census.items:,} items, and those of the proof {items:,}"
            return replace(parity, status="unproven", reason=says, kind="fewer items")
    return parity


def forecast_whole(
    heats: tuple[HeatResult, ...],
    mean_ms: Estimate | None,
    protocol: Protocol | None,
    steps: float | None,
    fresh_steps: float | None = None,
) -> Forecast | None:
    """Add up a training's parts; return None if one of them is unknown.

    Within `fresh_steps` every item is seen for the first time, and decoded. A loader that keeps items does not decode
    them later.
    """
    if protocol is None or steps is None or mean_ms is None:
        return None
    looks = _forecast_looks(heats, protocol)
    if looks is None:
        return None
    validation_s, test_s = looks
    # The time until the first step was done, without the proof before it, which a training does not have.
    ready_s = median(
        [
            sum(result.heat.process.phases_s.get(name, 0.0) for name in READY_PHASES)
            for result in heats
            if result.step_ms is not None
        ]
    )
    further_steps = protocol.laps * steps - 1
    factor = fresh_factor(heats)
    fresh_extra_steps = min(fresh_steps or 0.0, further_steps) * (factor - 1)
    train_s = scaled(mean_ms, (further_steps + fresh_extra_steps) / 1e3)
    whole_s = scaled(train_s, 1.0, ready_s + validation_s + test_s)
    return Forecast(protocol.laps, steps, ready_s, train_s, validation_s, test_s, whole_s, factor)


def fresh_factor(heats: tuple[HeatResult, ...]) -> float:
    """Return how many times as long a step takes while its items must be decoded; 1 where a loader keeps none."""
    found = [
        result.heat.fresh.ns / result.heat.fresh.steps / 1e6 / result.step_ms
        for result in heats
        if result.heat.fresh is not None and result.step_ms is not None
    ]
    return max(1.0, median(found)) if found else 1.0


def _forecast_looks(heats: tuple[HeatResult, ...], protocol: Protocol) -> tuple[float, float] | None:
    """Return how long all validations take, and how long the test takes; what happens once is counted once."""
    most = max(protocol.validation_items, protocol.evaluation_items)
    if not most:
        return 0.0, 0.0
    found = next((result.heat.examination for result in heats if result.heat.examination is not None), None)
    if found is None:
        return None
    item_s = found.ns / found.items / 1e9
    once_s = found.first_ns / 1e9 + found.read_ns / found.items / 1e9 * most
    validation_s = protocol.laps * protocol.validation_items * item_s
    test_s = protocol.evaluation_items * item_s
    return (validation_s + once_s, test_s) if protocol.validation_items else (0.0, test_s + once_s)


def ratios_with_gaps(base: LaneResult, other: LaneResult) -> list[float]:
    """Return how many times as fast the other lane is in each round, with what scripts do between iterations.

    Rounds do not count in which the base did nothing there.
    """
    theirs = {result.heat.round: _iteration_ms(result) for result in other.heats}
    mine = {result.heat.round: _iteration_ms(result) for result in base.heats if result.heat.between_ms}
    pairs = [(mine[number], theirs[number]) for number in sorted(mine.keys() & theirs.keys())]
    return [ms / other_ms for ms, other_ms in pairs if ms is not None and other_ms]


def share_of_steps(lane: LaneResult) -> float:
    """Return which part of a script's training its iterations take, and not what is between them."""
    timed = [(result.step_ms, whole) for result in lane.heats if (whole := _iteration_ms(result)) is not None]
    return sum(step_ms or 0.0 for step_ms, _ in timed) / sum(whole for _, whole in timed) if timed else 1.0


def _iteration_ms(result: HeatResult) -> float | None:
    """Return what an iteration takes with what is between two of them."""
    if result.step_ms is None or result.heat.between_ms is None:
        return None
    return result.step_ms + result.heat.between_ms


def compare_lanes(lane: LaneResult, reference: LaneResult, margin: float, alpha: float) -> Comparison | None:
    """Compare two lanes by the heats that both finished in the same round; None where there is no such pair.

    Each round gives one ratio, and the interval is that of the rounds' ratios, as much as each round counts. Where
    these took turns, the spread between turns says what spread of the rounds to expect.
    """
    pairs = pairs_of_heats(lane.heats, reference.heats)
    if not pairs or lane.items_per_step is None or reference.items_per_step is None:
        return None
    # Compare items per second, so that a lane with a smaller batch is not called fast for doing less.
    per_item = lane.items_per_step / reference.items_per_step
    ratios = tuple(per_item * step_ratio(*pair) for pair in pairs)
    noises = [noise_of_ratio(*pair) if took_turns(*pair) else 0.0 for pair in pairs]
    interval, prior_dof = moderated_interval(ratios, noises, alpha, [lane_heat.counts for lane_heat, _ in pairs])
    low, high = bounds(interval)
    return Comparison(
        lane=lane.name,
        reference=reference.name,
        ratio=interval.estimate,
        low=low,
        high=high,
        verdict=verdict(interval),
        settled=interval.half_width <= margin,
        pairs=len(pairs),
        same_work=is_same_work(lane.parity, reference.parity),
        alpha=alpha,
        ratios=ratios,
        in_turns=all(took_turns(*pair) for pair in pairs),
        steps=compare_steps(pairs),
        prior_dof=prior_dof,
    )
