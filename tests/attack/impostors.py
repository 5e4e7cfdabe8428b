"""Programs on the ports of a race that do not know its secret: some answer as the parent would, some crowd in."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

CROWD = """
import resource, socket, sys, time
port, count = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
sys.stdin.readline()
crowd = []
for _ in range(count):
    crowd.append(socket.create_connection(("127.0.0.1", port), timeout=20))
print("here", flush=True)
sys.stdin.read()
"""
DEEP = b'{"x":' + b"[" * 100_000
LINES = {
    "no line's end": b"x" * 2_000_000,
    "deep JSON": DEEP + b"\n",
    "a secret of é": '{"type":"NodeHello","secret":"é","ticket":"1"}\n'.encode(),
    "a rank's secret of é": '{"type":"JoinRank","number":3,"secret":"é"}\n'.encode(),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no text": bytes(range(256)),
    "an answer of zeros": b"0" * 128 + b"\n",
    "nothing": b"",
}


@contextlib.contextmanager
def crowd_that_waits(count: int, port: int) -> Iterator[Callable[[], None]]:
    """Start a process that holds connections to a port, which say nothing. It connects when what is given is called."""
    words = [sys.executable, "-c", CROWD, str(port), str(count)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as crowd:

        def connect() -> None:
            crowd.stdin.write("go\n")
            crowd.stdin.flush()
            assert crowd.stdout.readline() == "here\n"

        yield connect
        crowd.stdin.close()


@contextlib.contextmanager
def crowd_of(count: int, port: int) -> Iterator[None]:
    with crowd_that_waits(count, port) as connect:
        connect()
        yield


@contextlib.contextmanager
def strangers_at(host: str, port: int) -> Iterator[int]:
    """Connect once for each of LINES, leave the connections open, and return how many there are."""
    with contextlib.ExitStack() as opened:
        for line in LINES.values():
            connection = opened.enter_context(socket.create_connection((host, port), timeout=5))
            with contextlib.suppress(ConnectionError, TimeoutError):
                connection.sendall(line)
        yield len(LINES)


class Impostor(contextlib.AbstractContextManager):
    """Has a port on which an agent expects its parent. Each connection gets the first line, then what `reply` makes."""

    def __init__(self, first: bytes, reply: Callable[[bytes], bytes]) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._first, self._reply = first, reply
        self.port = self._server.getsockname()[1]
        self.heard = b""
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                with contextlib.suppress(ConnectionError), self._server.accept()[0] as connection:
                    connection.sendall(self._first)
                    while heard := connection.recv(65_536):
                        self.heard += heard
                        connection.sendall(self._reply(heard))

    def __exit__(self, *_error) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
