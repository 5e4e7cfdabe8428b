"""What a device can do at most, measured window by window on the fake back end's virtual clock."""

from __future__ import annotations

import pytest

from laptime.engine import wire
from laptime.engine.backends.base import Exercise, copy_work, product_work
from laptime.engine.backends.fake import FakeBackend
from laptime.engine.backends.fake_script import FakeClock
from laptime.engine.heat.gauge import WINDOW_NS, WINDOWS, find_peak, measure_rates, run_gauge
from laptime.model.hardware import COPY_EXERCISE, PeakOrder
from laptime.model.machine import Device
from laptime.model.quantities import Missing

CPU = Device("cpu", "cpu", "fake processor", usable=True)
ORDER = PeakOrder("fake", CPU, ("fp32", "bf16", "fp16"), 2048, 512_000_000)


class Notebook:
    """A line to nobody: writes down what was said."""

    def __init__(self) -> None:
        self.said: list[wire.FromChild] = []

    def say(self, message: wire.FromChild) -> None:
        self.said.append(message)

    def listen(self) -> wire.FromParent:
        return wire.Enough()

    @property
    def rated(self) -> dict[str, wire.Rated]:
        return {message.limit: message for message in self.said if isinstance(message, wire.Rated)}


class Workshop:
    """A device on a virtual clock: its operations and bytes a second, and its bytes of memory."""

    by = "workshop 1"

    def __init__(self, flops: dict[str, float], copied: float = 5e10, room: int = 1 << 40) -> None:
        self.clock = FakeClock()
        self.products, self.copies = tuple(flops), ("copied",)
        self.free_bytes: int | Missing = room
        self.asked_bytes: list[int] = []
        self._flops, self._copied, self._room = flops, copied, room

    def product(self, precision: str, way: str, rows: int) -> Exercise:
        return self._exercise(product_work(rows), self._flops[way], 12 * rows**2)

    def copy(self, way: str, size_bytes: int) -> Exercise:
        self.asked_bytes.append(size_bytes)
        return self._exercise(copy_work(size_bytes), self._copied, 2 * size_bytes)

    def _exercise(self, work: float, rate: float, needs: int) -> Exercise:
        if needs > self._room:
            raise RuntimeError(f"CUDA out of memory. Tried to allocate {needs} bytes")
        return Exercise(lambda: self.clock.pass_ms(1e3 * work / rate), lambda: None, work)


def peak_of(workshop: Workshop, limit: str = "fp32", order: PeakOrder = ORDER):
    return find_peak(workshop.clock, workshop, order, limit)


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Let fake devices behave as this TOML says."""

    def write(text: str) -> None:
        (tmp_path / "fake.toml").write_text(text)
        monkeypatch.setenv("LAPTIME_FAKE", str(tmp_path / "fake.toml"))

    monkeypatch.setenv("LAPTIME_FAKE", "1")
    return write


def test_a_device_shows_the_rates_that_it_has(script):
    """Each precision and the copy, told one by one and then the end."""
    script('[peaks]\n"cpu/fp32" = 2e11\n"cpu/bf16" = 9e11\n"cpu/copy" = 4e10')
    line = Notebook()
    run_gauge(FakeBackend(), ORDER, line)
    best = {limit: rated.peak.best_per_s for limit, rated in line.rated.items()}
    assert best == pytest.approx({"fp32": 2e11, "bf16": 9e11, "fp16": 2e12, COPY_EXERCISE: 4e10}, rel=1e-6)
    assert line.rated["fp32"].peak.of == "product of 2,048 rows"
    assert line.rated[COPY_EXERCISE].peak.of == "512 MB copied"
    assert line.said[-1] == wire.Gauged()
    assert [each.name for each in line.said if isinstance(each, wire.Phase)] == list(ORDER.limits)


def test_a_precision_that_fails_harms_no_other(script):
    """It has its reason, what was refused for want of memory in the words of the refusal; the others their rates."""
    script('[peaks]\n"cpu/bf16" = "raise"\n"cpu/fp16" = "memory"')
    line = Notebook()
    run_gauge(FakeBackend(), ORDER, line)
    assert line.rated["bf16"] == wire.Rated("bf16", None, "RuntimeError: planted failure")
    assert line.rated["fp16"] == wire.Rated("fp16", None, "out of memory: planted: 64 GiB asked, 24 GiB there")
    assert [limit for limit, rated in line.rated.items() if rated.peak] == ["fp32", COPY_EXERCISE]


def test_windows_last_long_enough_and_open_when_the_device_is_warm():
    """A device that is slow for its first tenth of a second, and disturbed in one window, shows what it can do."""
    clock = FakeClock()
    began_ns = clock()
    windows: list[int] = []
    pace_ms = {True: 5.0, False: 1.0}

    def once() -> None:
        disturbed = 400e6 < clock() - began_ns < 420e6
        clock.pass_ms(2.0 if disturbed else pace_ms[clock() - began_ns < 60e6])

    rates = measure_rates(clock, Exercise(once, lambda: windows.append(clock()), 1e6))
    assert len(rates) == WINDOWS
    assert max(rates) == pytest.approx(1e9, rel=1e-3)
    assert min(rates) < max(rates)
    spans = [after - before for before, after in zip(windows[::2], windows[1::2], strict=True)]
    assert min(spans[-WINDOWS:]) >= WINDOW_NS


def test_the_fastest_way_is_the_devices():
    """What a framework can only have by another of its functions, the device can do."""
    peak = peak_of(Workshop({"product": 2e11, "1x1 convolution": 4e11}))
    assert (peak.best_per_s, peak.by) == (pytest.approx(4e11, rel=1e-3), "workshop 1")
    assert peak.of == "1x1 convolution of 2,048 rows"


def test_a_precision_that_is_emulated_multiplies_fewer_rows():
    """A product of 2,048 rows would take 17 s; one of an eighth of the rows takes 34 ms."""
    workshop = Workshop({"product": 1e9})
    began_ns = workshop.clock()
    peak = peak_of(workshop)
    assert peak.of == "product of 256 rows"
    assert peak.best_per_s == pytest.approx(1e9, rel=1e-3)
    assert workshop.clock() - began_ns < 2e9


def test_what_has_no_room_is_made_smaller():
    """A card of 300 MB takes matrices of 4,096 rows, and copies an eighth of what is free."""
    workshop = Workshop({"product": 1e13}, room=300_000_000)
    assert peak_of(workshop, order=PeakOrder("fake", CPU, ("fp32",), 8192, 1 << 30)).of.endswith("of 4,096 rows")
    assert peak_of(workshop, COPY_EXERCISE).of == "38 MB copied"
    workshop.free_bytes = Missing("it does not tell")
    assert peak_of(workshop, COPY_EXERCISE).of == "128 MB copied"
    assert workshop.asked_bytes[-3:] == [512_000_000, 256_000_000, 128_000_000]


def test_a_device_with_no_room_at_all_says_so():
    """The refusal comes through once nothing smaller is left to try."""
    workshop = Workshop({"product": 1e13}, room=1_000_000)
    workshop.free_bytes = Missing("it does not tell")
    with pytest.raises(RuntimeError, match="out of memory"):
        peak_of(workshop, COPY_EXERCISE)
