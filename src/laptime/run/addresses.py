"""By which address the nodes of a cluster reach this machine."""

from __future__ import annotations

import contextlib
import os
import socket

LOOPBACK = "127.0.0.1"
GIVEN = "LAPTIME_ADDRESS"  # for a machine that has several, or one that looks different from outside


def address_towards(host: str) -> str:
    """Return the address that the user gave, or ours on the way to a host. Nothing is sent."""
    if given := os.environ.get(GIVEN):
        return given
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((host, 9))
        return str(way.getsockname()[0])
    return LOOPBACK
