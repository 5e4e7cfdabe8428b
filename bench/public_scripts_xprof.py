"""What XProf reads: a profile of torch.profiler, and one of a Keras script on JAX.

    python bench/public_scripts_xprof.py --xprof FOLDER --python PYTHON SCRIPT ARGUMENTS...

FOLDER has XProf (pip install --target FOLDER --no-deps xprof). A small network is trained under torch.profiler, which
writes its trace as PyTorch's own handler for TensorBoard does; SCRIPT runs under jax.profiler. Printed is what XProf's
own reader says of both: whether it finds a profile, which of its tools have something to show, and what the page that
it opens with says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import Figure, finish, parser_for

PROFILED = str(Path(__file__).with_name("profiled.py"))
ENDINGS = (".xplane.pb", ".xplane.riegeli")  # of the files that XProf looks for in a folder
SAYS = ("conclusion", "statement", "hardware_type")  # of its first page: what it concludes
TORCH = """
import sys, torch
net, x = torch.nn.Linear(64, 64), torch.rand(32, 64)
handler = torch.profiler.tensorboard_trace_handler(sys.argv[1])
with torch.profiler.profile(on_trace_ready=handler):
    for _ in range(20):
        net(x).sum().backward()
"""


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--xprof", type=Path, required=True, metavar="FOLDER", help="where XProf is")
    parser.add_argument("--python", default=sys.executable, metavar="PYTHON", help="the Python that runs the scripts")
    parser.add_argument("command", nargs="+", metavar="SCRIPT", help="a script of Keras, and its arguments")
    given = parser.parse_args()
    sys.path.append(str(given.xprof))
    found = {}
    for name, make in (
        ("torch.profiler", [given.python, "-c", TORCH]),
        ("Keras on JAX", [given.python, PROFILED, "jax"]),
    ):
        with tempfile.TemporaryDirectory(prefix="laptime-xprof-") as place:
            words = given.command if name != "torch.profiler" else []
            environment = {**os.environ, "KERAS_BACKEND": "jax"}
            subprocess.run([*make, place, *words], check=True, stdout=subprocess.DEVNULL, env=environment)
            found[name] = read(Path(place))
        print(name, json.dumps(found[name], indent=1)[:4_000], flush=True)
    figures = [Figure(f"{name}: tools with something to show", len(each["tools"])) for name, each in found.items()]
    return finish("public_scripts_xprof", figures, given.out, details=found)


def read(folder: Path) -> dict[str, Any]:
    """Return what XProf reads in a folder; where it names no file, all that are there."""
    from xprof.convert.raw_to_tool_data import xspace_to_tool_data, xspace_to_tool_names

    files = [str(file) for file in folder.rglob("*") if file.is_file()]
    named = [file for file in files if file.endswith(ENDINGS)]
    found = {"files": sorted(Path(file).name for file in files), "profiles": len(named), "tools": [], "error": ""}
    try:
        found["tools"] = xspace_to_tool_names(named or files)
        if named:
            tables = json.loads(xspace_to_tool_data(named, "overview_page^", {})[0])
            words = [text for table in tables for name, text in table.get("p", {}).items() if name.endswith(SAYS)]
            found["says"] = sorted({text for text in words if text})
    except Exception as error:  # noqa: BLE001  whatever XProf says of a file that it does not know is the answer
        found["error"] = f"{type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    raise SystemExit(main())
