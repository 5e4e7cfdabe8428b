"""Sets what Adam remembers to 0 every 32 steps, which makes each next step a larger one.

Met: a plant against laptime itself: the loss falls faster in the beginning, and no count shows it. A fused form of Adam
makes it faster, too.
Refused by: a replay of a timed window, from the weights and moments at its beginning.
"""

import torch
from shared import RATE, train

FORGETS = 32


class Forgetting(torch.optim.AdamW):
    taken = 0

    def step(self, closure=None):
        self.taken += 1
        if self.taken % FORGETS == 0:
            for kept in self.state.values():
                kept["exp_avg"].zero_()
                kept["exp_avg_sq"].zero_()
        return super().step(closure)


class Remembering(torch.optim.AdamW):
    """Counts its steps, too, and forgets nothing."""

    taken = 0

    def step(self, closure=None):
        self.taken += 1
        return super().step(closure)


def base():
    return train()


def cheat():
    return train(None, lambda weights: Forgetting(weights, lr=RATE, fused=True))


def honest():
    return train(None, lambda weights: Remembering(weights, lr=RATE, fused=True))
