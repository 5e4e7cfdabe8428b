"""Where agents meet the parent: it listens on one port for a whole race, and admits those that know its secret."""

from __future__ import annotations

import contextlib
import hmac
import queue
import secrets
import socket
import threading
from dataclasses import dataclass, field

from laptime.errors import LaptimeError, UsageError
from laptime.run.child import LINE_MOST_BYTES, Silence
from laptime.run.node_messages import NodeHello, NodeLink, NodeRefusal, to_node, why_refused

HELLO_S = 10.0  # an agent introduces itself as soon as it is connected
HELLO_MOST_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Arrived:
    """An agent that is there. `refused` says why it cannot be used; its connection is closed then."""

    hello: NodeHello
    link: NodeLink
    refused: str | None


@dataclass(frozen=True, slots=True)
class Awaited:
    """An agent that was submitted: its ticket, and a queue into which it comes."""

    ticket: str
    arrivals: queue.SimpleQueue[Arrived] = field(default_factory=queue.SimpleQueue)


class Meeting:
    """Listens for agents. Threads of its own read what they say first, and sleep otherwise."""

    def __init__(self, address: str) -> None:
        self.secret = secrets.token_hex(32)
        self._awaited: dict[str, Awaited] = {}
        self._made = 0
        try:
            self._server = socket.create_server((address, 0), backlog=128)
        except OSError as error:
            says = f"this machine cannot listen on {address}, where the nodes would look for it: {error}"
            raise UsageError(says, "name an address that the nodes reach: LAPTIME_ADDRESS=10.0.0.5") from error
        self.address, self.port = address, self._server.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True, name="meeting").start()

    def expect(self) -> Awaited:
        """Return a new ticket, under which an agent may come."""
        self._made += 1
        awaited = Awaited(str(self._made))
        self._awaited[awaited.ticket] = awaited
        return awaited

    def forget(self, ticket: str) -> None:
        """Admit nobody under this ticket any more."""
        self._awaited.pop(ticket, None)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # this ends the listening thread's wait
        self._server.close()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._welcome, args=(connection,), daemon=True, name="hello").start()

    def _welcome(self, connection: socket.socket) -> None:
        """Hear who it is. One that does not know the secret learns nothing, and its connection is closed."""
        hello: object = None
        link = to_node(connection, HELLO_MOST_BYTES)
        with contextlib.suppress(Silence, EOFError, OSError, LaptimeError):
            hello = link.hear(HELLO_S)
        if not isinstance(hello, NodeHello) or not hmac.compare_digest(hello.secret.encode(), self.secret.encode()):
            link.close()
            return
        awaited = self._awaited.pop(hello.ticket, None)
        if awaited is None:  # nobody waits for it any more
            link.close()
            return
        link.most_bytes = LINE_MOST_BYTES
        refused = why_refused(hello)
        if refused is not None:
            with contextlib.suppress(OSError):
                link.say(NodeRefusal(refused))
            link.close()
        awaited.arrivals.put(Arrived(hello, link, refused))
