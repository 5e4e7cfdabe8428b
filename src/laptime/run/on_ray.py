"""Places on a Ray cluster that is there: an agent is a task, which asks for what its lane needs."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from laptime.errors import UsageError
from laptime.model.launchers import Place
from laptime.run.addresses import address_towards
from laptime.run.launchers import Submission, Wanted
from laptime.run.starting import NotSubmitted, make_starter, words_of

ANSWER_S = 5.0
START_ONE = "ray start --head starts one here; --on ray://host:10001 names another"


class RayCluster:
    """Submits agents as tasks. A cluster that this process had joined before is left as it is."""

    def __init__(self, wanted: Wanted) -> None:
        import ray  # noqa: PLC0415  only who races on Ray has it

        self._ray: Any = ray
        self._word = wanted.word
        self._was_joined = ray.is_initialized()
        if not self._was_joined:
            self._join("auto" if wanted.word == "ray" else wanted.word)
        self._start = ray.remote(make_starter())
        self.address = address_towards(self._head())

    def submit(self, words: list[str], secret: str, place: Place) -> Submission:
        wanted = self._start.options(num_cpus=place.cpus, num_gpus=place.gpus, max_retries=0, name="laptime heat")
        try:
            return RayTask(self._ray, wanted.remote(words, secret))
        except Exception as error:  # noqa: BLE001  whatever Ray raises becomes the lane's result
            return NotSubmitted(f"Ray did not take it: {words_of(error)}")

    def why_alone(self, places: Sequence[Place]) -> str | None:
        there = self._ray.cluster_resources()
        asked = {"CPU": sum(each.cpus for each in places), "GPU": sum(each.gpus for each in places)}
        short = [name for name, count in asked.items() if count > there.get(name, 0)]
        told = " and ".join(f"{asked[name]} {name}s, and {self._word} has {there.get(name, 0):g}" for name in short)
        return f"all at once they need {told}" if told else None

    def close(self) -> None:
        if not self._was_joined:
            self._ray.shutdown()

    def _join(self, address: str) -> None:
        """Join the cluster. Ray itself tries for minutes if nothing answers there, so that is found out first."""
        place = address.removeprefix("ray://") if address != "auto" else os.environ.get("RAY_ADDRESS", "")
        host, _, port = place.removeprefix("ray://").rpartition(":")
        try:
            if host and port.isdecimal():
                socket.create_connection((host, int(port)), timeout=ANSWER_S).close()
            self._ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except Exception as error:
            raise UsageError(f"--on {self._word}: no Ray cluster was reached: {words_of(error)}", START_ONE) from error

    def _head(self) -> str:
        """Return a computer of the cluster, to find out by which address of ours it reaches us."""
        if self._word != "ray":
            return self._word.removeprefix("ray://").rpartition(":")[0]
        return str(self._ray.util.get_node_ip_address())


class RayTask:
    """An agent that was submitted as a task."""

    def __init__(self, ray: Any, task: Any) -> None:
        self._ray, self._task = ray, task

    def problem(self) -> str | None:
        done, _ = self._ray.wait([self._task], timeout=0)
        if not done:
            return None
        try:
            return f"its agent ended: {self._ray.get(self._task)}"
        except Exception as error:  # noqa: BLE001  as above
            return f"Ray could not run it: {words_of(error)}"

    def cancel(self) -> None:
        with suppress(Exception):  # it is done, or the cluster is gone
            self._ray.cancel(self._task, force=True)
