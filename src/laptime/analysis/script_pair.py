"""Do two scripts do the same work? Compared is what their agents saw at the same steps, from the same seeds.

Nobody else can run what a script does, so there is no float64 reference. Four things are compared: its counts (weights,
items of a step, steps of a lap), its first losses, how its first steps changed the lengths of its weights, and the
losses of its timed steps. What differs at once is other work. Rounding grows while a training learns, so timed losses
that differ prove nothing, and neither does what was not seen.
"""

from __future__ import annotations

from math import hypot

from laptime.analysis.parity import find_other_laps, relative
from laptime.model.other_work import OtherWork
from laptime.model.quantities import Missing, brief, percent
from laptime.model.record import LaneResult
from laptime.model.sample import ProofRun

MOVED = 0.05  # of all that the lengths changed by
ARRAY_MOVED = 0.5  # of what the length of one array changed by: one that is not trained any more is above
HARDLY_MOVED = 1e-3  # of the change of all: an array that changes by less is not judged
TIMED_LOSS = 0.05
SEEN_IN_BOTH = 0.5  # of its timed losses, at least: of steps whose losses in the base were seen, too
SMALL_LOSS = 0.1  # of a script's first loss: a loss below this share is compared with it


def compare_scripts(candidate: LaneResult, base: LaneResult) -> OtherWork | Missing | None:
    """Return how the work of two scripts differs, or why that is not known; None if they do the same work."""
    # How many weights the optimizers of each script train, where any was seen.
    weights, base_weights = (
        next((result.heat.process.parameters for result in lane.heats if result.heat.process.parameters), None)
        for lane in (candidate, base)
    )
    if weights is not None and base_weights is not None and weights != base_weights:
        return OtherWork("other network", f"it trains {weights:,} weights, and the base {base_weights:,}")
    items = candidate.items_per_step
    base_items = base.items_per_step
    if items != base_items:
        says = f"its step has {items or 0:,} items, and that of the base {base_items or 0:,}"
        return OtherWork("other batch size", says)
    other_laps = find_other_laps(candidate, base)
    if other_laps is not None:
        return other_laps
    for lane in (base, candidate):
        if lane.parity.status == "differs":
            return OtherWork(lane.parity.kind or "other work", lane.parity.reason or "its first losses differ")
        if lane.parity.status == "unproven":
            return Missing(lane.parity.reason or "no losses were compared")
    return _find_other_moves(candidate, base) or _find_other_losses(candidate, base)


def _find_other_moves(candidate: LaneResult, base: LaneResult) -> OtherWork | Missing | None:
    mine, theirs = (_proof_of(lane) for lane in (candidate, base))
    if mine is None or theirs is None or not (mine.moves and theirs.moves) or len(mine.losses) != len(theirs.losses):
        return Missing("how its first steps change its weights was not seen")
    if len(mine.moves) != len(theirs.moves):
        says = f"it trains {len(mine.moves)} arrays of weights, and the base {len(theirs.moves)}"
        return OtherWork("other network", says)
    all_moved = hypot(*theirs.moves)
    apart = [abs(one - other) for one, other in zip(mine.moves, theirs.moves, strict=True)]
    steps = len(theirs.losses)
    if hypot(*apart) > MOVED * all_moved:
        by = percent(hypot(*apart) / (all_moved or 1.0))
        return OtherWork("other update", f"its first {steps} steps change its weights otherwise, by {by}")
    stopped = any(
        distance > ARRAY_MOVED * (abs(moved) + HARDLY_MOVED * all_moved)
        for distance, moved in zip(apart, theirs.moves, strict=True)
    )
    if not stopped:
        return None
    return OtherWork("frozen weights", f"its first {steps} steps change one of its arrays of weights otherwise")


def _proof_of(lane: LaneResult) -> ProofRun | None:
    return next((run for result in lane.heats for run in result.heat.proofs), None)


def _find_other_losses(candidate: LaneResult, base: LaneResult) -> Missing | None:
    """Return where the losses of timed steps differ, or that no step was timed in both."""
    mine, theirs = (_timed_losses(lane) for lane in (candidate, base))
    common = sorted(mine.keys() & theirs.keys())
    if not common or len(common) < SEEN_IN_BOTH * len(mine):
        return Missing(f"{len(common)} of its {len(mine)} timed losses were seen at the same step of the base")
    proof = _proof_of(base)
    least = SMALL_LOSS * abs(proof.losses[0]) if proof is not None and proof.losses else 0.0
    for step in common:
        apart = relative(mine[step], theirs[step]) * min(1.0, abs(theirs[step]) / (least or 1.0))
        if not apart <= TIMED_LOSS:
            says = f"its loss at step {step:,} differs by {brief(100 * apart)} %, and that of its first steps does not"
            return Missing(f"{says}: by rounding that grew, or by other work")
    return None


def _timed_losses(lane: LaneResult) -> dict[int, float]:
    """Return the loss of the last step of each window, by the number of that step."""
    return {
        window.first_step + window.steps - 1: loss
        for result in lane.heats
        if len(result.heat.losses) == len(result.heat.windows)
        for window, loss in zip(result.heat.windows, result.heat.losses, strict=True)
        if window.first_step is not None
    }
