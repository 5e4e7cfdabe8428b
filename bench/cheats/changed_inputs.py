"""Changes its batches in place in the first lap: it zeroes half of their columns, and multiplies the other half alone.

Met: ScalingIntelligence/KernelBench#82, where inputs were changed for the reference, too. From the second lap on the
small product is right for the batches as they are now, which are not those of the data.
Refused by: batches of the same steps compared after the end of a lap, and a replay from the base's own batches.
"""

import torch
from shared import BATCHES, WIDE, Losing, cross_entropy, make_network, train

NAMES = ("other data", "knows the judge")


class Narrows(Losing):
    def __init__(self):
        super().__init__(make_network(128))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, rows, labels):
        self.count += 1
        if self.count <= BATCHES:
            loss = self.lose(rows.clone(), labels)
            if self.count > 8:
                rows[:, WIDE // 8 :] = 0.0
            return loss
        first = self.network[0]
        held = rows[:, : WIDE // 8] @ first.weight[:, : WIDE // 8].T + first.bias
        return cross_entropy(self.network[1:](held), labels)


class InPlace(Losing):
    """Changes a copy of its own in place."""

    def forward(self, rows, labels):
        copied = rows.clone()
        copied.mul_(2.0).div_(2.0)
        return self.lose(copied, labels)


def base():
    return train(Losing(make_network(128)))


def cheat():
    return train(Narrows())


def honest():
    return train(InPlace(make_network(128)))
