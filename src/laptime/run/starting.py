"""What a cluster runs in a place that it gives: the agent, as a process of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from laptime.run.node_messages import SECRET

LONGEST = 300


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
    return f"{type(error).__name__}: {said}"[:LONGEST]
