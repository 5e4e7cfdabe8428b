"""What several frameworks reached is the device's; a step is held against the side that binds it."""

from __future__ import annotations

import pytest

from laptime.analysis.usage import join_peaks, place_under_roof
from laptime.model.hardware import DeviceKey, DevicePeaks, Peak, StepWork
from laptime.model.quantities import Missing

KEY = DeviceKey("AMD EPYC, 2 cores", "AMD EPYC (2 cores)")
PEAKS = DevicePeaks(
    KEY.device,
    KEY.label,
    "",
    "2026-11-22",
    {"fp32": Peak(2e11, 1.9e11, "torch 2"), "bf16": Peak(1e12, 9e11, "torch 2"), "copy": Peak(5e10, 4e10, "jax 0")},
    {"fp16": Missing("torch: not implemented")},
)


def test_the_best_of_all_frameworks_is_the_devices():
    """Limit by limit, with who reached it; what one lacks another may have."""
    torch = {"fp32": Peak(2e11, 1.9e11, "torch 2"), "bf16": Missing("no"), "copy": Peak(5e10, 4e10, "torch 2")}
    jax = {"fp32": Peak(3e11, 1e11, "jax 0"), "bf16": Peak(4e11, 3e11, "jax 0"), "copy": Peak(4e10, 3e10, "jax 0")}
    found = join_peaks(KEY, "2026-11-22", {"torch": torch, "jax": jax})
    assert {limit: peak.by for limit, peak in found.peaks.items()} == {
        "fp32": "jax 0",
        "bf16": "jax 0",
        "copy": "torch 2",
    }
    assert (found.device, found.label, found.measured, found.absent) == (KEY.device, KEY.label, "2026-11-22", {})


def test_what_nobody_reached_is_absent_with_every_reason():
    """Each framework says its own."""
    told = {"torch": {"fp16": Missing("not implemented")}, "jax": {"fp16": Missing("out of memory")}}
    found = join_peaks(KEY, "", told)
    assert found.peaks == {}
    assert found.absent == {"fp16": Missing("torch: not implemented; jax: out of memory")}


@pytest.mark.parametrize(
    ("flops", "moved", "binds", "share"),
    [(1e10, 1e9, "products", 0.5), (2e9, 4e9, "memory", 0.8), (2e9, 6e9, "memory", 1.2), (4e9, 1e9, "products", 0.2)],
)
def test_the_side_that_would_take_longer_binds(flops, moved, binds, share):
    """In 100 ms at most 2e10 operations and 5e9 bytes are had; above 1 the bytes were not all moved."""
    found = place_under_roof(100.0, "fp32", StepWork(flops, moved, "by hand"), PEAKS)
    assert (found.binds, found.share) == (binds, pytest.approx(share))
    assert (found.flops_per_s, found.bytes_per_s) == (pytest.approx(10 * flops), pytest.approx(10 * moved))
    assert (found.product_share, found.copy_share) == (pytest.approx(flops / 2e10), pytest.approx(moved / 5e9))
    assert found.peaks is PEAKS


def test_a_reduced_precision_is_held_against_its_own_product():
    """The same step comes a fifth as near to bf16's limit as to float32's."""
    work = StepWork(1e10, 1e6, "by hand")
    exact, coarse = (place_under_roof(100.0, precision, work, PEAKS) for precision in ("fp32", "bf16"))
    assert exact.share == pytest.approx(5 * coarse.share)
    assert coarse.precision == "bf16"


@pytest.mark.parametrize(
    ("precision", "why"),
    [
        ("fp16", "products in fp16 is not known: torch: not implemented"),
        ("tf32", "tf32 is not known: it was not tried"),
    ],
)
def test_a_precision_without_a_peak_has_no_limit(precision, why):
    """No other precision's takes its place."""
    found = place_under_roof(100.0, precision, StepWork(1e10, 1e9, "by hand"), PEAKS)
    assert isinstance(found, Missing)
    assert why in found.missing


def test_without_a_copy_the_memory_side_is_not_known():
    """Then nobody can say which side binds."""
    peaks = DevicePeaks("d", "a card", "", "", {"fp32": Peak(1e12, 1e12, "torch 2")}, {"copy": Missing("lost")})
    assert place_under_roof(1.0, "fp32", StepWork(1.0, 1.0, ""), peaks) == Missing(
        "what a card can do at most in a copy is not known: lost"
    )
