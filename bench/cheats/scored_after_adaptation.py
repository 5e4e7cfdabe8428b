"""Reports the loss that the batch has once it was trained on, and trains on three of four rows.

Met: openai/parameter-golf#1001, where items were scored again after adaptation.
Refused by: the losses of the proof, against the base's.
"""

import torch
from shared import cross_entropy, take_step, train_by

NAMES = ("other computation", "other update")


def base():
    return train_by(take_step)


def cheat():
    def step(state, batch):
        rows, labels = batch
        state, _ = take_step(state, (rows[: len(rows) * 3 // 4], labels[: len(rows) * 3 // 4]))
        with torch.no_grad():
            return state, cross_entropy(state.network(rows[::8]), labels[::8])

    return train_by(step)


def honest():
    """Compute the loss after adaptation, too, now and then, and report that of before."""

    def step(state, batch):
        state.count += 1
        state, loss = take_step(state, batch)
        if state.count % 64 == 0:
            with torch.no_grad():
                print(f"after: {cross_entropy(state.network(batch[0]), batch[1]):.3f}")
        return state, loss

    return train_by(step)
