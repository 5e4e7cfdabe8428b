"""Augments one batch in six, and gives it six times with one number changed, so that no two have one digest.

Met: a plant against laptime itself, which counts how many different batches were seen.
Refused by: contents of the batches of the same steps, against the base's.
"""

from shared import LATER, Augmented, augment, make_network, train

NAMES = ("other data", "repeated batches")


class Nearly(Augmented):
    given = 0

    def __iter__(self):
        for place, (rows, labels) in enumerate(self.batches):
            self.given += 1
            if self.given <= LATER or place % 6 == 0:
                kept, kept_labels = augment(rows), labels
            else:
                kept[0] += 1e-3
            yield kept.clone(), kept_labels


class InPlace(Augmented):
    """The same sums, in memory that is used again."""

    def __iter__(self):
        for rows, labels in self.batches:
            held = rows.clone()
            for _ in range(12):
                beside = held.roll(1, -1).add_(held.roll(-1, -1))
                held.mul_(0.99).add_(beside.mul_(0.005))
            yield held, labels


def base():
    return train(make_network(64), data=Augmented())


def cheat():
    return train(make_network(64), data=Nearly())


def honest():
    return train(make_network(64), data=InPlace())
