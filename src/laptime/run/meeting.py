"""Where agents meet the parent: it listens on one port for a whole race, and admits those that know its secret."""

from __future__ import annotations

import contextlib
import queue
import secrets
import socket
import threading
from dataclasses import dataclass, field

from laptime.authentication import BACKLOG, Admission, SignedLines
from laptime.errors import UsageError, WireError
from laptime.run.node_messages import FROM_NODE, NodeHello, NodeLink, NodeRefusal, read_hello, why_refused

CLOSE_S = 1.0  # it takes a millisecond, unless an agent does not take what is sent to it


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
    """Listens for agents. A thread of its own admits them, and sleeps otherwise."""

    def __init__(self, address: str, secret: str = "") -> None:
        """Listen on a free port; without a secret that the nodes have by now, make one."""
        self.secret = secret or secrets.token_hex(32)
        self._awaited: dict[str, Awaited] = {}
        self._made = 0
        try:
            server = socket.create_server((address, 0), backlog=BACKLOG)
        except OSError as error:
            says = f"this machine cannot listen on {address}, where the nodes would look for it: {error}"
            raise UsageError(says, "name an address that the nodes reach: LAPTIME_ADDRESS=10.0.0.5") from error
        self.address, self.port = address, server.getsockname()[1]
        self._admission = Admission(server, self.secret)
        self._listener = threading.Thread(target=self._listen, daemon=True, name="meeting")
        self._listener.start()

    def expect(self, ticket: str | None = None) -> Awaited:
        """Return a ticket under which an agent may come: a new one, or this one."""
        self._made += 1
        awaited = Awaited(ticket or str(self._made))
        self._awaited[awaited.ticket] = awaited
        return awaited

    def forget(self, ticket: str) -> None:
        """Admit nobody under this ticket any more."""
        self._awaited.pop(ticket, None)

    def close(self) -> None:
        self._admission.stop()
        self._listener.join(CLOSE_S)

    def _listen(self) -> None:
        with contextlib.closing(self._admission):
            while (admitted := self._admission.next()) is not None:
                try:
                    self._welcome(*admitted)
                except (OSError, WireError):
                    admitted[0].close()

    def _welcome(self, connection: SignedLines, first: bytes) -> None:
        """Hand an agent to the one that waits for it; it may be of another laptime."""
        hello = read_hello(first)
        awaited = None if hello is None else self._awaited.pop(hello.ticket, None)
        if hello is None or awaited is None:  # nobody waits for it any more
            connection.close()
            return
        link = NodeLink(connection, FROM_NODE)
        refused = why_refused(hello)
        if refused is not None:
            with contextlib.suppress(OSError):
                link.say(NodeRefusal(refused))
            link.close()
        awaited.arrivals.put(Arrived(hello, link, refused))
