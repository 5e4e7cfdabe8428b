"""Nodes of a test's own: their agents are processes of this machine, in the house of the test."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass, field

from laptime.engine.run.launchers import Meeting, agent_words
from laptime.engine.run.node import SECRET
from laptime.engine.run.remote import RemoteChild, Request, SpreadChild, Waiting
from laptime.model.plan import Place, PlannedLane


@dataclass
class Started:
    """An agent that was started at once, or one that never comes."""

    agent: subprocess.Popen[bytes] | None
    cancelled: bool = False

    def problem(self) -> str | None:
        return None

    def give_back(self) -> None:
        return

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
        return RemoteChild(self._agent(), self._of_lane(environment))

    def start_with(self, environment: dict[str, str]) -> RemoteChild:
        """Return a child whose agent is asked to set these variables, whatever they are."""
        return RemoteChild(self._agent(), environment)

    def start_apart(
        self, environment: dict[str, str], lane: PlannedLane, kind: type[SpreadChild] = SpreadChild
    ) -> SpreadChild:
        """Start the processes of a lane on several nodes."""
        first, *others = (self._agent() for _ in lane.spread)
        told = self._of_lane(environment)
        return kind(first, told, [RemoteChild(each, told, is_spread=True) for each in others], lane)

    def await_none(self) -> tuple[RemoteChild, str]:
        """Return a child whose agent was not started, and its ticket."""
        awaited = self.meeting.expect()
        return RemoteChild(self._waiting(awaited, Started(None)), {}), awaited.ticket

    def close(self) -> None:
        self.meeting.close()
        for each in self.started:
            if each.agent is not None:
                with contextlib.suppress(OSError):
                    each.agent.stdin.close()  # as the end of a task or a job does
                each.agent.wait(20)

    def _of_lane(self, environment: dict[str, str]) -> dict[str, str]:
        """Return what a child's own order sets: the rest, which marks it as this test's, its agent has."""
        return {name: value for name, value in environment.items() if name not in self.environment}

    def _agent(self) -> Waiting:
        awaited = self.meeting.expect()
        words = [sys.executable, *agent_words("127.0.0.1", self.meeting.port, awaited.ticket)]
        own = {**os.environ, **self.environment, SECRET: self.meeting.secret}
        return self._waiting(awaited, Started(subprocess.Popen(words, stdin=subprocess.PIPE, env=own)))

    def _waiting(self, awaited, submission: Started) -> Waiting:
        self.started.append(submission)
        request = Request("fake/cpu", Place(gpus=2), "ray", self.told.append)
        return Waiting(self.meeting, awaited, submission, request)
