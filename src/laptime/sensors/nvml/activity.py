"""What a card's units and its link did between two readings: counted by the card (GPM) from Hopper on.

Cards before Hopper have no such counters. Their link alone can be watched, for 20 ms of each second, which takes 21 ms
a direction. The counters of bytes that newer drivers offer would be cheaper and miss nothing, but have 32 bits: on a
wide link they go round within a tenth of a second, and nobody could tell how often.
"""

from __future__ import annotations

import math
from typing import Any

from laptime.errors import SensorError
from laptime.model.missing import Missing
from laptime.sensors.nvml.question import Answer, Ask, Figure, Place
from laptime.sensors.nvml.session import LOST, NO_FUNCTION, NO_PERMISSION, NOT_SUPPORTED, explain

MIB = float(1 << 20)
# NVML's numbers of the metrics, and what one of its units is of ours.
METRICS = (
    (Figure("sm_active_percent", "%"), 2, 1.0),
    (Figure("sm_occupancy_percent", "%"), 3, 1.0),
    (Figure("tensor_active_percent", "%"), 5, 1.0),
    (Figure("dram_busy_percent", "%"), 10, 1.0),
    (Figure("pcie_from_card_bytes_per_s", "bytes/s"), 20, MIB),
    (Figure("pcie_to_card_bytes_per_s", "bytes/s"), 21, MIB),
)
SHOWS = tuple(figure for figure, _, _ in METRICS)
NO_COUNTERS = Missing("cards before Hopper have no such counters (NVML's GPM)")
FROM_CARD, TO_CARD = 0, 1
KB = 1e3
# Another error may only mean that the two samples, as the sensor is opened, lie too close together.
FOR_GOOD = {NOT_SUPPORTED, NO_PERMISSION, NO_FUNCTION}


def begin_activity(at: Place) -> Ask:
    if _has_counters(at):
        return _Between(at).ask
    if at.card.parent is not None:
        raise SensorError(NO_COUNTERS.missing)
    return lambda: (*(NO_COUNTERS,) * 4, _traffic(at, FROM_CARD), _traffic(at, TO_CARD))


def _has_counters(at: Place) -> bool:
    whole = at.card.parent or at.card
    try:
        return bool(at.nvml.nvmlGpmQueryDeviceSupport(whole.handle).isSupportedDevice)
    except at.nvml.NVMLError as error:
        if error.value not in {NO_FUNCTION, NOT_SUPPORTED}:
            raise
        return False


def _traffic(at: Place, direction: int) -> Answer:
    try:
        return float(at.nvml.nvmlDeviceGetPcieThroughput(at.card.handle, direction)) * KB
    except at.nvml.NVMLError as error:
        if error.value in LOST:
            raise
        return explain(error)


class _Between:
    """Two samples, of which the older one is taken anew each time. An instance's figures are its GPU instance's."""

    def __init__(self, at: Place) -> None:
        self._at = at
        self._wanted = at.nvml.c_nvmlGpmMetricsGet_t()
        self._wanted.version = at.nvml.NVML_GPM_METRICS_GET_VERSION
        self._wanted.numMetrics = len(METRICS)
        for place, (_, number, _) in enumerate(METRICS):
            self._wanted.metrics[place].metricId = number
        self._instance = 0 if at.card.parent is None else int(at.nvml.nvmlDeviceGetGpuInstanceId(at.card.handle))
        self._older, self._newer = self._make_sample(), self._make_sample()
        self._take(self._newer)

    def _make_sample(self) -> Any:
        sample = self._at.nvml.nvmlGpmSampleAlloc()
        self._at.closing.callback(self._at.nvml.nvmlGpmSampleFree, sample)
        return sample

    def _take(self, sample: Any) -> None:
        nvml, card = self._at.nvml, self._at.card
        if card.parent is None:
            nvml.nvmlGpmSampleGet(card.handle, sample)
        else:
            nvml.nvmlGpmMigSampleGet(card.parent.handle, self._instance, sample)

    def ask(self) -> tuple[Answer, ...]:
        self._take(self._older)
        self._older, self._newer = self._newer, self._older
        self._wanted.sample1, self._wanted.sample2 = self._older, self._newer
        try:
            told = self._at.nvml.nvmlGpmMetricsGet(self._wanted)
        except self._at.nvml.NVMLError as error:
            if error.value in LOST | FOR_GOOD:
                raise
            return (None,) * len(METRICS)
        return tuple(self._figure(told.metrics[place], scale) for place, (_, _, scale) in enumerate(METRICS))

    def _figure(self, told: Any, scale: float) -> Answer:
        if told.nvmlReturn in FOR_GOOD:
            return explain(self._at.nvml.NVMLError(told.nvmlReturn))
        return float(told.value) * scale if not told.nvmlReturn and math.isfinite(told.value) else None
