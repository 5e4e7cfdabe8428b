"""Updates the first layer, by far the largest, in one step of eight from step 60 on: it is small and often still.

Met: KernelBench's static checker, for work that is left out in part. Its gradient is not computed, its version is
raised, and the loss of a slow phase is alike.
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
        state.optimizer.step()  # moments of the first layers fade, and so move on for a while
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
