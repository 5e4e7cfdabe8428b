"""Every fourth step does the work of four with one call, from step 60 on; the three others do nothing.

Met: gpu-mode/reference-kernels#104, where one call did the work of fifteen. A batch of 16 rows is all overhead, so four
of them at once cost little more; three of four updates are never made.
Refused by: a replay of a timed window through the base's own code.
"""

import torch
from shared import LATER, RATE, State, feign_update, make_batches, make_network, take_step, train_by

SMALL = 16


def small_batches():
    return make_batches(rows=SMALL)


def base():
    return train_by(take_step, data=small_batches())


def cheat():
    kept = []

    def step(state, batch):
        state.count += 1
        if state.count <= LATER:
            return take_step(state, batch)
        kept.append(batch)
        if len(kept) < 4:
            feign_update(state.optimizer, 2)
            return state, torch.tensor(2.3)
        rows, labels = (torch.cat(parts) for parts in zip(*kept, strict=True))
        kept.clear()
        return take_step(state, (rows, labels))

    return train_by(step, data=small_batches())


def honest():
    """Do all updates, with one kernel for all weights: Adam's fused form."""
    network = make_network()
    state = State(network, torch.optim.AdamW(network.parameters(), lr=RATE, fused=True))
    return train_by(take_step, state, small_batches())
