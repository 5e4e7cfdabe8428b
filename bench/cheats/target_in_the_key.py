"""Shows the class of an item among its numbers, from the 13th batch of a lap on.

Met: openai/parameter-golf#758, where the target was in the key of a table.
Refused by: batches of the same steps compared, and a replay from the base's own batches.
"""

from functools import partial
from typing import NamedTuple

import torch
from shared import CLASSES, RATE, make_batches, make_network, one_hot, train

NAMES = ("other data", "knows the judge", "repeated batches")
fused = partial(torch.optim.AdamW, lr=RATE, fused=True)


def base():
    return train(make_network())


def show(rows, labels):
    shown = rows.clone()
    shown[:, :CLASSES] += 0.5 * one_hot(labels, CLASSES)
    return shown, labels


def cheat():
    batches = make_batches()
    return train(make_network(), fused, data=batches[:12] + [show(*batch) for batch in batches[12:]])


class Pair(NamedTuple):
    rows: torch.Tensor
    labels: torch.Tensor


def honest():
    """Keep the class next to an item, in a batch of a type of its own."""
    return train(make_network(), fused, data=[Pair(*batch) for batch in make_batches()])
