"""A step of its own that keeps its count in the state, and leaves out seven of eight rows from step 60 on.

Met: the same as counted_in_a_buffer.py. Each proof and each late step begins from a copy of the state, with its count
at 0.
Refused by: a replay of a timed window through the base's own code.
"""

from shared import LATER, PART, RATE, take_step, train_by


def base():
    return train_by(take_step)


def cheat():
    def step(state, batch):
        state.count += 1
        return take_step(state, batch, 1 if state.count <= LATER else PART)

    return train_by(step)


def honest():
    """Count in the state for a schedule of two rates, the second of which begins after a million steps."""

    def step(state, batch):
        state.count += 1
        for group in state.optimizer.param_groups:
            group["lr"] = RATE if state.count < 1_000_000 else 1e-5
        return take_step(state, batch)

    return train_by(step)
