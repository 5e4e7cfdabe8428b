"""A real race with its instruments: what is in the record, what is said, and what cannot be asked for."""

from __future__ import annotations

import json
from itertools import accumulate

import pytest

pytestmark = pytest.mark.usefixtures("known_references")

# A training in NumPy that holds a known amount next to its few weights.
MINE = """\
import time

import laptime
import numpy as np

HELD = np.ones((64, 1024, 1024), np.float32)  # 256 MiB


def step(weights, rows):
    slope = rows.T @ (rows @ weights - 1) / len(rows)
    return weights - np.float32(0.01) * slope, (slope**2).mean()


def training():
    time.sleep(1)  # the instruments begin to read meanwhile
    rows = np.random.default_rng(0).standard_normal((8, 512, 256), np.float32)
    return laptime.Training(step=step, state=np.full(256, 0.1, np.float32), data=list(rows))
"""
# Fifty readings a second for more than a second: a busy machine may miss most of them.
RACE = ("race", "mine.py:training", "python/cpu", "--heats", "1", "--budget", "4s", "--sensor-rate", "50", "--quiet")


@pytest.fixture(scope="module")
def told(torch_house):
    """Race once for all that look at it."""
    torch_house.is_brief = False
    (torch_house.folder / "mine.py").write_text(MINE)
    return torch_house.done(*RACE, "--json").json


def test_every_heat_has_a_time_line(told):
    """Readings of the machine and of the heat's processes, on the clock of its windows."""
    (result,) = told["lanes"][0]["heats"]
    host, *seldom = [track for track in result["heat"]["process"]["timeline"]["tracks"] if track["sensor"] == "host"]
    assert result["heat"]["process"]["timeline"]["clock"] is None
    readings = list(accumulate((1000 * each for each in host["apart_us"]), initial=host["first_ns"]))
    timed = range(result["heat"]["windows"][0]["start_ns"], result["heat"]["windows"][-1]["end_ns"])
    assert sum(each in timed for each in readings) >= 3  # of a dozen; a busy machine may miss some
    names = {(series["channel"]["device"], series["channel"]["name"]) for series in host["series"]}
    assert {("heat", "busy_s"), ("heat", "resident_bytes"), ("host", "busy_s"), ("heat", "minor_faults")} <= names
    assert all(len(series["changes"]) == len(host["apart_us"]) + 1 for series in host["series"])
    assert 0 < host["read_us"] < 20_000
    assert all(len(track["apart_us"]) < len(host["apart_us"]) / 2 for track in seldom)


def test_a_lane_says_what_it_took(told):
    """A training keeps a core busy, and holds some hundred megabytes."""
    usage = told["lanes"][0]["usage"]
    assert 15 < usage["processor_percent"] <= 101  # a shared machine may give it few of its cores
    assert 2e8 < usage["memory_most_bytes"] < 4e9
    assert usage["device_percent"] == {"missing": "this lane computes on the processor"}


def test_it_is_shown_below_the_race(torch_house, told):
    shown = torch_house.done("show", told["id"], "--details").out
    assert "while timed" in shown
    assert "cores busy" in shown


def test_a_named_instrument_has_to_be_there(house):
    """RAPL or NVML: one of them is not here, and that is no traceback."""
    race = ("race", "cifar-mlp", "fake/cpu", "--heats", "1", "--quiet")
    answers = [house.run(*race, "--sensors", name) for name in ("rapl", "nvml")]
    lacking = [answer for answer in answers if answer.code == 5]
    assert lacking
    assert all("--sensors" in answer.err and "leave it out" in answer.err for answer in lacking)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--sensors", "gpu"), "--sensors gpu: expected none, or some of host, rapl, nvml"),
        (("--sensors", "none,host"), "--sensors none,host: expected none, or some of"),
        (("--sensor-rate", "0"), "--sensor-rate 0: expected 0.01 to 100 a second"),
        (("--price", "-1"), "--price -1: expected 0 or more"),
        (("--full", "--price", "-0.3"), "--price -0.3: expected 0 or more"),
        (("--infer", "--sensors", "gpu"), "--sensors gpu: expected none, or some of"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(house, words, says):
    done = house.done("race", "cifar-cnn", "fake/cpu", *words, code=2)
    assert says in done.err


def test_a_fake_lane_is_not_watched(house):
    """Its clock is its own."""
    record = json.loads(house.done("race", "cifar-cnn", "fake/cpu", "--heats", "1", "--json", "--quiet").out)
    assert record["lanes"][0]["heats"][0]["heat"]["process"]["timeline"] is None
