"""The learning rate that belongs to another batch of a built-in training.

With plain SGD it grows as the batch: one step then takes the place of several, and has to go as far as they did. A step
of Adam has nearly one length, whatever that of the gradient, and the noisier the gradient, the less of it goes one way.
The mean over k times as many items has noise that is smaller by the root of k. So the rate grows as the root.
"""

from __future__ import annotations

from laptime.model.workload import Adam, Sgd, Workload

POWERS: dict[type[Adam | Sgd], float] = {Sgd: 1.0, Adam: 0.5}


def rate_of_batch(workload: Workload, batch: int) -> float:
    """Return the learning rate for a batch of this many items."""
    published = workload.optimizer
    rate = published.learning_rate * (batch / workload.batch) ** POWERS[type(published)]
    return float(f"{rate:.4g}")  # as short as a lane's name wants it
