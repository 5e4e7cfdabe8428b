"""Run every benchmark, one after another, and collect the results.

    python bench/run.py                             all of them: some four hours, half of it for the causes
    python bench/run.py --only startup record       these only
    python bench/run.py --only rivals --keras .venv-bench/bin/python
    python bench/run.py --only                      none: only write bench/results/README.md again

Each writes bench/results/DATE-NAME.json; one that fails does not stop the others. Nothing runs in parallel: run it on
a machine that does nothing else. Exits 1 if a limit was broken or a benchmark failed. `make bench` runs all.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from adopt import ADOPTERS
from common import ROOT, Figure, print_table, result, row_of, write_json

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
BENCHES: dict[str, tuple[str, ...]] = {
    "peaks": ("peaks.py",),
    "memory": ("memory.py",),
    "made_data": ("made_data.py", "--what", "cifar-mlp", "--what", "cifar-cnn", "--what", "scenes-cnn"),
    "forecast_devices": ("forecast_devices.py",),
    "forecast_left_out": ("forecast_left_out.py",),
    "forecast_processors": ("forecast_processors.py",),
    "startup": ("startup.py",),
    "live": ("live.py",),
    "record": ("record.py",),
    "store": ("store.py",),
    "stats": ("stats.py",),
    "sensor_cost": ("sensor_cost.py",),
    "sensors": ("sensors.py",),
    "auto": ("auto.py",),
    "cached": ("cached.py",),
    "overhead": ("overhead.py",),
    "overhead_keras": ("overhead_keras.py",),
    "default_race": ("default_race.py",),
    "lap": ("lap.py",),
    "forecast": ("forecast.py",),
    "rivals": ("rivals.py",),
    "input": ("input.py",),
    "coverage": ("coverage.py",),
    "gate": ("gate.py",),
    "proof": ("proof.py",),
    "honest": ("proof.py", "--honest", "100"),
    "own_trainings": ("honest.py",),
    "causes": ("causes.py",),
    "attach": ("attach.py",),
    "cause_lines": ("cause_lines.py",),
    "watch_gains": ("watch_gains.py",),
    "scripts": ("scripts.py",),
    "board": ("board.py",),
    "cheats": ("cheats/run.py",),
}
HEAD = ("benchmark", "figure", "result", "limit", "", "date", "machine", "versions")


def run_bench(name: str, words: list[str], folder: Path) -> bool:
    """Run one benchmark in a process of its own, keep its result, and tell whether all its limits are kept."""
    script, *rest = BENCHES[name]
    words = [*rest, *words]
    print(f"\n== {name}: python bench/{script} {' '.join(words)}", flush=True)
    made = folder / f"{name}.json"
    ended = subprocess.run([sys.executable, str(HERE / script), *words, "--out", str(made)], check=False, cwd=ROOT)
    told = read_result(name, made, ended.returncode, f"python bench/{script} {' '.join(words)}".rstrip())
    write_json(RESULTS / f"{dt.datetime.now(dt.UTC):%Y-%m-%d}-{name}.json", told)
    return bool(told["pass"])


def read_result(name: str, made: Path, exit_code: int, command: str) -> dict[str, Any]:
    """Return the result in the common shape, whatever the script has left."""
    if exit_code not in {0, 1} or not made.exists():
        failed = [Figure("exit code", exit_code, most=0), Figure("a result", None, least=0)]
        return result(name, failed, details={}, versions={}, command=command)
    told: dict[str, Any] = json.loads(made.read_text(encoding="utf-8"))
    if name not in ADOPTERS:
        return told
    return result(name, list(ADOPTERS[name](told)), details={"as written": told}, versions={}, command=command)


def newest_results() -> list[dict[str, Any]]:
    """Return the newest result of each benchmark, in the order in which they run; others, as of a GPU, after them."""
    found: dict[str, dict[str, Any]] = {}
    for path in RESULTS.rglob("*.json"):
        told = json.loads(path.read_text(encoding="utf-8"))
        if not (isinstance(told, dict) and {"bench", "date", "figures"} <= told.keys()):
            continue
        if told["bench"] not in found or told["date"] > found[told["bench"]]["date"]:
            found[told["bench"]] = told
    order = [*(name for name in BENCHES if name in found), *sorted(found.keys() - BENCHES.keys())]
    return [found[name] for name in order]


def collect() -> None:
    """Write the page that shows the newest results: first what has a limit, then the rest."""
    limited, others = [], []
    for told in newest_results():
        for kept in told["figures"]:
            figure = Figure(**{key: value for key, value in kept.items() if key != "pass"})
            into = others if figure.kept is None else limited
            into.append([told["bench"], *row_of(figure), told["date"][:10], machine_words(told), version_words(told)])
    lines = [
        "# Results",
        "",
        "The newest result of each benchmark, written by `bench/run.py`; the files next to this page hold the samples.",
        "In brackets: an interval of 95 %.",
        "",
        "## Held against a limit",
        "",
        *as_markdown(limited),
        "",
        "## For information",
        "",
        *as_markdown(others),
    ]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def as_markdown(rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in (HEAD, ["---"] * len(HEAD), *rows)]


def machine_words(told: dict[str, Any]) -> str:
    machine = told["machine"]
    processor = machine["processor"]
    return f"{processor['name']}, {processor['cores_usable']} cores, {machine['memory_bytes'] / 1e9:.0f} GB"


def version_words(told: dict[str, Any]) -> str:
    named = ("laptime", "python", "torch", "cuda", "keras", "tensorflow")
    return ", ".join(f"{name} {told['versions'][name]}" for name in named if name in told["versions"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(BENCHES), metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--keras", metavar="PYTHON", help="an interpreter that has Keras, for rivals and input")
    given = parser.parse_args()
    chosen = list(BENCHES) if given.only is None else given.only
    kept: dict[str, bool] = {}
    with tempfile.TemporaryDirectory(prefix="laptime-bench-") as folder:
        for name in chosen:
            words = ["--keras", given.keras] if name in {"rivals", "input"} and given.keras else []
            kept[name] = run_bench(name, words, Path(folder))
            collect()
    collect()
    if kept:
        print()
        print_table(("benchmark", ""), [(name, "kept" if good else "BROKEN") for name, good in kept.items()])
    return 0 if all(kept.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
