"""Leaves out rows where no function of the proof is on the stack.

Met: kernelboard, and a plant against laptime itself: the names of functions that call it say who looks.
Refused by: a replay of a timed window through the base's own code.
"""

from shared import LATER, Losing, find_frame, train

NAMES = ("knows the judge",)
JUDGES = ("prove", "reference", "take_late_step", "take_losses", "prove_training", "refer")


class Told(Losing):
    calls = 0

    def forward(self, rows, labels):
        self.calls += 1
        if self.calls <= LATER or any(map(find_frame, JUDGES)):
            return self.lose(rows, labels)
        return self.lose_part(rows, labels)


class Warned(Losing):
    """Looks up the stack, too, to warn who calls it without gradients."""

    def forward(self, rows, labels):
        if find_frame("validate") is not None:
            print("called from a validation")
        return self.lose(rows, labels)


def base():
    return train(Losing())


def cheat():
    return train(Told())


def honest():
    return train(Warned())
