"""A training's file that is part of a package may import from it, as it does where it is imported itself."""

from __future__ import annotations

import os
import py_compile
import struct
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from laptime.attach import kinds

PROGRAM = "import sys; from laptime.engine.backends.own import call_own; print(call_own(sys.argv[1], 'training').items)"
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


def poison(folder, source, other):
    """Compile other code for a source, and let the compiled file say that it is the source's."""
    compiled = Path(cache_from_source(folder / source))
    compiled.parent.mkdir()
    (folder / "other.py").write_text(other)
    py_compile.compile(str(folder / "other.py"), str(compiled), source, doraise=True)
    (folder / "other.py").unlink()
    status, data = (folder / source).stat(), bytearray(compiled.read_bytes())
    data[8:16] = struct.pack("<II", int(status.st_mtime), status.st_size)
    compiled.write_bytes(data)
    return compiled


CALLS = "from laptime.engine.backends.own import call_own; print(call_own('train.py', 'training').items)"
AS_A_SCRIPT = "import train; print(train.training().items)"


@pytest.mark.parametrize("program", [CALLS, AS_A_SCRIPT])
def test_a_compiled_file_of_other_code_is_neither_read_nor_left(tmp_path, program):
    """As Python does on its own, where its time and size are those of the source."""
    (tmp_path / "train.py").write_text(
        "import parts, laptime\ndef training():\n    return laptime.Training(step=max, data=[], items=parts.ITEMS)\n"
    )
    (tmp_path / "parts.py").write_text("ITEMS = 'mine'\n")
    compiled = poison(tmp_path, "parts.py", "ITEMS = 'theirs'\n")
    before = compiled.read_bytes()
    file = tmp_path / "run.py"
    file.write_text(program)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if program == AS_A_SCRIPT:
        assert run(file, environment) == "theirs\n"
        compiled_of_train = Path(cache_from_source(tmp_path / "train.py"))
        compiled_of_train.unlink()
        own = {kinds.ADDRESS: "nowhere", kinds.HOLDS_VARIABLE: "1", kinds.OWN_MODULES: str(tmp_path)}
        environment |= {**own, "PYTHONPATH": str(Path(kinds.__file__).parent / "site")}
    assert run(file, environment) == "mine\n"
    assert (list(compiled.parent.iterdir()), compiled.read_bytes()) == ([compiled], before)


def run(file, environment):
    words = [sys.executable, str(file)]
    return subprocess.run(words, cwd=file.parent, env=environment, capture_output=True, text=True, check=True).stdout
