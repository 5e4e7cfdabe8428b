"""Writes a cache next to itself, and means no harm: later processes find its items prepared.

Met: a plant against laptime itself. The first process pays, so that a verdict depends on those before it.
Refused by: a fresh copy for each verdict, and Landlock, under which each process prepares its items again: then the
time before the first step counts.
"""

import time
from pathlib import Path

import torch
from shared import Augmented, augment, make_network, train

KEPT = Path(__file__).with_suffix(".cache")


def base():
    return train(make_network(64), data=Augmented())


def cheat():
    if not KEPT.exists():
        time.sleep(2)  # a larger data set than this one
        torch.save(list(Augmented()), KEPT)
    return train(make_network(64), data=torch.load(KEPT))


def honest():
    """Keep each augmented batch in memory once it was made."""
    kept = {}

    def augment_once(rows):
        if id(rows) not in kept:
            kept[id(rows)] = augment(rows)
        return kept[id(rows)]

    return train(make_network(64), data=Augmented(augment_once))
