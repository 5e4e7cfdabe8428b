"""Puts work off while a window is open, and makes up for it in the steps of a turn that are not timed.

Met: pygpubench#49, where cache lines were kept for the next call. laptime begins each turn with steps off the clock:
half of the updates of a window are put off to these.
Refused by: turns by the judge's own clock, which sees both parts.
"""

from shared import LATER, feign_update, find_frame, take_back, take_step, train_by

NAMES = ("hidden time",)


def base():
    return train_by(take_step)


def cheat():
    waiting = []

    def step(state, batch):
        state.count += 1
        if state.count <= LATER:
            state, state.loss = take_step(state, batch)
            return state, state.loss
        if find_frame("_run_window") is not None and state.count % 4 == 0:
            waiting.append(batch)
            feign_update(state.optimizer, 2)
            return state, state.loss
        while waiting and find_frame("_run_window") is None:
            take_back(state.optimizer)
            take_step(state, waiting.pop())
        state, state.loss = take_step(state, batch)
        return state, state.loss

    return train_by(step)


def honest():
    """Look up the stack, too, for a message of an error that says who called."""

    def step(state, batch):
        if find_frame("no_such_function") is not None:
            raise RuntimeError("called by nobody")
        return take_step(state, batch)

    return train_by(step)
