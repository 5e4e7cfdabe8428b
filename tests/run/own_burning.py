"""A training in plain Python whose step takes 20 ms of one core, for heats that are disturbed from outside."""

import os
import signal
import subprocess
import time

import numpy as np

import laptime

DATA = [np.ones((8, 4), np.float32)] * 4


def _step(state, batch):
    until = time.perf_counter() + 0.02
    while time.perf_counter() < until:
        pass
    state["weights"] -= 0.01 * batch.mean(0)
    return state, float(np.square(state["weights"]).mean())


def stopped():
    """Stop the process for 1.5 s in its fortieth step, which is in a window of 0.2 s: proof and estimate take some
    twenty.
    """
    calls = []

    def step(state, batch):
        calls.append(1)
        if len(calls) == 40:
            subprocess.Popen(["/bin/sh", "-c", f"sleep 1.5; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)
        return _step(state, batch)

    return laptime.Training(step=step, state={"weights": np.ones(4, np.float32)}, data=DATA)
