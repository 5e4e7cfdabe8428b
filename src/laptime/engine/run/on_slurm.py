"""Places on a Slurm cluster: an agent is a job of submitit. `slurm:local` runs the jobs here, to try it without Slurm.

Slurm itself reads SBATCH_PARTITION, SBATCH_ACCOUNT and others of its variables.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from laptime.engine.authentication import LOOPBACK
from laptime.engine.run.launchers import Meeting, NotSubmitted, Submission, Wanted, make_starter, words_of
from laptime.engine.run.node import SECRET, address_towards
from laptime.model.errors import UsageError
from laptime.model.frameworks import NodeType
from laptime.model.machine import NodeRoom
from laptime.model.plan import Place

# Nothing is sent there: the address only shows by which of ours other computers are reached.
ANYWHERE = "10.255.255.255"


class SlurmCluster:
    """Submits agents as jobs. Their files are in a folder of their own, which is removed at the end."""

    secret = ""

    def __init__(self, wanted: Wanted) -> None:
        import submitit  # noqa: PLC0415  only who races on Slurm has it

        self._submitit: Any = submitit
        self._is_local = wanted.word == "slurm:local"
        self._minutes = math.ceil(wanted.most_s / 60)
        # The nodes read the folder, so it is in the home, which they share with this machine.
        self._folder = tempfile.mkdtemp(prefix="laptime-", dir=None if self._is_local else Path.home())
        self.address = LOOPBACK if self._is_local else address_towards(ANYWHERE)
        try:
            submitit.AutoExecutor(self._folder, cluster="local" if self._is_local else "slurm")
        except Exception as error:
            self.close()
            says = f"--on {wanted.word}: no Slurm was reached: {words_of(error)}"
            raise UsageError(says, "run it where srun and sbatch are found; --on slurm:local tries it here") from error

    def open(self, meeting: Meeting) -> None:
        """Do nothing: a job gets the address with its words."""

    def rooms(self) -> tuple[NodeRoom, ...]:
        return ()

    def submit_apart(self, _words: list[list[str]], _secret: str, places: Sequence[Place]) -> list[Submission]:
        return [NotSubmitted("on Slurm, a lane's devices are on one node")] * len(places)

    def submit(self, words: list[str], secret: str, place: Place) -> Submission:
        executor = self._submitit.AutoExecutor(self._folder, cluster="local" if self._is_local else "slurm")
        executor.update_parameters(
            name="laptime", timeout_min=self._minutes, cpus_per_task=place.cpus, gpus_per_node=place.gpus
        )
        os.environ[SECRET] = secret  # a job gets the environment as it is when it is submitted
        try:
            with interrupts_wait():
                job = executor.submit(make_starter(), words, None)
        except Exception as error:  # noqa: BLE001  whatever it raises becomes the lane's result
            return NotSubmitted(f"Slurm did not take it: {words_of(error)}")
        finally:
            del os.environ[SECRET]
        return SlurmJob(job, is_local=self._is_local)

    def why_alone(self, _places: Sequence[Place]) -> str | None:
        return None if self._is_local else "a job of Slurm that waits for its turn would hold its place"

    def find_types(self, word: str) -> tuple[NodeType, ...]:
        raise UsageError(f"--each {word}: only Ray says which types of nodes there are", "leave out --each")

    def living(self, nodes: Sequence[str]) -> Sequence[str]:
        return nodes

    def close(self) -> None:
        """Remove the files of the jobs, which are gone or cancelled."""
        shutil.rmtree(self._folder, ignore_errors=True)


class SlurmJob:
    """An agent that was submitted as a job."""

    def __init__(self, job: Any, *, is_local: bool) -> None:
        self._job = job
        self._is_local = is_local

    def problem(self) -> str | None:
        if not self._job.done():
            return None
        try:
            return f"its agent ended: {self._job.result()}"
        except Exception as error:  # noqa: BLE001  as above
            return f"its job ended: {words_of(error)}"

    def give_back(self) -> None:
        """Do nothing: the job ends with its agent."""

    def cancel(self) -> None:
        """Cancel a job that Slurm has. One here starts at once, and ends as its agent is not admitted any more."""
        with suppress(Exception):  # it is done, or Slurm does not answer
            if not self._is_local and not self._job.done():
                self._job.cancel(check=False)


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Let a Ctrl-C wait until the end, and what is started meanwhile be deaf to it: the parent ends it in order.

    What is started inherits which signals are blocked (and not what handles them). Another thread of this process may
    take a signal that the main thread blocks, and Python then calls the handler here: so it only notes it.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is signal.SIG_IGN:
        yield
        return
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _frame: heard.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # one that waited is noted here
        signal.signal(signal.SIGINT, before)
        if heard:
            signal.raise_signal(signal.SIGINT)
