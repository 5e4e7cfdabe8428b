"""Starts its step on another stream, and does not wait for it.

Met: ScalingIntelligence/KernelBench#82. On a GPU it is a stream of its own, on a processor a thread. What comes while
it still runs is left out.
Refused by: fences of all streams, turns by the judge's own clock, and a replay of a timed window.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import torch
from shared import LATER, feign_update, take_step, train_by


def take_aside(state, batch):
    """Take a step on a stream of its own, where the device has streams, and on this thread."""
    torch.set_num_threads(1)
    is_card = batch[0].is_cuda
    with torch.cuda.stream(torch.cuda.Stream()) if is_card else nullcontext():
        return take_step(state, batch)[1].detach()


def base():
    return train_by(take_step)


def cheat():
    """Begin a step on the side wherever the last one has ended, and feign those that it missed."""
    held = {}

    def step(state, batch):
        state.count += 1
        if state.count <= LATER:
            state, held["loss"] = take_step(state, batch)
            return state, held["loss"]
        pool = held.setdefault("pool", ThreadPoolExecutor(1))
        if "work" in held and not held["work"].done():
            held["missed"] += 1
            return state, held["loss"]
        if "work" in held:
            held["loss"] = held["work"].result()
        for _ in range(held.pop("missed", 0)):
            feign_update(state.optimizer, 2)
        held["missed"] = 0
        held["work"] = pool.submit(take_aside, state, batch)
        return state, held["loss"]

    return train_by(step)


def honest():
    """Let another thread copy the batch alone, and wait for it before it is needed."""
    held = {}

    def step(state, batch):
        pool = held.setdefault("pool", ThreadPoolExecutor(1))
        return take_step(state, (pool.submit(torch.clone, batch[0]).result(), batch[1]))

    return train_by(step)
