"""Steps of users' own that go wrong in one lane alone: the one that is given a single thread."""

import itertools
import os
import time

import numpy as np

import laptime

RNG = np.random.default_rng(0)
ROWS = [RNG.standard_normal((16, 8), np.float32) for _ in range(8)]
IS_FAULTY = os.environ.get("OMP_NUM_THREADS") == "1"


def _step(rate):
    def step(kernel, rows):
        error = rows @ kernel - rows
        return kernel - rate * rows.T @ error, (error**2).mean()

    return step


def _training(data, rate=0.001):
    return laptime.Training(step=_step(rate), state=RNG.standard_normal((8, 8), np.float32), data=data)


class Data:
    """Batches as a function of the lap gives them."""

    def __init__(self, lap):
        self.laps, self._lap = 0, lap

    def __iter__(self):
        self.laps += 1
        return self._lap(self.laps) if IS_FAULTY else iter(ROWS)


def other_rate():
    return _training(ROWS, 0.0011 if IS_FAULTY else 0.001)


def raises_at_batch_3():
    def lap(_number):
        yield from ROWS[:2]
        raise OSError("batch 3 cannot be read")

    return _training(Data(lap))


def ends_early():
    return _training(Data(lambda number: iter(ROWS if number < 4 else ())))


def never_ends():
    return _training(Data(lambda _number: itertools.cycle(ROWS)))


def hangs():
    def lap(_number):
        yield from ROWS[:2]
        time.sleep(600)

    return _training(Data(lap))


def asks_too_much():
    """Before there is a training at all."""
    return _training([np.ones((1 << 50, 8))] if IS_FAULTY else ROWS)


def where_it_is():
    """Fail on purpose, to say what it was told."""
    raise ValueError(f"LAPTIME_DEVICE is {os.environ.get('LAPTIME_DEVICE')}")
