"""One heat of a script that nobody changed: real processes with the real agent, and a stand-in for PyTorch."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from laptime.attach.blocks import block_bytes
from laptime.engine import wire
from laptime.engine.heat import script
from laptime.engine.heat.script import run_script
from laptime.engine.heat.script_work import NOT_COUNTABLE, read_work
from laptime.model.errors import LaneError, TrainingError
from laptime.model.hardware import HeldMemory, StepMemory
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.symptoms import DATA_LINE, NO_INPUT, NOT_LOOKED, StepSymptoms
from laptime.model.workload import ProofPlan
from long_cases import cases

STAND_IN = Path(__file__).parents[1] / "attach" / "stand_in"
CPU = Device("cpu", "cpu", "the processor", usable=True)
TURNS = Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.1, windows_min=4, takes_turns=True)
STEP_MS, LOADING_MS = 4, 7
TRAIN = f"""
import os, sys, time
sys.path.insert(0, {str(STAND_IN)!r})
import torch
from torch.utils.data import DataLoader

class Slow(list):
    def __iter__(self):
        for each in list.__iter__(self):
            time.sleep({LOADING_MS / 1e3} * int(os.environ.get("SLOW", 0)))
            yield each

batches = Slow([[torch.Tensor(0.0, (4,))]] * 10)
opt, other = torch.optim.SGD(), torch.optim.SGD()
print("pid", os.getpid(), flush=True)
for epoch in range(int(sys.argv[1])):
    for batch in DataLoader(batches):
        time.sleep({STEP_MS / 1e3})
        torch.Tensor(2.5 - epoch).backward()
        opt.step()
        THEN
    time.sleep(0.05)
"""


class Line:
    """Asks for some turns, and writes down what was said."""

    def __init__(self, turns: int = 4) -> None:
        self.said: list[wire.FromChild] = []
        self._turns = turns

    def say(self, message: wire.FromChild) -> None:
        self.said.append(message)

    def listen(self) -> wire.FromParent:
        if not any(isinstance(each, wire.Proved) for each in self.said):
            return wire.GoOn()  # nothing else builds
        self._turns -= 1
        return wire.TakeTurn() if self._turns >= 0 else wire.Enough()

    def only(self, kind):
        return next(each for each in self.said if isinstance(each, kind))

    @property
    def windows(self):
        return [each.window for each in self.said if isinstance(each, wire.Closed)]

    @property
    def step_ms(self) -> float:
        return statistics.median((each.end_ns - each.start_ns) / each.steps for each in self.windows) / 1e6


def is_gone(pid):
    """Whether a process ends; on a busy core a signal takes a while, and its new parent to notice the end."""
    deadline_s = time.monotonic() + 20.0
    while time.monotonic() < deadline_s:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.01)
    return False


@pytest.fixture
def heat(tmp_path, capfd):
    """Return a function that runs one heat of a script, and returns what was said."""

    def run(then: str = "pass", *, epochs: int = 10_000, source: str = TRAIN, line: Line | None = None, **settings):
        file = tmp_path / "train.py"
        file.write_text(source.replace("THEN", then))
        return run_command((sys.executable, str(file), str(epochs)), line, **settings)

    def run_command(
        command,
        line: Line | None = None,
        pace: Pace = TURNS,
        device: Device = CPU,
        seen_within_s=None,
        *,
        counts_work=False,
        **settings,
    ):
        line = line or Line()
        subject = Subject("train.py", "", None, None, None, None, "items", command=tuple(command))
        lane = PlannedLane(device.name, "script", device, Settings(**settings))
        order = HeatOrder(
            subject, lane, 3, ProofPlan(), pace, breakdown=True, seen_within_s=seen_within_s, counts_work=counts_work
        )
        run_script(order, line)
        printed = capfd.readouterr().out.split()
        if "pid" in printed:
            assert is_gone(int(printed[printed.index("pid") + 1]))
        return line

    run.command = run_command
    return run


def test_windows_hold_the_steps_and_not_what_is_between_epochs(heat):
    """Each epoch of ten steps is followed by 50 ms of nothing, which would more than double a step."""
    line = heat()
    built = line.only(wire.Built)
    assert (built.items_per_step, built.steps_per_lap, built.versions, built.notes) == (4, 10, {"torch": "0.0"}, ())
    assert line.only(wire.Proved).run.losses == (2.5,) * 10
    assert STEP_MS <= line.only(wire.FirstStep).ns / 1e6 < 10 * STEP_MS
    assert len(line.windows) == 4
    between = line.only(wire.Between)
    assert 0.8 * 5 <= between.ns / between.steps / 1e6 < 4 * 5  # 50 ms for each ten steps
    assert STEP_MS <= line.step_ms < 2 * STEP_MS
    assert all(each.steps > 5 for each in line.windows)
    signs = line.only(wire.Signed).signs
    assert isinstance(signs, StepSymptoms)
    assert signs.threads == 2
    assert line.only(wire.Finished).peak_memory_bytes > 1 << 20
    assert [each.name for each in line.said if isinstance(each, wire.Phase)] == ["build", "proof", "timing", "end"]


def test_what_has_no_operators_of_pytorch_says_so_and_is_timed_all_the_same(heat):
    """The stand-in computes nothing."""
    line = heat(line=Line(turns=1), counts_work=True)
    assert line.only(wire.Worked) == wire.Worked(uncounted=NOT_COUNTABLE)
    assert STEP_MS <= line.step_ms < 2 * STEP_MS
    assert not [each for each in line.said if isinstance(each, wire.Noted)]


def sent(**changed):
    """Return what an agent sends of an iteration, with changes."""
    operators = [["product", 8e9, 1e6, [], 3], ["convolution", 1e9, 1e6, [1, 3, 1, 5, 5], 1], ["update", 0, 400, [], 1]]
    return {
        "flops": 25e9, "narrow": 0, "bytes": 5_000_000, "operators": operators,
        "memory": {"passes": [4, 8, 0, 1, 9], "update": [4, 8, 4, 1, 2], "narrow": [4, 8, 0, 1, 5], "kept": 512},
    } | changed  # fmt: skip


def test_what_an_agent_counted_is_read_as_operators():
    work = read_work(sent())
    assert [(each.kind, each.calls) for each in work.operators] == [("product", 3), ("narrow", 1), ("update", 1)]
    assert (work.flops, work.value_bytes) == (25e9, 4)
    assert work.memory == StepMemory(
        HeldMemory(4, 8, 0, 1, 9), HeldMemory(4, 8, 4, 1, 2), HeldMemory(4, 8, 0, 1, 5), 512
    )
    assert read_work(sent(narrow=20e9)).value_bytes == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"operators": None},
        {"operators": [["wish", 1, 1, [], 1]]},
        {"operators": [["product", "many", 1, [], 1]]},
        {"operators": [["product", 1, 1]]},
        {"operators": [["convolution", 1, 1, [], 1]]},
        {"flops": None},
        {"memory": None},
        {"memory": {"passes": [1, 1, 1, 1], "update": [1] * 5, "narrow": [1] * 5, "kept": 0}},
        {"memory": {"passes": [1, 1, 1, 1, -1], "update": [1] * 5, "narrow": [1] * 5, "kept": 0}},
        {"memory": {"passes": [1] * 5, "narrow": [1] * 5, "kept": 0}},
        {"memory": {"passes": [1] * 5, "update": [1] * 5, "narrow": [1] * 5}},
    ],
)
def test_what_no_agent_counts_ends_its_connection(changed):
    with pytest.raises((ValueError, TypeError)):
        read_work(sent(**changed))


LEARNER = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.asked, self.mixed = nn.Linear(32, 96, bias=False), nn.Linear(32, 32, bias=False)

    def forward(self, given):
        query, key, value = self.asked(given).view(4, 16, 3, 2, 16).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=0.1, is_causal=True)
        return self.mixed(seen.transpose(1, 2).reshape(4, 16, 32))

model = nn.Sequential(nn.Embedding(10, 32), Block(), nn.Linear(32, 10, bias=False))
optimizer = torch.optim.AdamW(model.parameters())
MORE
loader = DataLoader(TensorDataset(torch.randint(0, 10, (400, 17))), batch_size=4)
for epoch in range(int(sys.argv[1])):
    for number, (words,) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
        loss.backward()
        if number % EVERY == EVERY - 1:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "every", "frozen"),
    [("", 1, 0), ("", 4, 0), ("model[1].asked.weight.requires_grad_(False)", 1, 1), ("model.compile()", 1, 0)],
    ids=["plain", "gradients of four batches", "a frozen layer", "compiled"],
)
def test_an_iteration_of_a_real_script_is_counted_inside_of_it(heat, more, every, frozen):
    """Its products and its attention, as its layers say; a frozen layer has no gradient of its weights."""
    source = LEARNER.replace("MORE", more).replace("EVERY", str(every))
    work = heat(source=source, line=Line(turns=1), counts_work=True).only(wire.Worked).work
    words = 4 * 16
    products = 2 * words * (3 * (32 * 32 + 32 * 10) + (3 - frozen) * 96 * 32)
    attention = (2 + 5) * 2 * 4 * 2 * 16 * 16 * 16 / 2
    counted = dict.fromkeys(("product", "flash"), 0.0)
    for each in work.operators:
        if each.flops:
            counted[each.kind] += each.calls * each.flops
    assert counted == {"product": every * products, "flash": every * attention}
    (update,) = (each for each in work.operators if each.kind == "update")
    assert update.calls == 1
    weights_bytes = sum(block_bytes(4 * each) for each in (10 * 32, 96 * 32, 32 * 32, 32 * 10))
    learned_bytes = weights_bytes - frozen * block_bytes(4 * 96 * 32)
    for held in (work.memory.passes, work.memory.update):
        assert held.weights_bytes == weights_bytes
        assert 2 * learned_bytes <= held.moments_bytes <= 2 * learned_bytes + 4 * 512
    assert work.memory.update.gradients_bytes == learned_bytes
    assert work.memory.update.made_bytes >= learned_bytes, "a card copies a moment of all weights at once"
    assert work.memory.kept_bytes > 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("then", "ends"),
    [("torch.Tensor(1.0).backward(); other.step()", 2), ("pass", 1)],
    ids=["two optimizers", "one optimizer"],
)
def test_an_iteration_with_several_steps_is_one(heat, then, ends):
    line = heat(then)
    assert STEP_MS <= line.step_ms < 2 * STEP_MS
    assert line.only(wire.Proved).run.losses[:2] == (2.5, 1.0 if ends == 2 else 2.5)


OWN_LOOP = """
import os, sys, time, torch
from torch import nn
torch.set_num_threads(1)
x, y = torch.randn(8, 4, dtype=torch.float64), torch.zeros(8, dtype=torch.int64)
model = nn.Linear(4, 2).double()  # DOUBLE
opt = torch.optim.SGD(model.parameters(), lr=0.1)
log = open(sys.argv[0] + ".log", "w")
def evaluate():
    model.eval()  # EVAL
    with torch.no_grad():
        time.sleep(0.02)
        model(x)
    model.train()
print("pid", os.getpid(), flush=True)
for i in range(int(sys.argv[1])):
    time.sleep(0.002)
    opt.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    opt.step()
    for _ in range(3):
        os.fsync(log.fileno())  # FSYNC
    if i % 4 == 0:
        evaluate()
        torch.save(model.state_dict(), sys.argv[0] + ".pt")  # SAVE
"""


@pytest.mark.long
@pytest.mark.framework
def test_what_a_loop_does_next_to_its_training_is_timed_by_its_lines(heat):
    """Evaluation without a loader, checkpoints and waits for the disk; and which types its weights have."""
    line = heat(source=OWN_LOOP)
    signs = line.only(wire.Signed).signs
    lines = {
        mark: 1 + OWN_LOOP[: OWN_LOOP.index(f"# {mark}")].count("\n") for mark in ("FSYNC", "SAVE", "EVAL", "DOUBLE")
    }
    found = {each.what: each for each in signs.places}
    assert found.keys() == {"evaluation", "checkpoints", "waiting for the disk"}
    assert found["waiting for the disk"].where == f"train.py:{lines['FSYNC']}"
    assert found["checkpoints"].where == f"train.py:{lines['SAVE']}"
    assert found["evaluation"].where == f"train.py:{lines['EVAL']}"
    assert found["waiting for the disk"].times / signs.steps == pytest.approx(3, rel=0.2)
    assert found["evaluation"].times / signs.steps == pytest.approx(1 / 4, rel=0.3)
    assert found["evaluation"].ns >= 0.02e9 * found["evaluation"].times
    apart_ns = sum(each.ns for each in signs.places)
    assert signs.compute_ns + apart_ns <= signs.wall_ns
    assert signs.notes[NO_INPUT].startswith("its batches come from no DataLoader of PyTorch")
    assert line.only(wire.Counted).census.types == ("float64",)
    assert signs.notes["float64"] == f"train.py:{lines['DOUBLE']}"


@pytest.mark.long
def test_without_an_optimizer_backward_passes_are_counted(heat):
    line = heat(source=TRAIN.replace("        opt.step()\n", ""))
    assert STEP_MS <= line.step_ms < 2 * STEP_MS


@pytest.mark.long
def test_the_loader_and_the_training_are_timed_apart(heat, monkeypatch):
    """The same batches again and again take no loader; the loader alone takes no training."""
    monkeypatch.setenv("SLOW", "1")
    whole = heat().step_ms
    compute = heat(input="cached").step_ms
    loader = heat(input="only").step_ms
    assert STEP_MS + LOADING_MS <= whole < 1.6 * (STEP_MS + LOADING_MS)
    assert STEP_MS <= compute < 2 * STEP_MS
    assert LOADING_MS <= loader < 1.7 * LOADING_MS


def test_the_line_of_the_loaders_time_is_known_after_the_windows(heat, monkeypatch):
    """Iterations whose lines are timed are no part of what is said of the script's steps."""
    monkeypatch.setenv("SLOW", "1")
    line = heat()
    signs = line.only(wire.Signed).signs
    assert signs.notes[DATA_LINE] == f"train.py:{1 + TRAIN[: TRAIN.index('time.sleep')].count(chr(10))}"
    assert len(line.windows) >= TURNS.windows_min


DRAWN = """class Slow(list):
    def __getitem__(self, number):
        return [number, DRAWS]
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("draws", "told"),
    cases(("time.perf_counter_ns()", True), long=[("0.5", False), ("1 / 0", NOT_LOOKED)]),
)
def test_an_item_that_is_drawn_again_is_seen_after_the_windows(heat, draws, told):
    """In the script's own process; the script's iterations stay as they are."""
    begin, end = TRAIN.index("class Slow"), TRAIN.index("batches = Slow")
    line = heat(source=TRAIN[:begin] + DRAWN.replace("DRAWS", draws) + "\n" + TRAIN[end:])
    assert told == line.only(wire.Signed).signs.redrawn
    assert len(line.windows) >= TURNS.windows_min


@pytest.mark.long
def test_a_loop_through_laptime_steps_needs_no_optimizer(heat):
    """Each batch is an iteration: of JAX, or of anything else that computes."""
    source = f"""
import laptime, numpy, time
for epoch in range(10_000):
    for batch in laptime.steps([numpy.zeros((6, 2))] * 10):
        time.sleep({STEP_MS / 1e3})
"""
    line = heat(source=source)
    assert STEP_MS <= line.step_ms < 2 * STEP_MS
    assert (line.only(wire.Built).items_per_step, line.only(wire.Proved).run.losses) == (6, ())


@pytest.mark.long
def test_a_loader_without_dataloader_cannot_be_taken_apart(heat):
    source = TRAIN.replace("DataLoader(batches)", "list(batches)")
    with pytest.raises(LaneError, match="its batches come from no DataLoader"):
        heat(source=source, input="cached")
    assert heat(source=source).only(wire.Built).notes[0].startswith("the size of its batches was not seen")


@pytest.mark.long
def test_what_a_lane_sets_is_set_before_the_script_can_use_torch(heat):
    check = """
assert torch.was_set == {"seed": 3, "matmul": "medium", "denormals": True}, torch.was_set
assert DataLoader(batches).num_workers == 2
assert __import__("random").Random(3).random() == __import__("random").random()
"""
    source = TRAIN.replace("opt, other", check + "opt, other")
    heat(source=source, denormals="flush", workers=2, extra={"matmul": "medium"}, line=Line(1))


@pytest.mark.long
def test_a_setting_that_cannot_be_set_is_no_lane(heat):
    source = TRAIN.replace("DataLoader(batches)", "list(batches)")
    with pytest.raises(LaneError, match="workers was not set: the script makes no DataLoader"):
        heat(source=source, workers=2)


# Its agent has said that it leaves, and Python takes 3.5 s more.
SLOW_TO_LEAVE = """
import sys, time
class Last:
    def __del__(self, sleep=time.sleep): sleep(3.5)
sys.last = Last()
"""


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("raise SystemExit(7)", "the script failed: it ended with exit code 7 before it trained; it ran in "),
        ("print(1)", "with exit code 0, and no training"),
        (TRAIN.replace("range(int(sys.argv[1]))", "range(1)").replace("* 10", "* 3"), "after 3 steps, too few to time"),
        (TRAIN.replace("THEN", "os._exit(0)"), "after 1 steps, too few to time"),
        (TRAIN.replace("THEN", "epoch == 1 and 1 / 0"), "the script failed: it ended with exit code 1"),
        pytest.param(
            SLOW_TO_LEAVE + TRAIN.replace("THEN", "1 / 0"),
            "the script failed: it ended with exit code 1",
            marks=pytest.mark.long,
        ),
    ],
    ids=["fails", "trains nothing", "too short", "leaves at once", "fails as it is timed", "fails slowly"],
)
def test_a_script_that_cannot_be_timed_says_why(heat, source, says):
    with pytest.raises(TrainingError) as caught:
        heat(source=source)
    assert says in caught.value.says


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ((sys.executable, "-c", "import time; time.sleep(60)"), "no training with PyTorch or Keras was seen in it"),
        (("sleep", "60"), "no Python process of the script had reported to laptime"),
    ],
    ids=["trains nothing", "no Python"],
)
def test_a_training_that_does_not_begin_ends_the_heat_in_its_time(heat, command, says):
    """It ended after 600 s without a word."""
    began_s = time.monotonic()
    with pytest.raises(TrainingError, match=says) as caught:
        heat.command(command, seen_within_s=1.0)
    assert time.monotonic() - began_s < 20
    assert ("laptime.steps(batches)" in caught.value.says) == ("seen in it" in says)


@pytest.mark.long
def test_a_training_that_began_in_time_goes_on_for_as_long_as_it_takes(heat, monkeypatch):
    """Its ten first steps alone take longer than it had to begin."""
    monkeypatch.setenv("SLOW", "20")
    assert len(heat(seen_within_s=1.0).windows) == 4


def test_a_command_that_is_no_python_says_so(heat):
    with pytest.raises(TrainingError, match="no Python process of it reported"):
        heat.command(("sh", "-c", "true"))
    with pytest.raises(LaneError, match="'no-such-command' cannot be run: No such file"):
        heat.command(("no-such-command",))


def test_a_script_that_ends_while_it_is_timed_keeps_its_windows(heat):
    line = heat(epochs=14, line=Line(1000))
    assert len(line.windows) >= 2
    assert line.only(wire.Noted).notes == ("the script ended with exit code 0, before it was stopped",)
    assert line.only(wire.Finished)


def test_it_ends_after_as_many_steps_as_are_wanted(heat):
    line = heat(line=Line(1000), pace=replace(TURNS, steps_most=30))
    assert 30 <= sum(each.steps for each in line.windows) < 60


@pytest.mark.long
def test_a_script_that_trains_elsewhere_is_not_the_lane(heat):
    """Its optimizer has parameters on the processor, and the lane is a card."""
    weight = """
class Weight:
    device, dtype = "cpu", "float32"
    def numel(self): return 5
torch.optim.optimizer.Optimizer.param_groups = ({"params": [Weight()]},)
"""
    source = TRAIN.replace("opt, other", f"{weight}opt, other")
    with pytest.raises(LaneError, match="the script trains on cpu, although it could see cuda:0"):
        heat(source=source, device=Device("cuda:0", "cuda", "a card", usable=True))
    assert heat(source=source, line=Line(1)).only(wire.Built).parameters == 5


@pytest.mark.long
def test_a_script_that_ignores_signals_is_killed(heat, monkeypatch):
    monkeypatch.setattr(script, "SIGNAL_GRACE_S", 0.2)
    began_s = time.monotonic()
    ignore = "import signal; [signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM)]\n"
    assert len(heat(source=ignore + TRAIN, line=Line(1)).windows) == 1
    assert time.monotonic() - began_s < 30


@pytest.mark.long
def test_all_that_a_command_started_ends_with_it(heat, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN.replace("THEN", "pass"))
    told = tmp_path / "sleeper"
    command = f"sleep 600 & echo $! > {told}; {sys.executable} {tmp_path}/train.py 10000"
    assert len(heat.command(("sh", "-c", command), Line(2)).windows) == 2
    sleeper = int(told.read_text())
    assert is_gone(sleeper)
    assert os.getpid() != sleeper


@pytest.mark.long
def test_a_long_path_of_temporary_files_is_no_obstacle(heat, tmp_path, monkeypatch):
    """A socket's path has 107 bytes at most; nothing of laptime is in the folder, during the heat or after it."""
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert len(heat("assert not os.listdir(os.environ['TMPDIR'])", line=Line(1)).windows) == 1
    assert list(folder.iterdir()) == []


@pytest.mark.long
def test_a_script_that_closes_all_descriptors_is_still_held(heat):
    line = heat("if epoch == 3: os.closerange(3, os.sysconf('SC_OPEN_MAX'))", line=Line(4))
    assert len(line.windows) == 4


TERMINAL = f"""
import os, subprocess, sys
rows, columns = os.popen("stty size", "r").read().split()
assert (int(rows), int(columns)) == tuple(os.get_terminal_size(0))[::-1] == (24, 80)
for _ in range(3):
    try:
        input()
        raise SystemExit("nobody types here")
    except EOFError:
        pass
with open("/dev/tty", "w") as terminal:
    terminal.write("much " * 100_000)
{TRAIN}
"""


@pytest.mark.long
def test_a_script_that_asks_its_terminal_has_one(heat):
    """Its size, as `stty` prints it, what it reads, which is nothing, and what it writes to it."""
    assert len(heat(source=TERMINAL, line=Line(1)).windows) == 1


def test_the_script_ends_with_its_heat(tmp_path):
    """A signal that nothing can catch ends the heat: its processes end too, though they ignore Ctrl-C."""
    (tmp_path / "train.py").write_text(
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + TRAIN.replace("THEN", "pass")
    )
    source = (
        "import signal, sys\nfrom laptime.engine.heat.script import RacedScript\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # below nohup it is ignored, and the script inherits that
        f"script = RacedScript(('sh', '-c', '{sys.executable} {tmp_path}/train.py 1000; true'), {{}})\n"
        "script.wait()\nprint('held', flush=True)\nwhile True: script.go_on(10)"
    )
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as process:
        said = [process.stdout.readline().split() for _ in range(2)]
        pid = int(next(words[1] for words in said if words[0] == "pid"))
        process.kill()
    assert is_gone(pid)


STRANGERS = r"""
import json, socket, struct
def speak(*bodies):
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(os.environ["LAPTIME_WATCH"].replace("@", "\0", 1))
    peer.sendall(b"".join(b"J" + struct.pack("<I", len(each)) + each for each in bodies))
hello = {"pid": 1, "began_ns": 1, "parent": 1, "python": "3", "executable": "p", "versions": {}}
held = {"held": "step", "since_ns": 0, "at_ns": 1 << 61, "idle_ns": 0, "loss": None, "shapes": 0}
speak(b"[" * 100_000)
speak(json.dumps({**hello, "pid": float("inf")}).encode())
speak(json.dumps(hello).encode(), json.dumps(held).encode())
speak(json.dumps(hello).encode(), json.dumps({**held, "at_ns": "now", "shapes": []}).encode())
"""


@pytest.mark.long
def test_what_strangers_write_to_the_socket_is_refused(heat):
    source = TRAIN.replace("opt, other", f"{STRANGERS}opt, other")
    assert len(heat(source=source, line=Line(2)).windows) == 2
