"""How the parent reads what agents send: messages of one connection, put together from what arrived."""

from __future__ import annotations

import json
import struct

from . import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    class Reader(Protocol):
        """Takes what one process sends."""

        def take_facts(self, facts: dict[str, Any]) -> None: ...

        def take_events(self, body: bytes) -> None: ...

    class Hall(Protocol):
        """Makes a reader for each process that greets; a process that greets again gets the same one."""

        def reader_of(self, hello: Mapping[str, Any]) -> Reader: ...


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
