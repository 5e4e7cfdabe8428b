"""What a cluster runs in a place that it gives: the agent, as a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Event
from typing import Any, TypeVar

from laptime.attach import finder
from laptime.attach.agent import Agent
from laptime.attach.fetches import fetches
from laptime.run.node import SECRET

LONGEST_REASON = 300


def make_starter() -> Callable[[list[str], str | None], str]:
    """Return the function that starts the agent and returns the last line that it printed.

    It is made here, within a function, and uses nothing else of laptime: so it travels to the node as code, and can
    report that laptime is not there. The agent ends when its standard input does, so it outlives no task and no job.
    """
    variable = SECRET

    def start_agent(words: list[str], secret: str | None) -> str:
        import os  # noqa: PLC0415  see above
        import subprocess  # noqa: PLC0415
        import sys  # noqa: PLC0415

        more = {} if secret is None else {variable: secret}
        with subprocess.Popen(
            [sys.executable, "-P", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, **more},
        ) as agent:
            assert agent.stderr is not None
            lines = agent.stderr.read().decode("utf-8", "replace").strip().splitlines()
            code = agent.wait()
        return lines[-1] if lines else f"exit code {code}"

    return start_agent


def agent_words(host: str, port: int, ticket: str) -> list[str]:
    """Return with which words Python is an agent that comes to the parent under this ticket."""
    return ["-m", "laptime.run.node", host, str(port), ticket]


@dataclass(frozen=True, slots=True)
class NotSubmitted:
    """An agent that the cluster did not take."""

    says: str

    def problem(self) -> str | None:
        return self.says

    def give_back(self) -> None:
        """Do nothing: it has no place."""

    def cancel(self) -> None:
        """Do nothing: there is nothing to end."""


def words_of(error: Exception) -> str:
    """Return the last line of an error of another package, which may be a page long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[-1] if lines else ""
    return f"{type(error).__name__}: {said}"[:LONGEST_REASON]


# Watch this process: a stretch of a program or a notebook, in place of a command.

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
