"""Loops of PyTorch as people write them: laptime counts their iterations, and changes nothing of what they compute.

LAPTIME_WATCHED_PYTHON names another Python, with another PyTorch, that runs them: `make test-pytorch VERSION=2.0.1`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from corpus import SCRIPTS
from corpus_script import HEAD, SGD, STEP
from watcher import Watcher

pytestmark = pytest.mark.framework
PYTHON = os.environ.get("LAPTIME_WATCHED_PYTHON", sys.executable)
DRIVER = Path(__file__).parent / "run_scripts.py"
ELSEWHERE = ("spawn", "forkserver", "fork", "two processes", "kills", "stdin", "compiled")  # no fork, or slow
NAMES = [
    name
    for name, script in SCRIPTS.items()
    if script.needs == ("torch",)
    and script.command == ("python", "{script}")
    and not any(each in name for each in ELSEWHERE)
]

# What these call is not in the oldest PyTorch: there they may end in its own error, watched or not.
NEWER = {"scaler skips", "optimizer in backward", "optimizer in backward, no loader"}
AFTER_ALL = {"validates and saves", "validates inside of an epoch", "leaves validation early"}  # has a gap at its end


@pytest.fixture(scope="module")
def both(made_once: Any) -> Any:
    """Return what each script printed, watched and not, and what was seen of it."""
    return made_once("loops of PyTorch", run_twice)


def run_twice(folder: Path) -> Any:
    bare = subprocess.run(
        [PYTHON, str(DRIVER), str(folder / "bare"), str(folder), *NAMES],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    ended, answer = Watcher(folder).watch(PYTHON, str(DRIVER), str(folder / "seen"), str(folder), *NAMES)
    seen = json.loads((folder / "seen").read_bytes())
    processes = {each["pid"]: each for each in answer["processes"]}
    return {
        "bare": {"out": bare.stdout, **json.loads((folder / "bare").read_bytes())},
        "seen": {"out": ended.out, **seen},
        "processes": {name: processes.get(pid) for name, pid in seen["pids"].items()},
    }


def test_scripts_print_and_compute_the_same(both: Any) -> None:
    """Outputs, digests of all weights, and exit codes are those of the run without laptime."""
    bare, seen = both["bare"], both["seen"]
    assert (seen["out"], seen["codes"]) == (bare["out"], bare["codes"])
    broken = [name for name in NAMES if bare["codes"][name] != SCRIPTS[name].code]
    assert bare["out"].count("digest") == len(NAMES) - len(broken)
    assert set(broken) <= (set() if sys.executable == PYTHON else NEWER)


@pytest.mark.parametrize("name", NAMES)
def test_iterations_are_counted(both: Any, name: str) -> None:
    """The count is that of the script's own loop, and its parts add up; or no loop was seen."""
    process = both["processes"][name]
    script = SCRIPTS[name]
    if both["bare"]["codes"][name] != script.code:
        pytest.skip("this PyTorch cannot run it")
    if script.iterations is None:
        assert process is None
        return
    loop = process["loop"]
    assert (loop["iterations"], loop["counted"], loop["unsure"]) == (script.iterations, script.counted, None)
    assert (process["failed"], process["lost"]) == ({}, 0)
    for phases in (loop["whole"], loop["steady"]):
        parts = [phases[field] for field in phases if field not in {"wall_s", "backward_s"}]
        assert sum(part for part in parts if isinstance(part, float)) == pytest.approx(phases["wall_s"], rel=0.005)
        assert all(part >= 0 for part in parts if isinstance(part, float))
    gaps_s = sum(each["seconds"] for each in loop["gaps"])
    windows = loop["windows"]
    wall_s = (windows[-1]["end_ns"] - windows[0]["start_ns"]) / 1e9
    if name not in AFTER_ALL:
        assert loop["whole"]["wall_s"] + gaps_s == pytest.approx(wall_s, rel=0.005, abs=0.05 * gaps_s)


def _loop(both: Any, name: str) -> Any:
    return both["processes"][name]["loop"]


def test_what_an_iteration_consists_of_is_counted(both: Any) -> None:
    """Accumulation, several optimizers, closures and skipped steps show as multiples."""

    def of(name: str) -> tuple[float, ...]:
        per = _loop(both, name)["per_iteration"]
        return tuple(round(per[field], 2) for field in ("fetches", "backwards", "optimizer_steps", "skipped_steps"))

    expected = {
        "plain": (1, 1, 1, 0),
        "accumulates": (4, 4, 1, 0),
        "two optimizers a batch": (1, 2, 2, 0),
        "critic steps five times": (1, 6, 6, 0),
        "subclass calls super": (1, 1, 1, 0),
        "closure": (1, 1, 1, 0),
        "scaler skips": (1, 1, round(11 / 12, 2), round(1 / 12, 2)),
        "optimizer in backward": (1, 1, 4, 0),
        "checkpointed block": (1, 1, 1, 0),
    }
    ran = {name for name in expected if both["bare"]["codes"][name] == 0}
    assert {name: of(name) for name in ran} == {name: expected[name] for name in ran}
    assert of("LBFGS")[1] > 1


def test_epochs_batches_losses_and_gaps_are_seen(both: Any) -> None:
    plain, saves = _loop(both, "plain"), _loop(both, "validates and saves")
    assert (plain["epochs"], plain["items_per_iteration"]) == (2, 8)
    assert len(plain["losses"]) == 24
    assert plain["losses"][0][1] == pytest.approx(1.1, abs=0.4)
    gaps = {each["kind"]: each["times"] for each in saves["gaps"]}
    assert gaps["validation"] >= 2
    assert gaps["checkpoint"] >= 2
    process = both["processes"]["plain"]
    (optimizer,) = process["optimizers"]
    assert optimizer.pop("threads") >= 1
    assert optimizer == {
        "name": "SGD", "parameters": {"cpu": 195}, "dtypes": ["float32"], "tensors": 4, "is_fused": False,
        "finds_anomalies": False, "has_mkldnn": True,
    }  # fmt: skip
    assert process["loaders"][0]["batch"] == 8


def test_what_was_not_seen_has_its_reason(both: Any) -> None:
    no_loader = _loop(both, "no loader")
    assert no_loader["steady"]["data_wait_s"] == {"missing": "no data loader was seen"}
    assert no_loader["epochs"] == {"missing": "no data loader was seen"}
    assert no_loader["items_per_s"] == {"missing": "the size of its batches was not seen"}
    by_hand = _loop(both, "updates by hand")
    assert by_hand["steady"]["optimizer_s"] == {"missing": "no optimizer was seen"}


RESTARTS = f"""{HEAD}{SGD}
def start(worker): time.sleep(0.2)
batches = loader(16, num_workers=1, worker_init_fn=start, persistent_workers={{keeps}})
for epoch in range(8):
    for x, y in batches:
        {STEP}
"""


@pytest.mark.long
def test_workers_that_start_again_are_waited_for_and_named(tmp_path: Path) -> None:
    """A worker takes 0.2 s to start, in each of seven later epochs; one that is kept is ready."""
    script, page = tmp_path / "train.py", {}
    for keeps in (True, False):
        script.write_text(RESTARTS.format(keeps=keeps), encoding="utf-8")
        ended, answer = Watcher(tmp_path).watch(PYTHON, str(script))
        (process,) = answer["processes"]
        assert (process["loop"]["iterations"], process["loop"]["epochs"]) == (48, 8)
        assert (process["loop"]["restarts_s"] >= 7 * 0.15) is not keeps
        page[keeps] = " ".join(ended.err.split())
    assert "worker processes of the loader are started again for an epoch, and waited for (train.py:" in page[False]
    assert "persistent_workers=True" in page[False]
    assert "started again" not in page[True]
