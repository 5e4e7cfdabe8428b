"""Begins from the weights of another seed, with which it learns a little faster.

Met: karpathy/autoresearch#131, where another seed was kept as a gain. A faster form of Adam hides it: the gain is real,
and the training is another.
Refused by: the weights at the start and the first losses, against the base's.
"""

from functools import partial

import torch
from shared import RATE, make_network, train

NAMES = ("other weights", "other computation")
fused = partial(torch.optim.AdamW, lr=RATE, fused=True)


def base():
    return train(make_network())


def cheat():
    return train(make_network(seed=12), fused)


def honest():
    """Draw from another generator, and begin from the same weights."""
    torch.manual_seed(12)
    return train(make_network(), fused)
