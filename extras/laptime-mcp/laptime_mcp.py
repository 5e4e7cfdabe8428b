"""laptime as an MCP server over stdio: verdict, why, watch, devices and show, as tools.

Each tool runs the command laptime in a process of its own: stdout of this one is the protocol, and a watched command
prints on its own. Only one runs at a time, because two measurements at once disturb each other.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Lock
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer(
    "laptime",
    instructions="laptime measures trainings on CPU and GPU and proves that the work is the same. A training is named "
    "file.py:function, or git:REV:file.py:function; a lane is cpu, cuda or torch/cuda/best. Run nothing next to it. "
    "What is NOT RELIABLE is no result: ask again while the machine is quiet.",
)
ALONE = Lock()
LAPTIME = (sys.executable, "-P", "-m", "laptime")  # -P: no file of the folder takes the place of a module


@server.tool()
def verdict(
    base: str, candidate: str, lane: str = "", *, gain: str = "2%", budget: str = "90s", session: str = ""
) -> dict[str, Any]:
    """Is the candidate faster than the base, and still the same training? KEEP, DISCARD or UNDECIDED, and why.

    Both are trainings: file.py:function, git:HEAD:file.py:function, or, as the candidate, change.patch. Name one
    session for all edits of a task, with a budget of 4m: its verdicts share one error.
    """
    named = ("--session", *names(session)) if session else ()
    words = (*names(base, candidate, lane), *named, "--gain", gain, "--budget", budget, "-q")
    found: dict[str, Any] = ask("verdict", *words)
    return found


@server.tool()
def why(training: str, lane: str = "", budget: str = "2m") -> dict[str, Any]:
    """What limits a training on a lane, and what does each remedy gain? With the line of code of each."""
    record = ask("why", *names(training, lane), "--budget", budget, "-q")
    found = record["answer"]["why"] or {}
    parts = {name: found.get(name) for name in ("says", "trusted", "distrust", "remedies")}
    return {"record": record["id"], "status": record["status"], **parts, "findings": advice_of(record)}


@server.tool()
def watch(command: list[str]) -> dict[str, Any]:
    """Run a command as it is, such as ["python", "train.py"]: where does the time of its training go?

    Its input is empty. The last lines that it printed are returned, too.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "record.json")
        ended = run("watch", "-q", "--json", str(place), "--", *command)
        if not place.exists():
            raise ToolError(ended.stderr.strip() or f"laptime watch ended with exit code {ended.returncode}")
        record = json.loads(place.read_bytes())
    return {
        "record": record["id"],
        "exit_code": ended.returncode,
        "findings": advice_of(record),
        "printed": ended.stdout[-2000:],
    }


@server.tool()
def devices() -> list[dict[str, Any]]:
    """What is there to train on, and can each framework use it?"""
    found: list[dict[str, Any]] = ask("devices", "-q")
    return found


@server.tool()
def show(record: str = "latest") -> str:
    """Return the page of a saved record: its id, the beginning of one, latest, or @label."""
    ended = run("show", *names(record))
    if ended.returncode:
        raise ToolError(ended.stderr.strip())
    return ended.stdout


def ask(*words: str) -> Any:
    """Run a command, and return its answer; an error in its place becomes one of the tool, with the way out."""
    ended = run(*words, "--json")
    try:
        found = json.loads(ended.stdout)
    except json.JSONDecodeError:
        raise ToolError(ended.stderr.strip() or f"laptime ended with exit code {ended.returncode}") from None
    if isinstance(found, dict) and "error" in found:
        raise ToolError(f"{found['error']['says']}\n{found['error']['hint']}")
    return found


def run(*words: str) -> subprocess.CompletedProcess[str]:
    with ALONE:
        return subprocess.run(
            [*LAPTIME, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )


def names(*words: str) -> list[str]:
    """Return the words that are given, each of which has to be a name: an option would change what is asked."""
    for word in words:
        if word.startswith("-"):
            raise ToolError(f"'{word}' is an option\nname a training, a lane or a record")
    return [word for word in words if word]


def advice_of(record: dict[str, Any]) -> list[dict[str, str]]:
    return [{name: finding[name] for name in ("rule", "says", "advice")} for finding in record["findings"]]


def main() -> None:
    """Serve until the client closes stdin."""
    server.run()
