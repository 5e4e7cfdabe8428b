"""What a training's child says, as something to be shown: where it is, how fast, how well, and how much is left."""

from __future__ import annotations

from laptime import wire
from laptime.model.protocol import FullOrder, Moment, Protocol
from laptime.run.marathon import TrainingNotes


def read_moment(
    order: FullOrder, notes: TrainingNotes, message: wire.FromChild, protocol: Protocol
) -> Moment | None:
    """Give what a message means to whoever looks on; nothing, where it means nothing new."""
    lane, laps = order.heat.lane.name, protocol.laps
    seed = order.heat.seed if protocol.seeds > 1 else None
    match message:
        case wire.Phase(name=name):
            number = int(name.rpartition(" ")[2]) if name.rpartition(" ")[2].isdigit() else 0
            return Moment(lane, seed, name.rstrip("0123456789 "), laps, number)
        case wire.Resumed(laps=done) if done:
            return Moment(lane, seed, f"goes on after lap {len(done)}", laps, len(done))
        case wire.Stepped():
            step_ms = message.ns / message.step / 1e6
            return Moment(
                lane,
                seed,
                "lap",
                laps,
                message.lap,
                message.step,
                message.steps,
                step_ms,
                message.loss,
                message.accuracy,
                left_s=(message.steps - message.step) * step_ms / 1e3,
            )
        case wire.LapDone(lap=lap):
            return Moment(lane, seed, "lap done", laps, lap.number, lap.steps, lap.steps, lap=lap)
        case _:
            return None
