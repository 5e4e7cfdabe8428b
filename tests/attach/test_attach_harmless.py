"""Nothing that the agent does reaches a script: no error of a hook, and no file or socket that is the script's own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from watcher import Watcher

from long_cases import cases

STAND_IN = Path(__file__).parent / "stand_in"
TRAIN = """
import os, socket, sys, time, torch
from torch.utils.data import DataLoader
opt = torch.optim.SGD()
batches = DataLoader([[torch.Tensor(0.0, (4,))]] * 10)
def train(epochs=1):
    for _ in range(epochs):
        for batch in batches:
            torch.Tensor(2.5).backward()
            opt.step()
def train_on():
    end = time.monotonic() + 0.6
    while time.monotonic() < end:
        train()
        time.sleep(0.02)
"""


@pytest.fixture
def watcher(tmp_path: Path) -> Watcher:
    return Watcher(tmp_path)


def old_torch(folder: Path, compiler: str | None) -> str:
    """Return the path of a PyTorch whose module `compiler` has this source, or that has none, as PyTorch 2.0."""
    place = folder / "old" / "torch"
    shutil.copytree(STAND_IN / "torch", place)
    if compiler is None:
        (place / "compiler.py").unlink()
        init = place / "__init__.py"
        init.write_text(init.read_text().replace("autograd, compiler, optim", "autograd, optim"))
    else:
        (place / "compiler.py").write_text(compiler)
    return str(place.parent)


@pytest.mark.long
@pytest.mark.parametrize("compiler", [None, "def reset(): pass"], ids=["as in 2.0", "as in 2.1"])
def test_a_pytorch_that_cannot_say_whether_it_compiles(watcher: Watcher, compiler: str | None) -> None:
    """PyTorch 2.0 has no `torch.compiler`, and that of 2.1 has no `is_compiling`. The script trains, and is counted."""
    ended, answer = watcher.watch(
        sys.executable, "-c", f"{TRAIN}\ntrain(2)\nprint('trained')",
        env={"PYTHONPATH": old_torch(watcher.house.folder, compiler)},
    )  # fmt: skip
    assert (ended.code, ended.out) == (0, "trained\n"), ended.err
    (process,) = answer["processes"]
    assert (process["loop"]["iterations"], process["failed"]) == (20, {})


FILE = f"""{TRAIN}
train_on()
os.closerange(3, LAST)
opened = [open(f"own-{{n}}", "w") for n in range(40)]
for each in opened: each.write("mine " * 3)
train_on()
for each in opened: each.close()
print(sum(open(each.name).read() == "mine " * 3 for each in opened))
"""
PAIRS = f"""{TRAIN}
train_on()
os.closerange(3, LAST)
pairs = [socket.socketpair() for n in range(40)]
train_on()
train()
for one, other in pairs:
    one.sendall(b"mine"); one.close()
print(sum(other.makefile("rb").read() == b"mine" for one, other in pairs))
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "most"),
    cases((FILE, 256), long=[(PAIRS, 1 << 14)]),
    ids=["files", "socket pairs"],
)
def test_what_the_script_opens_after_it_closed_all_is_its_own(watcher: Watcher, source: str, most: int) -> None:
    """A daemon closes all descriptors, also the agent's. What it opens then is neither closed nor written to.

    The agent connects again, and sees the rest of the training.
    """
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({most}, {most}))\n"
    ended, answer = watcher.watch(
        sys.executable, "-c", limited + source.replace("LAST", str(most)), env={"PYTHONPATH": str(STAND_IN)}
    )
    assert (ended.code, ended.out) == (0, "40\n"), ended.err
    (process,) = answer["processes"]
    assert process["loop"]["iterations"] > 200
    assert process["loop"]["unsure"] is None


@pytest.mark.long
def test_the_agents_descriptor_is_out_of_the_way(watcher: Watcher) -> None:
    """The script's next file has the number that it has without laptime, and most programs that close all spare it."""
    source = f"{TRAIN}\ntrain_on()\nprint(os.open('own', os.O_CREAT))\nos.closerange(3, 1024)\ntrain()"
    limited = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))\n"
    ended, answer = watcher.watch(sys.executable, "-c", limited + source, env={"PYTHONPATH": str(STAND_IN)})
    assert ended.out == "3\n"
    assert answer["processes"][0]["loop"]["unsure"] is None


RUDE = f"""{TRAIN}
from torch.utils.data.dataloader import _BaseDataLoaderIter as Iterator
class Rude:
    def __getattr__(self, name): raise KeyError(name)
class RudeError(Exception):
    def __str__(self): raise RuntimeError
"""
KERAS = """
class CallbackList:
    def on_train_batch_begin(self, batch, logs=None): print("begun", batch)
    def on_train_batch_end(self, batch, logs=None): print("ended", batch)
    on_epoch_begin = on_epoch_end = on_test_begin = on_test_end = on_train_batch_begin
"""


@pytest.mark.parametrize(
    ("source", "hook"),
    [
        ("opt = type('Mine', (Rude, torch.optim.SGD), {})()\ntrain()", "optimizer"),
        pytest.param("list(type('Mine', (Rude, Iterator), {})([[0]]))\ntrain()", "fetch", marks=pytest.mark.long),
        pytest.param(
            "class Loss(torch.Tensor):\n    def numel(self): raise RudeError\nLoss(1.0).backward()\ntrain()",
            "loss",
            marks=pytest.mark.long,
        ),
        (
            "class Loss(torch.Tensor):\n    device = property(lambda self: 1 / 0)\nLoss(1.0).backward()\ntrain()",
            "loss",
        ),
    ],
    ids=["an optimizer", "a loader", "an error without words", "a loss"],
)
def test_no_error_of_a_hook_reaches_the_script(watcher: Watcher, source: str, hook: str) -> None:
    """The script's own objects may raise wherever a hook looks at them. The hook is off, and the summary names it."""
    ended, answer = watcher.watch(
        sys.executable, "-c", f"{RUDE}{source}\nprint('trained')", env={"PYTHONPATH": str(STAND_IN)}
    )
    assert (ended.code, ended.out) == (0, "trained\n"), ended.err
    assert list(answer["processes"][0]["failed"]) == [hook]


@pytest.mark.long
def test_no_error_of_the_hooks_of_keras_reaches_the_script(watcher: Watcher) -> None:
    """Your own training loop calls the callbacks with batches that are no numbers."""
    place = watcher.house.folder / "fakes" / "keras" / "src" / "callbacks"
    place.mkdir(parents=True)
    for folder in (place, *place.parents[:2]):
        (folder / "__init__.py").touch()
    (place / "callback_list.py").write_text(KERAS)
    source = (
        "from keras.src.callbacks.callback_list import CallbackList\ncalls = CallbackList()\n"
        "calls.on_train_batch_begin('a')\ncalls.on_train_batch_end('b')"
    )
    ended, answer = watcher.watch(sys.executable, "-c", source, env={"PYTHONPATH": str(place.parents[2])})
    assert (ended.code, ended.out) == (0, "begun a\nended b\n"), ended.err
    assert "callbacks: ValueError" in answer["unseen"]["missing"]


def test_a_script_may_leave_by_the_name_of_the_status(watcher: Watcher) -> None:
    ended, _ = watcher.watch(sys.executable, "-c", "import os; os._exit(status=3)")
    assert ended.code == 3
