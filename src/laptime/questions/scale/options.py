"""What `laptime scale` is asked besides what is raced: the counts of devices, and how the batch grows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from laptime.model.option_kinds import COUNTS, FLAG, Option, QuestionOptions, ValueRange

Mode = Literal["weak", "strong"]
Growth = Literal["weak", "strong", "both"]
MODES: tuple[Mode, ...] = ("weak", "strong")


@dataclass(frozen=True, slots=True)
class ScaleAsk:
    """The counts of devices to race, and how the batch grows with them. Without counts, 1, 2, 4 and so on.

    `growth` are the words that were given: `weak`, `strong` or `both`; weak without any. Only one can be.
    """

    devices: tuple[int, ...] = ()
    growth: tuple[Growth, ...] = ()

    @property
    def modes(self) -> tuple[Mode, ...]:
        """What is raced."""
        if "both" in self.growth:
            return MODES
        return ("strong",) if "strong" in self.growth else ("weak",)

    @property
    def changes_data(self) -> bool:
        return False


SCALE = ("scale",)

PART = QuestionOptions(ScaleAsk, [
    Option(
        "devices", COUNTS, SCALE, "scale.devices", "Counts to race: 1,2,4.  [default: 1, 2, 4 to all]",
        range=ValueRange(1, 4_096, "expected counts from 1 to 4,096", "such as 1,2,4"),
    ),
    Option("weak", FLAG, SCALE, "scale.growth", "Each device has the batch as written.  [default]", adds="weak",
           is_rare=True),
    Option("strong", FLAG, SCALE, "scale.growth", "The devices share out the batch as written.", adds="strong"),
    Option("both", FLAG, SCALE, "scale.growth", "Race both: the batch as written on each, and shared out.",
           adds="both"),
])  # fmt: skip
