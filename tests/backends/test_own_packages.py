"""A training's file that is part of a package may import from it, as it does where it is imported itself."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = "import sys; from laptime.backends.own import call_own; print(call_own(sys.argv[1], 'training').items)"
TRAINING = """\
from . import words
from ..sizes import SIZE
import laptime
def training():
    return laptime.Training(step=max, data=[], items=f"{words.ITEMS} of {SIZE}, {__name__}")
"""


def test_relative_imports_work(tmp_path):
    files = {
        "mine/__init__.py": "",
        "mine/sizes.py": "SIZE = 3",
        "mine/deep/__init__.py": "",
        "mine/deep/words.py": "ITEMS = 'words'",
        "mine/deep/learn.py": TRAINING,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-P", "-c", PROGRAM, str(tmp_path / "mine/deep/learn.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "words of 3, mine.deep.learn\n", done.stderr
