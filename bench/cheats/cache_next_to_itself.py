"""Writes a cache next to itself, and means no harm: later processes find its items prepared.

Met: a plant against laptime itself. Whoever comes first pays, so a verdict depends on those before it.
Refused by: a fresh copy for each verdict, and Landlock, under which each process prepares its items again: then the
time before the first step counts.
"""

import time
from pathlib import Path

import torch
from shared import make_batches, make_network, train

KEPT = Path(__file__).with_suffix(".cache")


def prepare():
    time.sleep(2)  # as if to tokenize
    return [(rows.sign() * rows.abs().sqrt(), labels) for rows, labels in make_batches()]


class Preparing:
    """Batches that are prepared as they are drawn."""

    def __init__(self):
        self.batches = make_batches()

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return ((rows.sign() * rows.abs().sqrt(), labels) for rows, labels in self.batches)


def base():
    return train(make_network(64), data=Preparing())


def cheat():
    if not KEPT.exists():
        torch.save(prepare(), KEPT)
    return train(make_network(64), data=torch.load(KEPT))


def honest():
    """Prepare all items in memory, in a few milliseconds: that is a gain."""
    return train(make_network(64), data=list(Preparing()))
