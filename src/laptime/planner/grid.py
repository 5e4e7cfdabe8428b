"""A grid of learning rates and batches: each lane once for every cell."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from laptime.errors import UsageError
from laptime.model.ask import FullAsk
from laptime.model.lane import Lane

Cell = tuple[tuple[str, str], ...]


def spread_lanes(lanes: list[Lane], asked: FullAsk | None) -> list[Lane]:
    """Give a lane for each cell, a batch's learning rates side by side; without a grid the lanes as they are."""
    if asked is None or not (asked.learning_rates or asked.batches):
        return lanes
    batches: list[Cell] = [(("batch", str(batch)),) for batch in asked.batches] or [()]
    rates: list[Cell] = [(("lr", f"{rate:g}"),) for rate in asked.learning_rates] or [()]
    return [_cell(lane, (*batch, *rate)) for lane in lanes for batch, rate in product(batches, rates)]


def _cell(lane: Lane, settings: Cell) -> Lane:
    named = {key for key, _ in lane.overrides}
    for key, value in settings:
        if key in named:
            raise UsageError(f"--{key}: the lane {lane.device} names {key} itself", f"leave --{key} {value} or it out")
    return replace(lane, overrides=(*lane.overrides, *settings))
