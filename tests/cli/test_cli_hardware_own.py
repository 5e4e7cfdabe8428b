"""`laptime forecast` of a training of your own: from a race's record, with counted operators as literals."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from laptime.api import forecasts
from laptime.machine.hardware import known_efficiencies
from laptime.model.errors import UsageError
from laptime.model.hardware import DevicePeaks, HeldMemory, Peak, ScriptLoading, StepMemory, StepOperator, StepWork
from laptime.model.quantities import Missing, size
from laptime.model.record import NOT_RELIABLE, Finding
from laptime.questions.forecast import run as forecasting
from laptime.questions.forecast.lane import measure_lane
from laptime.questions.forecast.memory import NOTHING, need_of_step
from laptime.questions.forecast.page import render_forecast
from laptime.questions.forecast.reduce import IN_EIGHTY, NEW_NETWORK_SPREAD
from laptime.show.pages.page import View
from laptime.store import schema

pytestmark = pytest.mark.usefixtures("known_references")

PLANTED = """
["fake/*"]
compute_ms = 400.0
spread = 0.002
"""
PEAKS = DevicePeaks("a", "a", "", "2026-11-25", {"fp32": Peak(5e11, 5e11, "fake")})
T4 = forecasts.choose(["t4"])


@pytest.fixture
def record(house, take_records_of):
    house.script(PLANTED)
    take_records_of(house, "race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--budget", "1s", "-q")
    return schema.decode(house.done("show", "latest", "--json").out.encode(), "this record")


def test_a_range_holds_what_is_not_known_of_a_training_of_your_own(record):
    """A new network, operators that nobody can count, and batches of other shapes: each widens it, and is said."""

    def forecast_of(*operators, **counted):
        work = StepWork(1.0, 1.0, "counted", operators, **counted)
        own = replace(record.workload, name="mine.py:training", file="mine.py")
        mine = replace(record, workload=own, reference=replace(record.reference, work=work))
        return forecasts.forecast(mine, devices=T4)

    def width(found):
        return math.log(found.rows[0].step_ms.high / found.rows[0].step_ms.low) / 2 / IN_EIGHTY

    known, unknown = StepOperator("product", 1e12, 1e9), StepOperator("unknown", 0.0, 1e11)
    built_in, new = width(forecasts.forecast(record, devices=T4)), forecast_of(known)
    assert width(new) == pytest.approx(math.hypot(built_in, NEW_NETWORK_SPREAD))
    assert width(forecast_of(known, varies=0.5)) == pytest.approx(math.hypot(width(new), math.log(1.5)))
    seen = forecast_of(known, unknown)
    assert width(seen) > width(new) + 0.1
    assert "operators that nobody can count" in " ".join(seen.rows[0].notes)
    assert "two steps differ by 50 %" in " ".join(forecast_of(known, varies=0.5).notes)
    with pytest.raises(UsageError, match="its operators were not counted"):
        forecast_of()
    ms = [forecast_of(known, items=items).rows[0].step_ms.middle for items in (100, 25)]
    assert ms[1] / ms[0] == pytest.approx(4, rel=0.02)  # the lane's batch of 100 is 4 times what was counted


def test_a_forecast_from_a_busy_machine_says_so_first(record):
    busy = Finding(NOT_RELIABLE, "9 of 10 windows of fake/cpu/best were disturbed.", {}, "", "proven")
    pages = [
        forecasts.as_text(forecasts.forecast(replace(record, findings=found), devices=T4), View(100))
        for found in ((busy,), ())
    ]
    assert pages[0].startswith("NOT RELIABLE: 9 of 10 windows of fake/cpu/best were disturbed. Race again while")
    assert pages[0].endswith(pages[1])


def test_python_of_your_own_takes_as_long_as_a_core_there_is_slower(record):
    """On a processor, too. Of a desktop's host that is not known, and of a record from before only by its name."""
    operators, targets = (StepOperator("product", 2e11, 1e9),), ["t4", "l4", "rtx-4090", "epyc-9r14"]
    work = StepWork(1.0, 1.0, "counted", operators, python_s=0.3)

    def forecast_of(work=work, **processor):
        own = replace(record.workload, name="mine.py:training", file="mine.py")
        machine = replace(record.machine, processor=replace(record.machine.processor, **processor))
        mine = replace(record, workload=own, machine=machine, reference=replace(record.reference, work=work))
        found = forecasting.make_forecast(
            mine, None, forecasts.choose(targets), known_efficiencies(), recall=lambda _key: PEAKS
        )
        return found, {each.device.short: each for each in found.rows}

    found, rows = forecast_of(core_score=1_311.0)
    assert "Python computes 300 ms of each step" in " ".join(found.notes)
    for short, ms in (("t4", 300), ("l4", 300 * 1_311 / 1_808), ("rtx-4090", 300)):
        assert (rows[short].binds, rows[short].step_ms.middle) == ("python", pytest.approx(ms, rel=0.05))
    unknown = forecasting.UNSCALED
    assert [unknown in rows[each].notes for each in ("t4", "rtx-4090")] == [False, True]
    wide = {short: math.log(each.step_ms.high / each.step_ms.low) for short, each in rows.items()}
    assert wide["rtx-4090"] > wide["l4"]
    faster = forecast_of(core_score=2 * 1_311.0)[1]
    assert faster["t4"].step_ms.middle == pytest.approx(600, rel=0.05)
    more_ms = faster["epyc-9r14"].step_ms.middle - rows["epyc-9r14"].step_ms.middle
    assert more_ms == pytest.approx(300 * 1_311 / 2_083)
    busy = replace(work, core_score=655.5)  # the core's other thread computed while Python was timed, and not later
    assert forecast_of(busy, core_score=1_311.0)[1]["rtx-4090"].step_ms.middle == pytest.approx(150, rel=0.05)
    by_name = forecast_of(core_score=None, name="AMD EPYC 7R13 Processor")[1]
    assert by_name["t4"].step_ms.middle == pytest.approx(300 * 1_730 / 1_311, rel=0.05)
    nameless = forecast_of(core_score=None, name="a processor")[1]
    assert nameless["t4"].step_ms.middle == pytest.approx(300, rel=0.05)
    assert unknown in nameless["t4"].notes


@pytest.mark.parametrize(
    ("kind", "execution", "python_s"),
    [("cpu", "eager", 300.0), ("cuda", "eager", 0.04), ("cuda", "graph", 0.0), ("cuda", "compiled_graph", 0.0)],
)
def test_python_of_your_own_fits_into_the_step_of_a_card_and_is_not_in_a_captured_one(
    record, kind, execution, python_s
):
    """It was timed on the processor, where freeing large tensors may count with it."""
    work = StepWork(1.0, 1.0, "counted", (StepOperator("product", 1e12, 1e9),), python_s=300.0)
    lane = next(each for each in record.lanes if each.step_ms is not None)
    step = replace(lane.step_ms, median=40.0)
    device, settings = replace(lane.device, kind=kind), replace(lane.settings, execution=execution)
    mine = replace(
        record,
        workload=replace(record.workload, name="mine.py:training", file="mine.py"),
        reference=replace(record.reference, work=work),
    )
    run = replace(lane, step_ms=step, device=device, settings=settings, device_memory_bytes=10**9)
    found = measure_lane(mine, run)
    if kind == "cpu":
        assert found.need == Missing("what its step holds was not counted")
    else:
        assert (found.need.held.total_bytes, found.need.is_whole) == (10**9, True)
    assert found.python_s == pytest.approx(python_s)
    assert any("Python computes" in each for each in found.notes) is (python_s > 0)


@pytest.mark.parametrize(
    ("made_bytes", "fits", "says"),
    [(10**9, "fits", ""), (14 * 10**9, "may not fit", "; it may not fit T4."), (17 * 10**9, "does not fit", "no room")],
)
def test_whether_it_fits_is_known_from_what_a_step_holds(record, made_bytes, fits, says):
    """A T4 has 16 GB. Between what tensors take alone, and all that an allocator keeps, a step may not fit."""
    held = HeldMemory(2 * 10**6, 4 * 10**6, 0, 0, made_bytes)
    memory = StepMemory(held, HeldMemory(2 * 10**6, 4 * 10**6, 2 * 10**6, 0, 0), held, kept_bytes=made_bytes // 10)
    work = StepWork(1.0, 1.0, "counted", (StepOperator("product", 1e12, 1e9),), memory=memory)
    own = replace(record.workload, name="mine.py:training", file="mine.py")
    mine = replace(record, workload=own, reference=replace(record.reference, work=work))
    found = forecasts.forecast(mine, devices=T4)
    (row,) = found.rows
    assert row.memory_bytes.low < held.total_bytes + 10**9 < row.memory_bytes.high + 10**9
    assert 1.1 * made_bytes < row.memory_bytes.middle < row.memory_bytes.high
    assert row.fits == fits
    assert found.held == held
    page = render_forecast(found, View(width=300))
    assert "A step takes" in page
    assert says in page
    assert f"activations and copies {size(made_bytes)}, moments 4.00 MB, weights 2.00 MB." in render_forecast(
        found, View(width=300, details=True)
    )


def test_what_a_step_makes_grows_with_the_batch_and_shrinks_with_its_values():
    """Weights and moments do neither; of 16 bits, weights are there once more. An update is the same in any case."""
    passes, update = HeldMemory(100, 200, 0, 10, 1_000), HeldMemory(100, 200, 100, 10, 100)
    memory = StepMemory(passes, update, replace(passes, made_bytes=600), kept_bytes=131)
    usual = need_of_step(memory, 1.0, NOTHING)
    assert (usual.held, usual.kept_bytes) == (passes, 131)
    assert need_of_step(memory, 2.0, NOTHING).held == replace(passes, made_bytes=2_000)
    narrow = need_of_step(memory, 1.0, NOTHING, is_narrow=True)
    assert narrow.held == replace(passes, made_bytes=650)
    assert narrow.kept_bytes == pytest.approx(131 * 960 / 1_310)
    assert need_of_step(memory, 0.01, NOTHING).held == update


def as_script(record, loading, **changed):
    """Return a record as if its first lane were of a script whose steps of 400 ms waited so for their loader."""
    work = StepWork(1.0, 1.0, "counted", (StepOperator("product", 1e10, 1e8),), loading=loading)
    lane = record.lanes[0]
    heats = tuple(replace(result, heat=replace(result.heat, work=work)) for result in lane.heats)
    lanes = (replace(lane, heats=heats), *record.lanes[1:])
    return replace(record, workload=replace(record.workload, name="train.py", file=None), lanes=lanes, **changed)


def said_of(found):
    return " ".join(forecasts.as_text(found, View(100)).split())


def test_a_script_takes_its_loader_along(record):
    """Half of a step waits for batches that the step makes itself: no card makes them sooner."""

    def forecast_of(loading, **changed):
        return forecasts.forecast(as_script(record, loading, **changed), "fake/cpu", T4)

    free = forecast_of(ScriptLoading(0.0, 0)).rows[0]
    bound = forecast_of(ScriptLoading(0.2, 0))
    loader_ms = bound.rows[0].loader_ms
    assert bound.rows[0].binds == "loader"
    assert bound.rows[0].step_ms.middle == pytest.approx(free.step_ms.middle + loader_ms, rel=1e-4)
    assert f"The loader binds T4: {loader_ms:.0f} ms a step." in said_of(bound)
    assert free.binds != "loader"
    behind = forecast_of(ScriptLoading(0.2, 2)).rows[0]  # it waits although two processes load: no step is shorter
    assert (behind.binds, behind.step_ms.middle) == ("loader", pytest.approx(2 * loader_ms, rel=0.02))


@pytest.mark.parametrize("loading", [None, ScriptLoading(0.004, 2)])
def test_a_loader_of_a_script_that_is_not_known_is_said_first(record, loading):
    found = forecasts.forecast(as_script(record, loading), "fake/cpu", T4)
    assert "That holds if the loader keeps up, which was not timed." in said_of(found)
    assert not found.loader_is_known


def test_a_why_is_forecast_by_its_own_lane_and_not_by_an_experiment(record):
    """The last of its lanes may have no loader at all."""
    found = forecasts.forecast(as_script(record, ScriptLoading(0.2, 0), question="why"), devices=T4)
    assert found.lane == record.lanes[0].name
