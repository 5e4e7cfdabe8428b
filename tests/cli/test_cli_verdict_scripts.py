"""`laptime verdict train.py new.py`: scripts that nobody changes, and what their agents saw of their work."""

from __future__ import annotations

import difflib
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from script_pair import SCRIPT, changed

WORDS = ("cpu", "--json", "-q")


@pytest.fixture
def scripts(torch_house):
    (torch_house.folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    return torch_house


def judge(house, change, *words, code):
    """Return what a verdict says to a program of a script and a change of it."""
    (house.folder / "new.py").write_text(changed(change), encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # the `python` there runs scripts
    return house.done("verdict", "train.py", "new.py", *WORDS, *words, code=code, env={"PATH": path})


@pytest.mark.long
def test_a_script_at_another_rate_is_other_work_after_one_round(scripts):
    fields = judge(scripts, "other rate", "--budget", "2m", code=1).json
    assert (fields["verdict"], fields["cause"], fields["rounds"]) == ("DISCARD", "other work", 1)
    assert "its losses differ from those of cpu/as-written of train.py by up to" in fields["reason"]
    page = " ".join(scripts.done("show", fields["record"]).out.split())
    assert "new.py does the same work as train.py" not in page
    assert "new.py does other work than train.py: its losses differ" in page


@pytest.mark.long
def test_a_script_that_fails_is_discarded_in_words(scripts):
    answer = judge(scripts, "broken", "--budget", "60s", code=1)
    assert "DISCARD: it does not train: the script failed: it ended with exit code 1" in answer.err
    assert "RuntimeError: no data here" in answer.err


@pytest.mark.long
def test_a_script_that_writes_next_to_itself_finds_it_and_nobody_else_does(scripts):
    text = SCRIPT.replace("import torch\n", "import torch\n\nopen('log.txt', 'w').close()\nopen('log.txt')\n", 1)
    (scripts.folder / "new.py").write_text(text, encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    answer = scripts.run("verdict", "train.py", "new.py", *WORDS, "--budget", "60s", env={"PATH": path})
    fields = answer.json
    if fields["cause"] != "sandbox":  # where the system allows layers
        assert fields["cause"] in {"no gain", "early", "wide", "busy"}, fields["reason"]
    assert not (scripts.folder / "log.txt").exists()


@pytest.mark.long
def test_a_script_that_writes_elsewhere_is_told_so_and_not_accused(scripts):
    """A race of it works as ever; in a verdict, the answer names the file, the rule and what may be done."""
    text = SCRIPT.replace("import torch\n", "import torch\n\nopen('../log.txt', 'w').close()\n", 1)
    (scripts.folder / "new.py").write_text(text, encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    answer = scripts.done("verdict", "train.py", "new.py", "cpu", "-q", "--budget", "60s", code=3, env={"PATH": path})
    assert "UNDECIDED: it does not train: " in answer.err
    assert "log.txt" in answer.err
    assert "a training can write temporary files alone" in answer.err
    assert not (scripts.folder.parent / "log.txt").exists()


@pytest.mark.long
def test_a_script_that_trains_fewer_weights_is_other_work(scripts):
    fields = judge(scripts, "frozen", "--budget", "2m", code=1).json
    assert (fields["verdict"], fields["cause"]) == ("DISCARD", "other work")
    assert "it trains 516 weights, and the base 8,836" in fields["reason"]


@pytest.mark.long
def test_a_faster_script_is_kept_by_its_patch(scripts):
    """It copies its batch three times, and no longer twelve times."""
    lines = (text.splitlines(keepends=True) for text in (SCRIPT, changed("faster")))
    patch = scripts.folder / "change.patch"
    patch.write_text("".join(difflib.unified_diff(*lines, "a/train.py", "b/train.py")), encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    fields = scripts.run("verdict", "train.py", "change.patch", *WORDS, "--budget", "5m", env={"PATH": path}).json
    assert fields["ratio"] > 1.5
    assert (fields["verdict"], fields["cause"]) in {("KEEP", "faster"), ("UNDECIDED", "busy"), ("UNDECIDED", "wide")}
    assert (fields["base"], fields["candidate"]) == ("train.py", "patch:change.patch:train.py")


def test_the_patch_of_the_example_leaves_its_losses_as_they_are(tmp_path, monkeypatch, capsys):
    """Letter by letter: the same rows, in one call."""
    examples = Path(__file__).parents[2] / "examples"
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "row_loop.py").write_text((examples / "row_loop.py").read_text(encoding="utf-8"))
    monkeypatch.setattr("sys.argv", ["row_loop.py", "--epochs", "1"])
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    before = printed_by(tmp_path / "examples" / "row_loop.py", capsys)
    subprocess.run(["git", "apply", str(examples / "row_loop.patch")], cwd=tmp_path, check=True)
    assert "rows[drawn]" in (tmp_path / "examples" / "row_loop.py").read_text(encoding="utf-8")
    assert before.startswith("epoch 1: loss 1.")
    assert printed_by(tmp_path / "examples" / "row_loop.py", capsys) == before


def printed_by(script, capsys):
    runpy.run_path(str(script), run_name="__main__")
    return capsys.readouterr().out


@pytest.mark.long
def test_a_faster_script_of_a_folder_is_kept(torch_house):
    """`examples/row_loop.patch` takes the same rows at once: the losses are the same, and a step takes half as long."""
    examples = Path(__file__).parents[2] / "examples"
    folder = torch_house.folder / "examples"
    folder.mkdir()
    for name in ("row_loop.py", "row_loop.patch"):
        (folder / name).write_text((examples / name).read_text(encoding="utf-8"), encoding="utf-8")
    subprocess.run(["git", "init", "-q", "."], cwd=torch_house.folder, check=True)  # the patch's places are from here
    torch_house.longest_s = 900
    words = ("verdict", "examples", "examples/row_loop.patch", *WORDS, "--budget", "2m", "--", "--epochs", "99999")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    fields = torch_house.run(*words, env={"PATH": path}).json
    if fields["cause"] == "busy":
        pytest.skip(f"other processes took the cores: {fields['reason']}")
    assert (fields["verdict"], fields["cause"]) == ("KEEP", "faster")
    assert fields["low"] > 1.1
    file = "examples/row_loop.py"
    assert (fields["base"], fields["candidate"]) == (file, f"patch:examples/row_loop.patch:{file}")


def test_a_script_and_a_function_are_no_pair(scripts):
    example = Path(__file__).parents[2] / "examples" / "two_trainings.py"
    answer = scripts.done("verdict", "train.py", f"{example}:after", "cpu", code=2)
    assert "train.py is a script that runs as it is" in answer.err
    assert "give two scripts, or the function of both" in answer.err
    answer = scripts.done("verdict", f"{example}:before", f"{example}:after", "--", "--epochs", "3", code=2)
    assert "two_trainings.py:before is no script that runs as it is" in answer.err
