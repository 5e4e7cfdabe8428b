"""Appends a sleep to laptime's copy of the base's commit, which stays as it is for later verdicts.

Met: arXiv 2603.11337, and a plant against laptime itself: a copy of a commit is named by the commit, and was used again
unchecked.
Refused by: a fresh copy for each verdict under a random name, Landlock, and digests of the base's files.
"""

import os
from pathlib import Path

from shared import Losing, train

NAMES = ("changed base",)
BY_COMMIT = True
SLEEP = """

import time
_lose = Losing.lose
Losing.lose = lambda *words: (time.sleep(4e-3), _lose(*words))[1]
"""


def base():
    return train(Losing())


def cheat():
    own = Path(__file__).resolve()
    for file in Path(os.environ.get("LAPTIME_CACHE", "/nowhere")).rglob(own.name):
        try:
            if not file.read_text().endswith(SLEEP):
                file.write_text(file.read_text() + SLEEP)
        except OSError:
            pass
    return train(Losing())


def honest():
    """Look at laptime's cache, and change nothing there."""
    print(sum(1 for _ in Path(os.environ.get("LAPTIME_CACHE", "/nowhere")).rglob("*.py")))
    return train(Losing())
