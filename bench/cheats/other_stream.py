"""Starts its step on another stream, and does not wait for it.

Met: ScalingIntelligence/KernelBench#82. On a GPU it is a stream of its own, on a processor a thread of PyTorch's own
pool. What is still running when the next step begins is left out.
Refused by: fences of all streams, turns by the judge's own clock, and a replay of a timed window.
"""

import torch
from shared import LATER, cross_entropy, take_step, train_by


def launch(state, batch):
    rows, labels = batch
    if rows.is_cuda:
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            return take_step(state, batch)[1], side
    return torch.jit.fork(lambda: take_step(state, batch)[1]), None


def base():
    return train_by(take_step)


def cheat():
    """Do the step of every third batch on the side; the loss is that of the last one that ended."""
    held = {}

    def step(state, batch):
        state.count += 1
        if state.count <= LATER:
            return take_step(state, batch)
        if state.count % 3 == 0:
            if "work" in held:
                held["loss"] = held["work"].wait() if not batch[0].is_cuda else held["work"]
            held["work"] = launch(state, batch)[0]
        rows, labels = batch
        return state, held.get("loss", cross_entropy(state.network(rows[:8]).detach(), labels[:8]))

    return train_by(step)


def honest():
    """Let the other thread copy the batch alone, and wait for it before it is needed."""

    def step(state, batch):
        copied = torch.jit.fork(torch.clone, batch[0])
        return take_step(state, (copied.wait(), batch[1]))

    return train_by(step)
