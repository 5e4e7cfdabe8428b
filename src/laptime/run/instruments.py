"""Reads the sensors when a window closes: what others did on this machine meanwhile, and whether that was too much.

The reading is taken by the parent, which is awake for the message anyway; the child spends nothing on it.
"""

from __future__ import annotations

from laptime.model.missing import Missing
from laptime.model.sample import Noise
from laptime.sensors import cgroup
from laptime.sensors.noise import NoiseReader, NoiseReading

# Under this, the kernel's 10 ms ticks on each core say more about rounding than about other processes.
SHORTEST_NS = 100_000_000
# Two ticks on either side of a window of 0.25 s are 0.16 cores: less than a quarter of a core cannot be told from it.
OTHERS_LEAST_CORES = 0.25
OTHERS_SHARE = 0.1
THROTTLED_SHARE = 0.02


class Instruments:
    """Watches one child from one window to the next."""

    def __init__(self, cores: int) -> None:
        self._allowed_cores = max(OTHERS_LEAST_CORES, OTHERS_SHARE * cores)
        self._host = NoiseReader()
        self._absent = self._host.probe()
        self._last: NoiseReading | None = None
        self._last_throttled_ms: float | Missing = 0.0

    def open(self, pid: int) -> None:
        self._host.open(pid)
        self._last = None if self._absent else self._host.read()
        self._last_throttled_ms = cgroup.throttled_ms()

    def close_window(self) -> Noise:
        """Give what happened since the last call."""
        throttled_ms = self._throttled_since()
        if self._absent or self._last is None:
            reason = self._absent or Missing("no reading before the window")
            return Noise(reason, reason, throttled_ms)
        before, now = self._last, self._host.read()
        self._last = now
        return Noise(_others(before, now), now.load_1m, throttled_ms)

    def judge(self, noise: Noise, window_ns: int) -> str | None:
        """Name the breach of quiet, if there was one."""
        if isinstance(noise.other_cores, float) and noise.other_cores > self._allowed_cores:
            return f"other processes took {noise.other_cores:.2f} cores"
        if isinstance(noise.throttled_ms, float) and noise.throttled_ms > THROTTLED_SHARE * window_ns / 1e6:
            return f"the container's quota held it back for {noise.throttled_ms:.0f} ms"
        return None

    def _throttled_since(self) -> float | Missing:
        now = cgroup.throttled_ms()
        before, self._last_throttled_ms = self._last_throttled_ms, now
        if isinstance(now, Missing) or isinstance(before, Missing):
            return now if isinstance(now, Missing) else Missing("no earlier count")
        return now - before


def _others(before: NoiseReading, now: NoiseReading) -> float | Missing:
    span_ns = now.at_ns - before.at_ns
    if span_ns < SHORTEST_NS:
        return Missing(f"the window of {span_ns / 1e6:.0f} ms is too short for the kernel's ticks")
    others_s = (now.busy_s - before.busy_s) - (now.tree_s - before.tree_s)
    return max(0.0, others_s / (span_ns / 1e9))
