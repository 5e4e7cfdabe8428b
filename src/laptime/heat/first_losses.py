"""The first losses of a heat: by them it is known to be the training that an earlier heat of its lane has proven.

All heats of a lane train from the same weights on the same batches with the same random numbers. So what one heat has
proven is proven for all whose first losses are the same: the first one depends on the weights, the batch and the loss,
the later ones on the optimizer's updates. The lane's own steps are compared at its own rate, as they are timed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from laptime.backends.base import Runner

STEPS = 2
# Relative. Two processes compute the same sums, but threads may add them up in another order. Heats of PyTorch's lanes
# on a processor had the same losses to the last bit (docs/proof.md). A heat beyond this is not refused, but proven.
TOLERANCE = 1e-5


def take_losses(runner: Runner) -> tuple[float, ...]:
    """Return the loss of the step that was taken and of some more; nothing where they are not seen, or not finite.

    A loader that holds its items is not asked for more: its fresh ones are timed.
    """
    losses: list[float | None] = [runner.loss()]
    for _ in range(0 if runner.holds else STEPS - 1):
        runner.run(runner.stride)
        runner.fence()
        losses.append(runner.loss())
    found = tuple(each for each in losses if each is not None and math.isfinite(each))
    return found if len(found) == len(losses) else ()


def find_distance(losses: Sequence[float], known: Sequence[float]) -> float:
    """Return the largest relative distance between two heats' first losses; infinite if they cannot be compared."""
    if not losses or len(losses) != len(known):
        return math.inf
    return max(abs(mine - theirs) / max(abs(theirs), 1e-30) for mine, theirs in zip(losses, known, strict=True))
