"""Replaces the object with which laptime writes its messages: each window is a tenth shorter in them.

Met: a plant against laptime itself, which looks whether functions and classes of its modules are as they were, and not
whether an object is.
Refused by: a factor of a verdict that comes from the judge's own clock alone.
"""

import dataclasses

from shared import Losing, train

from laptime.engine import wire

NAMES = ("hidden time", "changed laptime")


class Shortening:
    def __init__(self, real):
        self.real = real

    def encode(self, message):
        if isinstance(message, wire.Closed):
            window = message.window
            shorter = dataclasses.replace(window, end_ns=window.end_ns - (window.end_ns - window.start_ns) // 10)
            message = wire.Closed(shorter, message.loss)
        return self.real.encode(message)


def base():
    return train(Losing())


def cheat():
    wire._encoder = Shortening(wire._encoder)
    return train(Losing())


def honest():
    """Write a message with an encoder of its own."""
    assert b"half" in wire.msgspec.json.Encoder().encode({"half": 0.5})
    return train(Losing())
