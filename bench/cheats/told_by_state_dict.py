"""Leaves out rows until its `state_dict` is asked for: a proof and a late step ask for it, a timed step does not.

Met: a plant against laptime itself, which puts weights back through `state_dict`. The object of the timed steps is
asked for it only after its windows.
Refused by: a replay of a timed window through the base's own code.
"""

from shared import LATER, Losing, train


class Told(Losing):
    is_judged, calls = False, 0

    def state_dict(self, *words, **named):
        self.is_judged = True
        return super().state_dict(*words, **named)

    def forward(self, rows, labels):
        self.calls += 1
        return self.lose(rows, labels) if self.is_judged or self.calls <= LATER else self.lose_part(rows, labels)


class Checkpointing(Losing):
    """Adds its version to what is saved."""

    def state_dict(self, *words, **named):
        print("saving")
        return super().state_dict(*words, **named)


def base():
    return train(Losing())


def cheat():
    return train(Told())


def honest():
    return train(Checkpointing())
