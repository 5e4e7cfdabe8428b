"""Heats that are forked from a template: each is a heat like any other, and nothing outlives the race."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from heat_orders import order_for

from laptime.engine import wire
from laptime.engine.run import templates
from laptime.engine.run.runner import HeatRunner, Limits, Started
from laptime.engine.run.scout import ask_reference, ask_scouts
from laptime.engine.run.templates import ForkedChild, HeatTemplate, HeatTemplates, may_fork
from laptime.engine.run.turns import Player, Prestarter
from laptime.model.errors import LaneError
from laptime.model.machine import Device, Framework
from laptime.model.process import Settings
from laptime.planner.settings import KEEP_MEMORY

HANGS = 'fail = { how = "hang", phase = "build" }'
PATIENCE_S = 30.0


@pytest.fixture
def template(tmp_path):
    """A template of the fake back end, with this test's environment."""
    made = HeatTemplate("fake", order_for(tmp_path).lane.environment, 1)
    assert made.make_ready(time.monotonic() + PATIENCE_S)
    yield made
    made.close()


def heat_of(template, order, number=0):
    """Run a heat that is forked from a template."""
    return HeatRunner(order, Limits(20.0, 1.0), 2, lambda _: None).run(Started(ForkedChild(template)), number)


def hear_until(child, name):
    while not (isinstance(message := child.hear(PATIENCE_S), wire.Phase) and message.name == name):
        assert message is not None


def begun(template, folder, script=HANGS, phase="build"):
    """Return a forked child that has come to a phase."""
    child = ForkedChild(template)
    child.say(wire.Run(order_for(folder, script)))
    hear_until(child, phase)
    return child


def lane_on(folder, kind="cpu", framework="torch"):
    lane = order_for(folder, framework=framework).lane
    return replace(lane, device=Device(kind, kind, "", usable=True))


def test_a_forked_heat_is_a_heat_like_any_other(tmp_path, template, house):
    """It ends as well, has figures, and has the start and imports of its template, and a fork of its own."""
    heats = [heat_of(template, order_for(tmp_path, number=number), number) for number in range(2)]
    for heat in heats:
        assert (heat.process.status, heat.first_step_ns) == ("ok", 300_000_000)
        assert heat.process.template == template.told
        assert list(heat.process.phases_s)[:4] == ["start", "import", "fork", "held"]
        assert heat.process.phases_s["start"] == template.told.start_s
        assert 0 < heat.process.phases_s["fork"] < 5
        assert heat.process.spent_s < sum(heat.process.phases_s.values())
    template.close()
    assert house.is_empty_within(10)


def test_a_forked_heat_is_below_a_guardian_of_its_own(tmp_path, template):
    """Which is a small process: what a heat holds must not be counted twice."""
    child = begun(template, tmp_path)
    guardian = psutil.Process(child.pid)
    [heat] = guardian.children()
    assert (os.getsid(guardian.pid), os.getsid(heat.pid)) == (guardian.pid, heat.pid)
    until = time.monotonic() + PATIENCE_S
    while "guardian.py" not in " ".join(guardian.cmdline()) and time.monotonic() < until:
        time.sleep(0.01)
    assert "adopt" in guardian.cmdline()
    assert {each.fd for each in heat.open_files()} == set()
    child.end(grace_s=0)


def test_a_forked_heat_has_only_its_own_pipes(tmp_path, template):
    """The end of a pipe shows the end of a heat, so no other process may hold it."""
    child = begun(template, tmp_path)
    [heat] = psutil.Process(child.pid).children()
    held = [str(each.readlink()) for each in Path(f"/proc/{heat.pid}/fd").iterdir()]
    assert sorted(each.partition(":")[0] for each in held) == ["/dev/null", "pipe", "pipe", "pipe", "pipe"]
    child.end(grace_s=0)


def test_how_a_forked_heat_ended_is_known(tmp_path, template):
    """By its template, which is the parent of its guardian."""
    child = begun(template, tmp_path)
    [heat] = psutil.Process(child.pid).children()
    heat.send_signal(signal.SIGSEGV)
    ended = child.end()
    assert (ended.exit_code, ended.signal) == (None, "SIGSEGV")
    assert ended.peak_memory_bytes > 1_000_000


def test_a_forked_heat_that_is_killed_is_a_result_and_the_next_one_runs(tmp_path, template):
    """A crash costs one heat."""
    order = order_for(tmp_path, 'fail = { how = "kill", phase = "timing" }')
    killed = heat_of(template, order)
    assert (killed.process.status, killed.process.dnf.signal) == ("dnf", "SIGKILL")
    assert heat_of(template, order_for(tmp_path)).process.status == "ok"


def test_a_forked_heat_is_paused_with_all_that_it_started(tmp_path, template):
    """As heats of a round take turns."""
    order = replace(order_for(tmp_path), pace=replace(order_for(tmp_path).pace, takes_turns=True))
    player = Player(HeatRunner(order, Limits(20.0, 5.0), 2, lambda _: None), order.lane.device)
    player.begin(Started(ForkedChild(template)))
    player.join()
    [heat] = psutil.Process(player.runner.child.pid).children()
    assert heat.status() == psutil.STATUS_STOPPED
    assert psutil.Process(template._child.pid).status() != psutil.STATUS_STOPPED
    player.play(0)
    assert len(player.runner.windows) == 1
    assert player.leave() is None
    assert player.runner.heat(None, 0).process.status == "ok"


def test_a_heat_and_all_that_it_left_behind_end_with_it(tmp_path, template, house):
    """Its own guardian adopts them, and the template goes on."""
    child = begun(template, tmp_path)
    child.abandon()
    assert not psutil.pid_exists(child.pid)
    assert heat_of(template, order_for(tmp_path)).process.status == "ok"


def test_heats_of_one_template_are_alive_at_once(tmp_path, template):
    """Lanes with the same environment take turns."""
    first, second = begun(template, tmp_path), begun(template, tmp_path)
    assert first.pid != second.pid
    first.abandon()
    assert psutil.Process(second.pid).is_running()
    second.abandon()


def test_the_end_of_a_template_ends_its_heats(tmp_path, template, house):
    """As the end of a race does."""
    begun(template, tmp_path)
    template.close()
    assert house.is_empty_within(10)


def test_a_killed_template_is_no_hang(tmp_path, template):
    """Its heats end with it, and no other can be forked."""
    child = begun(template, tmp_path)
    [process] = psutil.Process(template._child.pid).children()
    process.kill()
    assert child.hear(PATIENCE_S) is None
    ended = child.end()
    assert ended.exit_code in (None, 0)
    with pytest.raises(LaneError, match="the template is gone"):
        ForkedChild(template)
    assert template.is_broken


PARENT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
sys.path.insert(0, {tests!r})
from pathlib import Path
from heat_orders import order_for
from laptime.engine import wire
from laptime.engine.run.templates import ForkedChild, HeatTemplate
folder = Path({folder!r})
order = order_for(folder, {script!r})
template = HeatTemplate(order.lane.framework, order.lane.environment, 1)
assert template.make_ready(time.monotonic() + 30)
child = ForkedChild(template)
child.say(wire.Run(order))
while not (isinstance(message := child.hear(30), wire.Phase) and message.name == "build"):
    assert message is not None
print("hangs", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_parent_leaves_no_template_and_no_heat(tmp_path, house, number):
    """Not even one killed with -9, which can end nothing itself."""
    text = PARENT.format(tests=str(Path(__file__).parent), folder=str(tmp_path), script=HANGS)
    environment = {**os.environ, "LAPTIME_HOME": str(tmp_path / "home")}
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout.readline() == b"hangs\n"
        parent.send_signal(number)
        parent.wait(PATIENCE_S)
    assert house.is_empty_within(3)


def test_forks_differ_in_where_their_memory_is(tmp_path, template):
    """One layout for all heats of a race would be a bias that its interval does not show."""

    def places():
        child = begun(template, tmp_path)
        [heat] = psutil.Process(child.pid).children()
        unused = [each for each in heat.memory_maps(grouped=False) if each.perms.startswith("---")]
        child.abandon()
        return {each.addr for each in unused}

    assert len({frozenset(places()) for _ in range(4)}) > 1


def test_a_template_that_cannot_import_is_no_template(tmp_path):
    """The heat is then a fresh process, and reports the reason."""
    made = HeatTemplate("nonsense", {}, 1)
    assert not made.make_ready(time.monotonic() + PATIENCE_S)
    made.close()


@pytest.mark.parametrize(
    ("kind", "framework", "expected"),
    [("cpu", "torch", True), ("cuda", "torch", True), ("cpu", "jax", False), ("cpu", "fake", False)],
)
def test_only_where_it_is_safe(tmp_path, kind, framework, expected):
    """A process that used a card's driver, or has threads, does not bear a fork."""
    assert may_fork(lane_on(tmp_path, kind, framework)) is expected


def test_a_lane_on_several_devices_is_a_fresh_process(tmp_path):
    """Its ranks are copies of the heat."""
    cpu = Device("cpu", "cpu", "", usable=True)
    lane = replace(lane_on(tmp_path), devices=(cpu, cpu), settings=Settings(extra={"parallel": "ddp"}))
    assert not may_fork(lane)


@pytest.mark.framework
def test_lanes_share_templates_only_where_they_start_alike(tmp_path, monkeypatch, house):
    """A variable is read as a process starts, so another environment is another template; the rotation is a lane's."""
    monkeypatch.setattr(templates, "OF_A_LANE", 2)
    for name in templates.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    lane = lane_on(tmp_path)
    cores = str(len(os.sched_getaffinity(0)))
    late = {"MALLOC_TOP_PAD_": "67108864", "OMP_NUM_THREADS": cores}
    alike = replace(lane, name="alike", environment={**lane.environment, **late})
    other = replace(lane, name="other", environment={**lane.environment, "OMP_PROC_BIND": "spread"})
    held = HeatTemplates()
    try:
        first, same, apart = (held.begin(each) for each in (lane, alike, other))
        assert same is first is not apart
        second = held.begin(lane)
        assert second is not first
        assert held.begin(alike) is second
        assert held.begin(lane) is first
        monkeypatch.setenv("SOMETHING", "else")
        assert held.begin(lane) not in (first, second)
    finally:
        held.close()
    assert house.is_empty_within(10)


KEEPS = """
import os, resource

def train():
    faults = [resource.getrusage(resource.RUSAGE_SELF).ru_minflt]
    for _ in range(8):
        bytearray(50_000_000)
    faults += [resource.getrusage(resource.RUSAGE_SELF).ru_minflt]
    with open(os.environ["FOUND"], "w") as found:
        found.write(f"{os.environ.get('MALLOC_TRIM_THRESHOLD_')} {faults[1] - faults[0]}")
    raise SystemExit
"""


def test_a_fork_takes_the_parameters_of_malloc(tmp_path, monkeypatch):
    """So a lane that keeps its memory needs no process of its own: freed memory stays in it."""
    file, found = tmp_path / "train.py", tmp_path / "found"
    file.write_text(KEEPS)
    monkeypatch.setenv("FOUND", str(found))
    subject = replace(order_for(tmp_path).subject, name="train.py:train", file=str(file), function="train")

    def look(environment):
        child = ForkedChild(made, environment)
        child.say(wire.Look("python", subject, stays_unused=True))
        while not isinstance(child.hear(PATIENCE_S), wire.Failed | wire.Inspected | None):
            pass
        child.end()
        kept, faults = found.read_text().split()
        return kept, int(faults)

    made = HeatTemplate("python", {}, 1)
    try:
        assert made.make_ready(time.monotonic() + PATIENCE_S)
        (unset, faults), (kept, fewer) = look({}), look(KEEP_MEMORY)
    finally:
        made.close()
    assert (unset, kept) == ("None", KEEP_MEMORY["MALLOC_TRIM_THRESHOLD_"])
    assert fewer < faults / 4


@pytest.mark.framework
def test_a_scout_is_forked_from_what_heats_are_forked_from(tmp_path, house):
    """So a framework is imported once for both, and the second template of a lane is ready by then."""
    lane = replace(lane_on(tmp_path), environment={})
    with templates.templates_of_a_question():
        (seen,) = ask_scouts([Framework("torch", "")], PATIENCE_S)
        assert seen.problem is None
        assert "cpu" in [device.name for device in seen.devices]
        with Prestarter(2, PATIENCE_S) as ahead:
            assert not any(ahead.imports(each) for each in (lane, replace(lane, name="another")))
            ahead.line_up([lane])
            assert ahead.take(lane).child.template.number == 1
            ahead.line_up([lane])
            assert ahead.take(lane).child.template.number == 2
            assert (ahead.importing_s == 0.0) is (len(os.sched_getaffinity(0)) > 1)  # on one core it would be no faster
    assert house.is_empty_within(10)


@pytest.mark.long
@pytest.mark.framework
def test_heats_of_pytorch_on_a_processor_are_forked(tmp_path, monkeypatch, house):
    """They import nothing, and neither does the reference, of whose template they are forked, too. All learn the same,
    and hold the same memory as a fresh process.
    """
    monkeypatch.setattr(templates, "OF_A_LANE", 1)
    lane = lane_on(tmp_path)
    order = replace(order_for(tmp_path), lane=lane, subject=replace(order_for(tmp_path).subject, name="cifar-mlp"))
    order = replace(order, pace=replace(order.pace, measure_s=0.1, window_s=0.02))

    def run(ahead):
        began_s = time.monotonic()
        ahead.line_up([lane])
        started = ahead.take(lane)
        taken_s = time.monotonic() - began_s
        return taken_s, HeatRunner(order, Limits(60.0, 60.0), 2, lambda _: None).run(started, 0)

    with Prestarter(2, 60.0) as ahead:
        ahead.start_ahead([lane])
        own = ahead.take_alone(replace(lane, name="reference"))
        assert len(ask_reference(order, 60.0, started=own).exact.losses) == 4
        assert (
            ahead.expect_imports_s([lane])
            == 0.0
            < ahead.expect_imports_s([replace(lane, environment={"OMP_PROC_BIND": "spread"})])
        )
        (first_s, first), (second_s, second) = run(ahead), run(ahead)
        import_s = ahead.importing_s
    monkeypatch.setattr(templates, "may_fork", lambda _lane: False)
    with Prestarter(2, 60.0) as ahead:
        _, fresh = run(ahead)
    assert [each.process.status for each in (first, second, fresh)] == ["ok"] * 3
    assert max(first_s, second_s) < import_s / 4
    assert own.child.template == first.process.template == second.process.template is not None
    assert fresh.process.template is None
    assert first.proofs[0].losses == second.proofs[0].losses == fresh.proofs[0].losses
    peaks = [each.process.peak_memory_bytes for each in (first, second, fresh)]
    assert max(peaks) < 1.2 * min(peaks)  # two fresh processes differ by 8 %: what malloc keeps is chance
    assert house.is_empty_within(10)


@pytest.mark.long
def test_where_one_template_refuses_no_further_one_is_started(tmp_path):
    """A driver or a library that begins a thread as it is imported does so in each: a heat is then a fresh process."""
    tmp_path.joinpath("sitecustomize.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    lane = replace(lane_on(tmp_path), environment={"PYTHONPATH": str(tmp_path)})
    several = HeatTemplates()
    try:
        first = several.begin(lane)
        assert first.make_ready(time.monotonic() + PATIENCE_S)
        with pytest.raises(LaneError, match="2 threads"):
            ForkedChild(first)
        assert several.begin(lane) is None
        assert several.begin(replace(lane, environment={})) is not None
    finally:
        several.close()
