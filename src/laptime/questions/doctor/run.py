"""Can each framework really use each device? Look, ask, and try; nothing is trained."""

from __future__ import annotations

from collections.abc import Callable

from laptime.model.limits import DevicePeaks, PeakOrder
from laptime.model.machine import Device, Machine
from laptime.model.missing import Missing
from laptime.questions.bounds import Recall
from laptime.questions.doctor.checkup import find_card_problems, find_host_problems
from laptime.questions.doctor.gauge import environment_of, usable_devices, with_driver
from laptime.questions.doctor.nouns import Checkup, DeviceTest
from laptime.run.scout import ask_peaks

PRECISION = "fp32"
ROWS, COPIED_BYTES = 1024, 64 << 20


def examine(machine: Machine, recall: Recall, tell: Callable[[str], None], patience_s: float) -> Checkup:
    """Check a machine whose frameworks were scouted, and try a matrix product on every usable device."""
    seen = list(usable_devices(machine))
    trials = []
    for number, (key, framework, device) in enumerate(seen):
        tell(f"{number + 1} of {len(seen)}: a product on {framework}/{device.name}")
        trials.append(_try(framework, device, recall(with_driver(key, seen)), machine, patience_s))
    return Checkup(machine, tuple(trials), find_card_problems(machine), find_host_problems(machine))


def _try(
    framework: str, device: Device, known: DevicePeaks | Missing, machine: Machine, patience_s: float
) -> DeviceTest:
    order = PeakOrder(framework, device, (PRECISION,), ROWS, COPIED_BYTES)
    product = ask_peaks(order, environment_of(order, machine), patience_s)[PRECISION]
    if isinstance(product, Missing):
        return DeviceTest(framework, device.name, device.label, None, product, product.missing)
    peak = known if isinstance(known, Missing) else known.peaks.get(PRECISION, Missing(f"no peak in {PRECISION}"))
    share = peak if isinstance(peak, Missing) else product.best_per_s / peak.best_per_s
    return DeviceTest(framework, device.name, device.label, product, share)
