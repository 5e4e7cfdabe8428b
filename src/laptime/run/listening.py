"""Hear what the agents in a command's processes send, in one thread, until the command has ended."""

from __future__ import annotations

import os
import selectors
import socket
import time
from contextlib import ExitStack
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Self

from laptime.attach.listening_socket import ListeningSocket
from laptime.attach.messages import Mailbox

if TYPE_CHECKING:
    from laptime.attach.messages import Hall

CHUNK = 1 << 18
WAIT_S = 0.02
SETTLE_S = 0.3  # after the command's end: what its processes sent last is on its way


class Listener(Thread):
    """Hears all agents that connect to a socket. At the end, it waits until nothing has come for `settle_s`."""

    def __init__(self, hall: Hall, settle_s: float = SETTLE_S) -> None:
        super().__init__(name="listener", daemon=True)
        self._hall, self._settle_s = hall, settle_s
        self._peers: set[socket.socket] = set()
        self._is_over = False
        self._opened = ExitStack()
        self.problem: str | None = None
        try:
            self._open()
        except OSError as error:
            self.problem = f"it could not make a socket ({error.strerror or error})"
            self.address = ""  # no agent comes in without one

    def _open(self) -> None:
        self._selector = self._opened.enter_context(selectors.DefaultSelector())
        self._server = ListeningSocket()
        self._opened.callback(self._server.close)
        self.address = self._server.address
        self._bell, self._ear = os.pipe()[::-1]
        for each in (self._bell, self._ear):
            self._opened.callback(os.close, each)
        for heard in (self._server.socket, self._ear):
            self._selector.register(heard, selectors.EVENT_READ)

    def begin(self) -> None:
        """Start to hear. The command runs whether that is possible or not."""
        if self.problem is None:
            try:
                self.start()
            except RuntimeError as error:
                self.problem = str(error)

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
        if self.problem is None and not self._server.is_there():
            self.problem = "the folder of its socket was removed while the command ran"
        for peer in self._peers:
            peer.close()
        self._opened.close()

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
            if key.fileobj is self._server.socket:
                heard = self._accept() or heard
            elif key.fileobj == self._ear:
                os.read(self._ear, 1)
            else:
                heard = self._hear(key) or heard
        return heard

    def _accept(self) -> bool:
        try:
            peer = self._server.accept()
        except OSError:  # too many open files: it waits until others have closed theirs
            time.sleep(WAIT_S)
            return False
        if peer is None:
            return False
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
