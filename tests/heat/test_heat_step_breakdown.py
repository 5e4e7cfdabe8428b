"""Steps are taken apart after all windows, part by part between fences; where that fails, the heat is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_heat_loop import Notebook, order_for

from laptime.engine import wire
from laptime.engine.backends.fake import FakeBackend
from laptime.engine.heat.loop import run_heat
from laptime.engine.heat.work import break_down_steps
from laptime.model.quantities import Missing

STAGES = "loader_ms = 30.0\ncopy_ms = 2.0\ncompute_ms = 8.0\n"


@pytest.fixture
def heard(tmp_path, monkeypatch):
    """Return what a heat says whose steps are to be taken apart."""

    def run(script, **settings):
        place = tmp_path / "fake.toml"
        place.write_text(f'["*"]\n{script}\n')
        monkeypatch.setenv("LAPTIME_FAKE", str(place))
        line = Notebook()
        run_heat(FakeBackend(), replace(order_for(**settings), breakdown=True), line)
        return line

    return run


def signs_in(line):
    [signed] = [message for message in line.said if isinstance(message, wire.Signed)]
    return signed.signs


def test_parts_are_told_after_all_else(heard):
    """After the last window and its question, before the end."""
    line = heard(STAGES)
    said = [message.name if isinstance(message, wire.Phase) else type(message).__name__ for message in line.said]
    assert said[-4:] == ["Ready", "take apart", "Signed", "end"]


def test_each_part_has_its_time(heard):
    """On the virtual clock every figure is exact: a second's worth of steps of 40 ms."""
    signs = signs_in(heard(STAGES))
    assert signs.steps == 25
    assert (signs.wait_ns, signs.copy_ns, signs.compute_ns) == (750_000_000, 50_000_000, 200_000_000)
    assert signs.shapes == 1


@pytest.mark.parametrize(("step_ms", "steps"), [(8.0, 50), (100.0, 10), (5_000.0, 3)])
def test_as_many_steps_as_fill_a_second(heard, step_ms, steps):
    """Three at least, fifty at most."""
    assert signs_in(heard(f"compute_ms = {step_ms}")).steps == steps


def test_a_burst_is_taken_apart_whole():
    """Of three steps of it one has waited for six, or none has."""
    back_end = FakeBackend()
    runner = back_end.build(replace(order_for(), breakdown=True)).start()
    assert break_down_steps(back_end.clock, runner.fence, runner.parts(), 12).steps == 12


def test_a_loader_that_runs_beside_is_waited_for_less(heard):
    """What the rest of the step has hidden is no wait."""
    signs = signs_in(heard(STAGES + "overlap = true"))
    assert signs.wait_ns == signs.steps * 20_000_000


def test_what_a_back_end_tells_stands_over_the_clock(heard):
    """A part that it cannot tell from the others is missing with its reason, and never 0."""
    signs = signs_in(heard("step_ms = 10.0\nsigns = { reads = 2.0, shapes = 4 }"))
    assert all(isinstance(each, Missing) for each in (signs.wait_ns, signs.copy_ns, signs.compute_ns))
    assert (signs.reads, signs.shapes) == (2.0, 4)


def test_steps_that_cannot_be_taken_apart_cost_no_timing(heard):
    """All windows stand; a note says what happened."""
    line = heard('fail = { how = "raise", phase = "take apart" }')
    assert len(line.windows) == 10
    assert not [message for message in line.said if isinstance(message, wire.Signed)]
    [noted] = [message for message in line.said if isinstance(message, wire.Noted)]
    assert noted.notes == ("its steps were not taken apart: that ended in RuntimeError: planted failure",)


def test_nothing_is_taken_apart_unasked():
    """It takes time, and a race does not need it."""
    line = Notebook()
    run_heat(FakeBackend(), order_for(), line)
    assert "take apart" not in [message.name for message in line.said if isinstance(message, wire.Phase)]
