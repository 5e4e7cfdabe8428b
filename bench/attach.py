"""What `laptime watch` changes, how true its figures are, and what it costs.

    python bench/attach.py                        all of it: about half an hour
    python bench/attach.py --only cost --pairs 3  a short try

**transparency** runs every script of tests/attach/corpus.py twice, watched and not: exit code, output and digest of the
weights have to be equal. **truth** holds the number of iterations against each script's own count, and the parts of an
iteration against a script that keeps a clock of its own. **cost** is paired: blocks of steps with and without hooks in
turns in one process; copies of a script, watched and not and, with --rival, under traceml-ai, that take turns
(attach_turns.py); starts of Python. **bounded** is a million iterations.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attach_scripts import HOOKS, MILLION, PHASES, STARTS
from attach_turns import CLOCKS, TURNS, Command, compare, take_turns, time_product
from common import ROOT, Figure, finish, fresh_home, parser_for

sys.path.insert(0, str(ROOT / "tests" / "attach"))

from corpus import SCRIPTS
from corpus_script import Script

PARTS = ("transparency", "truth", "cost", "bounded")
ENGINES = ("tensorflow", "jax", "torch")
ROUNDS = 6  # of turns, after each start of the scripts
LAPTIME = str(Path(sys.executable).parent / "laptime")
TIMED_OUTPUT = ("Hugging Face Trainer",)  # prints how long it took


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--scripts", nargs="*", help="only these scripts of the corpus")
    parser.add_argument(
        "--rival", type=Path, help="a folder with traceml-ai (pip install --target) to run side by side"
    )
    parser.add_argument("--iterations", type=int, default=1_000_000)
    given = parser.parse_args()
    chosen = given.only or PARTS
    details: dict[str, Any] = {}
    figures: list[Figure] = []
    with fresh_home() as place:
        if {"transparency", "truth"} & set(chosen):
            figures += check_corpus(given.scripts or list(SCRIPTS), place, details)
        if "truth" in chosen:
            figures += check_phases(place, details)
        if "cost" in chosen:
            figures += measure_cost(given.pairs, place, details, given.rival)
        if "bounded" in chosen:
            figures += measure_bounds(given.iterations, place, details)
    return finish("attach", figures, given.out, details=details)


@dataclass(frozen=True)
class Run:
    """How one run ended; a watched one has the answer of its record."""

    code: int
    out: str
    err: str
    seconds: float
    answer: dict[str, Any] | None = None


def run(command: list[str], place: Path, *, watched: bool, stdin: str = "", sensors: str = "none", **more: str) -> Run:
    """Run a command, watched or not."""
    record = place / "record.json"
    record.unlink(missing_ok=True)
    environment = {**os.environ, **more}
    options = ["--quiet", "--json", str(record), *([] if sensors == "all" else ["--sensors", sensors])]
    words = [LAPTIME, "watch", *options, "--", *command] if watched else command
    began = time.monotonic()
    ended = subprocess.run(words, input=stdin, capture_output=True, text=True, env=environment, check=False)
    seconds = time.monotonic() - began
    code = ended.returncode if ended.returncode >= 0 else 128 - ended.returncode
    answer = json.loads(record.read_bytes())["answer"] if watched and record.exists() else None
    return Run(code, ended.stdout, ended.stderr, seconds, answer)


def check_corpus(names: list[str], place: Path, details: dict[str, Any]) -> list[Figure]:
    """Run each script twice, and hold what was seen against what it is."""
    rows = []
    for name in names:
        script = SCRIPTS[name]
        if any(importlib.util.find_spec(each) is None for each in script.needs):
            print(f"{name}: needs {' '.join(script.needs)}", flush=True)
            continue
        for engine in ENGINES if script.needs == ("keras",) else ("",):
            rows.append(check_script(name, script, engine, place))
            print(json.dumps(rows[-1]), flush=True)
    details["scripts"] = rows
    right = sum(row["verdict"] == "right" for row in rows)
    return [
        Figure(
            "scripts that ended, printed and learned the same", sum(row["same"] for row in rows), "", least=len(rows)
        ),
        Figure("scripts", len(rows), "", least=40),
        Figure("iterations counted right", 100 * right / len(rows), "%", least=95),
        Figure("iterations counted wrong", sum(row["verdict"] == "wrong" for row in rows), "", most=0),
    ]


def check_script(name: str, script: Script, engine: str, place: Path) -> dict[str, Any]:
    """Return how one script did."""
    file = place / "script_one.py"
    file.write_text(script.source, encoding="utf-8")
    words = {"{script}": str(file), "{folder}": str(place), "{module}": "script_one"}
    command = []
    for word in script.command:
        for mark, value in words.items():
            word = word.replace(mark, value)  # noqa: PLW2901
        command.append(word)
    more = {"KERAS_BACKEND": engine} if engine else {}
    bare = run(command, place, watched=False, stdin=script.stdin, **more)
    seen = run(command, place, watched=True, stdin=script.stdin, **more)
    if name in TIMED_OUTPUT:
        bare, seen = (Run(each.code, _digests(each.out), "", each.seconds, each.answer) for each in (bare, seen))
    same = (
        bare.code == seen.code == script.code and bare.out == seen.out and ("digest" in bare.out) == script.has_digest
    )
    return {"name": f"{name} {engine}".strip(), "same": same, **_judge(script, seen)}


def _digests(out: str) -> str:
    return "\n".join(line for line in out.splitlines() if "digest" in line)


def _judge(script: Script, seen: Run) -> dict[str, Any]:
    loops = [each["loop"] for each in (seen.answer or {"processes": []})["processes"]]
    found = [loop["iterations"] for loop in loops]
    unsure = [loop["unsure"] for loop in loops if loop["unsure"]]
    if script.iterations is None:
        verdict = "right" if not found or unsure else "wrong"
    elif unsure or not found:
        verdict = "not seen"
    else:
        verdict = "right" if found == [script.iterations] * script.processes else "wrong"
    return {"verdict": verdict, "iterations": script.iterations, "seen": found, "unsure": unsure}


def check_phases(place: Path, details: dict[str, Any]) -> list[Figure]:
    """Hold the parts of a loop against the script's own clock, and their sum against wall time."""
    file = place / "phases.py"
    file.write_text(PHASES, encoding="utf-8")
    seen = run([sys.executable, str(file)], place, watched=True)
    assert seen.answer is not None, seen.err
    own = json.loads(seen.out)
    loop = seen.answer["processes"][0]["loop"]
    whole = loop["whole"]
    figures = []
    for name, own_s in own.items():
        apart_us = abs(whole[name] - own_s) / loop["iterations"] * 1e6
        allowed_us = max(0.02 * own_s / loop["iterations"] * 1e6, 50.0)
        figures.append(
            Figure(f"{name.removesuffix('_s')}: from the script's own clock", apart_us, "us a step", most=allowed_us)
        )
    parts = [part for name, part in whole.items() if name not in {"wall_s", "backward_s"} and isinstance(part, float)]
    figures.append(Figure("parts from wall time", 100 * abs(sum(parts) / whole["wall_s"] - 1), "%", most=0.5))
    windows = loop["windows"]
    span_s = (windows[-1]["end_ns"] - windows[0]["start_ns"]) / 1e9
    known_s = whole["wall_s"] + sum(each["seconds"] for each in loop["gaps"])
    figures.append(Figure("parts and gaps from the whole training", 100 * abs(known_s / span_s - 1), "%", most=0.5))
    details["phases"] = {"own": own, "seen": whole}
    return figures


def measure_cost(pairs: int, place: Path, details: dict[str, Any], rival: Path | None) -> list[Figure]:
    """Measure what hooks, whole runs and starts cost."""
    file = place / "cost.py"
    file.write_text(HOOKS, encoding="utf-8")
    details["hooks_us"] = json.loads(run([sys.executable, str(file), str(2 * pairs)], place, watched=True).out)
    figures = [quartiles_of(f"{name}, in a small loop", each) for name, each in details["hooks_us"].items()]
    file.write_text(TURNS, encoding="utf-8")
    ways: dict[str, Command] = {
        "not": ([sys.executable, str(file), "{words}"], {}),
        "watched": ([LAPTIME, "watch", "--quiet", "--", sys.executable, str(file), "{words}"], {}),
        "not again": ([sys.executable, str(file), "{words}"], {}),
    }
    if rival is not None:
        program = [sys.executable, str(rival / "bin" / "traceml"), "run", str(file), "--args", "{words}"]
        ways["traceml"] = (program, {"PYTHONPATH": str(rival)})
    product_ms = time_product(ways["not"], place)
    for step_ms, steps, most in ((2.0, 100, 1.02), (10.0, 40, 1.01)):
        words = [str(round(step_ms / product_ms)), str(steps)]
        times = take_turns(ways, place, words, rounds=ROUNDS, starts=max(1, pairs // 5))
        details[f"a step of {step_ms:g} ms"] = {"times_ms": times, "compared": (found := compare(times, "not"))}
        for way, each in found.items():
            limit = {"most": most} if way == "watched" else {}
            for clock in CLOCKS:
                low, middle, high = each[clock]
                name = f"{step_ms:g} ms: {way}, {clock}"
                figures.append(Figure(name, middle, "", low, high, **(limit if clock == "middle" else {})))
            low, middle, high = each["mean_added_us"]
            figures.append(Figure(f"{step_ms:g} ms: {way} adds", middle, "us a step", low, high))
    figures.append(start_cost(pairs, place, details))
    return figures


def quartiles_of(name: str, values: list[float]) -> Figure:
    low, middle, high = statistics.quantiles(values, n=4)
    return Figure(name, middle, "us a step", low, high, **({"most": 2.0} if name.startswith("hooks") else {}))


def start_cost(pairs: int, place: Path, details: dict[str, Any]) -> Figure:
    """Measure a start of Python with the agent, while laptime listens."""
    file = place / "starts.py"
    file.write_text(STARTS, encoding="utf-8")
    each_ms = json.loads(run([sys.executable, str(file), str(2 * pairs)], place, watched=True).out)
    details["start_ms"] = each_ms
    return Figure("a start of Python", statistics.median(each_ms), "ms", most=25.0)


def measure_bounds(iterations: int, place: Path, details: dict[str, Any]) -> list[Figure]:
    """Measure memory and the size of the record after very many iterations."""
    file = place / "million.py"
    file.write_text(MILLION, encoding="utf-8")
    environment = dict(os.environ)
    record = place / "record.json"
    command = [LAPTIME, "watch", "--quiet", "--json", str(record), "--", sys.executable, str(file), str(iterations)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        first, most = 0.0, 0.0
        while process.poll() is None:
            most = max(most, resident_mb(process.pid))
            first = first or (most if most > 10 else 0.0)
            time.sleep(0.5)
            if not first:
                continue
        out = process.stdout.read() if process.stdout else ""
    answer = json.loads(record.read_bytes())["answer"]
    loop = answer["processes"][0]["loop"]
    details["bounded"] = {"iterations": loop["iterations"], "unsure": loop["unsure"], "step_ms": loop["step_ms"]}
    return [
        Figure("iterations seen", loop["iterations"], "", least=iterations, most=iterations),
        Figure("the script's memory grew by", json.loads(out), "MB", most=50),
        Figure("laptime's memory grew by", most - first, "MB", most=50),
        Figure("record", record.stat().st_size / 1e6, "MB", most=10),
    ]


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, IndexError):
        return 0.0


if __name__ == "__main__":
    sys.exit(main())
