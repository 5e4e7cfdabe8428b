"""`laptime apply`: a script is watched, its remedy is a diff that git takes, and the change is made and runs."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys

import pytest
from jsonschema import Draft202012Validator

from house import House
from laptime.cli.answers import SCHEMAS
from laptime.questions.rewrites import rewrite
from laptime.questions.user_code import read_code
from laptime.store.disk import write_atomically

OWN = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
SCRIPT = """\
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((1, 8, 8), index / 320), index % 2


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Slow(), batch_size=8)
    total = 0.0
    for pictures, kinds in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(pictures), kinds)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"loss {total / 40:.4f}")


if __name__ == "__main__":
    main()
"""
LINE = SCRIPT.splitlines().index("    loader = DataLoader(Slow(), batch_size=8)") + 1
EDITED = SCRIPT.replace("batch_size=8)", "batch_size=8, num_workers=2, persistent_workers=True)")
KEEP_LEARNING = ("workers=2", "fused", "channels_last", "flush_denormal", "threads=1", "no_item", "compile")


def git(folder, *words):
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout


def run_script(folder):
    """Return what the script prints. What is compiled runs as it is written: a compiler takes long."""
    environment = {**os.environ, "TORCHDYNAMO_DISABLE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "train.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def watched(made_once):
    """Watch the script in a repository of its own; the record is its JSON."""

    def make(folder):
        house = House(folder)
        (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
        git(folder, "init", "-q")
        git(folder, "add", "train.py")
        git(folder, *OWN, "commit", "-qm", "first")
        house.done("watch", "--json", "w.json", "-q", sys.executable, "train.py")
        return {"folder": str(folder), "page": house.done("show", "w.json").out}

    return made_once("apply", make)


@pytest.fixture
def copied(watched, tmp_path):
    """A copy of the repository and its house, which a test may change."""
    folder = tmp_path / "copy"
    shutil.copytree(watched["folder"], folder)
    return House(folder)


def change_of(house):
    record = json.loads((house.folder / "w.json").read_text(encoding="utf-8"))
    return next(each["change"] for each in record["findings"] if each["rule"] == "script waits for data")


@pytest.mark.framework
def test_the_json_of_watch_has_a_diff_that_git_takes_and_the_script_runs(copied, watched):
    """It is where the loader is made; the page names the place, and the command."""
    change = change_of(copied)
    assert (change["file"], change["line"], change["rewrite"]) == ("train.py", LINE, "workers=2")
    record = json.loads((copied.folder / "w.json").read_text(encoding="utf-8"))
    assert f"train.py:{LINE}: laptime apply {record['id']}" in " ".join(watched["page"].split())
    (copied.folder / "c.diff").write_text(change["diff"], encoding="utf-8")
    git(copied.folder, "apply", "--check", "c.diff")
    git(copied.folder, "apply", "c.diff")
    assert (copied.folder / "train.py").read_text(encoding="utf-8") == EDITED
    assert run_script(copied.folder).startswith("loss 0.")


@pytest.mark.framework
def test_apply_shows_the_change_and_makes_it_after_a_yes_only(copied):
    """Without a terminal and without --yes nothing is changed, and the exit code says it."""
    file = copied.folder / "train.py"
    shown = copied.done("apply", "w.json", code=3)
    assert change_of(copied)["diff"] in shown.out
    assert "Nothing was changed: there is no terminal to ask on. --yes makes the change." in shown.err
    assert "bears no signature" not in shown.err
    assert file.read_text(encoding="utf-8") == SCRIPT
    as_json = copied.done("apply", "latest", "--json", code=3).json
    assert (as_json["applied"], as_json["change"]) == (False, change_of(copied))
    Draft202012Validator(json.loads((SCHEMAS / "apply.json").read_text(encoding="utf-8"))).validate(as_json)
    done = copied.done("apply", "latest", "--yes")
    assert f"train.py:{LINE} is changed.\nUndo: git checkout -- train.py\n" in done.out
    assert "Measure it: laptime watch python train.py" in done.out
    assert file.read_text(encoding="utf-8") == EDITED
    assert "train.py changed since the record was made" in copied.done("apply", "latest", "--yes", code=2).err
    git(copied.folder, "checkout", "--", "train.py")
    assert file.read_text(encoding="utf-8") == SCRIPT


@pytest.mark.framework
@pytest.mark.parametrize(("typed", "text"), [(b"n\n", SCRIPT), (b"y\n", EDITED)])
def test_on_a_terminal_it_asks(copied, typed, text):
    ours, theirs = pty.openpty()
    process = copied.start("apply", "latest", stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, typed)
    seen = b""
    try:
        while part := os.read(ours, 4096):
            seen += part
    except OSError:  # the command has ended
        pass
    os.close(ours)
    assert process.wait(60) == 0, seen
    assert b"Change train.py? [y/N]" in seen
    assert (copied.folder / "train.py").read_text(encoding="utf-8") == text


@pytest.mark.framework
def test_a_record_of_a_stranger_names_a_change_and_brings_no_code(copied):
    """Its diff is not looked at, its paths stay in the folder, and its words are those of the table."""
    record = json.loads((copied.folder / "w.json").read_text(encoding="utf-8"))
    finding = next(each for each in record["findings"] if each["change"])
    for name, value, code, said in (
        ("diff", "--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-import time\n+import os\n", 3, "bears no signature"),
        ("file", "../train.py", 2, "the record names the file '../train.py'"),
        ("rewrite", "exec", 2, "this laptime knows no such change of code"),
    ):
        change = {**finding["change"], name: value}
        findings = [{**finding, "change": change}]
        (copied.folder / "s.json").write_text(json.dumps({**record, "findings": findings}), encoding="utf-8")
        answer = copied.done("apply", "s.json", "--trust", record["id"], code=code)
        assert said in answer.err
        assert "import os" not in answer.out
    assert git(copied.folder, "status", "--porcelain", "train.py") == ""


@pytest.mark.framework
def test_a_strangers_record_is_obeyed_only_by_its_name_and_described_by_us(copied):
    """It began in 2099, and says that it only loads in two processes; in truth the batch becomes 8 times as large."""
    record = json.loads((copied.folder / "w.json").read_text(encoding="utf-8"))
    finding = next(each for each in record["findings"] if each["change"])
    lie = {**finding, "advice": "decode in 2 worker processes, changes nothing"}
    lie["change"] = {**finding["change"], "rewrite": "batch_8x"}
    forged = {**record, "id": "r-2099-01-01-ffff", "started": "2099-01-01T00:00:00+00:00", "findings": [lie]}
    (copied.folder / "theirs.json").write_text(json.dumps(forged), encoding="utf-8")
    copied.done("import", "theirs.json")
    true = f"train.py:{LINE}: Make the batch 8 times as large. This changes the learning."
    for words in ([forged["id"]], [forged["id"], "--yes"], ["theirs.json", "--yes"], [forged["id"], "--yes", "--json"]):
        refused = copied.done("apply", *words, code=2)
        assert true in (refused.err + refused.out)
        assert "decode in" not in refused.err + refused.out
        assert (copied.folder / "train.py").read_text(encoding="utf-8") == SCRIPT
    copied.done("apply", forged["id"], "--yes", "--trust", record["id"], code=2)
    shown = copied.done("apply", forged["id"], "--json", "--trust", forged["id"], code=3).json
    assert (shown["signed"], shown["says"]) == (False, true.partition(": ")[2])
    own = copied.done("apply", "latest", "--json", code=3).json
    assert (own["signed"], own["change"]["rewrite"]) == (True, "workers=2")
    copied.done("apply", "latest", "--yes")
    assert (copied.folder / "train.py").read_text(encoding="utf-8") == EDITED


@pytest.mark.framework
def test_a_record_without_a_change_of_code_says_so(house):
    house.done("race", "cifar-cnn", "fake/cpu", "--budget", "2s", "-q")
    answer = house.done("apply", "latest", code=2)
    assert "has no change of code to make: it names no remedy" in answer.err


@pytest.mark.long
@pytest.mark.framework
def test_what_changes_no_learning_runs_and_learns_the_same(tmp_path):
    """All of these changes, one after another; to the digits that rounding leaves."""
    file = tmp_path / "train.py"
    file.write_text(SCRIPT, encoding="utf-8")
    before = run_script(tmp_path)
    for word in KEEP_LEARNING:
        write_atomically(file, rewrite(read_code(file, None), word).data)
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) == len(SCRIPT.splitlines()) + 2 + 4
    assert [word for word in ("fused=True", "num_workers=2", "model.compile()", ".detach()") if word not in text] == []
    after = run_script(tmp_path)
    assert float(after.removeprefix("loss ")) == pytest.approx(float(before.removeprefix("loss ")), rel=1e-3)


FUNCTION = """\
import time

import torch
from torch.utils.data import DataLoader, Dataset

import laptime


class Slow(Dataset):
    def __len__(self):
        return 320

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((1, 8, 8), index / 320), index % 2


def training():
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.Flatten(), torch.nn.Linear(144, 2))
    loader = DataLoader(Slow(), batch_size=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return laptime.Training(model=model, loss=torch.nn.functional.cross_entropy, optimizer=optimizer, data=loader)
"""


@pytest.mark.framework
@pytest.mark.long
def test_why_says_its_remedies_as_diffs_of_the_training_that_was_timed(torch_house):
    """A real training, timed and taken apart: git takes each diff, and the one of the loader builds as it says."""
    house, file = torch_house, torch_house.folder / "train.py"
    file.write_text(FUNCTION, encoding="utf-8")
    git(house.folder, "init", "-q")
    git(house.folder, "add", "train.py")
    git(house.folder, *OWN, "commit", "-qm", "first")
    answer = house.run("why", "train.py:training", "torch/cpu", "--budget", "60s", "--json", "-q")
    assert answer.code in {0, 4}, answer.err  # 4: a busy machine, whose figures are not reliable
    remedies = [each for each in answer.json["answer"]["why"]["remedies"] if each["change"]]
    line = FUNCTION.splitlines().index("    loader = DataLoader(Slow(), batch_size=8)") + 1
    workers = next(each["change"] for each in remedies if each["change"]["rewrite"].startswith("workers="))
    count = workers["rewrite"].partition("=")[2]  # as many as there are cores for
    assert (workers["file"], workers["line"]) == ("train.py", line)
    for change in (*(each["change"] for each in remedies), workers):
        git(house.folder, "checkout", "--", "train.py")
        (house.folder / "c.diff").write_text(change["diff"], encoding="utf-8")
        git(house.folder, "apply", "c.diff")
        assert file.read_text(encoding="utf-8") != FUNCTION
    builds = f"import train; assert train.training().data.num_workers == {count}"
    subprocess.run([sys.executable, "-c", builds], cwd=house.folder, env=house.environment(), check=True)
