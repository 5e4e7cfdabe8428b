"""What the instruments saw while a heat ran: channels, what they showed and when, on the clock of the heat itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from laptime.model.missing import Missing

ChannelKind = Literal["gauge", "counter"]


@dataclass(frozen=True, slots=True)
class Channel:
    """One figure that an instrument shows again and again.

    `device` is whose figure it is: "host" for the whole machine, "heat" for the heat's processes, else an instrument's
    own name of a card or a package, the same in every reading. A gauge shows how things stand (or stood on average over
    the instrument's own last moments); a counter only ever grows, and what it grew by between two readings is counted.
    """

    device: str
    name: str
    unit: str
    kind: ChannelKind = "gauge"


@dataclass(frozen=True, slots=True)
class Opened:
    """What an instrument will show, in the order of its readings; and what it cannot, with the reasons."""

    channels: tuple[Channel, ...]
    absent: tuple[tuple[Channel, Missing], ...] = ()
