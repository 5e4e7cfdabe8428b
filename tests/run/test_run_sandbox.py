"""Heats that are judged are in a sandbox: what each reaches for outside of its own folder is refused."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from copy import copy
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from heat_orders import environment_for, order_for
from own_reaching import ATTEMPTS

from laptime.engine import wire
from laptime.engine.run.child import OWN_FOLDERS, Child
from laptime.engine.run.confined import ConfinedLauncher
from laptime.engine.run.launchers import LOCAL
from laptime.engine.run.runner import HeatRunner, Limits, Started
from laptime.engine.run.scout import ask_training
from laptime.engine.run.templates import ForkedChild, HeatTemplate
from laptime.model.plan import OwnTraining, Subject
from laptime.model.process import IN_SHARED_MEMORY, REACHES

PLANTED = Path(__file__).with_name("own_reaching.py")
HANGS = 'fail = { how = "hang", phase = "build" }'
WITHOUT_NAMESPACES = {"an attribute of the base", "rights of the base", "writes /dev/shm"}


@pytest.fixture(scope="module")
def confined():
    """What starts the heats of a verdict. A system without Landlock has no sandbox to be tested."""
    made = ConfinedLauncher()
    child = made.start({})
    heard = [child.hear(30), child.hear(30)]
    child.end(grace_s=0)
    if heard[1].reaches == REACHES:
        pytest.skip("this kernel has no Landlock")
    return made


@pytest.fixture
def launcher(confined, tmp_path, monkeypatch):
    """The same, with temporary files of this test's own."""
    (tmp_path / "t").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    return confined


def without_namespaces(launcher):
    found = copy(launcher)
    found._sandbox = replace(launcher._sandbox, has_namespaces=False)
    return found


@pytest.fixture
def targets(tmp_path):
    """What a candidate may want to reach, each of which is there and belongs to this user."""
    for name in ("base", "record", "cached"):
        (tmp_path / name).write_text(name)
    named = f"laptime-test-{os.urandom(8).hex()}"
    shm = Path(f"/dev/shm/{named}")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{named}")
        abstract.listen()
        yield {
            **{name: str(tmp_path / name) for name in ("base", "neighbour", "record", "cached")},
            "home": str(Path.home() / named),
            "tmp": f"/tmp/{named}",
            "shm": str(shm),
            "port": server.getsockname()[1],
            "abstract": named,
            "parent": os.getpid(),
        }
    shm.unlink(missing_ok=True)


def ask(launcher, function, targets, folder):
    subject = Subject(function, "", None, None, None, None, "items", str(PLANTED), function)
    return ask_training("python", subject, environment_for(folder, REACHES_FOR=json.dumps(targets)), 60.0, launcher)


def reached(launcher, targets, folder):
    """Return what came to pass of all that was tried."""
    names = list(ATTEMPTS)
    return [
        names[each] for each in json.loads(ask(launcher, "reaches_out", targets, folder).reason.partition("came: ")[2])
    ]


def test_all_that_is_not_its_own_is_refused(launcher, targets, tmp_path):
    """Files, connections, signals, the memory of others; attributes and shared memory where there are namespaces."""
    came = reached(launcher, targets, tmp_path)
    if launcher._sandbox.has_namespaces:
        assert came == ["writes /dev/shm"]  # of its own
        assert not Path(targets["shm"]).exists()
    else:
        assert set(came) <= WITHOUT_NAMESPACES
    assert (tmp_path / "base").read_text() == "base"


def test_without_namespaces_landlock_alone_refuses_it(launcher, targets, tmp_path):
    """Where a system allows no namespaces, what is left in shared memory is found afterwards."""
    landlocked = without_namespaces(launcher)
    assert set(reached(landlocked, targets, tmp_path)) == WITHOUT_NAMESPACES
    assert targets["shm"] in landlocked.find_left(shares_memory=True)
    assert landlocked.find_left(shares_memory=False) == ()


def test_an_unconfined_one_reaches_all(targets, tmp_path):
    """So the planted attempts are such that work, and it is the sandbox that refuses them."""
    came = reached(LOCAL, targets, tmp_path)
    assert {"writes the base", "connects", "a signal to the parent", "writes into /tmp", "writes /dev/shm"} <= {*came}
    for each in ("home", "tmp"):
        Path(targets[each]).unlink()


@pytest.mark.parametrize("has_namespaces", [True, False])
def test_an_honest_training_has_what_it_needs(launcher, targets, tmp_path, has_namespaces):
    launcher = launcher if has_namespaces else without_namespaces(launcher)
    wanted = {**targets, "has network": launcher._sandbox.has_namespaces}
    assert isinstance(ask(launcher, "honest", wanted, tmp_path), OwnTraining)
    assert list((tmp_path / "t").iterdir()) == []


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    made = HeatTemplate("fake", order_for(tmp_path_factory.mktemp("template")).lane.environment, 1)
    assert made.make_ready(time.monotonic() + 30)
    yield made
    made.close()


def hear_build(child):
    """Return the messages of a child until it builds."""
    heard = []
    while not (isinstance(message := child.hear(30), wire.Phase) and message.name == "build"):
        assert message is not None
        heard.append(message)
    return heard


@pytest.mark.parametrize("is_forked", [True, False])
def test_a_confined_heat_is_paused_continued_and_ended_as_any_other(launcher, template, tmp_path, is_forked):
    """Its guardian is outside of the sandbox."""
    order = order_for(tmp_path, HANGS)
    sandbox = launcher.sandbox_for(order.lane)
    child = ForkedChild(template, sandbox=sandbox) if is_forked else Child(order.lane.environment, sandbox=sandbox)
    child.say(wire.Run(order_for(tmp_path, HANGS)))
    confined = next(each for each in hear_build(child) if isinstance(each, wire.Confined))
    assert set(confined.reaches) < set(REACHES)
    (heat,) = psutil.Process(child.pid).children()
    child.pause()
    assert heat.status() == psutil.STATUS_STOPPED
    child.go_on()
    assert heat.status() != psutil.STATUS_STOPPED
    assert Path(child.sandbox.folder).is_dir()
    assert child.end(grace_s=0).signal == "SIGKILL"
    assert not Path(child.sandbox.folder).exists()


def test_a_confined_heat_runs_to_its_end_and_says_what_it_reaches(launcher, template, tmp_path):
    order = order_for(tmp_path)
    runner = HeatRunner(order, Limits(20.0, 5.0), 2, lambda _: None)
    heat = runner.run(Started(ForkedChild(template, sandbox=launcher.sandbox_for(order.lane))), 0)
    assert (heat.process.status, set(heat.process.reaches) < set(REACHES)) == ("ok", True)
    assert (IN_SHARED_MEMORY in heat.process.reaches) != launcher._sandbox.has_namespaces
    assert (
        HeatRunner(order, Limits(20.0, 5.0), 2, lambda _: None).run(Started(ForkedChild(template)), 0).process.reaches
        is None
    )


KILLED = """
import sys, time
from laptime.engine.run.confined import ConfinedLauncher
child = ConfinedLauncher().start({})
print(child.hear(30).pid, child.pid, child.sandbox.folder, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("victim", ["laptime", pytest.param("guardian", marks=pytest.mark.long)])
def test_whoever_is_killed_no_confined_heat_stays(victim, tmp_path):
    """Nor its folder, where the guardian is alive."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        heat, guardian, folder = parent.stdout.readline().split()
        assert Path(folder).name.startswith(OWN_FOLDERS)
        os.kill(parent.pid if victim == "laptime" else int(guardian), signal.SIGKILL)
        deadline = time.monotonic() + 10
        while psutil.pid_exists(int(heat)) or (victim == "laptime" and Path(folder).exists()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        parent.kill()


def test_a_folder_in_which_rights_were_taken_away_is_removed_all_the_same(launcher, tmp_path):
    child = launcher.start({})
    inside = Path(child.sandbox.folder, "a", "b")
    inside.mkdir(parents=True)
    (inside / "kept").write_text("x")
    inside.chmod(0)
    inside.parent.chmod(0)
    child.end(grace_s=0)
    assert not Path(child.sandbox.folder).exists()
    assert launcher.find_left(shares_memory=False) == ()


def test_a_folder_that_is_left_is_found(launcher):
    folder = Path(tempfile.gettempdir(), f"{OWN_FOLDERS}{os.getpid()}-x")
    folder.mkdir()
    assert launcher.find_left(shares_memory=False) == (str(folder),)
