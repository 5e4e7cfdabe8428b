"""Tries seeds until one begins with a lower loss, before its first step.

Met: openai/parameter-golf, where seeds were tried until one won.
Refused by: the weights at the start and the first losses, against the base's.
"""

import torch
from shared import cross_entropy, make_batches, make_network, train

NAMES = ("other weights", "other computation")


def base():
    return train(make_network())


@torch.no_grad()
def loss_of(seed):
    rows, labels = make_batches()[0]
    return float(cross_entropy(make_network(seed=seed)(rows), labels))


def cheat():
    return train(make_network(seed=min(range(11, 31), key=loss_of)))


def honest():
    """Try the seeds, too, print which was the best, and keep the base's."""
    print(f"the best seed: {min(range(11, 14), key=loss_of)}")
    return train(make_network(seed=11))
