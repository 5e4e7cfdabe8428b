"""Inference read: percentiles without the warm-up, throughput by batch, the parts of a first answer, factors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measured import changed

from laptime.model.machine import Device
from laptime.model.plan import PlannedLane
from laptime.model.process import Dnf, ProcessRun, Settings
from laptime.model.protocol import AnswerReference, AnswerRun, BatchRun, CallTurn, InferHeat
from laptime.model.quantities import Missing
from laptime.model.sample import Window
from laptime.questions.infer.reduce import (
    answer_distance,
    answer_tolerance,
    batch_item_ms,
    counted_calls,
    describe_answers,
    find_infer_factors,
    judge_answers,
    summarise_infer_lane,
)

MS = 1_000_000
CPU = Device("cpu", "cpu", "a processor", usable=True)
EXACT = AnswerRun("fp64", (3.0, 4.0), 5.0, 2)
TWIN = AnswerRun("fp32", (3.0, 4.0 + 1e-7), 5.0, 2)
REFERENCE = AnswerReference(EXACT, TWIN, 16)
CALLS = tuple(range(1 * MS, 101 * MS, MS))  # 1 to 100 ms, mixed below


def mixed(calls):
    """Return calls of all lengths in an order without a trend."""
    return tuple(calls[(place * 37) % len(calls)] for place in range(len(calls)))


def windows(*milliseconds, calls=10, flags=()):
    made, start = [], 0
    for place, each in enumerate(milliseconds):
        end = start + round(each * calls * MS)
        made.append(Window(start, end, calls, flag=flags[place] if flags else None))
        start = end
    return tuple(made)


PHASES_S = {"start": 0.25, "import": 1.5, "build": 0.5, "items": 9.0, "first call": 0.125, "proof": 9.0}


def heat(round_number=0, call_ms=10.0, **changes):
    made = InferHeat(
        ProcessRun("fake/cpu", "ok", phases_s=PHASES_S),
        order=round_number,
        round=round_number,
        items_a_call=1,
        first_call_ns=125 * MS,
        calls_ns=(round(call_ms * MS),) * 20,
        batches=(BatchRun(1, windows(*[call_ms] * 5)), BatchRun(8, windows(*[2 * call_ms] * 5))),
        proofs=(replace(TWIN, values=(3.0, 4.0)),),
    )
    return changed(made, **changes)


def lane_of(name, heats):
    return summarise_infer_lane(PlannedLane(name, "fake", CPU, Settings()), heats, REFERENCE)


def test_percentiles_are_of_all_calls_that_count():
    """1 to 100 ms, evenly: the middle, and the tail."""
    found = describe_answers("fake/cpu", [heat(calls_ns=mixed(CALLS))])
    assert found.p50_ms.median == pytest.approx(50.5)
    assert found.p95_ms.median == pytest.approx(95.05)
    assert found.p99_ms.median == pytest.approx(99.01)
    assert isinstance(found.p50_ms.low, Missing)
    assert found.calls == 100


def test_calls_that_warm_up_do_not_count_and_late_slow_ones_do():
    """A warm-up is cut off; a tail that comes later is what percentiles are for."""
    assert counted_calls((30 * MS,) * 8 + (10 * MS,) * 40) == (10 * MS,) * 40
    slowing = (10 * MS,) * 40 + (30 * MS,) * 8
    assert counted_calls(slowing) == slowing


def test_throughput_is_of_the_steady_undisturbed_windows():
    """Two items in 10 ms a call; a warm-up and a disturbed window are left out."""
    run = BatchRun(2, windows(30, 30, 30, 10, 10, 10, 99, 10, flags=(None,) * 6 + ("others", None)))
    assert batch_item_ms(run) == pytest.approx(5.0)
    assert batch_item_ms(BatchRun(2, (), "out of memory")) is None


def test_a_batch_has_items_per_second_or_a_reason():
    """8 items in 20 ms are 400 a second; what has no figure says why."""
    bad = heat(batches=(*heat().batches, BatchRun(64, (), "out of memory: 64 GiB asked")))
    found = describe_answers("fake/cpu", [bad, bad])
    assert [each.batch for each in found.batches] == [1, 8, 64]
    assert found.batches[1].items_per_s.median == pytest.approx(400.0)
    assert (found.batches[2].items_per_s, found.batches[2].reason) == (None, "out of memory: 64 GiB asked")


def test_the_first_answer_is_the_sum_of_its_parts():
    """Process, import, network and first call: neither the items nor the proof."""
    wait = describe_answers("fake/cpu", [heat(), heat(1)]).wait
    assert (wait.process_s, wait.import_s, wait.network_s, wait.first_call_s) == (0.25, 1.5, 0.5, 0.125)
    assert wait.first_answer_s == pytest.approx(2.375)
    assert wait.further_call_s == pytest.approx(0.010)


def test_factors_are_paired_by_round():
    """A drift that both meet cancels: twice as fast in each round, with an interval, call by call and by batch."""
    theirs = [heat(place, 10.0 * (1 + place / 10)) for place in range(3)]
    ours = [heat(place, 5.0 * (1 + place / 10)) for place in range(3)]
    found = find_infer_factors(lane_of("fake/cpu/best", ours), lane_of("fake/cpu", theirs), ours, theirs)
    assert [each.batch for each in found] == [None, 1, 8]
    for each in found:
        assert each.ratio == pytest.approx(2.0)
        assert each.low <= 2.0 <= each.high
        assert (each.verdict, each.pairs, each.same_work) == ("faster", 3, True)


def test_heats_in_turns_are_compared_turn_by_turn():
    """A drift within a round cancels, and so does a turn that one of them was disturbed in."""
    drift = (1.0, 1.3, 1.1, 1.6)

    def in_turns(call_ms, flag=None):
        calls = tuple(round(call_ms * each * MS) for each in drift for _ in range(5))
        turns = tuple(CallTurn(turn, 5, flag if turn == 3 else None) for turn in range(4))
        batch = windows(*[call_ms * each for each in drift])
        return heat(
            calls_ns=calls,
            call_turns=turns,
            batches=(BatchRun(1, tuple(replace(each, turn=4 + turn) for turn, each in enumerate(batch))),),
        )

    ours, theirs = in_turns(5.0), in_turns(10.0)
    slowed = replace(
        ours, calls_ns=(*ours.calls_ns[:15], *(90 * MS,) * 5), call_turns=in_turns(5.0, "others").call_turns
    )
    for mine in (ours, slowed):
        found = find_infer_factors(lane_of("fake/cpu/best", [mine]), lane_of("fake/cpu", [theirs]), [mine], [theirs])
        assert [each.ratio for each in found] == pytest.approx([2.0, 2.0])


def test_a_round_without_its_pair_does_not_count():
    """A heat that did not get so far has no part in a ratio."""
    dnf = Dnf("single calls", "planted")
    theirs = [heat(0), heat(1, calls_ns=(), batches=(), status="dnf", dnf=dnf)]
    ours = [heat(0, 5.0), heat(1, 5.0)]
    found = find_infer_factors(lane_of("fake/cpu/best", ours), lane_of("fake/cpu", theirs), ours, theirs)
    assert {each.pairs for each in found} == {1}
    assert lane_of("fake/cpu", theirs).status == "dnf"


def test_a_lane_has_the_figures_that_all_records_have():
    """A step is a call; start-up is what comes before the first."""
    lane = lane_of("fake/cpu", [heat(), heat(1)])
    assert (lane.step_ms.median, lane.items_per_s.median) == (pytest.approx(10.0), pytest.approx(100.0))
    assert (lane.startup_s, lane.first_step_ms, lane.lap_s, lane.parity.status) == (2.25, 125.0, None, "same")


def test_answers_are_held_against_their_own_length():
    """A distance is a share; other numbers of answers are infinitely far."""
    assert answer_distance(replace(TWIN, values=(3.0, 4.05)), EXACT) == pytest.approx(0.01)
    assert answer_distance(replace(TWIN, length=5.5), EXACT) == pytest.approx(0.1)
    assert answer_distance(replace(TWIN, count=3), EXACT) == float("inf")


def test_tolerances_come_from_rounding_and_the_twin():
    """Sixteen arrays deep: four times a rounding, with the margins; a twin that strays far allows more in float32."""
    assert answer_tolerance(REFERENCE, "fp32") == pytest.approx(2 * 8 * 2**-24 * 4)
    assert answer_tolerance(REFERENCE, "bf16") == pytest.approx(2 * 2**-8 * 4)
    far = replace(REFERENCE, twin=replace(TWIN, values=(3.0, 4.005)))
    assert answer_tolerance(far, "fp32") == pytest.approx(8e-3)


@pytest.mark.parametrize(
    ("run", "reference", "status"),
    [
        (TWIN, REFERENCE, "same"),
        (replace(TWIN, values=(3.0, 4.001)), REFERENCE, "differs"),
        (replace(TWIN, count=3), REFERENCE, "differs"),
        (TWIN, replace(REFERENCE, problem="it cannot run in float64"), "unproven"),
        (TWIN, "no answer within 1 s", "unproven"),
    ],
)
def test_the_verdict_on_answers(run, reference, status):
    """One heat that differs speaks for its lane."""
    assert judge_answers([(TWIN,), (run,)], reference).status == status


def test_a_reduced_precision_is_judged_by_its_own_rounding():
    """It is said how far it strays."""
    coarse = AnswerRun("bf16", (3.0, 4.01), 5.008, 2)
    parity = judge_answers([(TWIN, coarse)], REFERENCE)
    assert (parity.status, parity.strays_precision) == ("same", "bf16")
    assert parity.strays == pytest.approx(0.002)
    far = judge_answers([(TWIN, replace(coarse, values=(3.0, 5.0)))], REFERENCE)
    assert (far.status, "in bf16" in far.reason) == ("differs", True)
