"""Whether a lane did the same work: every way to differ is caught, and rounding alone never is."""

from __future__ import annotations

from math import nan

import pytest
from measured import heat_of, plan_of, planned, proof, reference

from laptime.analysis.heats import summarise_heat
from laptime.analysis.lanes import summarise_lane
from laptime.analysis.parity import compare_references, find_other_laps, judge_parity, may_be_chance, tell_chance
from laptime.model.other_work import OtherWork
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from laptime.model.sample import Appeal, Movement
from laptime.model.symptoms import DenormalCensus

ALLOWED = 8 * 2.0**-24 * 2  # eight roundings of float32 over the root of a depth of four


def judge(*runs, held=None, again=None, **settings):
    """Judge one heat's proofs, and those of a second proof."""
    appeal = None if again is None else Appeal(7, reference(), again)
    return judge_parity(Settings(**settings), [runs], reference() if held is None else held, appeal)


def test_rounding_is_the_same_work():
    """The worst distance is stated with what is allowed."""
    found = judge(proof(loss=5e-8))
    assert (found.status, found.steps, found.reason) == ("same", 3, None)
    assert (found.worst, found.tolerance) == pytest.approx((5e-8, ALLOWED), rel=1e-6)


def test_a_second_proof_clears_who_differed_by_chance():
    """The figures are then the second proof's, and what the first met is reported."""
    found = judge(proof(move=1e-3), again=(proof(loss=5e-8),))
    assert (found.status, found.reason, found.worst) == ("same", None, pytest.approx(5e-8, rel=1e-6))
    assert found.chance == "its weights moved otherwise in fp32: 3.3 times what is allowed"
    assert tell_chance(found)


@pytest.mark.parametrize("again", [(proof(move=2e-3),), (), (proof(loss=1e-3),)])
def test_a_second_proof_that_differs_too_or_failed_clears_nobody(again):
    """The first proof's reason is kept."""
    found = judge(proof(move=1e-3), again=again)
    assert (found.status, found.chance) == ("differs", None)
    assert found.reason == "its weights moved otherwise in fp32: 3.3 times what is allowed"
    assert not tell_chance(found)


@pytest.mark.parametrize(
    ("run", "may"),
    [
        (proof(move=1e-3), True),
        (proof(losses=(*proof().losses[:2], 9.0)), True),
        (proof(loss=1e-3), False),
        (proof(start=10.1), False),
        (proof(losses=(nan, *proof().losses[1:])), False),
    ],
)
def test_what_differs_from_the_start_is_no_chance(run, may):
    assert may == may_be_chance([(run,)], reference())


@pytest.mark.parametrize(("loss", "status"), [(0.99, "same"), (1.01, "differs"), (-0.99, "same"), (-1.01, "differs")])
def test_the_tolerance_of_a_loss_is_sharp(loss, status):
    """A hundredth under it passes, a hundredth over it does not."""
    assert status == judge(proof(loss=loss * ALLOWED)).status


def test_what_the_twin_strays_widens_the_later_steps_only():
    """The first step has nothing to grow from."""
    held = reference(twin=proof(loss=1e-6))
    losses = proof().losses
    late = proof(losses=(losses[0], losses[1], losses[2] * (1 + 7.9e-6)))
    early = proof(losses=(losses[0] * (1 + 7.9e-6), losses[1], losses[2]))
    assert judge(late, held=held).status == "same"
    assert judge(early, held=held).reason == "its loss differs by 8e-06 at step 1 in fp32 (1e-06 allowed)"


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (proof(loss=1e-3), "its loss differs by 1e-03 at step 1 in fp32 (1e-06 allowed)"),
        (proof(move=1e-3), "its weights moved otherwise in fp32: 3.3 times what is allowed"),
        (proof(start=10.1), "it did not start from the same weights"),
        (proof(shrink=-1.0008e-6), "its weights moved otherwise in fp32: 2 times what is allowed"),
        (proof(losses=(2.3, 2.2)), "2 steps were taken, the reference took 3"),
        (proof(moves=(0.5, 0.25)), "it has 2 arrays of weights, the reference 3"),
        (proof(losses=(2.3, nan, 2.1)), "its loss differs by nan at step 2 in fp32 (1e-06 allowed)"),
    ],
)
def test_every_way_to_differ_has_its_reason(run, reason):
    """The first thing in which a run leaves the reference is named."""
    found = judge(run)
    assert (found.status, found.reason) == ("differs", reason)


def test_an_array_that_rounding_alone_moves_accuses_nobody():
    """Adam makes steps of a bias before a normalisation, whose slope is nothing but rounding; the others are judged."""
    held = reference(exact=proof("fp64", moves=(0.5, 0.25, 0.001)), twin=proof(moves=(0.5, 0.25, 0.02)))
    assert judge(proof(moves=(0.5, 0.25, 0.02)), held=held).status == "same"
    assert judge(proof(moves=(0.5, 0.0, 0.02)), held=held).status == "differs"


def test_weights_that_are_all_zero_at_first_are_judged_by_how_they_moved():
    """They have no length that could shrink, as those of a linear model that begins at nothing."""
    held = reference(exact=proof("fp64", start=0.0, shrink=0.0), twin=proof(start=0.0, shrink=0.0))
    assert judge(proof(start=0.0, shrink=0.0), held=held).status == "same"
    assert judge(proof(start=0.0, shrink=0.0, move=1e-3), held=held).status == "differs"


def test_an_array_that_was_frozen_is_noticed_though_it_is_small():
    """It hardly changes the length of all movement, and is an array of its own."""
    held = reference(exact=proof("fp64", moves=(0.5, 0.25, 0.002)), twin=proof(moves=(0.5, 0.25, 0.002)))
    assert judge(proof(moves=(0.5, 0.25, 0.0)), held=held).status == "differs"
    assert judge(proof(moves=(0.5, 0.25, 0.0019)), held=held).status == "same"


STEP = Movement(1e-4, (0.5, 0.25, 0.125))
STILL = Movement(0.0, (0.0, 0.0, 0.0))
DECAY = Movement(-4e-4, (4e-3, 0.0, 1e-5))


def full(**changes):
    """Return a run that took the two single steps, too."""
    return proof(**{"single": STEP, "decay": STILL, "scales": (1e-4,), **changes})


def full_reference(weights=1_337_002, **changes):
    return reference(exact=full(precision="fp64", **changes), twin=full(**changes), weights=weights)


@pytest.mark.parametrize(
    ("changes", "held", "reason"),
    [
        ({}, {}, None),
        ({"decay": DECAY}, {"decay": DECAY}, None),
        ({"single": Movement(1e-4, (0.5004, 0.2502, 0.1251))}, {},
         "its first step moved its weights otherwise in fp32: 2.7 times what is allowed"),
        ({"single": Movement(1.01e-4, STEP.moves)}, {},
         "its first step moved its weights otherwise in fp32: 2 times what is allowed"),
        ({"single": Movement(1e-4, (0.5, 0.25, 0.01))}, {},
         "its first step moved its weights otherwise in fp32: 80 times what is allowed"),
        ({}, {"decay": DECAY}, "its weight decay is another in fp32: 1.7e+03 times what is allowed"),
        ({"decay": Movement(-8e-4, (8e-3, 0.0, 2e-5))}, {"decay": DECAY},
         "its weight decay is another in fp32: 1.7e+03 times what is allowed"),
        ({"decay": Movement(-4e-4, (4e-3, 1e-5, 1e-5))}, {"decay": DECAY},
         "its weight decay is another in fp32: 8.4 times what is allowed"),
        ({"decay": DECAY}, {}, "its weight decay is another in fp32: 3.4e+03 times what is allowed"),
        ({"single": None}, {}, "its first step moved its weights otherwise in fp32: inf times what is allowed"),
        ({"decay": Movement(nan, (nan, nan, nan))}, {},
         "its weight decay is another in fp32: inf times what is allowed"),
        ({"scales": (1e-5,)}, {}, "its optimizer's epsilon is another"),
    ],
)  # fmt: skip
def test_the_two_single_steps_are_judged(changes, held, reason):
    """What a small rate hides shows there: the first step at its full size, and the weight decay alone."""
    found = judge(full(**changes), held=full_reference(**held))
    assert found.reason == reason
    assert found.status == ("differs" if reason else "same")


def test_what_a_framework_is_known_to_do_in_its_own_way_is_told_where_a_lane_differs():
    """And only there, whichever of the two does so."""
    way = "it squares rows"
    assert judge(full(own_way=way, scales=(1.0,)), held=full_reference()).reason.endswith("another; it squares rows")
    assert judge(full(scales=(1.0,)), held=full_reference(own_way=way)).reason.endswith("another; it squares rows")
    assert judge(full(own_way=way, scales=(1.0,)), held=full_reference(own_way=way)).reason.endswith("another")
    assert judge(full(own_way=way), held=full_reference()).reason is None


def test_single_steps_that_the_reference_did_not_take_are_not_judged():
    """Records and references of older versions have none."""
    assert judge(full(scales=())).status == "same"


def test_a_decay_finer_than_float32_at_the_small_rate_accuses_nobody():
    """Each engine rounds 1 - rate x decay in its own way, in each step. Where nothing decays, no more is allowed."""
    many, rounded = 100_000_000, {"shrink": proof().shrink + 3 * 2.0**-23 * 0.99}
    assert judge(full(decay=DECAY, **rounded), held=full_reference(many, decay=DECAY)).status == "same"
    assert judge(full(**rounded), held=full_reference(many)).status == "differs"


@pytest.mark.parametrize(
    ("precision", "loss", "status"),
    [
        ("bf16", 1e-3, "same"),
        ("bf16", 2e-2, "differs"),
        ("fp16", 1e-3, "same"),
        ("fp16", 4e-3, "differs"),
        ("tf32", 1e-3, "same"),
        ("tf32", 4e-3, "differs"),
    ],
)
def test_a_reduced_precision_has_its_own_tolerance(precision, loss, status):
    """It is stated how far it strays, and how exactly its float32 run agrees."""
    found = judge(proof(loss=5e-8), proof(precision, loss=loss), precision=precision)
    assert (status, precision) == (found.status, found.strays_precision)
    assert (found.worst, found.strays) == pytest.approx((5e-8, loss), rel=1e-6)


def test_a_reduced_precision_does_not_excuse_its_float32_run():
    """The same work has to be shown first."""
    assert judge(proof(loss=1e-5), proof("bf16", loss=1e-3), precision="bf16").status == "differs"


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        ("it ended by SIGKILL", "it ended by SIGKILL"),
        (reference(problem="it cannot run in float64"), "it cannot run in float64"),
    ],
)
def test_without_a_reference_nothing_is_proven(held, reason):
    """The reason for which there is none is the lane's."""
    found = judge(proof(), held=held)
    assert (found.status, found.reason) == ("unproven", reason)


def test_a_race_without_a_reference_says_so():
    """None was made, for whatever reason."""
    found = judge_parity(Settings(), [(proof(),)], None)
    assert (found.status, found.reason) == ("unproven", "no reference was computed")


def test_a_loader_alone_trains_nothing():
    """There is no work to be the same."""
    assert judge(input="only").reason == "input=only trains nothing"


def test_a_heat_that_came_not_so_far_leaves_it_open():
    """It is not called different for having failed."""
    assert judge().reason == "no heat came as far as the proof"


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        ({"dropout rate 1": 0.3}, {"dropout rate 1": 0.3}, None),
        (
            {"dropout rate 1": 0.3},
            {"dropout rate 1": 0.5},
            OtherWork("other network", "their dropout rate 1 is 0.3 and 0.5"),
        ),
        (
            {"dropout rate 1": 0.3},
            {},
            Missing("only one of them has a module with a dropout rate 1"),
        ),
    ],
)
def test_two_trainings_are_compared_by_the_rates_that_no_step_of_a_proof_shows(mine, theirs, expected):
    """The proof drops nothing, and uses no running statistics."""
    assert compare_references(reference(rates=tuple(mine.items())), reference(rates=tuple(theirs.items()))) == expected


@pytest.mark.parametrize(("items", "step", "status"), [(100, 40, "same"), (25, 40, "unproven"), (25, 500, "same")])
def test_a_batch_that_becomes_smaller_after_the_proof_is_not_proven(items, step, status):
    """The last batch of a lap may be smaller, and a lap has 500 steps here."""
    census = DenormalCensus({"weights": 0.0}, step=step, items=items)
    lane = planned()
    found = summarise_lane(plan_of(lane), lane, (summarise_heat(heat_of(10.0, census=census)),), reference()).parity
    assert found.status == status
    if status == "unproven":
        assert found.kind == "fewer items"
        assert found.reason == "the batch of step 40 has 25 items, and those of the proof 100"


def test_laps_of_other_numbers_of_items_are_another_training():
    """A sampler may draw from half of the data alone."""
    lane = planned()
    whole, half = (
        summarise_lane(plan_of(lane), lane, (summarise_heat(heat_of(10.0, steps_per_lap=steps)),), reference())
        for steps in (500, 250)
    )
    assert find_other_laps(whole, whole) is None
    name = lane.name
    assert find_other_laps(whole, half) == OtherWork(
        "fewer items", f"a lap of {name} has 50,000 items, and of {name} 25,000"
    )
