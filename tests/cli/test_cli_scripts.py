"""`laptime race train.py` and `laptime why train.py`: scripts that know nothing of laptime.

What they import as PyTorch is a stand-in with the functions that the agent hooks.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

STAND_IN = Path(__file__).parents[1] / "attach" / "stand_in"
EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPT = f"""
import argparse, os, random, sys, time
def note(what):
    with open(__file__ + ".times", "a") as file:
        file.write(what + "\\n")

note("begins")
sys.path.insert(0, {str(STAND_IN)!r})
import torch
from torch.utils.data import DataLoader
time.sleep(float(os.environ.get("IMPORTS_S", 0)))
note("has imported")

class Slow(list):
    def __iter__(self):
        for each in list.__iter__(self):
            time.sleep(float(os.environ.get("LOADING_S", 0)))
            yield each

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, required=True)
asked = parser.parse_args()
step_s = 0.003 if "MALLOC_TRIM_THRESHOLD_" in os.environ else 0.006
opt = torch.optim.SGD()
loss = random.random() if os.environ.get("SEEDED") != "no" else time.time()
print("hello from the script", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
for epoch in range(asked.epochs):
    for batch in DataLoader(Slow([[torch.Tensor(0.0, (4,))]] * 20)):
        time.sleep(step_s)
        torch.Tensor(loss).backward()
        opt.step()
"""

OWN_LOOP = f"""
import sys, time
sys.path.insert(0, {str(STAND_IN)!r})
import torch
opt = torch.optim.SGD()
while True:
    time.sleep(0.006)
    torch.Tensor(2.5).backward()
    opt.step()
"""

KERAS = """
import keras, numpy
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(numpy.random.rand(640, 8), numpy.random.rand(640), epochs=10_000, batch_size=16, verbose=0)
"""


@pytest.fixture
def train(house):
    place = house.folder / "train.py"
    place.write_text(SCRIPT)
    return place


def test_a_script_races_unchanged(house, train):
    """Two lanes take turns; with memory kept in the process, this script takes half as long."""
    lanes = ("--on", "cpu", "--set", "malloc=keep")
    words = (*lanes, "--heats", "2", "--budget", "4s", "--", "--epochs", "9999")
    answer = house.run("race", str(train), *words, env={"IMPORTS_S": "0.3"}, is_wide=True)
    assert answer.code == 0, answer.err
    noted = train.with_suffix(".py.times").read_text().split("\n")
    assert noted[:4] == ["begins", "has imported"] * 2, "what the first heats hold is not known before"
    assert noted[4:8] == ["begins", "begins", "has imported", "has imported"], "later ones import side by side"
    assert "hello" not in answer.out + answer.err
    head = answer.out.replace("\n  ", " ")
    assert "train.py on " in head
    assert "cpu/malloc=keep  " in head
    assert "Same work: its first 10 losses are equal." in head
    assert "Next: laptime why" in head
    assert f"{train} cpu/malloc=keep -- --epochs 9999" in head
    record = json.loads(house.run("show", "latest", "--json").out)
    first, second = record["lanes"]
    assert (first["name"], second["name"]) == ("cpu/as-written", "cpu/malloc=keep")
    assert 6 <= first["step_ms"]["median"] < 12
    assert 3 <= second["step_ms"]["median"] < 7
    (compared,) = record["answer"]["comparisons"]
    assert 1.3 < compared["ratio"] < 2.6  # of two rounds, whose interval is wide
    assert compared["in_turns"]
    assert compared["same_work"] is True
    assert [each["parity"]["status"] for each in record["lanes"]] == ["same", "same"]
    assert (first["items_per_step"], first["lap_s"]["median"] * 1e3 / first["step_ms"]["median"]) == (
        4, pytest.approx(20, rel=0.1)
    )  # fmt: skip
    assert record["workload"]["command"] == [sys.executable, str(train), "--epochs", "9999"]
    assert record["ask"]["command"] == ["--epochs", "9999"]

    again = house.run("race", "--against", "latest", "--dry-run")
    assert again.code == 0, again.err
    assert "cpu/malloc=keep  script on the processor" in again.out
    assert "--epochs 9999" in again.out
    report = house.run("report", "latest", "-o", "race.html")
    assert report.code == 0, report.err


@pytest.mark.long
def test_losses_that_differ_from_run_to_run_prove_nothing(house, train):
    answer = house.run(
        "race", str(train), "cpu", "cpu/threads=1", "--heats", "2", "--steps", "20", "--", "--epochs", "999",
        env={"SEEDED": "no"},
    )  # fmt: skip
    assert "its losses differ from run to run, by up to" not in answer.out  # of the clock, they differ by little
    record = json.loads(house.run("show", "latest", "--json").out)
    assert all(
        sum(each["steps"] for each in result["heat"]["windows"]) < 120
        for lane in record["lanes"]
        for result in lane["heats"]
    )


LOGS = f"""
import json, sys, time
sys.path.insert(0, {str(STAND_IN)!r})
import torch
from parts import works
print(json.dumps([__name__, __file__, sys.argv, sys.path[1], sorted(each for each in globals() if each[0] != "_")]))
opt = torch.optim.SGD()
for step in range(int(sys.argv[1])):
    works()
    torch.Tensor(2.5).backward()
    opt.step()
    time.sleep(0.008)
"""
PARTS = """
import time

def works():
    time.sleep(0.002)
    seconds = [time.sleep(0.004)]
"""


def test_a_script_races_without_a_line_of_its_own_or_of_a_module(house):
    """What it takes without them is measured; the script itself begins as it does otherwise, and no file is changed."""
    folder = house.folder / "with"
    folder.mkdir()
    for name, text in (("train.py", LOGS), ("parts.py", PARTS)):
        (folder / name).write_text(text)
    lanes = [word for line in ("train.py:12", "parts.py:6", "train.py:10") for word in ("--set", f"without={line}")]
    lanes += ["--set", "twice=parts.py:6"]
    answer = house.run("race", "train.py", "cpu", *lanes, "--heats", "1", "--budget", "6s", "--", "9999", cwd=folder)
    assert answer.code == 3, answer.err
    record = json.loads(house.run("show", "latest", "--json").out)
    written, *others = record["lanes"]
    factors = [each["ratio"] for each in record["answer"]["comparisons"]]
    assert factors[0] == pytest.approx(14 / 6, rel=0.3)
    assert factors[1] == pytest.approx(14 / 10, rel=0.3)
    assert factors[-1] == pytest.approx(14 / 18, rel=0.2), "once more"
    assert others[2]["status"] == "dnf"  # a backward pass trains
    assert "has a statement there that can be left out" in others[2]["reason"]
    assert written["name"] == "cpu/as-written"
    assert (folder / "train.py").read_text() == LOGS
    begun = [json.loads(line) for line in answer.out.splitlines() if line.startswith('["__main__"')]
    assert all(each == begun[0] for each in begun)


def test_what_cannot_be_left_out_is_refused_in_words(house, train):
    for word, says in (("without=train.py", "cannot be"), ("without=train.py:0", "cannot be")):
        answer = house.run("race", str(train), "cpu", "--set", word)
        assert (answer.code, says in answer.err) == (2, True), answer.err
    answer = house.run("race", "cifar-mlp", "fake/cpu/without=train.py:3")
    assert answer.code == 2
    assert "is a setting of unmodified scripts" in answer.err


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "says"),
    [("time.sleep(0.008)", "leave out train.py:11"), ("slept = [time.sleep(0.008)]", "do without train.py:11")],
)
def test_why_proves_what_a_line_costs(house, line, says):
    """It is left out of the script, or makes twice what is read, and is judged by the rules of watch."""
    place = house.folder / "train.py"
    text = LOGS.replace("from parts import works\n", "").replace("    works()\n", "    time.sleep(0.004)\n")
    reads = "    assert slept\n" if line.startswith("slept") else ""
    place.write_text(text.replace("time.sleep(0.008)\n", f"{line}\n{reads}"))
    answer = house.run("why", str(place), "cpu", "--budget", "20s", "--", "99999")
    assert answer.code == 0, answer.err
    why = json.loads(house.run("show", "latest", "--json").out)["answer"]["why"]
    assert why["first"][0] == "own code"
    cause = next(each for each in why["causes"] if each["cause"] == "own code")
    assert cause["standing"] == "proven"
    remedy = next(each for each in why["remedies"] if each["says"].startswith(says))
    assert remedy["recommended"]
    assert remedy["measured"]["ratio"] == pytest.approx(3, rel=0.4)
    assert f"{says}:" in answer.out


@pytest.mark.long
def test_why_a_script_is_slow(house, train):
    """The parts of its own steps, and the cause that is in it: a step of 6 ms waits 12 ms for its loader.

    No heat is spent on a stage alone, so that both ways to load are tried within a few seconds.
    """
    told = ("why", str(train), "cpu", "--budget", "12s", "--", "--epochs", "9999")
    answer = house.run(*told, env={"LOADING_S": "0.012"})
    assert answer.code == 0, answer.err
    record = json.loads(house.run("show", "latest", "--json").out)
    why = record["answer"]["why"]
    names = [each["name"] for each in record["lanes"]]
    assert names[0] == "cpu/as-written"
    assert names[1] in {"cpu/input=cached", "cpu/workers=2"}
    assert "cpu/input=only" not in names
    parts = {each["of"]: each["share"] for each in why["parts"]}
    assert parts["loader"] == pytest.approx(12 / 18, abs=0.15)
    assert parts["compute"] == pytest.approx(6 / 18, abs=0.15)
    assert why["first"][0] == "input pipeline"
    decoded = next(each for each in why["remedies"] if each["says"] == "keep decoded items in memory")
    assert decoded["measured"]["ratio"] == pytest.approx(3, rel=0.35)
    assert decoded["code"].startswith("DataLoader(laptime.cached(")
    refused = {each["cause"]: each["says"] for each in why["causes"] if each["standing"] == "not testable here"}
    assert "copy to the device" in refused


@pytest.mark.long
def test_why_starts_no_lane_of_the_loader_where_there_is_none(house):
    """It is known after the first heat: the budget is for what may help."""
    loop = house.folder / "own.py"
    loop.write_text(OWN_LOOP)
    answer = house.run("why", str(loop), "cpu", "--budget", "4s")
    assert answer.code == 0, answer.err
    record = json.loads(house.run("show", "latest", "--json").out)
    assert not [each["name"] for each in record["lanes"] if "input=" in each["name"] or "workers=" in each["name"]]
    why = record["answer"]["why"]
    reasons = [each["items_per_s"]["missing"] for each in why["ceilings"] if each["stage"] != "copy"]
    assert all("no DataLoader" in each for each in reasons)
    assert len(why["missing"]) == len(set(why["missing"]))
    parts = {each["of"]: each["share"] for each in why["parts"]}
    assert parts["compute"] > 0.5


@pytest.mark.long
@pytest.mark.framework
def test_why_knows_the_wait_of_keras_and_the_line_that_makes_its_batches(house):
    """On TensorFlow a thread makes them. They cannot be replayed, but a PyDataset can have workers."""
    shutil.copy(EXAMPLES / "keras_fit.py", house.folder / "train.py")
    told = ("why", "train.py", "cpu", "--budget", "4s", "--", "--epochs", "99")
    answer = house.run(*told, env={"KERAS_BACKEND": "tensorflow"}, is_wide=True)
    assert answer.code == 0, answer.err
    why = json.loads(house.run("show", "latest", "--json").out)["answer"]["why"]
    loader = next(each for each in why["causes"] if each["cause"] == "input pipeline")
    line = 1 + (EXAMPLES / "keras_fit.py").read_text().splitlines().index("        time.sleep(DISK_S)")
    assert (loader["standing"], loader["evidence"]["where"]) == ("likely", f"train.py:{line}")
    assert {each["of"]: each["share"] for each in why["parts"]}["loader"] > 0.4
    workers = next(each for each in why["remedies"] if each["says"].startswith("decode in"))
    assert "use_multiprocessing=True" in workers["code"]


@pytest.mark.parametrize(
    ("words", "says", "way_out"),
    [
        pytest.param(
            ("train.py", "torch/cpu"),
            "lane 'torch/cpu' names a framework: a script decides itself",
            "name a device",
            marks=pytest.mark.long,
        ),
        (
            ("train.py", "cpu/fp16"),
            "fp16 cannot be set from outside of a script",
            "what can: fp32, bf16, eager, compile",
        ),
        (("train.py", "cpu/input=fast"), "input=fast cannot be set from outside", "what can: "),
        (("train.py", "cpu", "--set", "thread=1"), "'thread=1' is not a setting; did you mean threads=N?", "settings"),
        (("train.py", "cpu", "--set", "threads=999"), "threads=999: this machine has", "1 to "),
        (("train.py", "cpu", "cpu"), "lane cpu/as-written is named twice", "a race needs lanes that differ"),
        (("train.py", "cpu", "--batch", "4"), "--batch is of trainings that laptime builds", "leave it out"),
        (("train.py", "cpu", "--steps", "0"), "--steps 0: expected a whole number from 1 on", "such as 50"),
        (("missing.py", "cpu", "--", "--epochs"), "there is no file missing.py", "give the path of a script"),
        (("cpu", "--"), "there is no script to race", "laptime race train.py -- --epochs 3"),
        (("cifar-cnn", "fake/cpu", "--", "--epochs"), "words behind --: cifar-cnn is no script", "leave it out"),
        (("cifar-mlp", "fake/cpu", "--set", "threads=1"), "--set: cifar-mlp is no script", "torch/cpu/threads=1"),
        (("cifar-mlp", "fake/cpu", "--steps", "5"), "--steps: cifar-mlp is no script", "leave it out"),
        pytest.param(
            ("cifar-cnn", "cpu/matmul=high"),
            "matmul is a setting of unmodified scripts",
            "name tf32 or bf16 here",
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_a_script_cannot_do_is_refused(house, train, words, says, way_out):
    assert train.exists()
    answer = house.run("race", *words)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err
    assert way_out in answer.err


def test_a_race_that_is_run_again_takes_no_words_of_a_script(house, train):
    """It has those of its record. A dry run takes all that a race takes."""
    options = ("--on", "cpu", "--set", "threads=1", "--steps", "9", "--dry-run")
    planned = house.run("race", str(train), *options, "--", "--epochs", "7")
    assert planned.code == 0, planned.err
    assert f"each heat runs: {shutil.which('python')}" in " ".join(planned.out.split())
    assert "cpu/threads=1" in planned.out
    house.run("race", "cifar-cnn", "fake/cpu", "--heats", "1")
    again = house.run("race", "--against", "latest", "--", "--epochs", "7")
    assert (again.code, again.out) == (2, "")
    assert "and the words behind -- would change it" in again.err


@pytest.mark.parametrize("command", ["train", "infer", "profile"])
def test_other_commands_name_those_that_take_a_script(house, train, command):
    assert train.exists()
    answer = house.run(command, "train.py")
    assert answer.code == 2
    assert "laptime race train.py" in answer.err


def test_a_script_that_fails_on_all_lanes_ends_the_race_with_its_words(house, train):
    answer = house.run("race", str(train), "cpu", "cpu/malloc=keep", "--", "--laps", "3")
    assert answer.code == 3
    assert "the script failed: it ended with exit code 2 before it trained" in answer.err
    assert "train.py: error: the following arguments are required: --epochs" in answer.err
    assert "Its own arguments go behind --" in answer.err


@pytest.mark.long
def test_a_script_that_fails_as_it_is_timed_ends_the_race_at_once(house, train):
    """With the place in its file, and not after three rounds of the same."""
    train.write_text(SCRIPT + "        if epoch == 1:\n            raise ValueError('the labels are wrong')\n")
    answer = house.run("race", str(train), "cpu", "cpu/malloc=keep", "--budget", "5s", "--", "--epochs", "9")
    assert answer.code == 3
    assert "the script failed: it ended with exit code 1 before" in answer.err
    assert f'File "{train}", line' in answer.err
    assert "ValueError: the labels are wrong" in answer.err
    assert "heat 3" not in answer.err


IMPORTS = "import sys; sys.excepthook = lambda kind, error, trace: print(error, file=sys.stderr); import not_there"


@pytest.mark.long
@pytest.mark.parametrize("active", [{}, {"VIRTUAL_ENV": "/of/laptime"}], ids=["none", "another"])
def test_the_python_on_the_path_runs_the_script(house, tmp_path, active):
    """It is the script's own, whatever environment is activated; one that lacks a package is named."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{IMPORTS}"\n')
    python.chmod(0o755)
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    answer = house.run("race", str(script), "cpu", "cpu/malloc=keep", env={"PATH": f"{python.parent}:/bin", **active})
    assert answer.code == 3
    words = " ".join(answer.err.split())
    assert "No module named 'not_there'" in words
    assert f"it ran in {sys.executable} (Python {sys.version_info[0]}." in words


@pytest.mark.long
def test_a_whole_command_races(house, train):
    command = [sys.executable, str(train), "--epochs", "999"]
    answer = house.run("race", "--on", "cpu", "--heats", "1", "--steps", "5", "--", "sh", "-c", " ".join(command))
    assert answer.code == 0, answer.err
    record = json.loads(house.run("show", "latest", "--json").out)
    assert record["workload"]["command"][:2] == ["sh", "-c"]
    assert [each["status"] for each in record["lanes"]] == ["ok"]


@pytest.mark.long
def test_the_example_races_with_real_pytorch(house):
    """With workers its data set draws other numbers, which is not called other work."""
    example = Path(__file__).parents[2] / "examples" / "plain_loop.py"
    lanes = ("cpu", "cpu/workers=1+malloc=keep")
    answer = house.run("race", str(example), *lanes, "--heats", "1", "--steps", "20", "--", "--epochs", "99")
    assert answer.code == 0, answer.err
    assert "its first 10 losses are equal for cpu; not proven for cpu/workers=1+malloc=keep" in " ".join(
        answer.out.split()
    )
    record = json.loads(house.run("show", "latest", "--json").out)
    assert record["workload"]["parameters"] == 8 * 26 + 4 * (8 * 28 * 28 + 1)
    first, second = record["lanes"]
    assert first["framework"].keys() == {"torch"}
    assert (first["items_per_step"], first["parity"]["status"]) == (32, "same")
    assert second["parity"]["reason"].endswith("as where worker processes draw random numbers")
    assert second["peak_memory_bytes"] > 100 << 20


@pytest.mark.long
def test_a_training_of_keras_races(house):
    """Batches of `fit` are iterations, and their losses come from Keras's logs."""
    script = house.folder / "fit.py"
    script.write_text(KERAS)
    answer = house.run("race", str(script), "cpu", "--heats", "1", "--steps", "20", env={"KERAS_BACKEND": "jax"})
    assert answer.code == 0, answer.err
    record = json.loads(house.run("show", "latest", "--json").out)
    (lane,) = record["lanes"]
    assert lane["items_per_step"] == 16
    assert lane["heats"][0]["heat"]["proofs"][0]["after"][:10] == [*range(1, 11)]
    assert {"keras", "jax"} <= lane["framework"].keys()
    assert lane["parity"]["status"] == "same"
