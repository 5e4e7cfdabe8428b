"""What instruments may be asked for, how often they are read, and what power and time cost."""

from __future__ import annotations

import math

from laptime.errors import UsageError
from laptime.model.ask import SENSORS, Ask

LEAST_HZ, MOST_HZ = 0.01, 100.0


def check_sensors(ask: Ask) -> None:
    """Refuse instruments that nobody has made, and rates, prices and rents that cannot be."""
    unknown = [word for word in ask.sensors or () if word not in {*SENSORS, "none"}]
    if unknown or ("none" in (ask.sensors or ()) and len(ask.sensors or ()) > 1):
        raise UsageError(f"--sensors {','.join(ask.sensors or ())}: expected none, or some of {', '.join(SENSORS)}",
                         "leave it out to read all there are")  # fmt: skip
    if ask.sensors_hz is not None and not (math.isfinite(ask.sensors_hz) and LEAST_HZ <= ask.sensors_hz <= MOST_HZ):
        expected = f"expected {LEAST_HZ:g} to {MOST_HZ:g} a second"
        raise UsageError(f"--sensor-rate {ask.sensors_hz:g}: {expected}", "such as 10")
    for flag, amount in (("--price", ask.price_per_kwh), ("--rate", ask.rate_per_hour)):
        if amount is not None and not (math.isfinite(amount) and amount >= 0):
            raise UsageError(f"{flag} {amount:g}: expected 0 or more", "such as 0.25")
