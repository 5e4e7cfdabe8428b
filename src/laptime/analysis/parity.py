"""Did a lane do the same work as the float64 reference, and did two lanes while they were timed? Tolerances come from
rounding, with a margin.

Two things are compared: the loss of each step, and a fingerprint of how the weights moved (the length of each array's
movement, and the movement's share along the weights). The numbers behind the margins are in docs/method.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import hypot

from laptime.model.other_work import OtherWork
from laptime.model.precisions import PRECISIONS
from laptime.model.process import NO_TRAINING, Settings
from laptime.model.quantities import Missing
from laptime.model.record import LaneResult, Parity
from laptime.model.sample import Appeal, LateStep, Movement, ProofRun, Reference, SeenBatch, Window

# Where a network amplifies rounding, other correct float32 lanes have a few times the twin's error.
TWIN_MARGIN = 8.0
START_TOLERANCE = 1e-6
ARRAY_TOLERANCE = 0.5
SHRINK_FLOOR = 1e-9
# Two roundings: of 1 - rate x decay, and of a weight multiplied by it. The same in all weights, so no averaging out.
WIDE_ROUNDING = 2.0**-23
STILL_LEAST = 1e-3  # of the largest movement: an array that moves by less is not called still


@dataclass(frozen=True, slots=True)
class Triple:
    """How the weights moved in one part of the proof: in a lane, in float64 and in its float32 twin."""

    mine: Movement
    exact: Movement
    twin: Movement


def judge_parity(
    settings: Settings,
    proofs: Sequence[tuple[ProofRun, ...]],
    reference: Reference | str | None,
    appeal: Appeal | None = None,
) -> Parity:
    """Compare every heat's proof with the reference; the worst heat decides for the lane.

    A lane that differs, but does not in a second proof from another seed, differed by chance.
    """
    first = _judge_once(settings, proofs, reference)
    if first.status != "differs" or appeal is None:
        return first
    second = _judge_once(settings, [appeal.runs], appeal.reference)
    return replace(second, chance=first.reason) if second.status == "same" else first


def may_be_chance(proofs: Sequence[tuple[ProofRun, ...]], reference: Reference) -> bool:
    """Whether a second proof could clear a lane that differs: not if its start or its very first loss differs."""
    exact = reference.exact
    allowed = loss_tolerance(reference, "fp32", last=False)
    return all(
        len(run.moves) == len(exact.moves)
        and run.scales == exact.scales
        and relative(run.start, exact.start) <= START_TOLERANCE
        and relative(run.losses[0], exact.losses[0]) <= allowed
        for heat in proofs
        for run in heat
        if run.precision == "fp32"
    )


def is_same_work(lane: Parity, reference: Parity) -> bool | Missing:
    """Whether two lanes did the same work: True only if both proved it, False if one of them differs, else Missing.

    Every factor of a record carries this answer. A page shows a factor unless it is False.
    """
    both = {lane.status, reference.status}
    if "differs" in both:
        return False
    if both == {"same"}:
        return True
    reasons = dict.fromkeys(
        parity.reason or "no proof was taken" for parity in (lane, reference) if parity.status != "same"
    )
    return Missing("; ".join(reasons))


def compare_references(mine: Reference, theirs: Reference) -> OtherWork | Missing | None:
    """Return how two trainings differ, as far as float32 could tell them apart; None if they do the same work."""
    problem = mine.problem or theirs.problem
    if problem:
        return Missing(problem)
    exact = replace(mine.exact, precision="fp32")
    if not (mine.exact.scales and theirs.exact.scales):
        # An optimizer that takes a closure has no single steps. Timed turns that are taken again show its rate, too.
        exact = _without_single_steps(exact)
        theirs = replace(theirs, exact=_without_single_steps(theirs.exact))
    found = _find_difference(exact, theirs)
    if found is None:
        return find_other_rates(mine, theirs)
    ours = mine.exact.batches
    others = theirs.exact.batches
    if found.kind == "other computation" and ours is not None and others is not None and ours != others:
        return OtherWork("other data", f"its batches are other ones: {found.says}")
    return found


def _without_single_steps(run: ProofRun) -> ProofRun:
    return replace(run, single=None, decay=None, scales=())


def find_other_rates(mine: Reference, theirs: Reference) -> OtherWork | Missing | None:
    """Return how the rates of two networks' modules differ. One that only one of them has may be written otherwise."""
    ours = dict(mine.rates)
    others = dict(theirs.rates)
    for name, rate in ours.items():
        other = others.get(name)
        if other is not None and other != rate:
            return OtherWork("other network", f"their {name} is {rate:g} and {other:g}")
    for name, _ in (*mine.rates, *theirs.rates):
        if name not in ours or name not in others:
            return Missing(f"only one of them has a module with a {name}")
    return None


def tell_chance(parity: Parity) -> tuple[str, ...]:
    """Return a note that a second proof was needed, and what the first one found."""
    if parity.chance is None:
        return ()
    return (f"proven at the second try: in the first, {parity.chance}; from another seed nothing differed",)


def _judge_once(
    settings: Settings, proofs: Sequence[tuple[ProofRun, ...]], reference: Reference | str | None
) -> Parity:
    if settings.input in NO_TRAINING:
        return Parity("unproven", reason=f"input={settings.input} trains nothing")
    if settings.value_of("sync") == "none":
        return Parity("unproven", reason="sync=none exchanges no gradients, on purpose")
    if reference is None or isinstance(reference, str):
        return Parity("unproven", reason=reference or "no reference was computed")
    if reference.problem:
        return Parity("unproven", reason=reference.problem)
    runs = [run for heat in proofs for run in heat]
    wanted = reference.exact.batches
    for run in runs:
        # Such a run proves nothing about a lane: the difference would not be the lane's.
        if run.batches is not None and wanted is not None and run.batches != wanted:
            reason = "its data gave other batches than for the reference: they are drawn again in each process"
            return Parity("unproven", reason=reason)
        if run.problem:
            return Parity("unproven", reason=run.problem)
    exact = [run for run in runs if run.precision == "fp32"]
    if not exact:
        return Parity("unproven", reason="no heat came as far as the proof")
    return _judge(exact, [run for run in runs if run.precision != "fp32"], reference)


def _judge(exact: list[ProofRun], coarse: list[ProofRun], reference: Reference) -> Parity:
    worst = max(loss_distance(run, reference.exact) for run in exact)
    moved = max(move_distance(run, reference, "fp32") for run in exact)
    strays = max((loss_distance(run, reference.exact) for run in coarse), default=None)
    precision = coarse[0].precision if coarse else None
    found = None
    for run in [*exact, *coarse]:
        found = _find_difference(run, reference)
        if found is None:
            continue
        known = run.own_way or reference.exact.own_way if run.own_way != reference.exact.own_way else None
        if known:
            found = replace(found, says=f"{found.says}; {known}")
        break
    return Parity(
        status="differs" if found else "same",
        steps=len(reference.exact.losses),
        worst=worst,
        tolerance=loss_tolerance(reference, "fp32", last=True),
        moved=moved,
        strays=strays,
        strays_tolerance=loss_tolerance(reference, precision, last=True) if precision else None,
        strays_precision=precision,
        reason=found.says if found else None,
        kind=found.kind if found else None,
    )


def _find_difference(run: ProofRun, reference: Reference) -> OtherWork | None:
    exact = reference.exact
    if len(run.losses) != len(exact.losses):
        return OtherWork("other work", f"{len(run.losses)} steps were taken, the reference took {len(exact.losses)}")
    if len(run.moves) != len(exact.moves):
        says = f"it has {len(run.moves)} arrays of weights, the reference {len(exact.moves)}"
        return OtherWork("other network", says)
    if not relative(run.start, exact.start) <= START_TOLERANCE:
        return OtherWork("other weights", "it did not start from the same weights")
    if run.scales != exact.scales:
        return OtherWork("other update", "its optimizer's epsilon is another")
    # In float32 an array may stay where it is that moves by less than its rounding; then its twin does, too.
    least = STILL_LEAST * max(exact.moves, default=0.0)
    trios = zip(run.moves, exact.moves, reference.twin.moves, strict=True)
    still = sum(move == 0 < twin and wanted > least for move, wanted, twin in trios)
    if still:
        return OtherWork("frozen weights", f"{still} of its {len(run.moves)} arrays of weights do not move")
    for step, (loss, wanted) in enumerate(zip(run.losses, exact.losses, strict=True)):
        distance = relative(loss, wanted)
        allowed = loss_tolerance(reference, run.precision, last=step > 0)
        if not distance <= allowed:
            says = f"its loss differs by {distance:.0e} at step {step + 1} in {run.precision} ({allowed:.0e} allowed)"
            return OtherWork("other computation", says)
    for what, moved in _move_distances(run, reference, run.precision).items():
        if not moved <= 1:
            return OtherWork("other update", f"{what} in {run.precision}: {moved:.2g} times what is allowed")
    return None


def loss_distance(run: ProofRun, exact: ProofRun) -> float:
    """Return the largest relative distance between two runs' losses."""
    pairs = zip(run.losses, exact.losses, strict=False)
    return max((relative(loss, wanted) for loss, wanted in pairs), default=math.inf)


def loss_tolerance(reference: Reference, precision: str, *, last: bool) -> float:
    """Return how far a loss may differ: at the first step by its own rounding, later by what that grew to."""
    floor = PRECISIONS[precision].margin * PRECISIONS[precision].rounding * math.sqrt(reference.depth)
    if not last or precision != "fp32":
        return floor
    return max(floor, TWIN_MARGIN * loss_distance(reference.twin, reference.exact))


def move_distance(run: ProofRun, reference: Reference, precision: str) -> float:
    """Return how far the weights' movement is from the reference's, in units of what is allowed."""
    return max(_move_distances(run, reference, precision).values())


def _move_distances(run: ProofRun, reference: Reference, precision: str) -> dict[str, float]:
    """Return the same for each part of the proof; the keys are the words for a lane that is above 1."""
    small = Triple(*(Movement(proof.shrink, proof.moves) for proof in (run, reference.exact, reference.twin)))
    # The effect of rounding on a weight decay at the small rate, where it may be too small for float32: 1 - rate times
    # decay is rounded in each step, and differently in each engine. The decay has a separate step.
    decays = reference.exact.decay is not None and any(reference.exact.decay.moves)
    hidden = WIDE_ROUNDING * len(reference.exact.losses) if decays else 0.0
    found = {"its weights moved otherwise": _distance(small, reference, precision, hidden)}
    single = _triple(run, reference, lambda proof: proof.single)
    if single is not None:
        found["its first step moved its weights otherwise"] = _distance(single, reference, precision, WIDE_ROUNDING)
    decay = _triple(run, reference, lambda proof: proof.decay)
    if decay is not None and precision == "fp32":
        found["its weight decay is another"] = _decay_distance(decay, reference.exact.start)
    return found


def _triple(run: ProofRun, reference: Reference, of: Callable[[ProofRun], Movement | None]) -> Triple | None:
    """Return one part of the proof in a lane, the reference and its twin; None if the reference did not take it."""
    mine = of(run)
    exact = of(reference.exact)
    twin = of(reference.twin)
    if exact is None or twin is None or not all(map(math.isfinite, (exact.shrink, *exact.moves))):
        return None
    return Triple(mine or Movement(math.nan, ()), exact, twin)


def _distance(moved: Triple, reference: Reference, precision: str, hidden: float) -> float:
    if len(moved.mine.moves) != len(moved.exact.moves):
        return math.inf
    length = max(PRECISIONS[precision].length, TWIN_MARGIN * _length_distance(moved.twin, moved.exact))
    parts = [_length_distance(moved.mine, moved.exact) / length]
    if precision == "fp32":
        # How far the movement along the weights may differ: this is where a small weight decay shows.
        start = reference.exact.start
        chance = 0.01 * math.hypot(*moved.exact.moves) / start / math.sqrt(reference.weights) if start else 0.0
        twin_shrink = TWIN_MARGIN * abs(moved.twin.shrink - moved.exact.shrink)
        shrink_tolerance = max(SHRINK_FLOOR, hidden, chance, twin_shrink)
        parts.append(abs(moved.mine.shrink - moved.exact.shrink) / shrink_tolerance)
        # The distance of the worst single array, in units of what is allowed: a frozen array is above 1. What only
        # rounding moves, as Adam does with a bias before a normalisation, also moves differently in the twin.
        pairs = zip(_array_distances(moved.mine, moved.exact), _array_distances(moved.twin, moved.exact), strict=True)
        distances = (distance / max(ARRAY_TOLERANCE, TWIN_MARGIN * usual) for distance, usual in pairs)
        parts.append(max(distances, default=0.0))
    return max(parts) if all(map(math.isfinite, parts)) else math.inf


def _decay_distance(moved: Triple, start: float) -> float:
    """Return how far the movement without gradients is from the reference's; in most trainings nothing moves."""
    if len(moved.mine.moves) != len(moved.exact.moves):
        return math.inf
    trios = zip(moved.mine.moves, moved.exact.moves, moved.twin.moves, strict=True)
    parts = [
        abs(mine - exact) / (max(PRECISIONS["fp32"].length * exact, TWIN_MARGIN * abs(twin - exact)) + floor)
        for mine, exact, twin in trios
        if (floor := WIDE_ROUNDING * start)
    ]
    chance = TWIN_MARGIN * abs(moved.twin.shrink - moved.exact.shrink)
    allowed = max(PRECISIONS["fp32"].length * abs(moved.exact.shrink), chance) + WIDE_ROUNDING
    parts.append(abs(moved.mine.shrink - moved.exact.shrink) / allowed)
    return max(parts) if all(map(math.isfinite, parts)) else math.inf


def _length_distance(run: Movement, exact: Movement) -> float:
    return relative(math.hypot(*run.moves), math.hypot(*exact.moves))


def _array_distances(run: Movement, exact: Movement) -> list[float]:
    """Return how far each array's movement is from the reference's. Arrays that hardly move are not judged."""
    least = 1e-3 * max(exact.moves, default=0.0)
    pairs = zip(run.moves, exact.moves, strict=True)
    return [abs(move - wanted) / (wanted + least) for move, wanted in pairs if least]


def relative(value: float, wanted: float) -> float:
    """Return the relative distance; NaN if one of the values is, so that it passes no test."""
    return abs(value - wanted) / max(abs(wanted), 1e-30)


# Did two lanes do the same work while they were timed? The proof ends before the windows open.
#
# Four things are known of the timed steps. How often each window's steps changed the weights, and at which rate, is
# read at its end, and compared at the same steps. So are the batch of its last step and the loss of it, which come
# from the timed steps themselves: code that knows when it is proven cannot be honest there alone. And each training is
# put back to its start after its windows, and takes a step of the proof again: one that does something else once it
# was proven shows it there.
#
# All of it is relative to the lane's own first step, which the proof has compared. What is not seen is not judged.

# Counts and rates are exact: the same training has the same ones.
COUNT_TOLERANCE = 1e-6

# Batches of windows: how many must be known of both lanes, and how many times as many different ones one must have.
BATCHES_SEEN = 4
BATCHES_APART = 2
BATCHES_OTHER = 3  # that are others at the same steps
# Losses of windows: how many must be known. They are apart where their mean distance is this large, and this many times
# what it would be by the chance of single batches. Dropout that is drawn in another order moves single losses, and not
# their mean.
LOSSES_SEEN = 6
LOSSES_APART = 0.05
LOSSES_SURE = 10.0
LOSS_LEAST = 0.1  # of the largest loss
NEAR_STEPS = 50  # whose losses are near, if not as near as at the beginning

# Of the items of a lap: a last batch may be left out.
LAPS_ALIKE = 0.01

StepRange = tuple[int, int, int]
"""The first step of a window, how many it has, and the seed of its round: with another seed, a step is another one."""


def find_other_timed(one: LaneResult, other: LaneResult) -> OtherWork | None:
    """Return how two trainings' work differs outside of the proof; None if nothing was seen."""
    return find_other_progress(one, other) or find_other_sizes(one, other) or find_other_data(one, other)


def find_other_progress(one: LaneResult, other: LaneResult) -> OtherWork | None:
    """Return how two trainings differ in their laps, in what their timed steps change, or in their losses."""
    return find_other_laps(one, other) or find_other_steps(one, other) or find_other_losses(one, other)


def find_other_laps(one: LaneResult, other: LaneResult) -> OtherWork | None:
    """Return that a lap of two trainings holds other numbers of items: one may see a part of the data alone."""
    mine = _items_a_lap(one)
    theirs = _items_a_lap(other)
    if mine is None or theirs is None or abs(mine - theirs) <= LAPS_ALIKE * max(mine, theirs):
        return None
    name, its = _names_of((one, other))
    return OtherWork("fewer items", f"a lap of {name} has {mine:,.0f} items, and of {its} {theirs:,.0f}")


def _items_a_lap(lane: LaneResult) -> float | None:
    if lane.lap_s is None or lane.step_ms is None or lane.items_per_step is None:
        return None
    return lane.lap_s.median / lane.step_ms.median * 1e3 * lane.items_per_step


def find_other_steps(one: LaneResult, other: LaneResult) -> OtherWork | None:
    """Return how two lanes' timed steps differ in what they do; None if nothing was seen."""
    mine = _windows_of(one)
    theirs = _windows_of(other)
    name, its = _names_of((one, other))
    both = sorted(mine.keys() & theirs.keys())
    for steps in both:
        first, count, _ = steps
        span = f"step {first:,}" if count == 1 else f"steps {first:,} to {_end_of(steps):,}"
        updates = mine[steps].updates
        its_updates = theirs[steps].updates
        if updates is not None and its_updates is not None and relative(updates, its_updates) > COUNT_TOLERANCE:
            often = f"{name} changed its weights {updates:.3g} times as often as in its first step"
            return OtherWork("skipped updates", f"in {span}, {often}, and {its} {its_updates:.3g} times")
        rate = mine[steps].rate
        its_rate = theirs[steps].rate
        if rate is not None and its_rate is not None and relative(rate, its_rate) > COUNT_TOLERANCE:
            rates = f"the rate of {name} is {rate:.3g} times its first one, and that of {its} {its_rate:.3g} times"
            return OtherWork("other rate", f"in {span}, {rates}")
    batches = _compare_batches((one, other), [(mine[steps].seen, theirs[steps].seen) for steps in both])
    return batches or _compare_late(one, other)


def find_other_sizes(one: LaneResult, other: LaneResult) -> OtherWork | None:
    """Return that two trainings that are fed alike took batches of other numbers of numbers at the same timed steps."""
    name, its = _names_of((one, other))
    for ours, others in _seen_by_both(one, other):
        if ours.numbers is not None and others.numbers is not None and ours.numbers != others.numbers:
            sizes = f"{name} trained on batches of {ours.numbers:,} numbers, and {its} of {others.numbers:,}"
            return OtherWork("fewer items", f"while it was timed, {sizes}")
    return None


def find_other_data(one: LaneResult, other: LaneResult) -> OtherWork | None:
    """Return that two trainings that are fed alike took other batches at the same timed steps.

    Alone it proves nothing: data may draw at random in the process of a step, which draws otherwise.
    """
    batches = _seen_by_both(one, other)
    others = sum(ours.digest != its.digest for ours, its in batches)
    if others < BATCHES_OTHER:
        return None
    where = f"at {others:,} of {len(batches):,} timed steps, than {_names_of((one, other))[1]} has there"
    return OtherWork("other data", f"its batches are other ones: {where}")


def _seen_by_both(one: LaneResult, other: LaneResult) -> list[tuple[SeenBatch, SeenBatch]]:
    """Return the batches of the steps that both lanes timed; none where their settings feed them otherwise."""
    if one.settings != other.settings:
        return []
    mine = _windows_of(one)
    theirs = _windows_of(other)
    both = [(mine[steps].seen, theirs[steps].seen) for steps in sorted(mine.keys() & theirs.keys())]
    return [(ours, its) for ours, its in both if ours is not None and its is not None]


def _windows_of(lane: LaneResult) -> dict[StepRange, Window]:
    """Return a window for each stretch of steps that a lane timed: its heats do the same at the same steps."""
    return {
        (window.first_step, window.steps, result.heat.seed or 0): window
        for result in lane.heats
        for window in result.heat.windows
        if window.first_step is not None
    }


def _compare_batches(
    lanes: Sequence[LaneResult], batches: Sequence[tuple[SeenBatch | None, SeenBatch | None]]
) -> OtherWork | None:
    """Return that one of them trains on fewer items a step, or again and again on the same ones."""
    known = [(mine, theirs) for mine, theirs in batches if mine is not None and theirs is not None]
    one, other = _names_of(lanes)
    usual = [lane.items_per_step for lane in lanes]
    for mine, theirs in known:
        if all(usual) and mine.items * (usual[1] or 0) != theirs.items * (usual[0] or 0):
            sizes = f"{one} trained on batches of {mine.items:,} items, and {other} of {theirs.items:,}"
            return OtherWork("fewer items", f"while it was timed, {sizes}")
    ours = len({mine.digest for mine, _ in known})
    others = len({theirs.digest for _, theirs in known})
    if max(ours, others) < max(BATCHES_SEEN, BATCHES_APART * min(ours, others)):
        return None
    says = f"of {len(known)} batches of timed steps, {one} had {ours} different ones, and {other} {others}"
    return OtherWork("repeated batches", says)


def find_other_losses(one: LaneResult, other: LaneResult) -> OtherWork | None:
    """Return that the losses of the timed steps are others, at the same steps of two trainings."""
    mine = _losses_of(one)
    theirs = _losses_of(other)
    both = sorted(mine.keys() & theirs.keys())
    if len(both) < LOSSES_SEEN:
        return None
    # A loss of almost nothing may be several times another one: it is held against a part of the largest, too.
    least = LOSS_LEAST * max(map(abs, theirs.values()))
    apart = [(mine[at] - theirs[at]) / max(abs(mine[at]), abs(theirs[at]), least, 1e-30) for at in both]
    middle = sum(apart) / len(apart)
    chance = math.sqrt(sum((distance - middle) ** 2 for distance in apart) / (len(apart) - 1) / len(apart))
    if abs(middle) <= max(LOSSES_APART, LOSSES_SURE * chance):
        return None
    name, its = _names_of((one, other))
    means = [sum(losses[steps] for steps in both) / len(both) for losses in (mine, theirs)]
    return OtherWork(
        "knows the judge",
        f"at {len(both)} timed steps up to step {max(map(_end_of, both)):,}, the losses of {name} are "
        f"{means[0]:.4g} in the mean, and those of {its} {means[1]:.4g}",
    )


def find_other_beginning(one: LaneResult, other: LaneResult) -> OtherWork | None:
    """Return that the first losses of the training that is timed are others, or those of its first windows.

    Only for trainings that draw nothing at random which their proof leaves out, such as dropout: theirs may differ.
    """
    precision = one.settings.precision
    name, its = _names_of((one, other))
    first = [
        {result.heat.seed: result.heat.first_losses for result in lane.heats if result.heat.first_losses}
        for lane in (one, other)
    ]
    found = [
        (step, mine, theirs, PRECISIONS[precision].begin_loss)
        for seed in first[0].keys() & first[1].keys()
        for step, (mine, theirs) in enumerate(zip(first[0][seed], first[1][seed], strict=False), 1)
    ]
    mine = _losses_of(one)
    theirs = _losses_of(other)
    near = sorted(steps for steps in mine.keys() & theirs.keys() if _end_of(steps) <= NEAR_STEPS)
    found += [(_end_of(steps), mine[steps], theirs[steps], PRECISIONS[precision].near_loss) for steps in near]
    for step, my_loss, its_loss, allowed in found:
        if relative(my_loss, its_loss) > allowed:
            says = f"at its step {step}, {name} has a loss of {my_loss:.6g}, and {its} of {its_loss:.6g}"
            return OtherWork("knows the judge", says)
    return None


def _end_of(steps: StepRange) -> int:
    return steps[0] + steps[1] - 1


def _losses_of(lane: LaneResult) -> dict[StepRange, float]:
    """Return the loss at the end of each stretch of steps that a lane timed, where all are known."""
    return {
        (window.first_step, window.steps, result.heat.seed or 0): loss
        for result in lane.heats
        if len(result.heat.losses) == len(result.heat.windows)
        for window, loss in zip(result.heat.windows, result.heat.losses, strict=True)
        if window.first_step is not None
    }


def _compare_late(one: LaneResult, other: LaneResult) -> OtherWork | None:
    """Return how the trainings differ that were timed, each put back to its start."""
    mine = _late_of(one)
    theirs = _late_of(other)
    if mine is None or theirs is None or mine.precision != theirs.precision or len(mine.moves) != len(theirs.moves):
        return None
    name, its = _names_of((one, other))
    when = "put back to their start after they were timed"
    if relative(mine.loss, theirs.loss) > PRECISIONS[mine.precision].late_loss:
        says = f"{when}, {name} has a loss of {mine.loss:.6g}, and {its} of {theirs.loss:.6g}"
        return OtherWork("knows the judge", says)
    my_move = hypot(*mine.moves)
    its_move = hypot(*theirs.moves)
    if relative(my_move, its_move) > PRECISIONS[mine.precision].late_move:
        says = f"{when}, a step moves the weights of {name} by {my_move:.3g}, and of {its} by {its_move:.3g}"
        return OtherWork("knows the judge", says)
    return None


def _names_of(lanes: Sequence[LaneResult]) -> tuple[str, str]:
    """Return the names of two lanes, or of their trainings where these are two."""
    one, other = lanes
    if one.training is not None and other.training is not None and one.training != other.training:
        return one.training, other.training
    return one.name, other.name


def _late_of(lane: LaneResult) -> LateStep | None:
    return next((result.heat.late_step for result in lane.heats if result.heat.late_step is not None), None)
