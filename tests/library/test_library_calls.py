"""The functions of `import laptime`, in one process, on fake lanes. What runs long is in test_library_examples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import laptime
from laptime.model.errors import LaptimeError

LANES = ["fake/cpu", "fake/cpu/best"]


@pytest.fixture(scope="module", autouse=True)
def fakes(shared_house):
    """Let this process find fake lanes, and keep its records in a house of its own."""
    with pytest.MonkeyPatch.context() as patched:
        for name, value in shared_house.environment().items():
            patched.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def raced(fakes):
    return laptime.race("cifar-cnn", LANES, heats=1, budget="30s", margin=0.1)


def test_a_race_by_name_has_its_factor_and_prints_its_page(raced):
    """The fake at its best is twice as fast."""
    assert raced.ratio.value == pytest.approx(2, rel=0.05)
    assert (raced.status, [each.status for each in raced.lanes]) == ("finished", ["ok", "ok"])
    assert (raced.record.ask.budget_s, raced.record.ask.heats, raced.record.ask.margin) == (30.0, 1, 0.1)
    assert raced.id in repr(raced)
    assert raced.to_dict()["id"] == raced.id


def test_a_result_is_kept_and_loaded(raced):
    assert laptime.load(raced.id).to_dict() == raced.to_dict()
    assert raced.id in [row.id for row in laptime.records()]
    with pytest.raises(LaptimeError, match="there is no record 'r-1999"):
        laptime.load("r-1999")


def test_a_plan_runs_nothing():
    before = laptime.records()
    planned = laptime.plan("cifar-cnn", LANES, heats=3)
    assert planned.lanes == ("fake/cpu/as-written", "fake/cpu/best")
    assert planned.to_dict()["ask"]["heats"] == 3
    assert "fake/cpu/best" in str(planned)
    whole = laptime.plan(laptime.Ask(lanes=("fake/cpu",), full=laptime.FullAsk(laps=2)))
    assert whole.to_dict()["protocol"]["laps"] == 2
    assert before == laptime.records()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: laptime.race("cifar-cm"), "cifar-cm"),
        (lambda: laptime.race("cifar-cnn", ["nowhere/cpu"]), "nowhere"),
        (lambda: laptime.race("cifar-cnn", LANES, budget="0.1s"), "budget 0.1s: expected 1s to 7d"),
        (lambda: laptime.race("cifar-cnn", LANES, sensor_rate=900), "sensor_rate 900: expected"),
        (lambda: laptime.race(lambda: None, LANES), "a lambda has no name"),
        (lambda: laptime.race(laptime.Ask(full=laptime.FullAsk())), "this Ask has full"),
        (lambda: laptime.train(laptime.Ask(infer=True)), "this Ask has infer=True"),
        (lambda: laptime.devices(["torch-2"]), "frameworks torch-2: it is not installed here"),
        (lambda: laptime.devices(patience="soon"), "patience='soon': 'soon' is not a length of time"),
    ],
)
def test_a_mistake_is_an_error_in_words(call, says):
    """Never SystemExit, and nothing has run."""
    with pytest.raises(LaptimeError) as caught:
        call()
    assert says in str(caught.value)
    assert caught.value.hint


def test_what_could_not_be_saved_is_warned_of(monkeypatch, tmp_path):
    """The result is there all the same, and its page names no id to show."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="could not be saved") as warned:
        result = laptime.race("cifar-cnn", "fake/cpu", heats=1)
    assert (len(warned), warned[0].filename, result.is_saved) == (1, __file__, False)


def test_the_public_names_are_in_dir_and_cost_nothing():
    """Importing laptime imports neither its engine nor numpy."""
    program = "import sys, laptime; print(*dir(laptime)); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    names, modules = (set(line.split()) for line in done.stdout.splitlines())
    assert {"race", "train", "why", "Result", "Training"} <= names == set(laptime.__all__)
    assert not modules & {"numpy", "msgspec", "click", "psutil", "laptime.api", "laptime.library", "IPython"}


def test_every_public_name_can_be_had():
    for name in laptime.__all__:
        assert getattr(laptime, name).__doc__
    assert laptime.full is laptime.train
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = laptime.nothing


EXAMPLE = Path(__file__).parents[2] / "examples" / "library.py"


@pytest.mark.long
def test_a_function_of_a_script_is_raced_with_progress(torch_house):
    """The example. Its file goes to the heats, which import it under another name than `__main__`."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--heats", "1", "--budget", "2s"],
        env=torch_house.environment(),
        cwd=torch_house.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "torch/cpu/threads=1: ok" in done.stdout
    assert "torch/cpu/threads=1 is " in done.stdout
    assert "round 1 of 1" in done.stderr
    assert "Traceback" not in done.stderr
