"""A node of a test's own: its agent is a process of this machine, in the house of the test."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass, field

from laptime.model.launchers import Place
from laptime.run.meeting import Meeting
from laptime.run.node_messages import SECRET
from laptime.run.remote import RemoteChild, Request, Waiting


@dataclass
class Started:
    """An agent that was started at once, or one that never comes."""

    agent: subprocess.Popen[bytes] | None
    cancelled: bool = False

    def problem(self) -> str | None:
        return None

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class OwnNodes:
    """Starts children by agents."""

    environment: dict[str, str]
    meeting: Meeting = field(default_factory=lambda: Meeting("127.0.0.1"))
    told: list[str] = field(default_factory=list)
    started: list[Started] = field(default_factory=list)

    def start(self, environment: dict[str, str]) -> RemoteChild:
        awaited = self.meeting.expect()
        words = [sys.executable, "-m", "laptime.run.node", "127.0.0.1", str(self.meeting.port), awaited.ticket]
        own = {**os.environ, **self.environment, SECRET: self.meeting.secret}
        agent = subprocess.Popen(words, stdin=subprocess.PIPE, env=own)
        return self._child(awaited, Started(agent), environment)

    def await_none(self) -> tuple[RemoteChild, str]:
        """Return a child whose agent was not started, and its ticket."""
        awaited = self.meeting.expect()
        return self._child(awaited, Started(None), {}), awaited.ticket

    def close(self) -> None:
        self.meeting.close()
        for each in self.started:
            if each.agent is not None:
                with contextlib.suppress(OSError):
                    each.agent.stdin.close()  # as the end of a task or a job does
                each.agent.wait(20)

    def _child(self, awaited, submission: Started, environment: dict[str, str]) -> RemoteChild:
        self.started.append(submission)
        request = Request("fake/cpu", Place(gpus=2), "ray", self.told.append)
        return RemoteChild(Waiting(self.meeting, awaited, submission, request), environment)
