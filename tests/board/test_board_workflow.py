"""The workflow of a pull request, run as a runner would: the `run:` steps of its file, in clean clones, one by one.

A bad one ends in 1 with the sentence that its sender reads. Only what installs laptime is left out: it is here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml
from board_records import encoded, kept, with_times

ROOT = Path(__file__).parents[2]
WORKFLOW = Path(".github", "workflows", "board.yml")
INSTALLS = "python -m pip install ./trusted"  # not run: this environment has laptime, and a test downloads nothing
ELSEWHERE = {"actions/setup-python@v5", "actions/upload-artifact@v4"}  # of the runner, and after all checks
ADDED = "r-2026-11-28-5e4d"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a clone is made of a repository, and this is none"),
]


@dataclass(frozen=True)
class Ended:
    """How a workflow ended: the exit code and the output of the last step that ran, and all steps that did."""

    code: int
    out: str
    ran: tuple[str, ...]


def in_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "LAPTIME_"))},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "LAPTIME_HOME": str(folder / "home"),
    }
    words = ["bash", "-e", "-c", command]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def steps_of(clone: Path) -> list[dict]:
    return yaml.safe_load((clone / WORKFLOW).read_text(encoding="utf-8"))["jobs"]["check"]["steps"]


@pytest.fixture
def runner(tmp_path):
    """An empty folder of a runner, with what `actions/checkout` puts there: the same commit twice, as two clones."""
    made = in_shell(f"git clone -q --depth 1 file://{ROOT} sent && cp -r sent trusted", tmp_path)
    assert made.returncode == 0, made.stderr
    checkouts = [each for each in steps_of(tmp_path / "trusted") if each.get("uses") == "actions/checkout@v4"]
    assert [each["with"]["path"] for each in checkouts] == ["sent", "trusted"]
    return tmp_path


def add_row(runner: Path) -> Path:
    """Add a new record's rows to what is sent, as docs/board.md says; return the file of one."""
    day = ADDED[2:12]
    slower = with_times(kept(), 1.1)
    record = replace(slower, id=ADDED, started=f"{day}T00:00:00+00:00", elapsed_s=2.0)
    (runner / "new.json").write_bytes(encoded(record))
    added = in_shell("laptime board add new.json -o sent/board", runner)
    assert added.returncode == 0, added.stderr
    return next((runner / "sent" / "board" / "rows").rglob(f"{ADDED}-torch-cpu-best.json"))


def run_workflow(runner: Path) -> Ended:
    """Run the steps of the trusted file until one fails."""
    ran: list[str] = []
    steps = steps_of(runner / "trusted")
    assert INSTALLS in [each.get("run") for each in steps]
    assert {each["uses"] for each in steps if "uses" in each} == {"actions/checkout@v4", *ELSEWHERE}
    for command in (each["run"] for each in steps if "run" in each):
        if command == INSTALLS:
            continue
        done = in_shell(command, runner)
        ran.append(command)
        if done.returncode:
            break
    return Ended(done.returncode, done.stdout + done.stderr, tuple(ran))


def test_a_good_pull_request_passes_and_its_pages_are_built(runner):
    add_row(runner)
    ended = run_workflow(runner)
    assert (ended.code, len(ended.ran)) == (0, 3), ended.out
    page = (runner / "site" / "device" / "intel-r-xeon-r-processor-2-cores.html").read_text(encoding="utf-8")
    assert page.count(f"../records/{ADDED}.json.gz") == 2
    assert (runner / "site" / "records" / f"{ADDED}.json.gz").is_file()


def test_a_number_that_was_edited_is_refused_in_a_sentence(runner):
    row = add_row(runner)
    row.write_bytes(row.read_bytes().replace(b'"turns": ', b'"turns": 1'))
    ended = run_workflow(runner)
    assert (ended.code, ended.ran[-1]) == (1, "laptime board check sent/board --against trusted/board")
    assert "its digest is not that of what it says: a number or a word in it was changed" in ended.out


def test_a_row_of_another_that_was_edited_is_refused_in_a_sentence(runner):
    row = next((runner / "sent" / "board" / "rows" / "cifar-mlp").rglob("*.json"))
    row.write_bytes(row.read_bytes().replace(b'"turns": ', b'"turns": 1'))
    ended = run_workflow(runner)
    assert ended.code == 1
    assert "it was on the board, and was changed" in ended.out


def test_a_link_to_a_good_board_is_refused(runner):
    """A pull request may hold a link in place of the board, to the one that is trusted."""
    moved = in_shell("rm -r sent/board && ln -s ../trusted/board sent/board", runner)
    assert moved.returncode == 0
    ended = run_workflow(runner)
    assert (ended.code, len(ended.ran)) == (1, 1)
