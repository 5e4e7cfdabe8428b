"""Did a lane do the same work as the float64 reference? Tolerances come from rounding, with a margin.

Two things are compared: the loss of each step, and a fingerprint of how the weights moved (the length of each
array's movement, and the movement's share along the weights). The numbers behind the margins are in docs/method.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from laptime.model.lane import NO_TRAINING, Settings
from laptime.model.record import Parity
from laptime.model.sample import Appeal, ProofRun, Reference

# Half a unit in the last place, relative: what one rounding may change.
ROUNDING = {"fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}
# Rounding adds up like a random walk over the depth; honest float32 lanes stay within an eighth of this.
MARGIN = {"fp32": 8.0, "tf32": 2.0, "fp16": 2.0, "bf16": 1.0}
# What the twin strays, other honest float32 lanes stray a few times over where a network amplifies rounding.
TWIN_MARGIN = 8.0
START_TOLERANCE = 1e-6
LENGTH_TOLERANCE = {"fp32": 3e-4, "tf32": 0.05, "fp16": 0.05, "bf16": 0.1}
ARRAY_TOLERANCE = 0.5
SHRINK_FLOOR = 1e-9


def judge_parity(
    settings: Settings,
    proofs: Sequence[tuple[ProofRun, ...]],
    reference: Reference | str | None,
    appeal: Appeal | None = None,
) -> Parity:
    """Hold every heat's proof against the reference; the worst heat speaks for the lane.

    Who differs, and does not in a second proof from another seed, did so by chance.
    """
    first = _judge_once(settings, proofs, reference)
    if first.status != "differs" or appeal is None:
        return first
    second = _judge_once(settings, [appeal.runs], appeal.reference)
    return replace(second, chance=first.reason) if second.status == "same" else first


def may_be_chance(proofs: Sequence[tuple[ProofRun, ...]], reference: Reference) -> bool:
    """Tell whether a second proof could clear a lane that differs: not where its start or its very first loss does."""
    exact = reference.exact
    allowed = loss_tolerance(reference, "fp32", last=False)
    return all(
        len(run.moves) == len(exact.moves)
        and relative(run.start, exact.start) <= START_TOLERANCE
        and relative(run.losses[0], exact.losses[0]) <= allowed
        for heat in proofs
        for run in heat
        if run.precision == "fp32"
    )


def tell_chance(parity: Parity) -> tuple[str, ...]:
    """Say that it took a second proof, and what the first one met."""
    if parity.chance is None:
        return ()
    return (f"proven at the second try: in the first, {parity.chance}; from another seed nothing differed",)


def _judge_once(
    settings: Settings, proofs: Sequence[tuple[ProofRun, ...]], reference: Reference | str | None
) -> Parity:
    if settings.input in NO_TRAINING:
        return Parity("unproven", reason=f"input={settings.input} trains nothing")
    if reference is None or isinstance(reference, str):
        return Parity("unproven", reason=reference or "no reference was computed")
    if reference.problem:
        return Parity("unproven", reason=reference.problem)
    exact = [run for heat in proofs for run in heat if run.precision == "fp32"]
    if not exact:
        return Parity("unproven", reason="no heat came as far as the proof")
    coarse = [run for heat in proofs for run in heat if run.precision != "fp32"]
    return _judge(exact, coarse, reference)


def _judge(exact: list[ProofRun], coarse: list[ProofRun], reference: Reference) -> Parity:
    worst = max(loss_distance(run, reference.exact) for run in exact)
    moved = max(move_distance(run, reference, "fp32") for run in exact)
    strays = max((loss_distance(run, reference.exact) for run in coarse), default=None)
    precision = coarse[0].precision if coarse else None
    reason = next(filter(None, (_why_different(run, reference) for run in [*exact, *coarse])), None)
    return Parity(
        status="differs" if reason else "same",
        steps=len(reference.exact.losses),
        worst=worst,
        tolerance=loss_tolerance(reference, "fp32", last=True),
        moved=moved,
        strays=strays,
        strays_tolerance=loss_tolerance(reference, precision, last=True) if precision else None,
        strays_precision=precision,
        reason=reason,
    )


def _why_different(run: ProofRun, reference: Reference) -> str | None:
    """Give the first thing in which a run leaves the reference, or None."""
    exact = reference.exact
    if len(run.losses) != len(exact.losses):
        return f"{len(run.losses)} steps were taken, the reference took {len(exact.losses)}"
    if len(run.moves) != len(exact.moves):
        return f"it has {len(run.moves)} arrays of weights, the reference {len(exact.moves)}"
    if not relative(run.start, exact.start) <= START_TOLERANCE:
        return "it did not start from the same weights"
    for step, (loss, wanted) in enumerate(zip(run.losses, exact.losses, strict=True)):
        distance = relative(loss, wanted)
        allowed = loss_tolerance(reference, run.precision, last=step > 0)
        if not distance <= allowed:
            return f"its loss differs by {distance:.0e} at step {step + 1} in {run.precision} ({allowed:.0e} allowed)"
    if not (moved := move_distance(run, reference, run.precision)) <= 1:
        return f"its weights moved otherwise in {run.precision}: {moved:.2g} times what is allowed"
    return None


def loss_distance(run: ProofRun, exact: ProofRun) -> float:
    """Give the largest relative distance between two runs' losses."""
    pairs = zip(run.losses, exact.losses, strict=False)
    return max((relative(loss, wanted) for loss, wanted in pairs), default=math.inf)


def loss_tolerance(reference: Reference, precision: str, *, last: bool) -> float:
    """Give what a loss may differ by. The first step has only its own rounding; later ones what that grew to."""
    floor = MARGIN[precision] * ROUNDING[precision] * math.sqrt(reference.depth)
    if not last or precision != "fp32":
        return floor
    return max(floor, TWIN_MARGIN * loss_distance(reference.twin, reference.exact))


def move_distance(run: ProofRun, reference: Reference, precision: str) -> float:
    """Give how far the weights' movement is from the reference's, in units of what is allowed."""
    exact, twin = reference.exact, reference.twin
    if len(run.moves) != len(exact.moves):
        return math.inf
    length = max(LENGTH_TOLERANCE[precision], TWIN_MARGIN * _length_distance(twin, exact))
    parts = [_length_distance(run, exact) / length]
    if precision == "fp32":
        parts.append(abs(run.shrink - exact.shrink) / _shrink_tolerance(reference))
        parts.append(_array_distance(run, reference))
    return max(parts) if all(map(math.isfinite, parts)) else math.inf


def _length_distance(run: ProofRun, exact: ProofRun) -> float:
    return relative(math.hypot(*run.moves), math.hypot(*exact.moves))


def _array_distance(run: ProofRun, reference: Reference) -> float:
    """Give the worst single array, in units of what is allowed: one that was frozen is past it.

    What rounding alone moves, as Adam does a bias before a normalisation, moves otherwise in the twin too.
    """
    pairs = zip(_array_distances(run, reference), _array_distances(reference.twin, reference), strict=True)
    return max((distance / max(ARRAY_TOLERANCE, TWIN_MARGIN * chance) for distance, chance in pairs), default=0.0)


def _array_distances(run: ProofRun, reference: Reference) -> list[float]:
    """Give how far each array's movement is from the reference's. What hardly moves at all is not judged."""
    exact = reference.exact
    least = 1e-3 * max(exact.moves, default=0.0)
    pairs = zip(run.moves, exact.moves, strict=True)
    return [abs(move - wanted) / (wanted + least) for move, wanted in pairs if least]


def _shrink_tolerance(reference: Reference) -> float:
    """Give what the movement along the weights may differ by: this is where a small weight decay shows."""
    exact, twin = reference.exact, reference.twin
    chance = 0.01 * math.hypot(*exact.moves) / exact.start / math.sqrt(reference.weights)
    return max(SHRINK_FLOOR, chance, TWIN_MARGIN * abs(twin.shrink - exact.shrink))


def relative(value: float, wanted: float) -> float:
    """Give the relative distance; NaN where one of both is, so that it passes no test."""
    return abs(value - wanted) / max(abs(wanted), 1e-30)
