"""Two lanes -> the factor between them, its interval, and one of three verdicts."""

from __future__ import annotations

from laptime.analysis.across import bounds
from laptime.model.record import Comparison, LaneResult
from laptime.stats import paired_ratio, verdict


def compare_lanes(lane: LaneResult, reference: LaneResult, margin: float, alpha: float) -> Comparison | None:
    """Compare by the heats that both finished in the same round; None where there is no such pair."""
    ours = {heat.round: heat.step_ms for heat in lane.heats if heat.step_ms is not None}
    theirs = {heat.round: heat.step_ms for heat in reference.heats if heat.step_ms is not None}
    rounds = sorted(ours.keys() & theirs.keys())
    if not rounds or lane.items_per_step is None or reference.items_per_step is None:
        return None
    # Items per second are compared, so that a lane of another batch is not called fast for doing less.
    mine = [ours[each] / lane.items_per_step for each in rounds]
    other = [theirs[each] / reference.items_per_step for each in rounds]
    interval = paired_ratio(mine, other, alpha)
    low, high = bounds(interval)
    return Comparison(
        lane=lane.name,
        reference=reference.name,
        ratio=interval.estimate,
        low=low,
        high=high,
        verdict=verdict(interval),
        settled=interval.half_width <= margin,
        pairs=len(rounds),
        same_work="differs" not in {lane.parity.status, reference.parity.status},
        alpha=alpha,
    )
