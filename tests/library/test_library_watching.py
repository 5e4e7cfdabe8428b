"""Loops that are watched from Python: a real loop of PyTorch, in a process of its own, since its hooks stay there."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from test_library_examples import BLOCK, OF_HOOKS, PAGE

pytestmark = [pytest.mark.framework, pytest.mark.long]

TRAIN = """
import laptime
steps = laptime.steps([0.0] * 7)
for each in steps:
    sum(range(1000))
try:
    steps.result
except laptime.LaptimeError as error:
    print(error.says)
"""
MORE = """
import json, os, time, warnings

def train(batches):
    for inputs, targets in batches:
        torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()

def seen(result):
    process, loop = result.processes[0], result.loop
    return {
        "iterations": loop.iterations, "counted": loop.counted, "epochs": loop.epochs, "unsure": loop.unsure,
        "per": [loop.per_iteration.fetches, loop.per_iteration.backwards, loop.per_iteration.optimizer_steps],
        "items": loop.items_per_iteration if isinstance(loop.items_per_iteration, float) else None,
        "optimizers": [each.name for each in process.optimizers],
        "loaders": [[each.kind, each.batches] for each in process.loaders], "failed": process.failed,
        "status": result.status, "label": result.record.ask.label, "is_saved": result.is_saved,
        "losses": len(loop.losses), "wall_s": loop.whole.wall_s, "overhead": [*result.record.overhead],
        "type": type(laptime.load(result.id)).__name__, "page": result.page(width=100, details=True),
        "waits": loop.steady.data_wait_s if isinstance(loop.steady.data_wait_s, float) else None,
    }

found = {"block": seen(watched.result), "steps alone": seen(batches.result), "command": seen(done)}
train(loader)  # outside of a block: no one watches
wrapped = laptime.steps(loader)
try:
    with laptime.watching() as again:
        train(wrapped)
        train(wrapped)
        with laptime.watching():
            raise AssertionError("never reached")
except laptime.LaptimeError as error:
    found["nested"] = error.says
found["again"] = seen(again.result)
found["again by steps"] = wrapped.result.id == again.result.id
train(wrapped)  # not in a block: a watch of its own
found["wrapped alone"] = seen(wrapped.result)
train(wrapped)  # a further one, which the next block ends
with laptime.watching() as third:
    for position, batch in enumerate(laptime.steps([0] * 9)):
        if position == 4:
            break
    try:
        third.result
    except laptime.LaptimeError as error:
        found["early"] = error.says
found["left early"] = seen(third.result)
found["ended by the block"] = seen(wrapped.result)
try:
    with laptime.watching() as stopped:
        train(wrapped)
        raise KeyboardInterrupt
except KeyboardInterrupt:
    found["stopped"] = seen(stopped.result)
with laptime.watching() as empty:
    pass
try:
    empty.result.loop
except laptime.LaptimeError as error:
    found["empty"] = error.hint
home = os.environ["LAPTIME_HOME"]
os.environ["LAPTIME_HOME"] = os.devnull
with warnings.catch_warnings(record=True) as warned, laptime.watching() as unsaved:
    train(loader)
os.environ["LAPTIME_HOME"] = home
found["unsaved"] = [unsaved.result.is_saved, len(warned), unsaved.result.loop.iterations]
found["length"] = len(laptime.steps(loader))
try:
    len(laptime.steps(iter([])))
except TypeError as error:
    found["no length"] = str(error)

with laptime.watching() as paired:
    for first, second in zip(laptime.steps([[1]] * 6), laptime.steps([[2]] * 8)):
        pass
found["paired"] = seen(paired.result)
found["refused"] = []
for command in ([], "python train.py", ["train.py"], ["no-such-program"]):
    try:
        laptime.watch(command)
    except laptime.LaptimeError as error:
        found["refused"].append(error.says)

def time_of(many):
    began = time.thread_time()
    for each in many:
        pass
    return time.thread_time() - began

with laptime.watching():
    many = list(range(20_000))
    found["us a step"] = min((time_of(laptime.steps(many)) - time_of(many)) / 20_000 * 1e6 for _ in range(5))
for each in laptime.steps([1, 2, 3]):  # its record is saved as the process ends
    pass
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory, shared_house):
    """Run the block of docs/library.md, and more of the kind, in a process of its own."""
    folder = tmp_path_factory.mktemp("watching")
    (folder / "train.py").write_text(TRAIN)
    blocks = [each for each in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if OF_HOOKS in each]
    (folder / "mine.py").write_text("import laptime\n" + "\n".join(blocks) + MORE)
    environment = {**os.environ, **shared_house.environment(), "LAPTIME_HOME": str(folder / "home")}
    ran = subprocess.run(
        [sys.executable, "mine.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    *printed, last = ran.stdout.splitlines()
    return {"printed": "\n".join(printed), "home": folder / "home", **json.loads(last)}


def test_a_block_has_the_figures_of_a_watched_command(found):
    block = found["block"]
    assert (block["iterations"], block["counted"], block["epochs"], block["items"]) == (30, "optimizer steps", 3, 32)
    assert (block["per"], block["optimizers"], block["losses"]) == ([1, 1, 1], ["SGD"], 30)
    assert (block["loaders"], block["failed"], block["unsure"]) == ([["DataLoader", 10]], {}, None)
    assert (block["status"], block["label"], block["is_saved"]) == ("finished", "watched", True)
    assert block["type"] == "WatchResult"
    assert block["overhead"] == ["journal_s"]
    assert "forward + backward" in block["page"]
    assert "The block took" in block["page"]
    assert "mine.py takes" in found["printed"]


def test_a_second_block_sees_all_again_and_its_exception_passes_through(found):
    """The hooks are set once. `laptime.steps` takes the place of the loader that it goes through."""
    again = found["again"]
    assert found["nested"].startswith("this process is watched already")
    assert (again["iterations"], again["epochs"], again["per"], again["items"]) == (20, 2, [1, 1, 1], 32)
    assert (again["optimizers"], again["losses"], again["failed"]) == (["SGD"], 20, {})
    assert sorted(again["loaders"]) == [["DataLoader", 10], ["laptime.steps", 10]]
    assert again["waits"] > 0
    assert (again["is_saved"], again["status"]) == (True, "finished")
    assert found["again by steps"]


def test_steps_are_counted_where_nothing_else_is_seen(found):
    alone, left = found["steps alone"], found["left early"]
    assert (alone["iterations"], alone["counted"], alone["epochs"], alone["per"]) == (50, "steps", 1, [1, 0, 0])
    assert (left["iterations"], left["counted"], left["unsure"]) == (5, "steps", None)
    paired = found["paired"]
    assert (paired["iterations"], paired["epochs"], paired["per"][0]) == (6, 1, 2)
    assert "the step " in alone["page"]
    assert "not seen: of this loop, laptime sees the fetches only" in alone["page"]


def test_steps_on_their_own_have_the_result_of_their_passes(found):
    assert (found["wrapped alone"]["iterations"], found["wrapped alone"]["counted"]) == (10, "optimizer steps")
    assert found["ended by the block"]["iterations"] == 10
    kept = [json.loads(each.read_bytes()) for each in found["home"].rglob("r-*.json")]
    assert 3 in [each["answer"]["processes"][0]["loop"]["iterations"] for each in kept if each["answer"]["processes"]]


def test_a_command_is_watched_and_its_steps_go_to_its_record(found):
    assert (found["command"]["iterations"], found["command"]["counted"]) == (7, "steps")
    assert "`laptime watch` watches this process" in found["printed"]
    assert "0 7" in found["printed"].splitlines()
    assert found["refused"] == [
        "there is no command to watch",
        "'python train.py' is no list of words",
        "'train.py' is a script, and a command was expected",
        "'no-such-program' cannot be run: No such file or directory",
    ]


def test_what_ends_a_block_is_said(found):
    assert (found["stopped"]["status"], found["stopped"]["iterations"]) == ("interrupted", 10)
    assert found["early"] == "the block has not ended, and has no result yet"
    assert found["empty"] == "Because no training with torch was seen in the block."
    assert found["unsaved"] == [False, 1, 10]
    assert found["length"] == 10
    assert "has no len" in found["no length"]


def test_a_step_costs_little(found):
    """Measured 0.9 us on two cores of an EPYC, with Python 3.11; on a busy machine it is more."""
    assert found["us a step"] < 5
