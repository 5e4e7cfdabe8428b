"""Races on a cluster: submitit's jobs on this machine, a real Ray, and what is refused before either is reached."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
from dataclasses import replace
from importlib import util

import pytest
from measured import with_heat

from laptime.api import showing
from laptime.engine.run.launchers import Wanted, open_cluster
from laptime.engine.run.on_slurm import interrupts_wait
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.plan import Place, find_launcher
from laptime.questions.job import check_cluster, place_asked
from laptime.store.schema import decode

TWO = ("cifar-cnn", "fake/cpu", "fake/cpu/best")
HANGS = '["fake/*"]\nfail = { how = "hang", phase = "timing" }\n'
CLUSTER = """
import sys, ray
ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR")
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""


def check_raced(house, on):
    """The one record on disk is of two lanes that a cluster has run, and its page names nodes if there are several."""
    (place,) = house.files()
    record = decode(place.read_bytes(), place.name)
    assert (record.ask.on, record.status) == (on, "finished")
    assert [lane.status for lane in record.lanes] == ["ok", "ok"]
    assert [lane.parity.status for lane in record.lanes] == ["same", "same"]
    assert all(
        result.heat.process.node and "python" in result.heat.process.versions
        for lane in record.lanes
        for result in lane.heats
    )
    assert "several nodes" not in showing.as_text(record, showing.View())
    first, *others = record.lanes
    moved = tuple(with_heat(result, process=replace(result.heat.process, node="gpu07")) for result in first.heats)
    page = showing.as_text(replace(record, lanes=(replace(first, heats=moved), *others)), showing.View(500))
    assert "The heats ran on several nodes, which may differ: fake/cpu on gpu07 and fake/cpu/best on" in page
    assert house.is_empty_within(10)


@pytest.mark.long
def test_a_race_in_jobs(house):
    """Its page is that of any race, and of the jobs no file and no process is left."""
    pytest.importorskip("submitit")
    scratch = house.folder / "tmp"
    scratch.mkdir()
    answer = house.done("race", *TWO, "--heats", "1", "--on", "slurm:local", env={"TMPDIR": str(scratch)})
    assert "fake/cpu/best is 2.00x as fast as fake/cpu" in answer.out
    check_raced(house, "slurm:local")
    assert list(scratch.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)])
def test_a_race_in_jobs_that_is_ended_leaves_nothing(house, sent, code):
    """Whether it can end its jobs itself, or cannot."""
    pytest.importorskip("submitit")
    house.script(HANGS)
    words = ("race", "cifar-cnn", "fake/cpu", "--heats", "1", "--on", "slurm:local")
    race = house.start(*words, env={"TMPDIR": str(house.folder)}, warnings="ignore")
    house.read_until(race, "round 1 of")
    race.send_signal(sent)
    assert house.finish(race).code == code
    assert house.is_empty_within(10)


def test_an_interrupt_while_a_job_is_submitted_comes_after_it():
    """It is not lost, and does not reach what was started meanwhile. A shell may have let this process ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    ends, started = [], None
    sleeps = "import signal, time; print(signal.SIGINT in signal.pthread_sigmask(0, []), flush=True); time.sleep(60)"
    try:
        with interrupts_wait():
            started = subprocess.Popen([sys.executable, "-c", sleeps], stdout=subprocess.PIPE, text=True)
            assert started.stdout.readline() == "True\n"
            signal.raise_signal(signal.SIGINT)
            started.send_signal(signal.SIGINT)
            ends.append("submitted")
    except KeyboardInterrupt:
        ends.append("interrupted")
    finally:
        assert started.poll() is None
        started.kill()
        started.communicate()
        signal.signal(signal.SIGINT, before)
    assert ends == ["submitted", "interrupted"]


@pytest.fixture(scope="module")
def ray_cluster():
    """Return the environment in which a Ray cluster of this machine is found. Ray wants a token of its users."""
    if util.find_spec("ray") is None:
        pytest.skip("ray is not installed")
    import os

    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", CLUSTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **own},
    ) as cluster:
        yield {**own, "RAY_ADDRESS": cluster.stdout.readline().strip()}
        cluster.stdin.close()


def test_a_race_in_tasks_of_ray(house, ray_cluster):
    """As many cores as threads: together the two lanes need more than there are, so they do not take turns."""
    race = house.start("race", *TWO, "--heats", "1", "--on", "ray", env=ray_cluster, warnings="ignore")
    answer = house.finish(race)
    assert answer.code == 0, answer.err
    assert "fake/cpu/best is 2.00x as fast as fake/cpu" in answer.out
    check_raced(house, "ray")


def test_a_place_that_ray_does_not_have_is_waited_for_in_vain(house, ray_cluster):
    race = house.start(
        "race", *TWO[:1], "fake/cuda", "--on", "ray", "--patience", "3s", env=ray_cluster, warnings="ignore"
    )
    answer = house.finish(race)
    assert (answer.code, answer.err.splitlines()[:2]) == (
        3,
        [
            "a look at a node waits for a free place on ray, with 1 core and 1 GPU",
            "laptime: --on ray: no place with 1 core and 1 GPU was free on ray within 3 s",
        ],
    )


def test_where_no_ray_is_it_is_said(house):
    if util.find_spec("ray") is None:
        pytest.skip("ray is not installed")
    env = {"RAY_ADDRESS": "127.0.0.1:1"}
    answer = house.finish(house.start("race", *TWO, "--on", "ray", env=env, warnings="ignore"))
    assert answer.code == 2
    assert "--on ray: no Ray cluster was reached: ConnectionRefusedError" in answer.err
    assert "ray start --head starts one here" in answer.err


@pytest.mark.parametrize("word", ["ray", "slurm"])
def test_a_missing_package_is_named(monkeypatch, word):
    monkeypatch.setitem(sys.modules, find_launcher(word).module, None)
    with pytest.raises(UsageError, match="is not installed") as refused:
        open_cluster(Wanted(word, Place(), 1.0, 60.0))
    assert f"[{word}]" in refused.value.hint


LANES = ("fake/cpu",)


@pytest.mark.parametrize(
    ("question", "ask", "says"),
    [
        ("why", Ask(lanes=LANES, on="ray"), "--on ray: only laptime race and laptime scale run on a cluster"),
        ("race", Ask(on="ray://host:10001"), "--on ray://host:10001: no lane is named"),
        ("race", Ask(lanes=LANES, on="slurm", profile=True), "--on slurm with --profile: that runs here only"),
        ("race", Ask(lanes=LANES, on="ray", sensors=("host",)), "--on ray with --sensors: instruments are read"),
        ("race", Ask(what="", command=("a",), lanes=("cpu",), on="ray"), "a script that runs as it is runs here only"),
        ("race", Ask(lanes=LANES, on="pbs"), "--on pbs: expected one of ray, slurm, slurm:local"),
    ],
)
def test_what_runs_on_no_cluster_is_refused(question, ask, says):
    with pytest.raises(UsageError) as refused:
        check_cluster(question, ask)
    assert says in refused.value.says


@pytest.mark.parametrize(
    ("lane", "place"),
    [
        ("torch/cpu", Place(1, 0)),
        ("torch/cpu/threads=4", Place(4, 0)),
        ("torch/2xcpu/threads=4", Place(8, 0)),
        ("torch/cuda", Place(1, 1)),
        ("torch/2xcuda", Place(1, 2)),
        ("torch/cuda:0+cuda:1", Place(1, 2)),
    ],
)
def test_a_lane_asks_for_its_place(lane, place):
    assert place_asked(lane) == place


@pytest.mark.parametrize(
    ("lane", "says"),
    [
        ("torch", "names no device"),
        ("torch/cuda:1", "a lane gets cards of its own"),
        ("torch/mps", "a cluster gives cores and CUDA cards"),
    ],
)
def test_devices_that_no_cluster_gives_are_refused(lane, says):
    with pytest.raises(UsageError, match=says):
        place_asked(lane)


def test_on_names_a_cluster_or_devices(house):
    """A word that is no cluster is a device, as before."""
    both = house.done("race", "cifar-cnn", "--on", "ray,slurm", code=2)
    assert "--on ray,slurm: a race runs on one cluster" in both.err
    device = house.done("race", "cifar-cnn", "--on", "pbs", code=2)
    assert "pbs" in device.err
