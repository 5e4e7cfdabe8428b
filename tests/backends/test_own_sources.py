"""What a training was made of: the user's file and its imports from its own folder, nothing installed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from laptime.model.record import digest_source, find_differing

PROGRAM = """\
import importlib.util, json, sys, types
sys.path.insert(0, sys.argv[1])
sys.path.append(sys.argv[1] + "/venv/lib/python3/site-packages")
from laptime.engine.backends.own import call_own
call_own(sys.argv[1] + "/mine.py", "training")
sys.modules["odd"] = object()
lazy = importlib.util.spec_from_file_location("lazy", sys.argv[1] + "/lazy.py")
lazy.loader = importlib.util.LazyLoader(lazy.loader)
sys.modules["lazy"] = module = importlib.util.module_from_spec(lazy)
lazy.loader.exec_module(module)
from laptime.engine.backends.own import digest_imported
print(json.dumps(digest_imported(sys.argv[1] + "/mine.py")))
"""
MINE = """\
import json, numpy
import adjacent, parts.loss, installed
import laptime
def training():
    return laptime.Training(step=max, data=[])
"""


@pytest.fixture(scope="module")
def digests(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mine")
    texts = {
        "mine.py": MINE,
        "adjacent.py": "",
        "not_imported.py": "",
        "lazy.py": "raise SystemExit('nobody asked for this')",
        "parts/__init__.py": "",
        "parts/loss.py": "FACTOR = 1",
        "venv/lib/python3/site-packages/installed.py": "",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    run = subprocess.run([sys.executable, "-c", PROGRAM, str(folder)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_what_was_imported_from_the_folder_has_a_digest(digests):
    """Packages too, and a module that waits to be imported, without importing it; numpy and json are no part of it."""
    assert sorted(digests) == ["adjacent.py", "lazy.py", "mine.py", "parts/__init__.py", "parts/loss.py"]
    assert digests["parts/loss.py"] == digest_source(b"FACTOR = 1")


def test_one_letter_changes_a_digest(digests):
    """Files that only one side knows are not compared: which are imported may depend on what is kept on disk."""
    now = {**digests, "parts/loss.py": digest_source(b"FACTOR = 2"), "new.py": "0"}
    now.pop("adjacent.py")
    assert find_differing(digests, now) == ("parts/loss.py",)
