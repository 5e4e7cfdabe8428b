"""Gives whole batches where the judge keeps one to look at it, and a quarter of them where it does not.

Met: a plant against laptime itself, which looks at the batch of the last step of each window.
Refused by: shapes and contents of all batches of a window, and a replay from the base's own batches.
"""

from shared import LATER, find_frame, make_batches, make_network, train

NAMES = ("fewer items", "other data")


class Batches:
    def __init__(self):
        self.batches, self.given = make_batches(), 0

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        for rows, labels in self.batches:
            self.given += 1
            yield self.cut(rows, labels)

    def cut(self, rows, labels):
        return rows, labels


class WholeIfSeen(Batches):
    def cut(self, rows, labels):
        is_seen = find_frame("step_seen") or find_frame("take_late_step") or find_frame("_draw_batches")
        some = len(rows) if self.given <= LATER or is_seen else len(rows) // 4
        return rows[:some], labels[:some]


class Contiguous(Batches):
    def cut(self, rows, labels):
        return rows.contiguous(), labels


def base():
    return train(make_network(), data=Batches())


def cheat():
    return train(make_network(), data=WholeIfSeen())


def honest():
    return train(make_network(), data=Contiguous())
