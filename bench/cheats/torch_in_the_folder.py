"""Puts a `torch.py` into both folders, which every later process that imports PyTorch from there would run.

Met: pygpubench. The file loads the real PyTorch, and lets the optimizer of the base sleep.
Refused by: PyTorch is imported before the user's folder is on the path, copies that cannot be written, and digests of
the base's files.
"""

import contextlib
from pathlib import Path

from shared import Losing, train

NAMES = ("changed base",)
PLANTED = """
import importlib.util, sys, time
here = __file__.rpartition("/")[0]
found = sys.path[:]
sys.path = [each for each in sys.path if each != here]
sys.modules.pop("torch")
import torch
sys.path = found
if here.endswith("base"):
    real = torch.optim.AdamW.step
    torch.optim.AdamW.step = lambda *words: (time.sleep(2e-3), real(*words))[1]
"""


def base():
    return train(Losing())


def cheat():
    here = Path(__file__).resolve().parent
    for folder in {here, *here.parent.glob("base")}:
        (folder / "torch.py").write_text(PLANTED)
    return train(Losing())


def honest():
    """Write a file of its own name into its own folder: a log."""
    with contextlib.suppress(OSError):  # where nothing can be written, it trains without a log
        Path(__file__).with_suffix(".log").write_text("begun\n")
    return train(Losing())
