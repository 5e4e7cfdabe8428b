"""What a remedy of a watched script likely gains, and gains at most, by the share of an iteration that it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from laptime.model.record import PredictedGain

WORKERS_TAKE_MS = 0.3  # of an iteration, to take a batch from a worker process
SAVES_MORE = 1.1  # times: what is left out no longer disturbs the rest, either
SHARE_UNSURE = 0.02  # of an iteration
LESS_LEFT = 0.02  # of an iteration: no remedy leaves less


# Fitted to ten loaders on two cores with two threads of PyTorch, items of Python and PIL (2026-11-30). A worker
# process takes that much longer for a batch, and these milliseconds more to hand it over.
MADE_SLOWER = 0.35
MADE_MS = 3.0
CROWDED_TAKES = 0.7  # of the computing, longer: its threads wait for the one whose core a worker has
ADVISED_WORKERS = 2  # that the advice starts


@dataclass(frozen=True, slots=True)
class Room:
    """What a remedy meets: an iteration's time, and how much of all cores was busy, where that is known.

    PyTorch computes with N `threads`; 0 where that is not known, or where a card computes. `waited` is which part of
    the time in question computes nothing, such as a loader that waits for a disk; None where that is not known.
    """

    step_ms: float
    busy: float
    threads: int = 0
    cores: int = 1
    waited: float | None = None


GainOfShare = Callable[[float, Room], PredictedGain]
ANY_ROOM = Room(1.0, 0.0)


def by_part(likely: float, most: float = 1.0) -> GainOfShare:
    """Return what is gained where a remedy takes away such a part of a share, and at most such a one."""

    def gain(share: float, _room: Room) -> PredictedGain:
        return PredictedGain(*(1 / max(1 - part * share, LESS_LEFT) for part in (likely, most)))

    return gain


by_leaving_out = by_part(1.0)  # what takes so much takes no more than that


def by_workers(share: float, room: Room) -> PredictedGain:
    """Return what worker processes gain: the wait, as far as there are cores for the work, less what a batch costs.

    Threads that compute keep their cores while they have nothing to do, so workers get none of these for nothing.
    """
    computing = 1 - share
    taken = WORKERS_TAKE_MS / room.step_ms
    threads = min(room.threads, room.cores)
    waited = room.waited
    if waited is None:  # it computes if more was busy than the training alone could be
        waited = float(room.busy <= computing * (threads or 1) / room.cores)
    made = share * (1 + MADE_SLOWER * (1 - waited)) + MADE_MS / room.step_ms
    on_cores = made * (1 - waited)
    if not threads:
        left = max(computing, room.busy, made / ADVISED_WORKERS) + taken
    elif threads < room.cores:
        held = threads if threads > 1 else computing  # one thread alone waits for no other, and leaves its core
        left = max(made / min(ADVISED_WORKERS, room.cores - held), computing + taken)
    else:
        crowded = computing * (1 + CROWDED_TAKES * (1 - waited))
        left = max(made / ADVISED_WORKERS, crowded + on_cores / room.cores + taken)
    return PredictedGain(1 / max(left, LESS_LEFT), by_leaving_out(share, room).most)


def with_doubt(gain: PredictedGain) -> PredictedGain:
    """Widen a bound: the share that it rests on is an estimate, and may be larger in another run."""
    saved = (1 - 1 / gain.most) * SAVES_MORE + SHARE_UNSURE
    return PredictedGain(gain.likely, 1 / max(1 - saved, LESS_LEFT))


def of_whole(gain: float, part: float) -> float:
    """Return what a gain in a part of the time is of the whole."""
    return 1 / (1 - part * (1 - 1 / gain))
