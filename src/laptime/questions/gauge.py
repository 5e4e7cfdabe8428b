"""What can each device do at most? A child for each framework and device, one after another: they would share cores."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass

from laptime.analysis.peaks import join_peaks
from laptime.model.lane import Malloc, Settings
from laptime.model.limits import NOT_MEASURED, PRECISIONS, DeviceKey, DevicePeaks, Peak, PeakOrder, key_of
from laptime.model.machine import Device, Machine
from laptime.model.missing import Missing
from laptime.planner.presets import environment_for
from laptime.questions.bounds import Recall
from laptime.run.scout import ask_peaks

# Keras on JAX and on PyTorch computes with what JAX and PyTorch have shown by themselves.
MEASURERS = ("torch", "jax", "keras-tf", "fake")
PROCESSOR_ROWS, CARD_ROWS = 2048, 8192
PROCESSOR_COPY_BYTES, CARD_COPY_BYTES = 512_000_000, 1 << 30
Told = dict[str, Peak | Missing]
Limits = tuple[tuple[DeviceKey, DevicePeaks | Missing], ...]
IMPORT_S, LIMIT_S = 3.0, 1.0  # what a child takes, about, for the progress alone


@dataclass(frozen=True, slots=True)
class PeakShelf:
    """Where peaks are kept, and who hears of each child before it starts."""

    recall: Recall
    keep: Callable[[DevicePeaks], None]
    tell: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Turn:
    """One child's part: which device it measures, and what is asked of it."""

    key: DeviceKey
    order: PeakOrder


def known_limits(machine: Machine, recall: Recall) -> Limits:
    """Give each device once that any framework can use, with what is known of it."""
    seen = list(_usable(machine))
    keys = dict.fromkeys(_with_driver(key, seen) for key, _, _ in seen)
    return tuple((key, recall(key)) for key in keys)


def measure_limits(machine: Machine, shelf: PeakShelf, patience_s: float) -> Limits:
    """Measure every device that any framework can use, keep what was reached, and say what was to be kept no longer."""
    for key, kept in known_limits(machine, shelf.recall):
        if isinstance(kept, Missing) and kept != NOT_MEASURED:
            shelf.tell(f"{key.label}: {kept.missing}")
    measured = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    found = {key: join_peaks(key, measured, told) for key, told in _measure(machine, shelf.tell, patience_s).items()}
    for peaks in found.values():
        if peaks.peaks:
            shelf.keep(peaks)
    return tuple(found.items())


def add_limits(rows: Iterable[dict[str, object]], machine: Machine, limits: Limits) -> list[dict[str, object]]:
    """Give the devices' objects, those of devices that can be used with what each can do at most."""
    known = {key.device: asdict(each) for key, each in limits}
    devices = {(name, device.name): key.device for key, name, device in _usable(machine)}
    keys = [devices.get((str(row["framework"]), str(row["name"]))) for row in rows]
    return [{**row, "limits": known[key]} if key in known else row for row, key in zip(rows, keys, strict=True)]


def _measure(machine: Machine, tell: Callable[[str], None], patience_s: float) -> dict[DeviceKey, dict[str, Told]]:
    turns = list(_turns(machine))
    told: dict[DeviceKey, dict[str, Told]] = {}
    for number, turn in enumerate(turns):
        order = turn.order
        left_s = sum(IMPORT_S + LIMIT_S * len(each.order.limits) for each in turns[number:])
        what = f"{order.framework}/{order.device.name} ({', '.join(order.limits)})"
        tell(f"{number + 1} of {len(turns)}: {what}; ends within about {left_s:.0f} s")
        told.setdefault(turn.key, {})[order.framework] = ask_peaks(order, _environment(order, machine), patience_s)
    return told


def _usable(machine: Machine) -> Iterator[tuple[DeviceKey, str, Device]]:
    """Give a device for every framework that has tried it; a plain function's cards nobody has."""
    for framework in machine.frameworks:
        if framework.name == "python":
            continue
        for device in framework.devices:
            if device.usable:
                yield key_of(device, framework.name, machine.processor), framework.name, device


def _turns(machine: Machine) -> Iterator[_Turn]:
    seen = list(_usable(machine))
    features: dict[str, set[str]] = {}
    for key, _, device in seen:
        features.setdefault(key.device, set()).update(device.features)
    for key, framework, device in seen:
        if framework in MEASURERS:
            able = tuple(each for each in PRECISIONS if each == "fp32" or each in features[key.device])
            yield _Turn(_with_driver(key, seen), _order(framework, device, able))


def _with_driver(key: DeviceKey, seen: list[tuple[DeviceKey, str, Device]]) -> DeviceKey:
    """Know a device by the key of whichever framework tells its driver."""
    same = [each for each, _, _ in seen if each.device == key.device]
    return next((each for each in same if each.driver), same[0])


def _order(framework: str, device: Device, precisions: tuple[str, ...]) -> PeakOrder:
    if device.kind == "cpu":
        return PeakOrder(framework, device, precisions, PROCESSOR_ROWS, PROCESSOR_COPY_BYTES)
    return PeakOrder(framework, device, precisions, CARD_ROWS, CARD_COPY_BYTES)


def _environment(order: PeakOrder, machine: Machine) -> dict[str, str]:
    """On a processor take the threads that a lane at its best takes, and keep memory: results are made anew."""
    if order.device.kind != "cpu":
        return environment_for(order.framework, Settings(), order.device)
    malloc: Malloc = "keep" if "malloc" in order.device.features else "system"
    settings = Settings(threads=machine.processor.cores_usable, malloc=malloc)
    return environment_for(order.framework, settings, order.device)
