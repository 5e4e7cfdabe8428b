"""The line of the script that each part of an iteration is spent on, which reads tensors, and which makes memory grow.

What times the lines leaves nothing behind in the script: neither a trace function, nor a tensor, nor a changed class.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from corpus_script import HEAD
from watcher import Watcher

from laptime.attach.lines import GrowingLists

pytestmark = pytest.mark.framework
DATA = """
import hashlib, weakref
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 96
    def __getitem__(self, i):
        x = X[i]
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10000)  # DATA
        return x, Y[i]
"""
LOOP = (
    HEAD
    + DATA
    + """
def train(epochs, **more):
    model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, total, kept = [], 0.0, []
    for epoch in range(epochs):
        for x, y in DataLoader(Slow(), batch_size=8, **more):
            loss = loss_of(model, x, y)
            total = total + loss  # SUM
            losses.append(loss)  # LIST
            loss.backward(); opt.step(); opt.zero_grad()
            torch.tensor([loss.item() for _ in range(500)])  # OUTSIDE
            kept.append(weakref.ref(x))
    del x, loss
    alive = sum(each() is not None for each in kept)
    return model, (alive, sys.gettrace(), "item" in torch.Tensor.__dict__, len(losses))
"""
)


def watch(tmp_path, source: str, *, failed: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    script = tmp_path / "train.py"
    script.write_text(source)
    ended, answer = Watcher(tmp_path).watch(sys.executable, str(script), **more)
    assert ended.code == 0, ended.err
    (process,) = answer["processes"]
    assert [*process["failed"]] == [*failed], process["failed"]
    return {**process, "out": ended.out, "others": answer["others"]}


def place_of(source: str, mark: str) -> str:
    return f"train.py:{1 + source[: source.index(f'# {mark}')].count(chr(10))}"


def first_of(process: dict[str, Any], part: str) -> dict[str, Any]:
    return max((each for each in process["lines"] if each["part"] == part), key=lambda each: each["share"])


STAND_IN = Path(__file__).parent / "stand_in"
WITHOUT_TORCH = """
import time, torch
from torch.utils.data import DataLoader
class Slow(list):
    def __iter__(self):
        for each in list.__iter__(self):
            time.sleep(0.003)  # DATA
            yield each
opt, kept = torch.optim.SGD(), []
for epoch in range(4):
    for batch in DataLoader(Slow([[torch.Tensor(0.0, (4,))]] * 10)):
        torch.Tensor(2.5).backward()
        opt.step()
        kept.append(epoch)  # LIST
        time.sleep(0.002)  # OUTSIDE
"""


def test_lines_are_named_of_what_only_looks_like_pytorch(tmp_path):
    """A few functions in place of a framework: what is hooked, and nothing else of it, is needed."""
    process = watch(tmp_path, WITHOUT_TORCH, env={"PYTHONPATH": str(STAND_IN)})
    assert process["loop"]["iterations"] == 40
    for part, mark in (("data", "DATA"), ("outside", "OUTSIDE")):
        assert first_of(process, part)["where"] == place_of(WITHOUT_TORCH, mark)
    (found,) = process["lists"]
    assert (found["where"], found["name"], found["holds"]) == (place_of(WITHOUT_TORCH, "LIST"), "kept", "int")


BUSY = """
import linecache, threading, time, torch  # as PyTorch itself does
def spin():
    while True: pass  # SPINS
threading.Thread(target=spin, daemon=True).start()
opt = torch.optim.SGD()
for step in range(40):
    torch.Tensor(2.5).backward()
    opt.step()
    for _ in range(64): time.sleep(0)  # GIVES
"""


def test_a_thread_that_keeps_the_interpreter_busy_is_named(tmp_path):
    """What gives it up for a moment waits for 5 ms. Lines are known by how often they run and what they call."""
    process = watch(tmp_path, BUSY, env={"PYTHONPATH": str(STAND_IN)})
    assert process["busy_thread"]["where"] == place_of(BUSY, "SPINS")
    assert process["busy_thread"]["idle"] > 0.2
    line = first_of(process, "forward")
    assert (line["where"], line["calls"]) == (place_of(BUSY, "GIVES"), ["for", "range", "time.sleep"])
    assert line["per_step"] >= 64


WITHOUT_LOADER = """
import time, torch
def computed(until):
    while time.thread_time() < until: pass  # COMPUTES
opt = torch.optim.SGD()
for step in range(40):
    computed(time.thread_time() + 0.001)
    torch.Tensor(2.5).backward()
    opt.step()
    time.sleep(0.004)  # WAITS
"""


def test_a_line_that_waits_is_told_from_one_that_computes(tmp_path):
    """Without a loader, what follows a step is seen in front of the next backward pass."""
    process = watch(tmp_path, WITHOUT_LOADER, env={"PYTHONPATH": str(STAND_IN)})
    waited = {each["where"]: each["waited"] for each in process["lines"] if each["part"] == "forward"}
    assert waited[place_of(WITHOUT_LOADER, "WAITS")] > 0.4
    assert waited.get(place_of(WITHOUT_LOADER, "COMPUTES"), 0.0) == 0.0


ON_ONE_BUSY_CORE = """
import hashlib, os, torch
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
script, other = os.getpid(), os.fork()
while not other:
    if os.getppid() != script:
        os._exit(0)
opt = torch.optim.SGD()
for step in range(20):
    for _ in range(8):
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10000)  # COMPUTES
        after = _  # AFTER
    torch.Tensor(2.5).backward()
    opt.step()
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no system call keeps a process on one core")
def test_a_line_at_which_another_process_gets_the_core_is_not_where_time_is_spent(tmp_path):
    """The kernel waits until a share of the core is used up, and so stops the line behind the one that used it."""
    process = watch(tmp_path, ON_ONE_BUSY_CORE, env={"PYTHONPATH": str(STAND_IN)})
    lines = {each["where"]: each for each in process["lines"] if each["part"] == "forward"}
    computes = lines[place_of(ON_ONE_BUSY_CORE, "COMPUTES")]
    assert (computes["share"] > 0.8, computes["waited"]) == (True, 0.0)


@pytest.mark.long
def test_the_line_is_named_that_each_part_is_spent_on(tmp_path):
    """Of 36 iterations, three are timed; all are counted, and the times of the others are the figures."""
    source = f"{LOOP}\nmodel, left = train(3)\nprint(left)\ndigest(model)"
    process = watch(tmp_path, source)
    loop = process["loop"]
    timed = [each for each in loop["gaps"] if each["kind"] == "timing lines"]
    assert (loop["iterations"], timed[0]["times"]) == (36, 3)
    assert sum(window["iterations"] for window in loop["windows"]) == 36 - 3
    assert first_of(process, "data")["where"] == place_of(source, "DATA")
    assert first_of(process, "outside")["where"] == place_of(source, "OUTSIDE")
    assert process["reads"][0]["where"] == place_of(source, "OUTSIDE")
    assert process["reads"][0]["per_step"] == 500
    found = {each["name"]: (each["where"], each["holds"], each["per_step"] >= 1) for each in process["lists"]}
    assert found["losses"] == (place_of(source, "LIST"), "graph", True)
    assert found["total"] == (place_of(source, "SUM"), "sum", True)
    assert process["out"].startswith("(0, None, False, 36)\ndigest")


HARMLESS = """
import threading
changed = []
def tracer(frame, event, given): return None
def train_on():
    model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
    state = 0
    def add():
        nonlocal state
        state += 1
    for i in range(40):
        x, y = X[:8], Y[:8]
        if i == 17:  # in the midst of a timing
            child = os.fork()
            if not child:
                os._exit(0 if sys.gettrace() is None and "item" not in torch.Tensor.__dict__ else 1)
            changed.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            try:
                raise KeyError("x")
            except KeyError as error:
                changed.append(str(error))
        add()
        loss_of(model, x, y).backward(); opt.step(); opt.zero_grad()
        float(model[0].weight.detach()[0, 0]); f"{model[0].bias[0]:.3f}"
    return model, state
model, state = train_on()
print(changed, state, sys.gettrace())
sys.settrace(tracer)
model, state = train_on()
print(sys.gettrace() is tracer)
sys.settrace(None)
digest(model)
"""


LONG = (
    HEAD
    + """
model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(24):
    loss = loss_of(model, X[:8], Y[:8])
    loss.backward()  # BACKWARD
    for _ in range(300):
        torch.nn.utils.clip_grad_norm_([model[0].weight], 1.0)  # CLIP
    opt.step(); opt.zero_grad()
    total = 0.0
    for number in range(1500):
        total += float(number) ** 2  # LOOP
"""
)


def test_a_loop_that_runs_very_long_takes_no_other_lines_place(tmp_path):
    """1,500 turns of it used up the lines of a timing, and all that followed counted as one line; 300 clips hid all."""
    process = watch(tmp_path, LONG)
    lines = {(each["where"], each["part"]): each for each in process["lines"]}
    clips = [each for (where, _), each in lines.items() if where == place_of(LONG, "CLIP")]
    assert max(each["per_step"] for each in clips) == pytest.approx(300, rel=0.05)
    loop = lines[place_of(LONG, "LOOP"), "forward"]
    assert loop["per_step"] == pytest.approx(1500, rel=0.05)
    assert first_of(process, "backward")["where"] == place_of(LONG, "BACKWARD")
    assert first_of(process, "backward")["share"] > 0.9


@pytest.mark.long
def test_what_times_lines_changes_nothing(tmp_path):
    """A fork and an error in the midst of a timing, names that two functions share, and a debugger of the script's."""
    source = HEAD + HARMLESS
    process = watch(tmp_path, source)
    assert process["out"].splitlines()[:2] == ["[0, \"'x'\"] 40 None", "True"]
    assert process["loop"]["iterations"] == 80  # of two models, one after the other
    bare = subprocess.run([sys.executable, str(tmp_path / "train.py")], capture_output=True, text=True, check=True)
    assert process["out"] == bare.stdout


@pytest.mark.long
@pytest.mark.parametrize("workers", ["fork", "spawn"])
def test_the_line_of_a_transform_in_worker_processes_is_named(tmp_path, workers):
    """The workers report no training, and are none of the further processes."""
    more = f"num_workers=2, multiprocessing_context={workers!r}"
    source = f"{LOOP}\nif __name__ == '__main__':\n    model, left = train(3, {more})\n    print(left)"
    process = watch(tmp_path, source)
    line = first_of(process, "data")
    assert (line["where"], line["in_worker"]) == (place_of(source, "DATA"), True)
    assert process["others"] <= (1 if workers == "spawn" else 0) * 6
    assert process["out"].startswith("(")


def test_a_list_that_is_emptied_in_between_does_not_grow():
    """It is longer than two steps ago all the same: an episode of reinforcement learning may be."""
    pytest.importorskip("torch")
    collected, kept = list(range(10)), list(range(10))
    lists = GrowingLists(SimpleNamespace(is_own=lambda file: file == __file__), sys._getframe())
    collected.clear()
    lists.look(1)
    collected.extend(range(12))
    kept.extend(range(2))
    lists.look(2)
    assert [(each["name"], each["grows"], each["by"]) for each in lists.growing(2)] == [("kept", 2, 1)]


@pytest.mark.long
def test_what_an_episode_collects_and_drops_is_no_memory_that_grows(tmp_path):
    source = f"""{HEAD}
model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for episode in range(70):
    for i in range(10 + episode):
        losses.append(loss_of(model, X[:8], Y[:8]))
    torch.stack(losses).sum().backward(); opt.step(); opt.zero_grad()
    del losses[:]
"""
    assert watch(tmp_path, source)["lists"] == []


@pytest.mark.long
def test_memory_that_grows_is_found_and_memory_that_does_not_is_not(tmp_path):
    """A loop of six seconds that keeps 64 KiB in each iteration, or nothing; tensors are counted where it grows."""
    for keeps, grows in (("kept.append", True), ("torch.sum", False)):
        source = f"""{HEAD}
model = net(); opt = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for i in range(1100):
    loss_of(model, X[:8], Y[:8]).backward(); opt.step(); opt.zero_grad()
    {keeps}(torch.ones(256, 64))
    time.sleep(0.005)
"""
        process = watch(tmp_path, source)
        memory = process["memory"]
        assert memory["grows"] == grows
        assert (process["tensors_per_step"] is not None) == grows
        if grows:
            assert process["tensors_per_step"] == pytest.approx(1, abs=0.1)
            assert memory["low"] / 1.02 <= 256 * 64 * 4 <= memory["high"] * 1.2  # a tensor is more than its numbers
