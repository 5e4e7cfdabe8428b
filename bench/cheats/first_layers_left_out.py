"""Computes no gradient of its first layers in seven of eight steps, from step 60 on.

Met: KernelBench's static checker, for work that is left out in part. Gradients of 0 are written
to them, so that all counts are those of the base, and the losses of a slow phase are alike.
Refused by: a replay of a timed window through the base's own code, array by array.
"""

import torch
from shared import LATER, State, adamw, cross_entropy, make_network, take_step, train_by


def wide_state():
    network = make_network(512)
    return State(network, adamw(network.parameters()))


def base():
    return train_by(take_step, wide_state())


def cheat():
    def step(state, batch):
        state.count += 1
        if state.count <= LATER or state.count % 8 == 0:
            return take_step(state, batch)
        rows, labels = batch
        first = state.network[:3]
        with torch.no_grad():
            held = first(rows)
        state.optimizer.zero_grad(set_to_none=False)
        loss = cross_entropy(state.network[3:](held), labels)
        loss.backward()
        state.optimizer.step()
        return state, loss

    return train_by(step, wide_state())


def honest():
    """Write zeros into the gradients in place of freeing them."""

    def step(state, batch):
        rows, labels = batch
        state.optimizer.zero_grad(set_to_none=False)
        loss = cross_entropy(state.network(rows), labels)
        loss.backward()
        state.optimizer.step()
        return state, loss

    return train_by(step, wide_state())
