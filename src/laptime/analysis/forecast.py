"""A lane's heats and the published protocol -> how long the whole training would take, were it run."""

from __future__ import annotations

from laptime.analysis.across import START_PHASES, scaled
from laptime.analysis.heats import mean_step_ms
from laptime.model.protocol import Protocol
from laptime.model.record import Estimate, Forecast, HeatResult
from laptime.stats import median

READY_PHASES = (*START_PHASES, "first step")


def forecast_whole(
    heats: tuple[HeatResult, ...],
    mean_ms: Estimate | None,
    protocol: Protocol | None,
    steps: float | None,
    fresh_steps: float | None = None,
) -> Forecast | None:
    """Add up a training's parts; give nothing where one of them is not known.

    Within `fresh_steps` every item is seen for the first time, and decoded; where a loader holds items, none is later.
    """
    if protocol is None or steps is None or mean_ms is None:
        return None
    looks = _forecast_looks(heats, protocol)
    if looks is None:
        return None
    validation_s, test_s = looks
    ready_s = median([_ready_s(heat) for heat in heats if heat.step_ms is not None])
    further_steps = protocol.laps * steps - 1
    factor = fresh_factor(heats)
    dearer_steps = min(fresh_steps or 0.0, further_steps) * (factor - 1)
    train_s = scaled(mean_ms, (further_steps + dearer_steps) / 1e3)
    whole_s = scaled(train_s, 1.0, ready_s + validation_s + test_s)
    return Forecast(protocol.laps, steps, ready_s, train_s, validation_s, test_s, whole_s, factor)


def fresh_factor(heats: tuple[HeatResult, ...]) -> float:
    """Give how many times as long a step takes while its items must be decoded; 1 where a loader holds none."""
    found = [
        heat.fresh.ns / heat.fresh.steps / 1e6 / mean_step_ms(heat)
        for heat in heats
        if heat.fresh is not None and heat.step_ms is not None
    ]
    return max(1.0, median(found)) if found else 1.0


def _ready_s(heat: HeatResult) -> float:
    """Give the time until the first step was done; the proof before it is left out, since a training has none."""
    return sum(heat.phases_s.get(name, 0.0) for name in READY_PHASES)


def _forecast_looks(heats: tuple[HeatResult, ...], protocol: Protocol) -> tuple[float, float] | None:
    """Give how long all validations take, and how long the test takes; what happens once is counted once."""
    most = max(protocol.validation_items, protocol.evaluation_items)
    if not most:
        return 0.0, 0.0
    found = next((heat.examination for heat in heats if heat.examination is not None), None)
    if found is None:
        return None
    item_s = found.ns / found.items / 1e9
    once_s = found.first_ns / 1e9 + found.read_ns / found.items / 1e9 * most
    validation_s = protocol.laps * protocol.validation_items * item_s
    test_s = protocol.evaluation_items * item_s
    return (validation_s + once_s, test_s) if protocol.validation_items else (0.0, test_s + once_s)
