"""The agent's connection to the parent. A script may close its descriptor, and the system gives that to another file.

So the connection is known by its inode, which is compared before each use. What is no longer ours is neither written
to, nor closed. The descriptor has a high number: the script's own files get the numbers that they get without laptime.
"""

from __future__ import annotations

import os
import sys

from . import kinds

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

PARENT_CONNECT_S = 1.0
HIGHEST = 4096  # programs that close all descriptors often end at 1024; a number of millions would take memory
DESCRIPTORS_BELOW = 64  # below the highest number that this process may have
MSG_WAITALL = 0x100 if sys.platform == "linux" else 0x40
NO_SIGNAL = 0x4000 if sys.platform == "linux" else 0  # MSG_NOSIGNAL: a parent that is gone ends no script


class LostError(OSError):
    """The descriptor was closed by the script, and may be another file's now."""


class OwnSocket:
    """A connection, as long as its descriptor is ours."""

    def __init__(self, address: str) -> None:
        import _socket  # the module `socket` takes milliseconds to import

        peer = self._peer = _moved_up(_socket, _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM))
        self._identity = _identity_of(peer.fileno())
        peer.settimeout(PARENT_CONNECT_S)
        try:
            peer.connect(kinds.socket_name(address))
        except OSError:
            peer.close()
            raise
        peer.setblocking(False)

    def is_own(self) -> bool:
        """Whether the descriptor is still that of this connection."""
        return _identity_of(self._peer.fileno()) == self._identity

    def send(self, data: bytes) -> int:
        """Send what can be sent now. Return how many bytes that was."""
        try:
            return self._checked().send(data, NO_SIGNAL)
        except BlockingIOError:
            return 0

    def send_all(self, data: bytes, patience_s: Any) -> None:
        """Send all of it, and wait for the parent as long as this; None: without end."""
        peer = self._checked()
        peer.settimeout(patience_s)
        try:
            peer.sendall(data, NO_SIGNAL)
        finally:
            peer.setblocking(False)

    def receive(self, count: int) -> bytes:
        """Wait for this many bytes."""
        peer = self._checked()
        peer.settimeout(None)
        try:
            return peer.recv(count, MSG_WAITALL)
        finally:
            peer.setblocking(False)

    def close(self) -> None:
        """Close the connection, or leave the descriptor to the file that has it now."""
        if self.is_own():
            self._peer.close()
        else:
            self._peer.detach()

    def _checked(self) -> Any:
        if not self.is_own():
            raise LostError("the script closed it")
        return self._peer


def _identity_of(descriptor: int) -> Any:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _moved_up(module: Any, peer: Any) -> Any:
    """Return the same socket under a high number, or under its own if there is none."""
    try:
        from fcntl import F_DUPFD_CLOEXEC, fcntl

        most = os.sysconf("SC_OPEN_MAX")
        lowest = (min(most, HIGHEST) if most > 0 else HIGHEST) - DESCRIPTORS_BELOW
        if lowest <= peer.fileno():
            return peer
        high = fcntl(peer.fileno(), F_DUPFD_CLOEXEC, lowest)
    except (ImportError, AttributeError, OSError, ValueError):
        return peer
    moved = module.socket(module.AF_UNIX, module.SOCK_STREAM, 0, high)
    peer.close()
    return moved
