"""What fake devices can do at most: rates on the virtual clock, or a failure that `LAPTIME_FAKE` plants."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from laptime.backends.exercise import ELSEWHERE, PRODUCT, Exercise, copy_work, product_work
from laptime.backends.fake_script import PEAKS, FakeClock, read_scripts
from laptime.model.limits import COPY
from laptime.model.machine import Device
from laptime.model.missing import Missing

RATES: dict[str, float | str] = {
    "cpu/fp32": 5e11,
    "cpu/tf32": 5e11,
    "cpu/bf16": 2e12,
    "cpu/fp16": 2e12,
    "cpu/copy": 5e10,
    "cuda:0/fp32": 5e13,
    "cuda:0/tf32": 4e14,
    "cuda:0/bf16": 8e14,
    "cuda:0/fp16": 8e14,
    "cuda:0/copy": 3e12,
}


class FakeExercises:
    by = "fake 1"
    products = (PRODUCT,)
    copies = (ELSEWHERE,)
    free_bytes: int | Missing = Missing("a fake device holds no memory")

    def __init__(self, device: Device, clock: FakeClock) -> None:
        self._device, self._clock = device.name, clock
        self._rates = {**RATES, **read_scripts().get(PEAKS, {})}

    def product(self, precision: str, way: str, rows: int) -> Exercise:  # noqa: ARG002  there is one
        return self._at_rate(precision, product_work(rows))

    def copy(self, way: str, size_bytes: int) -> Exercise:  # noqa: ARG002  as above
        return self._at_rate(COPY, copy_work(size_bytes))

    def _at_rate(self, limit: str, work: float) -> Exercise:
        rate = self._rates[f"{self._device}/{limit}"]
        once = _fail(rate) if isinstance(rate, str) else lambda: self._clock.pass_ms(1e3 * work / rate)
        return Exercise(once, lambda: None, work)


def _fail(how: str) -> Callable[[], None]:
    def once() -> None:
        if how == "memory":
            raise MemoryError("planted: 64 GiB asked, 24 GiB there")
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("planted failure")

    return once
