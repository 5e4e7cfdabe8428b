"""Watch this process: a stretch of a program or a notebook, in place of a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from threading import Event
from typing import Any, TypeVar

from laptime.attach import finder
from laptime.attach.agent import Agent
from laptime.attach.fetches import fetches

T = TypeVar("T")
UNDER_WATCH = "_laptime_attach"  # the package of the agent that `laptime watch` brings into a process


class Block:
    """A stretch of this process: it is watched from `begun` until `over`.

    `ended_s` is set where its work ended before that. `is_interrupted` says that Ctrl-C ended it.
    """

    def __init__(self) -> None:
        self.begun, self.over = Event(), Event()
        self.is_interrupted = False
        self.ended_s: float | None = None

    def follow(self, address: str, began: Callable[[int], None]) -> None:
        """Let the hooks of this process send what they see until the block is over."""
        began(os.getpid())
        agent = own_agent()
        if agent is None:
            agent = Agent(address)
            finder.arm(agent)
        else:
            agent.begin(address)
        agent.greet()
        try:
            self.begun.set()
            self.over.wait()
        finally:
            agent.close()
            agent.disable()  # one that had nothing to send is not closed
        if self.is_interrupted:
            raise KeyboardInterrupt


def own_agent() -> Agent | None:
    """Return the agent of blocks, which stays in the process once there is one."""
    return finder.armed[0] if finder.armed else None


def fetches_seen(agent: Any, batches: Iterable[T], numbers: dict[int, int]) -> Iterator[T]:
    """Return the batches, whose fetches the agent notes. `numbers` keeps the number that each agent gave to them."""
    number = numbers.setdefault(id(agent), 0) or agent.new_number()
    numbers[id(agent)] = number
    found: Iterator[T] = fetches(agent, batches, number)
    return found


def command_agent() -> Any:
    """Return the agent that `laptime watch` brought into this process, or None."""
    module = sys.modules.get(f"{UNDER_WATCH}.finder")
    return module.armed[0] if module is not None and module.armed else None
