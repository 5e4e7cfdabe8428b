"""How a fake lane behaves: what `LAPTIME_FAKE` says of it, the virtual clock, and the failures that can be planted."""

from __future__ import annotations

import os
import signal
import sys
import time
import tomllib
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from laptime.errors import LaneError
from laptime.model.plan import HeatOrder

SENSOR, PEAKS, CARDS = "sensor", "peaks", "cards"  # the tables of LAPTIME_FAKE that are no lane's
STEP_MS = {"cpu": 100.0, "cuda:0": 10.0}
PRESET_FACTOR = {"as-written": 1.0, "best": 0.5, "fastest": 0.25}


@dataclass(frozen=True, slots=True)
class Script:
    """How a fake lane behaves."""

    step_ms: float
    first_ms: float = 300.0
    build_ms: float = 200.0
    spread: float = 0.0
    warm: tuple[float, ...] = ()
    stray: float = 0.0
    jolt: float = 0.0
    chance: float = 0.0
    skill: float = 0.0
    evaluate_ms: float = 1_000.0
    held: float = 1.0
    call_share: float = 0.1
    item_share: float = 0.01
    profiler_cost: float = 1.25
    fail: dict[str, Any] = field(default_factory=dict)
    loader_ms: float | None = None
    copy_ms: float | None = None
    compute_ms: float | None = None
    overlap: bool = False
    batch_share: float | None = None
    gains: dict[str, Any] = field(default_factory=dict)
    signs: dict[str, Any] = field(default_factory=dict)

    @property
    def has_stages(self) -> bool:
        return any(each is not None for each in (self.loader_ms, self.copy_ms, self.compute_ms))


class FakeClock:
    """A clock that moves only when told to. It starts at the machine's own time, so that both can be mixed.

    All takes `pace` times as long as it is told.
    """

    def __init__(self) -> None:
        self._now_ns = time.perf_counter_ns()
        self.pace = 1.0

    def __call__(self) -> int:
        return self._now_ns

    def pass_ms(self, milliseconds: float) -> None:
        self._now_ns += round(milliseconds * 1e6 * self.pace)


def script_for(order: HeatOrder) -> Script:
    lane = order.lane
    script = Script(STEP_MS.get(lane.device.name, 50.0) * PRESET_FACTOR[lane.settings.preset])
    known = {each.name for each in fields(Script)}
    for pattern, given in read_scripts().items():
        if pattern in {SENSOR, PEAKS, CARDS}:
            continue
        if unknown := set(given) - known:
            raise LaneError(
                f"LAPTIME_FAKE: unknown key {', '.join(sorted(unknown))}", f"keys: {', '.join(sorted(known))}"
            )
        if fnmatch(lane.name, pattern):
            script = replace(script, **given)
    return script


def read_cards() -> dict[str, dict[str, str]]:
    """Give by which names the fake cards are known to drivers, where the script says so."""
    given: dict[str, dict[str, str]] = read_scripts().get(CARDS, {})
    return given


def read_scripts() -> dict[str, Any]:
    place = os.environ.get("LAPTIME_FAKE", "1")
    if place == "1":
        return {}
    try:
        return tomllib.loads(Path(place).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise LaneError(f"LAPTIME_FAKE={place} cannot be read: {error}", "give 1, or a TOML file") from None


def is_this_heat(script: Script, order: HeatOrder) -> bool:
    return order.number >= 0 and script.fail.get("heat", order.number) == order.number


def fail_if_told(script: Script, order: HeatOrder, phase: str) -> None:
    """Fail in one of the ways in which real back ends fail."""
    if script.fail.get("phase", "timing") != phase or not is_this_heat(script, order):
        return
    match script.fail.get("how"):
        case "raise":
            raise RuntimeError("planted failure")
        case "memory":
            raise MemoryError("planted: 64 GiB asked, 24 GiB there")
        case "exit":
            print("planted exit", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(7)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(1e6)
        case "print":
            print("a framework that chats\n" * 3, flush=True)  # noqa: T201
