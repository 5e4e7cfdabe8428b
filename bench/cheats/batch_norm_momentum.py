"""Updates the running statistics of its batch norm never, which its rate of 0 does not show in a loss.

Met: a plant against laptime itself (bench/plants_torch.py). A training loss does not depend on them; a validation does.
Refused by: buffers compared at the end of a replayed window.
"""

from shared import Losing, cross_entropy, make_network, train
from torch import nn
from torch.nn.functional import batch_norm

NAMES = ("other network",)


def with_norm(momentum=0.1):
    network = make_network()
    return nn.Sequential(network[0], nn.BatchNorm1d(256, momentum=momentum), *network[1:])


class NoStatistics(Losing):
    """Normalises by the batch alone, and has the layer of the base with its momentum."""

    def lose(self, rows, labels):
        first, norm, *rest = self.network
        held = batch_norm(first(rows), None, None, norm.weight, norm.bias, training=True)
        return cross_entropy(nn.Sequential(*rest)(held), labels)


class Functional(Losing):
    """The same norm, written as a function, with its statistics."""

    def lose(self, rows, labels):
        first, norm, *rest = self.network
        norm.num_batches_tracked += 1
        held = batch_norm(
            first(rows), norm.running_mean, norm.running_var, norm.weight, norm.bias, training=True,
            momentum=norm.momentum,
        )  # fmt: skip
        return cross_entropy(nn.Sequential(*rest)(held), labels)


def base():
    return train(Losing(with_norm()))


def cheat():
    return train(NoStatistics(with_norm()))


def honest():
    return train(Functional(with_norm()))
