"""Run several scripts in one program, each in a fork: PyTorch is imported once. Names and processes go to a file.

python run_scripts.py FILE FOLDER NAME...
"""

import importlib
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch._dynamo  # noqa: F401  imported before the forks: the first optimizer of a process does it
from corpus import SCRIPTS


def main(file: str, folder: str, *names: str) -> None:
    """Run the scripts, one after another, with all that they import imported before."""
    for package in {need for name in names for need in SCRIPTS[name].needs}:
        importlib.import_module(package)
    pids, codes = {}, {}
    for name in names:
        script = Path(folder) / f"{len(pids)}.py"
        script.write_text(SCRIPTS[name].source, encoding="utf-8")
        print(name, flush=True)  # noqa: T201
        pid = os.fork()
        if pid == 0:
            _become(script)
        pids[name] = pid
        status = os.waitpid(pid, 0)[1]  # read by hand, as Python 3.8 does
        codes[name] = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    Path(file).write_text(json.dumps({"pids": pids, "codes": codes}), encoding="utf-8")


def _become(script: Path) -> None:
    """Run a script as Python would, and leave with its code."""
    code = 1
    try:
        exec(
            compile(script.read_text(encoding="utf-8"), str(script), "exec"),
            {"__name__": "__main__", "__file__": str(script)},
        )
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 0
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
