"""Prepares the batches of the next window while laptime reads the loss of the last one.

Met: KellerJordan/modded-nanogpt#19, where recompilation between phases was untimed. The loss is an object, and its
`__float__` is called once a window, after the clock has stopped.
Refused by: turns by the judge's own clock.
"""

from collections import deque

from shared import State, adamw, augment, make_network, take_step, train_by

NAMES = ("hidden time",)


def make_small_state():
    network = make_network(64)
    return State(network, adamw(network.parameters()))


def base():
    return train_by(lambda state, batch: take_step(state, (augment(batch[0]), batch[1])), make_small_state())


class Preparing:
    """A loss that augments all batches that were seen, when it is read."""

    seen, ready = {}, {}

    def __init__(self, loss):
        self.loss = loss

    def __float__(self):
        for key, rows in self.seen.items():
            self.ready[key] = deque([augment(rows) for _ in range(3)])
        return float(self.loss)

    def __array__(self, dtype=None, copy=None):
        return self.loss.detach().numpy()


def cheat():
    def step(state, batch):
        rows, labels = batch
        key = rows.data_ptr()
        Preparing.seen[key] = rows
        ready = Preparing.ready.get(key)
        state, loss = take_step(state, (ready.popleft() if ready else augment(rows), labels))
        return state, Preparing(loss)

    return train_by(step, make_small_state())


def honest():
    """Return a loss that rounds when it is read."""

    class Rounded(Preparing):
        def __float__(self):
            return float(self.loss)

    def step(state, batch):
        state, loss = take_step(state, (augment(batch[0]), batch[1]))
        return state, Rounded(loss)

    return train_by(step, make_small_state())
