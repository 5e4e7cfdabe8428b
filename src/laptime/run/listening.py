"""Hear what the agents in a command's processes send, in one thread, until the command has ended."""

from __future__ import annotations

import os
import selectors
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Self

from laptime.attach.messages import Mailbox

if TYPE_CHECKING:
    from laptime.attach.messages import Hall

CHUNK = 1 << 18
AT_ONCE = 512  # connections that wait to be accepted
SETTLE_S = 0.3  # after the command's end: what its processes sent last is on its way


class Listener(Thread):
    """A socket in a folder of its own that only this user can enter.

    At the end, it waits until nothing has come for `settle_s`.
    """

    def __init__(self, hall: Hall, settle_s: float = SETTLE_S) -> None:
        super().__init__(name="listener", daemon=True)
        self._hall, self._settle_s = hall, settle_s
        self._folder = tempfile.TemporaryDirectory(prefix="laptime-", ignore_cleanup_errors=True)
        self.address = str(Path(self._folder.name) / "agent")
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(self.address)
        self._server.listen(AT_ONCE)
        self._server.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._bell, self._ear = os.pipe()[::-1]
        self._selector.register(self._ear, selectors.EVENT_READ)
        self._peers: set[socket.socket] = set()
        self._is_over = False
        self.problem: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Hear what is still on its way, and stop."""
        if not self._is_over and self.is_alive():
            self._is_over = True
            os.write(self._bell, b"x")
            self.join()
        for peer in self._peers:
            peer.close()
        self._selector.close()
        for each in (self._bell, self._ear):
            with suppress(OSError):
                os.close(each)
        self._server.close()
        self._folder.cleanup()

    def run(self) -> None:
        try:
            while not self._is_over:
                self._serve(None)
            while self._serve(self._settle_s):
                pass
        except Exception as error:  # noqa: BLE001  the command is never disturbed by what its listener meets
            self.problem = f"{type(error).__name__}: {error}"

    def _serve(self, patience_s: float | None) -> bool:
        ready = self._selector.select(patience_s)
        heard = False
        for key, _ in ready:
            if key.fileobj is self._server:
                heard = self._accept() or heard
            elif key.fileobj == self._ear:
                os.read(self._ear, 1)
            else:
                heard = self._hear(key) or heard
        return heard

    def _accept(self) -> bool:
        try:
            peer, _ = self._server.accept()
        except OSError:  # too many open files: it waits until others have closed theirs
            return False
        peer.setblocking(False)
        self._selector.register(peer, selectors.EVENT_READ, Mailbox(self._hall))
        self._peers.add(peer)
        return True

    def _hear(self, key: selectors.SelectorKey) -> bool:
        peer: socket.socket = key.fileobj  # type: ignore[assignment]
        try:
            data = peer.recv(CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data and key.data.take(data):
            return True
        self._selector.unregister(peer)
        self._peers.discard(peer)
        peer.close()
        return bool(data)
