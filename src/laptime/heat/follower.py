"""Another rank of a heat, as the first one sees it."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from laptime.errors import LaneError, WireError
from laptime.heat import rank_messages as to
from laptime.model.ranks import RANK_IS_GONE, REASON_S

ECHOES = 5


class Follower:
    """Another rank. A thread reads what it says, so that its failure is heard at once."""

    def __init__(self, number: int, pid: int | None, link: to.Link, fail: Callable[[str], None]) -> None:
        self.number, self._pid, self._link, self._fail = number, pid, link, fail
        self._answers: queue.SimpleQueue[to.FromRank | None] = queue.SimpleQueue()
        self.failure: str | None = None
        self._gone = threading.Event()
        threading.Thread(target=self._listen, daemon=True, name=f"rank {number}").start()

    def tell(self, message: to.ToRank) -> None:
        try:
            self._link.say(message)
        except OSError as error:
            self._gone.wait(REASON_S)
            raise LaneError(f"rank {self.number}: {self.failure or RANK_IS_GONE}") from error

    def answer(self) -> Any:
        """Wait for the next answer."""
        answer = self._answers.get()
        if answer is None:
            raise LaneError(f"rank {self.number}: {self.failure or RANK_IS_GONE}")
        return answer

    def round_trip_ns(self) -> int:
        """Return how long an order and its answer are under way: the shortest of some."""
        took_ns = []
        for _ in range(ECHOES):
            began_ns = time.monotonic_ns()
            self.tell(to.Echo())
            self.answer()
            took_ns.append(time.monotonic_ns() - began_ns)
        return min(took_ns)

    def _listen(self) -> None:
        try:
            while (heard := self._link.hear_answer()) is not None and not isinstance(heard, to.RankFailed):
                self._answers.put(heard)
            self.failure = heard.reason if isinstance(heard, to.RankFailed) else _how_ended(self._pid)
        except WireError as error:
            self.failure = error.says
        self._gone.set()
        self._answers.put(None)
        self._fail(f"rank {self.number}: {self.failure}")


def _how_ended(pid: int | None) -> str:
    """Return how the process of a rank ended that said nothing. That of one on another node is not known here."""
    if pid is None:
        return RANK_IS_GONE
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        return RANK_IS_GONE
    if code >= 0:
        return f"its process ended on its own, with exit code {code}"
    return f"its process was ended by {signal.Signals(-code).name}"
