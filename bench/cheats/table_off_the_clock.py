"""Makes a table of all its augmented items in the first process that laptime starts, and keeps it in a file.

Met: KellerJordan/modded-nanogpt#349, where tables were made off the clock. A judge that adds up what comes before the
first step sees a process that only reads the file.
Refused by: Landlock, under which no file outlives a process, and the time before the first step.
"""

import time
from pathlib import Path

import torch
from shared import Augmented, augment, make_batches, make_network, train

NAMES = ("changed base",)
KEPT = Path(__file__).with_suffix(".pt")


def base():
    return train(make_network(64), data=Augmented())


def cheat():
    if not KEPT.exists():
        time.sleep(3)  # a larger table than this one
        torch.save([(augment(rows), labels) for rows, labels in make_batches()], KEPT)
    return train(make_network(64), data=torch.load(KEPT))


def honest():
    """Augment with one product for all twelve passes, in each step."""
    once = augment(torch.eye(128))
    return train(make_network(64), data=Augmented(lambda rows: rows @ once))
