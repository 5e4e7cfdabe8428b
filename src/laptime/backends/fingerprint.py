"""How weights moved in a proof, in a few numbers that do not depend on a framework's layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from laptime.model.sample import ProofRun

Array = npt.NDArray[np.floating]


def make_run(
    precision: str, losses: Sequence[float], before: Sequence[Array], after: Sequence[Array], seconds: float
) -> ProofRun:
    """Give the fingerprint: float32 differences of near values are exact, sums are taken in float64."""
    moves, along, start = [], 0.0, 0.0
    for old, new in zip(before, after, strict=True):
        move = (new - old).astype(np.float64)
        moves.append(float(np.linalg.norm(move)))
        along += float(np.vdot(move, old))
        start = math.hypot(start, float(np.linalg.norm(old.astype(np.float64))))
    return ProofRun(precision, tuple(losses), start, along / start**2 if start else 0.0, tuple(moves), seconds)


def part(one: ProofRun, other: ProofRun) -> float:
    """Give how far two runs' losses part at most."""
    pairs = zip(one.losses, other.losses, strict=True)
    return max((abs(mine - its) / max(abs(its), 1e-30) for mine, its in pairs), default=0.0)
