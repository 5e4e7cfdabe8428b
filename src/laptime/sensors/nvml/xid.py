"""Xid: the errors that the driver writes to the kernel's log about a card, counted as they come."""

from __future__ import annotations

from laptime.sensors.nvml.question import Answer, Ask, Place
from laptime.sensors.nvml.session import TIMEOUT

CRITICAL_XID = 0x8
MOST_AT_ONCE = 100


def begin_xid(at: Place) -> Ask:
    """Only what happens from here on is counted. The last one's number says what it was; before one, there is none."""
    events = at.nvml.nvmlEventSetCreate()
    at.closing.callback(at.nvml.nvmlEventSetFree, events)
    at.nvml.nvmlDeviceRegisterEvents(at.card.handle, CRITICAL_XID, events)
    count, last = 0, None

    def ask() -> tuple[Answer, Answer]:
        nonlocal count, last
        for _ in range(MOST_AT_ONCE):
            try:
                event = at.nvml.nvmlEventSetWait_v2(events, 0)
            except at.nvml.NVMLError as error:
                if error.value != TIMEOUT:
                    raise
                break
            count, last = count + 1, float(event.eventData)
        return float(count), last

    return ask
