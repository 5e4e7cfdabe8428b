"""Whole programs of other frameworks and launchers: their iterations are counted, in each of their processes.

They take minutes. `make test` reads what their agents once sent, with the same assertions.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from corpus import SCRIPTS
from tapes import read_tapes
from watcher import Watcher

from house import on_all_cores

pytestmark = pytest.mark.framework
DRIVER = Path(__file__).parent / "run_scripts.py"
TRAINERS = ("Accelerate", "Hugging Face Trainer", "Lightning")
KERAS = {"tensorflow": "Keras with validation", "jax": "Keras with a train_step"}
KERAS_ON_TORCH, KERAS_TWICE = "Keras", "Keras fits several times"


@pytest.fixture(scope="module")
def trainers(made_once: Any) -> Any:
    """Return what is seen of the loops of three trainers, and of Keras's."""
    return made_once("trainers", run_trainers)


def run_trainers(folder: Path) -> Any:
    """Run them in forks of one program: all of them are on PyTorch."""
    command = (sys.executable, str(DRIVER), str(folder / "seen"), str(folder), *TRAINERS, KERAS_ON_TORCH, KERAS_TWICE)
    ended, answer = Watcher(folder).watch(*command, env={"KERAS_BACKEND": "torch"})
    assert ended.code == 0, ended.err
    pids = json.loads((folder / "seen").read_bytes())["pids"]
    found = {each["pid"]: each for each in answer["processes"]}
    return {name: found[pid] for name, pid in pids.items()}


@pytest.fixture(scope="module")
def tapes() -> Any:
    """Return what is read of the same programs, as their agents once sent it: see tapes.py."""
    return read_tapes()


def check_trainer(process: Any, name: str) -> None:
    loop = process["loop"]
    assert (loop["iterations"], loop["counted"], loop["epochs"]) == (24, "optimizer steps", 2)
    assert (process["failed"], loop["unsure"]) == ({}, None)
    assert loop["per_iteration"]["optimizer_steps"] == 1
    assert all(isinstance(loop["steady"][part], float) for part in ("data_wait_s", "optimizer_s", "outside_s"))
    if name != "Accelerate":
        assert "validation" in {each["kind"] for each in loop["gaps"]}


@pytest.mark.long
@pytest.mark.parametrize("name", TRAINERS)
def test_trainers_that_own_the_loop_are_seen(trainers: Any, name: str) -> None:
    check_trainer(trainers[name], name)


@pytest.mark.parametrize("name", TRAINERS)
def test_what_trainers_sent_is_read(tapes: Any, name: str) -> None:
    (process,) = tapes[name]["processes"]
    check_trainer(process, name)


def check_keras(process: Any, engine: str) -> None:
    loop = process["loop"]
    assert (loop["iterations"], loop["counted"], loop["epochs"]) == (24, "Keras batches", 2)
    assert loop["items_per_iteration"] == 8
    assert loop["steady"]["optimizer_s"] == {"missing": "it runs inside of Keras's step"}
    assert {"keras", engine} <= set(process["versions"])
    assert ("validation" in {each["kind"] for each in loop["gaps"]}) == (engine == "tensorflow")
    if engine != "torch":
        assert isinstance(loop["steady"]["data_wait_s"], float) == (engine == "jax")
    if engine == "jax":
        assert loop["compilations"] > 0


@pytest.mark.long
def test_keras_is_seen_on_pytorch(trainers: Any) -> None:
    check_keras(trainers[KERAS_ON_TORCH], "torch")


@pytest.mark.parametrize(("engine", "name"), [("torch", KERAS_ON_TORCH), *KERAS.items()])
def test_what_keras_sent_is_read(tapes: Any, engine: str, name: str) -> None:
    (process,) = tapes[name]["processes"]
    check_keras(process, engine)


def check_calls_of_fit(process: Any) -> None:
    loop = process["loop"]
    assert (loop["iterations"], loop["epochs"], loop["trainings"]) == (36, 3, 2)
    assert loop["items_per_iteration"] == 8
    assert [each["batch"] for each in process["loaders"] if each["kind"] != "DataLoader"] == [8]
    assert 0 < loop["steady"]["data_wait_s"] < 0.5 * loop["steady"]["wall_s"]
    gaps = {each["kind"]: each["times"] for each in loop["gaps"]}
    # With that of `evaluate`, which is between two calls of `fit`: the time there is between no epochs.
    assert gaps == {"validation": 4, "timing lines": 2, "between epochs": 1}


@pytest.mark.long
def test_calls_of_fit_with_one_model_are_one_training_and_others_are_not(trainers: Any) -> None:
    """The batch is that of the training, not of the validation or of `evaluate`; what waits for data is seen."""
    check_calls_of_fit(trainers[KERAS_TWICE])


def test_what_calls_of_fit_sent_is_read(tapes: Any) -> None:
    (process,) = tapes[KERAS_TWICE]["processes"]
    check_calls_of_fit(process)


@pytest.mark.long
@pytest.mark.parametrize("engine", KERAS)
def test_keras_is_seen_on_its_other_engines(tmp_path: Path, engine: str) -> None:
    name = KERAS[engine]
    script = tmp_path / "fit.py"
    script.write_text(SCRIPTS[name].source)
    ended, answer = Watcher(tmp_path).watch(sys.executable, str(script), env={"KERAS_BACKEND": engine})
    assert ended.code == 0, ended.err
    (process,) = answer["processes"]
    check_keras(process, engine)
    assert "per iteration" in ended.err


def check_ranks(answer: Any) -> None:
    assert [each["rank"] for each in answer["processes"]] == [0, 1]
    assert [each["world"] for each in answer["processes"]] == [2, 2]
    assert [each["loop"]["iterations"] for each in answer["processes"]] == [24, 24]
    assert answer["others"] >= 1


@pytest.mark.long
def test_each_rank_of_torchrun_is_seen(tmp_path: Path) -> None:
    script = tmp_path / "ranks.py"
    script.write_text(SCRIPTS["torchrun"].source)
    torchrun = shutil.which("torchrun", path=Path(sys.executable).parent) or "torchrun"
    command = (torchrun, "--standalone", "--nproc-per-node", "2", str(script))
    ended, answer = Watcher(tmp_path).watch(*command, options=("--details",))
    assert ended.code == 0, ended.err
    check_ranks(answer)
    assert answer["skew"]["ranks"] == [0, 1]
    assert answer["skew"]["spread"] >= 1
    assert "rank 0 of 2" in ended.err


def test_what_each_rank_of_torchrun_sent_is_read(tapes: Any) -> None:
    check_ranks(tapes["torchrun"])


def check_spawned(answer: Any) -> None:
    (process,) = answer["processes"]
    assert (process["loop"]["iterations"], process["loaders"][0]["workers"]) == (12, 1)
    assert answer["others"] >= 1


@pytest.mark.long
def test_workers_that_are_spawned_are_no_training(tmp_path: Path) -> None:
    script = tmp_path / "spawned.py"
    script.write_text(SCRIPTS["workers by spawn"].source)
    ended, answer = Watcher(tmp_path).watch(sys.executable, str(script))
    assert ended.code == 0, ended.err
    check_spawned(answer)


def test_what_spawned_workers_sent_is_read(tapes: Any) -> None:
    check_spawned(tapes["workers by spawn"])


@pytest.mark.long
def test_the_example_waits_for_its_data(tmp_path: Path) -> None:
    """The example of docs/watch.md, as it is: laptime names its loader, and what to do: workers, as cores are free."""
    example = Path(__file__).parents[2] / "examples" / "plain_loop.py"
    environment = {"OMP_NUM_THREADS": "1"}
    ended, answer = Watcher(tmp_path).watch(sys.executable, str(example), env=environment, preexec_fn=on_all_cores)
    assert (ended.code, ended.out.count("epoch")) == (0, 2)
    loop = answer["processes"][0]["loop"]
    assert (loop["iterations"], loop["items_per_iteration"]) == (128, 32)
    assert loop["steady"]["data_wait_s"] > 0.5 * loop["steady"]["wall_s"]
    page = " ".join(ended.err.split())
    line = 1 + example.read_text().split("picture[0, 8 * row")[0].count("\n")
    assert re.search(rf"of an iteration is waiting for data, \d+ % of it in \S*plain_loop.py:{line}\.", page)
    assert "DataLoader(..., num_workers=2, persistent_workers=True)" in page
