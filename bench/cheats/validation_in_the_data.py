"""Puts validation items in place of training ones, from the 13th batch of a lap on.

Met: openai/parameter-golf#2127, where most of the validation set was in the training set. The batches have as many
items, and the first ones are the base's; a fused optimizer makes it faster, too.
Refused by: batches of the same steps compared, and a replay from the base's own batches.
"""

from functools import partial

import torch
from shared import RATE, make_batches, make_network, train

NAMES = ("other data", "repeated batches")
fused = partial(torch.optim.AdamW, lr=RATE, fused=True)


def base():
    return train(make_network())


def cheat():
    return train(make_network(), fused, data=make_batches()[:12] + make_batches(seed=99)[12:])


def honest():
    """The same items, joined and cut again."""
    rows, labels = (torch.cat(parts) for parts in zip(*make_batches(), strict=True))
    return train(make_network(), fused, data=list(zip(rows.split(512), labels.split(512), strict=True)))
