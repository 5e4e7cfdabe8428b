"""The parent's end: the socket to which agents connect, and the messages that it reads from each connection.

On Linux it is an abstract one: it has no file, so its name is short wherever temporary files are, and nothing is left
behind however the parent ends. The kernel says whose process connects. Elsewhere it is in a folder that only this user
can enter.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import tempfile

from . import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Optional, Protocol

    class Reader(Protocol):
        """Takes what one process sends."""

        def take_facts(self, facts: dict[str, Any]) -> None: ...

        def take_events(self, body: bytes) -> None: ...

    class Hall(Protocol):
        """Makes a reader for each process that greets; a process that greets again gets the same one."""

        def reader_of(self, hello: Mapping[str, Any]) -> Reader: ...


AT_ONCE = 512  # connections that wait to be accepted
SOCKET_FOLDERS = (None, "/tmp", "/dev/shm")  # noqa: S108  where a socket may be: its path has 107 bytes at most. None: TMPDIR
CREDENTIALS = "3i"  # process, user, group
HAS_ABSTRACT = sys.platform == "linux"


class ListeningSocket:
    """A socket that listens. `address` is what agents are given."""

    def __init__(self, *, is_abstract: bool = HAS_ABSTRACT) -> None:
        self._folder: Any = None
        if is_abstract:
            self.address = f"{kinds.ABSTRACT}laptime-{os.getpid()}-{os.urandom(16).hex()}"
            self.socket = _listening(self.address)
        else:
            self.socket, self.address = self._open_in_folder()
        self.socket.setblocking(False)

    def accept(self) -> Optional[socket.socket]:
        """Return the next connection; None if that was another user's. Raise OSError if none can be opened."""
        peer, _ = self.socket.accept()
        if self._folder is None and not _is_ours(peer):
            peer.close()
            return None
        peer.setblocking(False)
        return peer

    def is_there(self) -> bool:
        """Whether agents can still connect: the folder may have been removed."""
        return self._folder is None or os.path.exists(self.address)

    def close(self) -> None:
        self.socket.close()
        if self._folder is not None:
            self._folder.cleanup()

    def _open_in_folder(self) -> tuple[socket.socket, str]:
        refused = OSError("there is no place for one")
        for place in SOCKET_FOLDERS:
            try:
                folder = tempfile.TemporaryDirectory(prefix="laptime-", dir=place, ignore_cleanup_errors=True)
            except OSError as error:
                refused = error
                continue
            address = os.path.join(folder.name, "agent")
            try:
                server = _listening(address)
            except OSError as error:
                folder.cleanup()
                refused = error
            else:
                self._folder = folder
                return server, address
        raise refused


def _listening(address: str) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        server.bind(kinds.socket_name(address))
        server.listen(AT_ONCE)
    except OSError:
        server.close()
        raise
    return server


def _is_ours(peer: socket.socket) -> bool:
    """Whether a connection comes from a process of this user, or of the superuser."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(CREDENTIALS))
    return struct.unpack(CREDENTIALS, credentials)[1] in {os.geteuid(), 0}


# How the parent reads what agents send: messages of one connection, put together from what arrived.

MESSAGE_HEAD_BYTES = struct.calcsize(kinds.MESSAGE_HEAD)
MESSAGE_MOST_BYTES = {kinds.FACTS: 4 << 20, kinds.EVENTS: 64 << 20}  # bytes of one message; an agent's are far shorter


class Mailbox:
    """The messages of one connection. What is no message of an agent ends it."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self.reader: Reader | None = None
        self._waiting = bytearray()

    def take(self, data: bytes) -> bool:
        """Take the next bytes; return False if they are no message."""
        self._waiting += data
        while len(self._waiting) >= MESSAGE_HEAD_BYTES:
            kind, length = struct.unpack_from(kinds.MESSAGE_HEAD, self._waiting)
            if length > MESSAGE_MOST_BYTES.get(kind, -1):
                return False
            if len(self._waiting) < MESSAGE_HEAD_BYTES + length:
                return True
            body = bytes(self._waiting[MESSAGE_HEAD_BYTES : MESSAGE_HEAD_BYTES + length])
            del self._waiting[: MESSAGE_HEAD_BYTES + length]
            if not self._deliver(kind, body):
                return False
        return True

    def _deliver(self, kind: bytes, body: bytes) -> bool:
        """Pass a message on. Readers raise ValueError for what is no agent's, but strangers may send anything."""
        try:
            if kind == kinds.FACTS:
                facts = json.loads(body)
                if not isinstance(facts, dict):
                    return False
                if self.reader is None:
                    self.reader = self._hall.reader_of(facts)
                self.reader.take_facts(facts)
            elif self.reader is None or len(body) % kinds.BYTES_EACH:
                return False
            else:
                self.reader.take_events(body)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return False
        return True
