"""Orders for heats on the fake back end, scripted through the environment that a lane brings."""

from __future__ import annotations

from pathlib import Path

from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.workload import ProofPlan

PACE = Pace(1, 1, adaptive=False, measure_s=2.0, window_s=0.2)


def order_for(folder: Path, script: str = "", number: int = 0, framework: str = "fake") -> HeatOrder:
    """Order a heat of one lane that behaves as the script says."""
    place = folder / "fake.toml"
    place.write_text(f'["fake/*"]\n{script}\n', encoding="utf-8")
    device = Device("cpu", "cpu", "fake processor", usable=True)
    lane = PlannedLane(
        f"{framework}/cpu/as-written", framework, device, Settings(), environment_for(folder, LAPTIME_FAKE=str(place))
    )
    subject = Subject("cifar-cnn", "", 1_337_002, 100, 500, 10, "images")
    return HeatOrder(subject, lane, 0, ProofPlan(steps=4), PACE, number)


def environment_for(folder: Path, **more: str) -> dict[str, str]:
    """Mark a child as this test's own, so that it can be found again."""
    return {"LAPTIME_HOME": str(folder / "home"), **more}
