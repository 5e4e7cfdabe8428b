"""What torch.profiler and TraceML say about a published script, for `bench/public_scripts.py`."""

from __future__ import annotations

import json
import socket
import tempfile
from pathlib import Path
from typing import Any

from public_scripts_run import Published, run

PROFILED = str(Path(__file__).with_name("profiled.py"))


def profile(script: Published, python: str) -> dict[str, Any]:
    """Return what torch.profiler's table has first, of a whole run of the unchanged script."""
    with tempfile.TemporaryDirectory(prefix="laptime-profiled-") as place:
        out = Path(place) / "rows.json"
        ended = run([python, PROFILED, "torch", str(out), *script.command], script.folder)
        if not out.exists():
            return {"first": "", "rows": [], **ended}
        rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
        first = f"{rows[0]['name']} {100 * rows[0]['share']:.0f} %" if rows else ""
        return {"first": first, "rows": rows, "exit_code": ended["exit_code"], "seconds": ended["seconds"]}


def trace(script: Published, python: str, traceml: Path, folder: str) -> dict[str, Any]:
    """Return the verdict of `traceml run` on a folder with the script; `script.traced` has the lines that it needs."""
    with tempfile.TemporaryDirectory(prefix="laptime-traced-") as place:
        ports = [word for name in ("aggregator", "master") for word in (f"--{name}-port", free_port())]
        words = ["--logs-dir", place, "--run-name", "run", *ports, "--args", *script.command[1:]]
        command = [python, str(traceml / "bin" / "traceml"), "run", script.command[0], *words]
        ended = run(command, folder, PYTHONPATH=str(traceml))
        summary = Path(place) / "run" / "final_summary.json"
        if not summary.exists():
            return {"verdict": "", "why": "", **ended}
        verdict = json.loads(summary.read_text(encoding="utf-8"))["primary_diagnosis"]
    found = {"verdict": verdict["status"], "why": verdict["summary"], "next": verdict["action"]}
    return {**found, "exit_code": ended["exit_code"], "seconds": ended["seconds"]}


def free_port() -> str:
    """Return a port that nobody uses: TraceML takes the same ones in each run."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return str(found.getsockname()[1])
