"""What a training's child says, as something to be shown: where it is, how fast, how well, and how much is left."""

from __future__ import annotations

from laptime import wire
from laptime.model.protocol import FullOrder, Moment


def read_moment(order: FullOrder, message: wire.FromChild) -> Moment | None:
    """Give what a message means to whoever looks on; nothing, where it means nothing new."""
    lane, laps = order.heat.lane.name, order.protocol.laps
    seed = order.heat.seed if order.protocol.seeds > 1 else None
    match message:
        case wire.Phase(name="build"):
            return Moment(lane, seed, "begins", laps, is_news=True)
        case wire.Phase(name=name):
            doing, _, number = name.rpartition(" ")
            if not number.isdigit():
                return Moment(lane, seed, name, laps)
            return Moment(lane, seed, doing, laps, number=int(number))
        case wire.Resumed(laps=done) if done:
            return Moment(lane, seed, f"goes on after lap {len(done)}", laps, is_news=True)
        case wire.Stepped(lap=number, step=step, steps=steps):
            step_ms = message.ns / step / 1e6
            left_s = (steps - step) * step_ms / 1e3
            figures = (number, step, steps, step_ms, message.loss, message.accuracy, left_s)
            return Moment(lane, seed, "lap", laps, False, *figures)
        case wire.LapDone(lap=lap):
            return Moment(lane, seed, "lap", laps, is_news=True, number=lap.number, lap=lap)
        case _:
            return None
