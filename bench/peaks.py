"""What this machine's processor can do at most, as `laptime devices --measure` finds it: the best of all frameworks.

    python bench/peaks.py                      some 20 seconds
    python bench/peaks.py --frameworks torch   with this one alone

Products of square matrices count two operations a multiplication, a copy the bytes that are read and those that are
written. The best of some windows counts: a disturbance can only make one slower.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from common import Figure, WorkerError, finish, fresh_home, parser_for
from laptime import api
from laptime.model.errors import StoreError
from laptime.model.hardware import COPY_EXERCISE, DevicePeaks, key_of


def measure_processor(frameworks: Sequence[str] | None = None) -> DevicePeaks:
    """Measure this machine's devices, with these frameworks or all, and give the processor's peaks."""
    machine = api.devices(frameworks)
    keys = {
        key_of(device, framework.name, machine.processor).device
        for framework in machine.frameworks
        for device in framework.devices
        if device.kind == "cpu"
    }
    with fresh_home():
        measured = api.measure_peaks(machine, _print, _print_error)
    found = [each for key, each in measured if key.device in keys and isinstance(each, DevicePeaks)]
    if not found:
        raise WorkerError("no framework here can measure the processor")
    return found[0]


def _print(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _print_error(error: StoreError) -> None:
    _print(str(error))


def figures_of(peaks: DevicePeaks) -> list[Figure]:
    return [
        Figure(
            f"{peak.of}, read plus written" if limit == COPY_EXERCISE else f"{limit}, {peak.of}",
            peak.best_per_s / 1e9,
            "GB/s" if limit == COPY_EXERCISE else "GFLOP/s",
        )
        for limit, peak in peaks.peaks.items()
    ]


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--frameworks", nargs="+", help="ask these alone")
    given = parser.parse_args()
    peaks = measure_processor(given.frameworks)
    details: dict[str, Any] = {"by": {limit: peak.by for limit, peak in peaks.peaks.items()}}
    details |= {"middle, a second": {limit: peak.median_per_s for limit, peak in peaks.peaks.items()}}
    details |= {"absent": {limit: each.missing for limit, each in peaks.absent.items()}}
    return finish("peaks", figures_of(peaks), given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
