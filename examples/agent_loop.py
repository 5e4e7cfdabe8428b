"""An agent that makes a training faster, one edit after another, and keeps what `laptime verdict` says to keep.

    python examples/agent_loop.py
    python examples/agent_loop.py --edits 3 --budget 60

The edits are written here, where a program of yours would ask a language model. Three of the ten make the training
faster and leave it the same. The others change nothing, make it slower, train something else, or train something else
only once they were looked at. What is kept is the base of the next edit. What looks fast and is UNDECIDED is asked
once more, with twice the time. All verdicts are of one session, so that many edits find no more false gains than one.
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRAINING = """import numpy as np

import laptime

RNG = np.random.default_rng(0)
KERNEL = RNG.standard_normal((64, 64), np.float32)
BATCHES = [RNG.standard_normal((128, 64), np.float32) for _ in range(16)]
RATE = 1e-4
STEPS = [0]


def training() -> laptime.Training:
    return laptime.Training(step=step, state=KERNEL, data=BATCHES)


def step(kernel, batch):
    rows = np.stack([row for row in batch])
    errors = rows @ kernel - rows
    loss = sum(float(error) ** 2 for error in errors.ravel()) / errors.size
    gradient = np.zeros_like(kernel)
    for row, error in zip(rows, errors):
        for column, value in enumerate(row):
            gradient[column] += value * error
    return kernel - RATE * gradient, loss
"""
LOOP = """    gradient = np.zeros_like(kernel)
    for row, error in zip(rows, errors):
        for column, value in enumerate(row):
            gradient[column] += value * error
"""


@dataclass(frozen=True)
class Edit:
    """A change of the training's text. `is_gain` is what the verdict should find out."""

    says: str
    before: str
    after: str
    is_gain: bool = False


COPY, ERRORS = "np.stack([row for row in batch])", "rows @ kernel - rows"
SQUARES, AT_ONCE = "sum(float(error) ** 2 for error in errors.ravel())", "float(errors.ravel() @ errors.ravel())"
LARGEST, SKIP = "    largest = sorted(abs(errors).ravel())[-1]\n", "    STEPS[0] += 1\n    if STEPS[0] > 60:\n"
EDITS = (
    Edit("train on every other row", COPY, COPY.replace("batch]", "batch[::2]]")),
    Edit("the gradient as one product", LOOP, "    gradient = rows.T @ errors\n", is_gain=True),
    Edit("call the kernel weights", "kernel", "weights"),
    Edit("ten times the rate", "RATE = 1e-4", "RATE = 1e-3"),
    Edit("the loss as one product", SQUARES, AT_ONCE, is_gain=True),
    Edit("look for the largest error, too", "    loss = ", f"{LARGEST}    loss = "),
    Edit("train no more after 60 steps", "    rows = ", f"{SKIP}        return kernel, 64.0\n    rows = "),
    Edit("do not copy the batch", COPY, "batch", is_gain=True),
    Edit("a comment", "    errors = ", "    # what is missing\n    errors = "),
    Edit("compute the errors twice", ERRORS, f"{ERRORS}\n    errors = {ERRORS}"),
)
LOOKS_FAST = 1.2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edits", type=int, default=len(EDITS), help="try the first N")
    parser.add_argument("--budget", type=int, default=120, help="seconds of each verdict, at most")
    given = parser.parse_args()
    tried = EDITS[: given.edits]
    with tempfile.TemporaryDirectory(prefix="agent-loop-") as folder:
        kept = improve(Path(folder), tried, given.budget)
    print(f"kept: {'; '.join(edit.says for edit in kept) or 'nothing'}")
    return 0 if kept == [edit for edit in tried if edit.is_gain] else 1


def improve(folder: Path, edits: tuple[Edit, ...], budget_s: int) -> list[Edit]:
    """Try each edit on what was kept so far. Return those that were kept."""
    base, kept, session = folder / "train_0.py", [], f"agent-{secrets.token_hex(4)}"
    base.write_text(TRAINING, encoding="utf-8")
    for number, edit in enumerate(edits, 1):
        candidate = folder / f"train_{number}.py"
        candidate.write_text(base.read_text(encoding="utf-8").replace(edit.before, edit.after), encoding="utf-8")
        said = judge(base, candidate, session, budget_s)
        if said["verdict"] == "UNDECIDED" and (said["ratio"] or 0.0) > LOOKS_FAST:
            said = judge(base, candidate, session, 2 * budget_s)
        print(f"{said['verdict']:9} {said['cause']:11} {times(said):7} {edit.says}", flush=True)
        if said["verdict"] == "KEEP":
            base = candidate
            kept.append(edit)
    return kept


def judge(base: Path, candidate: Path, session: str, budget_s: int) -> dict[str, Any]:
    """Return the verdict on a candidate, as a program reads it."""
    sides = [f"{base}:training", f"{candidate}:training", "python/cpu"]
    words = [*sides, "--session", session, "--budget", f"{budget_s}s", "--json", "-q"]
    ran = subprocess.run(
        [sys.executable, "-m", "laptime", "verdict", *words], capture_output=True, text=True, check=False
    )
    said: dict[str, Any] = json.loads(ran.stdout)
    if "verdict" not in said:
        sys.exit(ran.stderr)
    return said


def times(said: dict[str, Any]) -> str:
    return "" if said["ratio"] is None else f"{said['ratio']:.2f}x"


if __name__ == "__main__":
    sys.exit(main())
