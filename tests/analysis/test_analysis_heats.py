"""One heat's windows give its class, where its steady part begins, and its step."""

from __future__ import annotations

import pytest
from measured import failed, heat_of, windows_of

from laptime.analysis.heats import quiet_windows, steady_windows, step_ms, summarise_heat
from laptime.model.quantities import Missing
from laptime.model.sample import Window
from laptime.model.symptoms import StepSymptoms


@pytest.mark.parametrize(
    ("steps_ms", "kind", "start", "step"),
    [
        ([10.0] * 8, "flat", 0, 10.0),
        ([30.0, 20.0, *[10.0] * 8], "warm-up", 2, 10.0),
        ([10.0] * 5 + [13.0] * 6, "slowing", 5, 13.0),
        ([10.0, 10.1, 9.9, 10.0, 10.1, 9.9], "flat", 0, 10.0),
        ([10.0, 10.0], "unsteady", 0, 10.0),
        ([10.0, 30.0, 10.0, 30.0, 10.0, 30.0], "unsteady", 0, 20.0),
    ],
)
def test_a_heat_has_a_class_and_a_step(steps_ms, kind, start, step):
    """Warm-up is left out; of a heat that slows down, what it ended with counts."""
    found = summarise_heat(heat_of(1.0, windows=windows_of(*steps_ms)))
    assert (kind, start) == (found.steady, found.steady_from)
    assert step == pytest.approx(found.step_ms)


def test_the_step_of_a_loader_that_works_in_bursts_is_a_mean():
    """How many waits fall into a window is chance; all together they are the loader's pace."""
    windows = windows_of(10.0, 20.0, 10.0, 10.0, 20.0)
    found = summarise_heat(heat_of(1.0, windows=windows, burst=12))
    assert (found.step_ms, found.heat.burst) == (pytest.approx(14.0), 12)


def test_the_step_of_a_window_is_its_mean_from_fence_to_fence():
    """Whatever happened between two steps is in it."""
    assert step_ms(Window(1_000, 41_001_000, 4, (1, 1, 1, 1))) == pytest.approx(10.25)


def test_a_disturbed_window_does_not_count_where_enough_quiet_ones_are_left():
    """It stays in the record, and the steady part is counted in the windows as they were measured."""
    windows = windows_of(50.0, 10.0, 10.0, 99.0, 10.0, flags={0: "noise", 3: "noise"})
    found = summarise_heat(heat_of(1.0, windows=windows))
    assert (found.step_ms, found.steady, found.steady_from) == (pytest.approx(10.0), "flat", 1)
    assert found.heat.windows == windows
    assert steady_windows(found) == (windows[1], windows[2], windows[4])


def test_a_heat_that_was_disturbed_throughout_keeps_all_its_windows():
    """Two quiet windows are too few to stand for it."""
    windows = windows_of(10.0, 10.0, 20.0, 20.0, flags={2: "noise", 3: "noise"})
    assert windows == quiet_windows(windows)


def test_a_heat_that_did_not_finish_has_no_step():
    """What it measured is kept, but counts for nothing."""
    broken = heat_of(10.0, status="dnf", dnf=failed().process.dnf)
    found = summarise_heat(broken)
    assert (found.step_ms, found.heat.process.status, found.heat.process.dnf.phase) == (None, "dnf", "build")
    assert len(found.heat.windows) == 5


def test_what_a_heat_tells_of_its_steps_goes_with_it():
    """It is a signature, and judged elsewhere."""
    signs = StepSymptoms(9, wait_ns=1, reads=Missing("not looked"))
    assert summarise_heat(heat_of(1.0, signs=signs)).heat.signs == signs


def test_a_heat_without_any_window_is_no_error():
    """One that failed in its build has none."""
    found = summarise_heat(failed())
    assert (found.steady, found.steady_from, found.step_ms, found.heat.windows) == ("unsteady", 0, None, ())


def test_the_first_step_stands_apart():
    """In milliseconds, and missing where there was none."""
    assert summarise_heat(heat_of(10.0)).first_step_ms == 300.0
    assert summarise_heat(heat_of(10.0, first_step_ns=None)).first_step_ms is None


def test_memory_is_a_reading_or_an_absence_with_its_reason():
    """Never a zero that nobody read."""
    held = heat_of(1.0, peak_memory_bytes=1 << 30, device_memory_bytes=Missing("none"))
    process = summarise_heat(held).heat.process
    assert (process.peak_memory_bytes, process.device_memory_bytes) == (1_073_741_824, Missing("none"))


def test_the_step_holds_its_slow_moments():
    """One window of nine at three times the step is a lap's time, too; a flagged one is not."""
    windows = windows_of(*[10.0] * 4, 30.0, *[10.0] * 4, 90.0, flags={9: "noise"})
    assert summarise_heat(heat_of(1.0, windows=windows)).step_ms == pytest.approx(110 / 9)


def test_windows_weigh_by_their_steps():
    """Three steps of 10 ms and one of 30 ms have a mean of 15 ms."""
    windows = (*windows_of(*[10.0] * 4), Window(9_000_000_000, 9_030_000_000, 1))
    steps = sum(window.steps for window in windows)
    found = summarise_heat(heat_of(1.0, windows=windows))
    assert found.step_ms == pytest.approx((10.0 * (steps - 1) + 30.0) / steps)
