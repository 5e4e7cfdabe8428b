"""Can each framework really use each device? Look, ask, and try; nothing is trained."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass

from laptime.analysis.usage import join_peaks
from laptime.engine.run.scout import ask_peaks
from laptime.machine.look import CoresTaken
from laptime.model.frameworks import find_framework
from laptime.model.hardware import NOT_MEASURED, DeviceKey, DevicePeaks, Peak, PeakOrder, key_of
from laptime.model.machine import Device, Machine
from laptime.model.precisions import PRECISIONS
from laptime.model.process import Malloc, Settings
from laptime.model.quantities import Missing
from laptime.planner.plan import environment_for
from laptime.questions.bounds import Recall
from laptime.questions.doctor.checkup import find_card_problems, find_host_problems
from laptime.questions.doctor.nouns import Checkup, DeviceTest

PRECISION = "fp32"
TRIED_ROWS = 1024
SLOWS_CORES, SLOWS_SHARE = 0.25, 0.1  # of the cores, as in a window of a race: what others may take


def examine(machine: Machine, recall: Recall, tell: Callable[[str], None], patience_s: float) -> Checkup:
    """Check a machine whose frameworks were scouted, and try a matrix product on every usable device."""
    devices = list(usable_devices(machine))
    trials = []
    for number, (key, framework, device) in enumerate(devices):
        tell(f"{number + 1} of {len(devices)}: a product on {framework}/{device.name}")
        trials.append(_try(framework, device, recall(with_driver(key, devices)), machine, patience_s))
    return Checkup(machine, tuple(trials), find_card_problems(machine), find_host_problems(machine))


def _try(
    framework: str, device: Device, known: DevicePeaks | Missing, machine: Machine, patience_s: float
) -> DeviceTest:
    order = PeakOrder(framework, device, (PRECISION,), TRIED_ROWS, copied_bytes=0)
    with CoresTaken() as taken:
        product = ask_peaks(order, environment_of_peak(order, machine), patience_s)[PRECISION]
        others = taken.others()
    if isinstance(product, Missing):
        return DeviceTest(framework, device.name, device.label, None, product, product.missing)
    peak = known if isinstance(known, Missing) else known.peaks.get(PRECISION, Missing(f"no peak in {PRECISION}"))
    share = peak if isinstance(peak, Missing) else product.best_per_s / peak.best_per_s
    most = max(SLOWS_CORES, SLOWS_SHARE * machine.processor.cores_usable)
    is_slowed = device.kind == "cpu" and not isinstance(others, Missing) and others > most
    return DeviceTest(framework, device.name, device.label, product, share, others_cores=others, is_slowed=is_slowed)


# Measure each device's peaks: a child for each framework and device, one at a time, because they would share cores.

PROCESSOR_ROWS, CARD_ROWS = 2048, 8192
PROCESSOR_COPY_BYTES = 512_000_000
CARD_COPY_BYTES = 1 << 30
FrameworkPeaks = dict[str, Peak | Missing]
DeviceLimits = tuple[tuple[DeviceKey, DevicePeaks | Missing], ...]
IMPORT_LIMITS = 3  # a child starts for about as long as it measures this many limits; used for the progress only


@dataclass(frozen=True, slots=True)
class PeakCache:
    """How peaks are loaded and saved. `tell` is called with progress before each child starts."""

    recall: Recall
    keep: Callable[[DevicePeaks], None]
    tell: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Turn:
    """One child's part: the device that it measures, and its order."""

    key: DeviceKey
    order: PeakOrder


def known_limits(machine: Machine, recall: Recall) -> DeviceLimits:
    """Return each device that any framework can use, once, with its saved peaks."""
    devices = list(usable_devices(machine))
    keys = dict.fromkeys(with_driver(key, devices) for key, _, _ in devices)
    return tuple((key, recall(key)) for key in keys)


def measure_limits(machine: Machine, cache: PeakCache, patience_s: float) -> DeviceLimits:
    """Measure the peaks of every device that any framework can use. Report saved peaks that no longer hold.

    A device's peaks are saved after each framework's turn on it, so that what ends later turns leaves those.
    """
    for key, kept in known_limits(machine, cache.recall):
        if isinstance(kept, Missing) and kept != NOT_MEASURED:
            cache.tell(f"{key.label}: {kept.missing}")
    measured = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    found: dict[DeviceKey, DevicePeaks | Missing] = {}
    for key, by_framework in _measure(machine, cache.tell, patience_s):
        found[key] = peaks = join_peaks(key, measured, by_framework)
        if peaks.peaks:
            cache.keep(peaks)
    return tuple(found.items())


def add_limits(rows: Iterable[dict[str, object]], machine: Machine, limits: DeviceLimits) -> list[dict[str, object]]:
    """Return the rows of devices, with `limits` in those of usable devices."""
    known = {key.device: asdict(peaks) for key, peaks in limits}
    devices = {(name, device.name): key.device for key, name, device in usable_devices(machine)}
    keys = [devices.get((str(row["framework"]), str(row["name"]))) for row in rows]
    return [{**row, "limits": known[key]} if key in known else row for row, key in zip(rows, keys, strict=True)]


def _measure(
    machine: Machine, tell: Callable[[str], None], patience_s: float
) -> Iterator[tuple[DeviceKey, dict[str, FrameworkPeaks]]]:
    """Yield a device after each turn, with what each framework has measured on it so far."""
    turns = list(_turns(machine))
    began_s = time.monotonic()
    measured: dict[DeviceKey, dict[str, FrameworkPeaks]] = {}
    for number, turn in enumerate(turns):
        order = turn.order
        done, left = (
            sum(IMPORT_LIMITS + len(part.order.limits) for part in some) for some in (turns[:number], turns[number:])
        )
        what = f"{order.framework}/{order.device.name} ({', '.join(order.limits)})"
        end = f"; about {left / done * (time.monotonic() - began_s):.0f} s to go" if done else ""
        tell(f"{number + 1} of {len(turns)}: {what}{end}")
        measured.setdefault(turn.key, {})[order.framework] = ask_peaks(
            order, environment_of_peak(order, machine), patience_s
        )
        yield turn.key, measured[turn.key]


def usable_devices(machine: Machine) -> Iterator[tuple[DeviceKey, str, Device]]:
    """Yield each usable device of each framework. A plain function is left out: nothing has tried its cards."""
    for framework in machine.frameworks:
        if find_framework(framework.name).is_opaque:
            continue
        for device in framework.devices:
            if device.usable:
                yield key_of(device, framework.name, machine.processor), framework.name, device


def _turns(machine: Machine) -> Iterator[_Turn]:
    devices = list(usable_devices(machine))
    features: dict[str, set[str]] = {}
    for key, _, device in devices:
        features.setdefault(key.device, set()).update(device.features)
    for key, framework, device in devices:
        if find_framework(framework).measures_peaks:  # not Keras, which would only measure its engine again
            able = tuple(
                product_precision
                for product_precision in PRECISIONS
                if product_precision == "fp32" or product_precision in features[key.device]
            )
            if device.kind == "cpu":
                order = PeakOrder(framework, device, able, PROCESSOR_ROWS, PROCESSOR_COPY_BYTES)
            else:
                order = PeakOrder(framework, device, able, CARD_ROWS, CARD_COPY_BYTES)
            yield _Turn(with_driver(key, devices), order)


def with_driver(key: DeviceKey, seen: list[tuple[DeviceKey, str, Device]]) -> DeviceKey:
    """Return a device's key from a framework that reports the driver, if there is one."""
    same = [known for known, _, _ in seen if known.device == key.device]
    return next((device_key for device_key in same if device_key.driver), same[0])


def environment_of_peak(order: PeakOrder, machine: Machine) -> dict[str, str]:
    """Return the child's variables. On a processor it uses the threads and the allocator of a lane at its best."""
    if order.device.kind != "cpu":
        return environment_for(find_framework(order.framework), Settings(), order.device)
    malloc: Malloc = "keep" if "malloc" in order.device.features else "system"
    settings = Settings(threads=machine.processor.cores_usable, malloc=malloc)
    return environment_for(find_framework(order.framework), settings, order.device)
