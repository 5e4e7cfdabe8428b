"""What no device can do: more operations than its peak, more bytes than its memory moves, less energy than it idles.

Every bound is generous on purpose: a true row must never be refused. What is closer to true than these bounds is
caught by the proof, by the rounds, or by nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from laptime.machine.hardware import known_devices, known_efficiencies
from laptime.model.hardware import CONVOLUTIONS, KnownDevice, Range
from laptime.model.machine import Processor
from laptime.model.precisions import NARROW
from laptime.model.quantities import Missing
from laptime.model.workload import FLOAT_BYTES, Adam, Workload
from laptime.questions.forecast.reduce import forecast_step, range_of, spread_of
from laptime.show.board.row import BoardRow
from laptime.trainings.workloads.shapes import count_parameters, list_operators

FASTER_CONVOLUTIONS = 4.0  # Winograd's F(4x4, 3x3) multiplies a quarter as often as the layers say
CLOCK_GHZ = 6.5  # no processor has run faster without liquid nitrogen
BOOST = 1.15  # a card may run above the clock that its peak was stated for
# Operations a cycle and core in float32 and in two bytes, by the widest unit that a processor says it has.
UNITS = (("amx", 64, 2048), ("avx512", 64, 256), ("avx2", 32, 128), ("sve", 64, 512))
OTHER_UNITS = (64, 512)
CACHE_BYTES = 256 << 20  # of the device with the largest: what stays there is not moved
LIMIT_SHARE = 1.15  # of the board's power: more than its limit
IDLE_SHARE = 0.01  # of the board's power: less than any card that is on


def known_device(short: str | None) -> KnownDevice | None:
    return next((device for device in known_devices() if device.short == short), None)


def find_impossible(row: BoardRow, workload: Workload, processor: Processor) -> Iterator[str]:
    """Yield a sentence for each figure of a row that no such device can reach."""
    device = known_device(row.device.short)
    step_s = row.step_ms.middle / 1e3
    flops = sum(
        operator.flops * operator.calls / (FASTER_CONVOLUTIONS if operator.kind in CONVOLUTIONS else 1.0)
        for operator in list_operators(workload, row.batch)
    )
    peak = _peak(row, device, processor)
    if peak is not None and flops / step_s > peak:
        says = f"{flops / step_s / 1e12:.3g} TFLOP/s are above what {row.hardware} can do ({peak / 1e12:.3g})"
        yield f"a step of {row.step_ms.middle:.4g} ms is too short: {says}"
    # The bytes that a step moves at least: weights and the optimizer's state, read and written once
    arrays = 3 if isinstance(workload.optimizer, Adam) else 1
    moved = max(0.0, 2.0 * (arrays * FLOAT_BYTES * count_parameters(workload) - CACHE_BYTES))
    if device is not None and device.bandwidth_gb_s is not None and moved / step_s > device.bandwidth_gb_s * 1e9:
        says = f"its weights need {moved / step_s / 1e9:.4g} GB/s, and {row.hardware} moves {device.bandwidth_gb_s:g}"
        yield f"a step of {row.step_ms.middle:.4g} ms is too short: {says}"
    if row.energy_j_per_lap is None or device is None or device.power_w is None:
        return
    watts = row.energy_j_per_lap / row.lap_s.middle
    if watts > LIMIT_SHARE * device.power_w:
        yield f"{watts:.4g} W over a lap is above the limit of {row.hardware} ({device.power_w:g} W)"
    if watts < IDLE_SHARE * device.power_w:
        yield f"{watts:.3g} W over a lap is less than {row.hardware} takes when it is idle"


def _peak(row: BoardRow, device: KnownDevice | None, processor: Processor) -> float | None:
    """Return the most operations a second, or None for a card that the table does not have."""
    narrow = row.preset == "fastest" or row.settings.get("precision") in NARROW
    if row.device.kind == "cpu":
        words = " ".join(processor.features)
        widest = [(in_float32, in_two) for unit, in_float32, in_two in UNITS if unit in words]
        in_float32, in_two = widest[0] if widest else OTHER_UNITS
        return processor.cores_usable * CLOCK_GHZ * 1e9 * (in_two if narrow else in_float32)
    if device is None:
        return None
    # Frameworks multiply float32 in tf32 where they may, so a float32 lane may reach that peak.
    allowed = ("fp32", "tf32", *NARROW) if narrow else ("fp32", "tf32")
    peaks = [peak for precision in allowed if (peak := device.boosted_flops(precision)) is not None]
    return BOOST * max(peaks) if peaks else None


def expected_step(row: BoardRow, workload: Workload) -> Range | None:
    """Return the range that a forecast gives for a step, where the model of operators knows the device."""
    device = known_device(row.device.short)
    if device is None or device.kind in {"cpu", "tpu", "xpu"}:
        return None
    precision = row.settings.get("precision", "fp32")
    known = known_efficiencies()
    is_eager = row.framework == "torch" and "execution" not in row.settings
    found = forecast_step(
        list_operators(workload, row.batch, precision), device, precision, "eager" if is_eager else "graph", known
    )
    if isinstance(found, Missing) or not math.isfinite(found.step_s):
        return None
    return range_of(1e3 * found.step_s, spread_of(device, precision, known))
