"""Keeps what its first layers made of a batch, by the identity of its tensor, and never computes it again.

Met: gpu-mode/reference-kernels#142. In a training the first laps fill the cache; from step 60 on, the features are
of weights that were, and no gradient reaches these layers.
Refused by: a replay of a timed window of a later lap through the base's own code.
"""

import torch
from shared import LATER, Losing, cross_entropy, make_network, train


class Normalising(Losing):
    """Normalises its items in each step."""

    def __init__(self):
        super().__init__(make_network(320))

    def normalise(self, rows):
        return (rows - rows.mean(0)) / rows.std(0) * rows.abs().mean() + rows.sin() * 0.0

    def forward(self, rows, labels):
        return self.lose(self.normalise(rows), labels)


class KeepsNormal(Normalising):
    """Keeps what depends on the items alone: no weight is in it, so it never changes."""

    def __init__(self):
        super().__init__()
        self.kept = {}

    def normalise(self, rows):
        key = (rows.data_ptr(), rows.shape, rows.dtype, float(rows[0, 0]))
        if key not in self.kept:
            self.kept[key] = super().normalise(rows)
        return self.kept[key]


class KeepsFeatures(Normalising):
    """Keeps what depends on weights, too."""

    def __init__(self):
        super().__init__()
        self.kept = {}
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, rows, labels):
        lower, last, key = self.network[:4], self.network[4], rows.data_ptr()
        self.count += 1
        if self.count <= LATER or key not in self.kept:
            features = lower(self.normalise(rows))
            self.kept[key] = features.detach()
        else:
            features = self.kept[key] + 0.0 * sum(weight.sum() for weight in lower.parameters())
        return cross_entropy(last(features), labels)


def base():
    return train(Normalising())


def cheat():
    return train(KeepsFeatures())


def honest():
    return train(KeepsNormal())
