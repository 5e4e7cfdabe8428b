"""What the user asked, exactly as it was understood."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_WORKLOAD = "cifar-cnn"
SENSORS = ("host", "rapl", "nvml", "amd", "apple")


@dataclass(frozen=True, slots=True)
class FullAsk:
    """What was asked of a whole training; what is left out is as published.

    Each lane is trained once for every pair of `learning_rates` and `batches`, where such are named.
    """

    laps: int | None = None
    steps_per_lap: int | None = None
    seeds: int = 1
    until_accuracy: float | None = None
    learning_rates: tuple[float, ...] = ()
    batches: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for a race; every field can be given on the command line.

    `data` is a folder (or archive) of the real thing; `items` how many are made where there is none, 0 for all that
    were published. `full` asks for whole trainings in place of heats, `every` for all installed
    frameworks in place of named lanes. `sensors` are those that may be read (None: all), so often a second (None: ten
    times, in whole trainings once); `price_per_kwh` and `rate_per_hour`, in any currency, turn a lap into money.
    `profile` has each lane profiled after its heats, off the clock.
    """

    what: str = DEFAULT_WORKLOAD
    lanes: tuple[str, ...] = ()
    heats: int | None = None
    budget_s: float = 60.0
    margin: float = 0.05
    seed: int = 0
    pretrained: bool = False
    patience_s: float = 600.0
    watchdog_s: float = 60.0
    data: str | None = None
    items: int | None = None
    full: FullAsk | None = None
    infer: bool = False
    every: bool = False
    sensors: tuple[str, ...] | None = None
    sensors_hz: float | None = None
    price_per_kwh: float | None = None
    rate_per_hour: float | None = None
    profile: bool = False
