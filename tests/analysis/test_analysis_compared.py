"""Two records -> how each lane changed, what differs, what is doubtful, what is refused."""

from __future__ import annotations

import sys
from dataclasses import replace
from math import isclose
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "pages"))
from records import MACHINE, lane, record, without_figures

from laptime.model.ask import Ask, DataSource
from laptime.model.errors import UsageError
from laptime.model.quantities import Missing
from laptime.model.record import NOT_RELIABLE, Finding
from laptime.questions.compare.reduce import compare_records, compare_trainings

CPU, CUDA = "torch/cpu/as-written", "torch/cuda:0/best"


def before(*lanes, **changes):
    return record(lanes or (lane(CPU, 100.0, 0.01),), **{"id": "r-2026-11-20-aaaa", **changes})


def after(*lanes, **changes):
    return record(lanes or (lane(CPU, 100.0, 0.01),), **{"id": "r-2026-11-21-bbbb", **changes})


@pytest.mark.parametrize(("step_ms", "verdict"), [(110.0, "slower"), (90.0, "faster"), (100.1, "not distinguishable")])
def test_a_lane_is_faster_slower_or_not_distinguishable(step_ms, verdict):
    found = compare_records(before(), after(lane(CPU, step_ms, 0.01)))
    (changed,) = found.lanes
    assert (verdict, (5, 5)) == (changed.verdict, changed.counts)
    assert isclose(100.0 / step_ms, changed.ratio, rel_tol=0.002)
    assert changed.low < changed.ratio < changed.high


def test_a_smaller_batch_is_not_called_fast_for_doing_less():
    (changed,) = compare_records(before(), after(lane(CPU, 60.0, 0.01, batch=50))).lanes
    assert changed.verdict == "slower"
    assert isclose(100.0 / 120.0, changed.ratio, rel_tol=0.002)


def test_one_heat_gives_a_ratio_and_no_verdict():
    one = replace(lane(CPU, 120.0, None), heats=lane(CPU, 120.0).heats[:1])
    found = compare_records(before(), after(one), 0.05)
    assert found.lanes[0].verdict == "not distinguishable"
    assert isinstance(found.lanes[0].high, Missing)
    assert found.failing == ()
    assert any("has one heat on a side" in each for each in found.warnings)


@pytest.mark.parametrize(("share", "failing"), [(0.05, (CPU,)), (0.2, ()), (None, ())])
def test_a_gate_fails_where_the_near_end_is_beyond_its_share(share, failing):
    found = compare_records(before(), after(lane(CPU, 115.0, 0.01)), share)
    assert failing == found.failing


def test_a_gate_does_not_fail_where_only_the_middle_is_beyond():
    """6 % slower, but known to 3 % only."""
    found = compare_records(before(lane(CPU, 100.0, 0.04)), after(lane(CPU, 106.0, 0.04)), 0.05)
    assert (found.failing, found.lanes[0].ratio < 1 / 1.05) == ((), True)


def test_a_lane_that_lost_its_result_is_not_judged():
    both = (lane(CPU, 100.0), lane(CUDA, 10.0))
    dnf = without_figures(CUDA, "dnf", "no memory")
    found = compare_records(before(*both), after(both[0], dnf), 0.05)
    assert (found.unjudged, found.failing) == ((CUDA,), ())
    assert any(f"{CUDA} has no result in r-2026-11-21-bbbb: no memory" in each for each in found.unpaired)
    assert compare_records(before(*both), after(both[0], dnf)).unjudged == ()


def test_lanes_on_one_side_are_named():
    found = compare_records(before(lane(CPU, 100.0), lane(CUDA, 10.0)), after())
    assert f"{CUDA} is in r-2026-11-20-aaaa only" in found.unpaired


def test_what_differs_is_named_and_what_is_doubtful_is_a_warning():
    other = replace(MACHINE, processor=replace(MACHINE.processor, name="Xeon"), memory_bytes=99_000_000_000)
    changed = replace(lane(CPU, 100.0), framework={"torch": "2.14.0"})
    changed = replace(changed, settings=replace(changed.settings, threads=4))
    found = compare_records(before(), after(changed, machine=other, ask=Ask(seed=7), tool={"version": "0.2.0"}))
    named = {each.what: (each.before, each.after, each.doubtful) for each in found.differences}
    assert named == {
        "processor": ("AMD EPYC 7763 64-Core Processor", "Xeon", True),
        "memory": ("24.0 GB", "99.0 GB", True),
        f"threads of {CPU}": ("not set", "4", True),
        "seed": ("0", "7", False),
        "laptime": ("not set", "0.2.0", False),
        "torch": ("2.13.0", "2.14.0", False),
    }
    (warning,) = found.warnings
    assert "threads of torch/cpu/as-written not set and 4" in warning
    assert "torch 2.13.0" not in warning


def test_memory_that_differs_by_what_a_kernel_keeps_is_the_same():
    other = replace(MACHINE, memory_bytes=MACHINE.memory_bytes - 10_000_000)
    assert compare_records(before(), after(machine=other)).differences == ()


def test_other_data_are_a_warning():
    one, other = (DataSource("/d", "folders", False, 10, 2, ("a",), digest * 8) for digest in "xy")
    found = compare_records(before(data=one), after(data=other))
    assert [each.what for each in found.differences] == ["data"]
    assert "digest yyyyyyyy" in found.warnings[0]


def test_a_record_that_is_not_finished_or_not_reliable_is_a_warning():
    busy = Finding(NOT_RELIABLE, "9 of 10 windows were disturbed.", {}, "", "proven")
    found = compare_records(before(status="interrupted"), after(findings=(busy,)))
    assert found.warnings == (
        "r-2026-11-20-aaaa is interrupted, so some of its heats may be missing.",
        "r-2026-11-21-bbbb is not reliable: 9 of 10 windows were disturbed.",
    )


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        (before(), before(), "is the same record twice"),
        (before(question="why"), after(), "is a why, which has no figures to compare"),
        (before(), after(question="full"), "is a race, and r-2026-11-21-bbbb a training"),
        (before(), after(workload=replace(before().workload, name="mine.py:f")), "and r-2026-11-21-bbbb mine.py:f"),
        (before(), after(lane(CUDA, 1.0)), "have no lane in common"),
        (before(), after(without_figures(CPU, "dnf", "x")), "no lane has a result in both"),
    ],
)
def test_what_means_nothing_is_refused(one, other, says):
    with pytest.raises(UsageError) as refused:
        compare_records(one, other)
    assert says in refused.value.says
    assert refused.value.hint


def test_a_race_of_one_training_has_none_to_compare():
    with pytest.raises(UsageError) as refused:
        compare_trainings(before())
    assert "a comparison needs two" in refused.value.says
