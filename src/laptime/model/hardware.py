"""Devices that need not be here: what their makers say of them, and what an hour of one costs."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.model.device import DeviceKind


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """One device: the dense peaks of its arithmetic, its memory, its power, the host that it usually has, a price.

    A peak that is None is one that the device has no units for. Of a processor, peaks, cores and bandwidth are those of
    one socket; `host_cores` are the virtual cores of the instance that the price is for. `halved_sums` is set where the
    matrix units add up in float32 at half of their rate, as the peaks here say, and `doubled_fp32` where the peak of
    float32 counts a second path that convolutions rarely fill. `core_score` is how fast one core of its host is, or of
    the processor: the score of Geekbench 6's compiler on one core.
    """

    name: str
    short: str
    kind: DeviceKind
    architecture: str
    aliases: tuple[str, ...] = ()
    capability: str | None = None
    released: str | None = None
    fp32_tflops: float | None = None
    tf32_tflops: float | None = None
    bf16_tflops: float | None = None
    fp16_tflops: float | None = None
    halved_sums: bool = False
    doubled_fp32: bool = False
    bandwidth_gb_s: float | None = None
    memory_gb: float | None = None
    power_w: float | None = None
    cores: int | None = None
    threads: int | None = None
    base_ghz: float | None = None
    boost_ghz: float | None = None
    vector: str | None = None
    fp32_flops_per_cycle_per_core: int | None = None
    host_cores: int | None = None
    host: str | None = None
    core_score: float | None = None
    price_per_hour: float | None = None
    price_provider: str | None = None
    price_date: str | None = None
    price_note: str | None = None
    sources: tuple[str, ...] = ()

    def peak_flops(self, precision: str) -> float | None:
        """Return the operations a second of products in a precision, or None if it has no units for it."""
        tflops: float | None = getattr(self, f"{precision}_tflops")
        return None if tflops is None else tflops * 1e12

    def boosted_flops(self, precision: str) -> float | None:
        """Return that peak at the clock that a processor may boost to; its peaks are those at the base clock."""
        peak = self.peak_flops(precision)
        faster = self.boost_ghz / self.base_ghz if self.boost_ghz and self.base_ghz else 1.0
        return None if peak is None else faster * peak
