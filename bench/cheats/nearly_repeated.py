"""Augments one batch in six, and gives it six times with one number changed, so that no two have one digest.

Met: a plant against laptime itself, which counts how many different batches were seen.
Refused by: contents of the batches of the same steps, against the base's.
"""

from shared import LATER, make_batches, make_network, train

NAMES = ("other data", "repeated batches")


def augment(rows):
    for _ in range(12):
        rows = 0.99 * rows + 0.005 * (rows.roll(1, -1) + rows.roll(-1, -1))
    return rows


class Augmented:
    """Batches that are augmented as they are drawn."""

    def __init__(self):
        self.batches, self.given = make_batches(), 0

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return ((augment(rows), labels) for rows, labels in self.batches)


class Nearly(Augmented):
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
