"""Files of code that change while they are judged: of the base, of the candidate, and those that no side imports."""

from __future__ import annotations

import time
from importlib.util import cache_from_source

import pytest

from laptime.questions.copies import copies_in_use, copies_of_a_question
from laptime.questions.noted_code import note_code_of, note_files
from laptime.questions.verdict.speed import judge_changes

CLOCK_TICK_S = 0.02  # the system's times of files move on in steps of some milliseconds


@pytest.fixture
def work(tmp_path):
    """A base that imports a module, a package and PyTorch, a candidate that imports nothing, and a third file."""
    (tmp_path / "base.py").write_text("import torch\nfrom parts import loss\nimport kept.deep\ndef training(): ...\n")
    (tmp_path / "parts.py").write_text("loss = 1\n")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "__init__.py").write_text("from . import deep\n")
    (tmp_path / "kept" / "deep.py").write_text("")
    (tmp_path / "new.py").write_text("def training(): ...\n")
    (tmp_path / "notes.py").write_text("")
    return tmp_path


class Judged:
    """Two sides that are judged by their files, round after round."""

    def __init__(self, base, candidate):
        self._code, self._seen = note_code_of({"base": str(base), "candidate": str(candidate)}), {}

    def look(self):
        self._seen = self._code.find_changes(self._seen)
        return judge_changes(self._seen.get("base"), self._seen.get("candidate"))


@pytest.fixture
def files(work):
    noted = Judged(work / "base.py", work / "new.py")
    time.sleep(CLOCK_TICK_S)
    return noted


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("base.py", "base.py holds something else"),
        ("parts.py", "parts.py holds something else"),
        ("kept/deep.py", "deep.py holds something else"),
        ("torch.py", "torch.py is new"),
        ("parts.abi3.so", "parts.abi3.so is new"),
        ("parts/__init__.py", "__init__.py is new"),
    ],
)
def test_what_the_base_would_import_is_of_the_base(work, files, name, how):
    assert files.look() is None
    (work / name).parent.mkdir(exist_ok=True)
    (work / name).write_text("import time; time.sleep(1)\n")
    found = files.look()
    assert (found.word, found.cause, found.cheat) == ("DISCARD", "cheat", "changed base")
    assert found.says == f"the files of the base changed while it was judged: {how}."
    (work / name).unlink()
    assert files.look() == found, "and what was seen once stays seen"


def test_a_file_that_is_gone_is_named(work, files):
    (work / "parts.py").unlink()
    assert files.look().says.endswith("parts.py is gone.")


@pytest.mark.parametrize("name", ["notes.py", "checkpoint.pt", "base.json", "kept/cache.bin"])
def test_data_and_files_that_nobody_imports_are_not_looked_at(work, files, name):
    (work / name).write_text("other")
    assert files.look() is None


def test_a_change_that_was_undone_and_one_of_the_candidate_decide_nothing(work, files):
    """Nobody is accused, and nothing is kept: what ran meanwhile is not known."""
    text = (work / "parts.py").read_text()
    (work / "parts.py").write_text("loss = 2\n")
    (work / "parts.py").write_text(text)
    found = files.look()
    assert (found.word, found.cause, found.cheat) == ("UNDECIDED", "unproven", None)
    assert "parts.py was written, and holds the same again" in found.says
    (work / "new.py").write_text("def training(): return 1\n")
    assert files.look().word == "UNDECIDED"
    (work / "parts.py").write_text("loss = 2\n")
    assert files.look().word == "DISCARD"


def test_the_candidates_own_file_decides_nothing(work, files):
    (work / "new.py").write_text("def training(): return 1\n")
    assert files.look().says == "a file of the candidate was touched while it was judged: new.py holds something else."


def test_where_names_are_made_at_run_time_all_code_of_the_folder_counts(work):
    (work / "base.py").write_text("import importlib\ndef training(): importlib.import_module('no' + 'tes')\n")
    assert work / "notes.py" in note_files(work / "base.py")


def test_all_code_of_a_copy_counts_and_what_is_compiled_next_to_it(tmp_path, monkeypatch):
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path))
    with copies_of_a_question():
        copy = copies_in_use().place("word", lambda folder: (folder / "base.py").write_text(""))
        noted = note_files(copy / "base.py")
        assert {copy / "base.py", copy / cache_from_source("base.py")} <= noted.keys()
        assert (copy / "base.py").stat().st_mode & 0o222 == 0
