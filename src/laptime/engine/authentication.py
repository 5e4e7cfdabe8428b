"""Connections whose two ends know the same secret: each end proves that it does, and neither sends it.

    the end that accepts                      the end that connects
      a challenge  ------------------------->
                   <-------------------------  a challenge of its own, and its answer
      its answer   ------------------------->
                   <-------------------------  its first line, signed

An answer is an HMAC of both challenges under the secret, so nobody can make one without the secret, and none is of use
again. From the secret and the challenges, each direction gets a key that signs its lines. A signature also covers the
number of the line: a line that is changed, repeated, left out or sent back ends the connection. Nothing is encrypted.

An `Admission` accepts such connections side by side. A stranger has a short time, a short line and one of a few seats,
so strangers cost those that know the secret neither time nor memory. No message is decoded before its signature is
checked.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import resource
import secrets
import select
import selectors
import socket
import time
from pathlib import Path

from laptime.model.errors import WireError

LOOPBACK = "127.0.0.1"

READ_BYTES = 1 << 20
GREETING = b"laptime 1 "  # the name and the version of what is said below
REFUSED_ANSWER = b"no"
CHALLENGE_BYTES = 32
SIGNATURE_CHARACTERS = 64
STRANGER_MOST_BYTES = 256  # a challenge and an answer are half of it
FIRST_MOST_BYTES = 16_384
STRANGER_S = 10.0  # from the connection to the first signed line
SEATS = 128  # connections at once that have not proven that they know the secret; but no more than this ...
SEATS_SHARE = 4  # ... of the files that the process may still open: it has work to do
BACKLOG = 1024  # connections that wait to be accepted
NO_DESCRIPTORS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
PROOF_WAIT_S = 0.05
DROPPED_S = 0.2  # after this, an end that was dropped with the strangers tries again


class LineSocket:
    """A socket that carries lines of `most_bytes` at most. It is read by one thread."""

    def __init__(self, connection: socket.socket, most_bytes: int) -> None:
        connection.setblocking(True)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.most_bytes = most_bytes
        self._buffer = bytearray()
        self._searched = 0
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)

    def send(self, line: bytes) -> None:
        """Send a line. Raise OSError if the other end is gone."""
        self.connection.sendall(line + b"\n")

    def receive(self, timeout_s: float | None) -> bytes:
        """Return the next line. Raise TimeoutError if none comes in time, and EOFError if the other end is gone.

        Raise WireError if the line is too long; it is not kept.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (line := self._next_line()) is None:
            left_ms = None if deadline is None else 1000 * max(0.0, deadline - time.monotonic())
            if not self._poll.poll(left_ms):
                raise TimeoutError
            try:
                read = self.connection.recv(min(READ_BYTES, self.most_bytes))
            except OSError as error:
                raise EOFError from error
            if not read:
                raise EOFError
            self._buffer += read
        return line

    def close(self) -> None:
        self.connection.close()

    def _next_line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched)
        self._searched = len(self._buffer)
        if (self._searched if end < 0 else end) > self.most_bytes:
            self._buffer.clear()
            raise WireError(f"the other end sent a line of more than {self.most_bytes} bytes")
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line


class SignedLines:
    """A connection whose ends have proven that they know the secret. One thread at a time sends, and one receives."""

    def __init__(self, lines: LineSocket, secret: str, challenges: bytes, *, accepted: bool) -> None:
        self.lines = lines
        outward = derive(secret, b"signed by the end that accepts", challenges)
        inward = derive(secret, b"signed by the end that connects", challenges)
        self._sends, self._receives = (outward, inward) if accepted else (inward, outward)
        self._sent = self._received = 0

    def send(self, line: bytes) -> None:
        """Sign and send a line. Raise OSError if the other end is gone."""
        self._sent += 1
        self.lines.send(_signature(self._sends, self._sent, line) + line)

    def receive(self, timeout_s: float | None) -> bytes:
        """Return the next line, as `LineSocket` does. Raise WireError if the other end did not sign it."""
        signed = self.lines.receive(timeout_s)
        signature = signed[:SIGNATURE_CHARACTERS]
        line = signed[SIGNATURE_CHARACTERS:]
        self._received += 1
        if not hmac.compare_digest(signature, _signature(self._receives, self._received, line)):
            raise WireError("a message was changed on its way, or another program sent it: its signature is wrong")
        return line

    def close(self) -> None:
        self.lines.close()


def derive(secret: str, label: bytes, text: bytes = b"") -> bytes:
    """Return a secret made from another, for one purpose: it does not reveal the first."""
    return hmac.digest(secret.encode("utf-8", "surrogateescape"), label + b"\n" + text, "sha256")


def connect_to(host: str, port: int, secret: str, timeout_s: float) -> SignedLines:
    """Connect, and prove the secret. Raise WireError if the other end does not prove it, and OSError if there is none.

    A connection that ends without a word is tried again: where strangers crowd in, it may have been dropped with them.
    """
    deadline = time.monotonic() + timeout_s
    where = f"{host}:{port}"
    while True:
        left_s = max(deadline - time.monotonic(), 0.001)
        lines = LineSocket(socket.create_connection((host, port), timeout=left_s), STRANGER_MOST_BYTES)
        try:
            return _prove(lines, secret, deadline, where)
        except (EOFError, ConnectionError):
            lines.close()
            if time.monotonic() + DROPPED_S > deadline:
                raise WireError(f"{where} closed the connection before it proved that it knows the secret") from None
            time.sleep(DROPPED_S)
        except TimeoutError:
            lines.close()
            raise WireError(f"{where} did not prove within {timeout_s:g} s that it knows the secret") from None
        except BaseException:
            lines.close()
            raise


def _prove(lines: LineSocket, secret: str, deadline: float, where: str) -> SignedLines:
    theirs = lines.receive(max(0.0, deadline - time.monotonic()))
    if not theirs.startswith(GREETING) or len(theirs) != len(GREETING) + 2 * CHALLENGE_BYTES:
        raise WireError(f"{where} does not speak as this laptime does: it is another version, or another program")
    own = secrets.token_bytes(CHALLENGE_BYTES).hex().encode()
    challenges = theirs + own
    lines.send(own + _answer(secret, b"connects", challenges))
    if not hmac.compare_digest(
        lines.receive(max(0.0, deadline - time.monotonic())), _answer(secret, b"accepts", challenges)
    ):
        raise WireError(f"{where} did not prove that it knows the secret of this side")
    return SignedLines(lines, secret, challenges, accepted=False)


class Stranger:
    """An accepted connection that has not yet proven that its other end knows the secret."""

    def __init__(self, connection: socket.socket, secret: str, most_s: float) -> None:
        self.deadline = time.monotonic() + most_s
        self._secret = secret
        self._lines = LineSocket(connection, STRANGER_MOST_BYTES)
        self._challenge = GREETING + secrets.token_bytes(CHALLENGE_BYTES).hex().encode()
        self._proven: SignedLines | None = None
        self._lines.send(self._challenge)

    def hear(self) -> tuple[SignedLines, bytes]:
        """Return the connection and its first line. Raise TimeoutError until it has come, another error if never."""
        if self._proven is None:
            line = self._lines.receive(0)
            own = line[: 2 * CHALLENGE_BYTES]
            answer = line[2 * CHALLENGE_BYTES :]
            challenges = self._challenge + own
            if not hmac.compare_digest(answer, _answer(self._secret, b"connects", challenges)):
                self._lines.send(REFUSED_ANSWER)
                raise EOFError
            self._lines.send(_answer(self._secret, b"accepts", challenges))
            self._proven = SignedLines(self._lines, self._secret, challenges, accepted=True)
            self._lines.most_bytes = FIRST_MOST_BYTES
        return self._proven, self._proven.receive(0)

    def close(self) -> None:
        self._lines.close()


class Admission:
    """Accepts the connections whose other end knows the secret. One thread uses it; another may call `stop`."""

    def __init__(self, server: socket.socket, secret: str, stranger_s: float = STRANGER_S) -> None:
        server.setblocking(False)
        self._server = server
        self._secret = secret
        self._stranger_s = stranger_s
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = files - sum(1 for _ in Path("/dev/fd").iterdir())  # of those that this process may open
        self._seats = SEATS if files == resource.RLIM_INFINITY else max(1, min(SEATS, free // SEATS_SHARE))
        self._strangers: dict[socket.socket, Stranger] = {}  # in the order in which they came
        self._ear, self._bell = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(server, selectors.EVENT_READ)
        self._selector.register(self._ear, selectors.EVENT_READ)

    def next(self, timeout_s: float | None = None) -> tuple[SignedLines, bytes] | None:
        """Return the next connection and its first line, or None if none comes in time or before `stop`."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            now = time.monotonic()
            for late in [connection for connection, stranger in self._strangers.items() if stranger.deadline <= now]:
                self._drop(late)
            ends = [stranger.deadline for stranger in self._strangers.values()]
            if deadline is not None:
                ends.append(deadline)
            for key, _ in self._selector.select(max(0.0, min(ends) - now) if ends else None):
                if key.fileobj is self._ear:
                    return None
                if key.fileobj is self._server:
                    self._accept()
                elif (admitted := self._hear(key.fileobj)) is not None:  # type: ignore[arg-type]
                    return admitted
            if deadline is not None and time.monotonic() >= deadline:
                return None

    def stop(self) -> None:
        """End the wait of `next`, and all later ones."""
        with contextlib.suppress(OSError):
            self._bell.send(b"x")

    def close(self) -> None:
        """Close the server, and drop those that are not admitted."""
        for connection in list(self._strangers):
            self._drop(connection)
        self._selector.close()
        for end in (self._server, self._ear, self._bell):
            end.close()

    def _accept(self) -> None:
        """Accept a connection. If no seat is free, the stranger that came first leaves."""
        try:
            connection, _ = self._server.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:  # what the network did to one connection, or this process may open no more files
            if error.errno in NO_DESCRIPTORS and self._strangers:
                self._drop(next(iter(self._strangers)))
            else:
                time.sleep(PROOF_WAIT_S)
            return
        if len(self._strangers) >= self._seats:
            self._drop(next(iter(self._strangers)))
        try:
            self._strangers[connection] = Stranger(connection, self._secret, self._stranger_s)
            self._selector.register(connection, selectors.EVENT_READ)
        except OSError:
            self._strangers.pop(connection, None)
            connection.close()

    def _hear(self, connection: socket.socket) -> tuple[SignedLines, bytes] | None:
        stranger = self._strangers.get(connection)
        if stranger is None:  # it was dropped after it became ready
            return None
        try:
            admitted = stranger.hear()
        except TimeoutError:
            return None
        except (EOFError, OSError, WireError):
            self._drop(connection)
            return None
        self._selector.unregister(connection)
        del self._strangers[connection]
        return admitted

    def _drop(self, connection: socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection)
        self._strangers.pop(connection).close()


def _answer(secret: str, who: bytes, challenges: bytes) -> bytes:
    return derive(secret, who, challenges).hex().encode()


def _signature(key: bytes, number: int, line: bytes) -> bytes:
    return hmac.digest(key, number.to_bytes(8, "big") + line, "sha256").hex().encode()
