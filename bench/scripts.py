"""How right `laptime race train.py` and `laptime why train.py` are about scripts that know nothing of laptime.

    python bench/scripts.py                       all of it: about a quarter of an hour
    python bench/scripts.py --only truth --out FILE.json

**truth**: scripts that keep a clock of their own; a heat's step is held against theirs, turn by turn. **equal**: a
lane with the threads that it has anyway is no other lane. **causes**: one cause is planted in each script; it has to be
named first, no other proven, and its remedy's gain as large as a script without the cause shows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import Figure, finish, fresh_home, parser_for
from laptime.model.stats import median

PARTS = ("truth", "equal", "causes")
LAPTIME = str(Path(sys.executable).parent / "laptime")
CORES = len(os.sched_getaffinity(0))
HEAD = """
import time, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
torch.manual_seed(0)
class Burning(Dataset):
    def __init__(self, seconds): self.seconds = seconds
    def __len__(self): return 1600
    def __getitem__(self, index):
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end: pass
        return torch.full((3072,), index % 7 / 7), index % 10
def mlp(width): return nn.Sequential(nn.Linear(3072, width), nn.ReLU(), nn.Linear(width, 10))
def ready(size=100, shape=(3072,)): return DataLoader(TensorDataset(torch.randn(1000, *shape), torch.randint(0, 10, (1000,))), size)
steps = []
def train(model, loader, optimizer):
    for epoch in range(100_000):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
            steps.append(time.monotonic_ns())
            if CLOCK and len(steps) == 20:
                with open(CLOCK, "a") as file: file.write("".join("%d\\n" % each for each in steps))
                steps.clear()
"""  # noqa: E501
CONVOLUTIONS = """
model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
                      nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8192, 10))
train(model, ready(100, (3, 32, 32)), torch.optim.Adam(model.parameters()))
"""
TRUE = {
    "a small network": "model = mlp(64); train(model, ready(32), torch.optim.SGD(model.parameters(), 0.01))",
    "a slow loader": "model = mlp(64); train(model, DataLoader(Burning(2e-4), 16), torch.optim.SGD(model.parameters(), 0.01))",  # noqa: E501
    "convolutions": CONVOLUTIONS,
}


@dataclass(frozen=True)
class Planted:
    """A script with one cause, what has to be named first, and the remedy whose gain is known from `without` it."""

    source: str
    cause: str
    remedy: str = ""
    setting: str = ""


CAUSES = {
    "the loader": Planted(
        "model = mlp(64); train(model, DataLoader(Burning(1e-3), 32), torch.optim.SGD(model.parameters(), 0.01))",
        "input pipeline",
        "keep decoded items in memory",
        "input=cached",
    ),
    "memory given back": Planted(CONVOLUTIONS, "processor oddities", "keep freed memory in the process", "malloc=keep"),
    "denormal numbers": Planted(
        "model = nn.Sequential(*[nn.Linear(400, 400, bias=False) for _ in range(8)], nn.Linear(400, 10))\n"
        "for layer in model: nn.init.normal_(layer.weight, std=1e-9)\n"
        "train(model, ready(200, (400,)), torch.optim.SGD(model.parameters(), 1e-30))",
        "processor oddities",
        "take denormal numbers as zero",
        "denormals=flush",
    ),
    "nothing": Planted("model = mlp(1500); train(model, ready(500), torch.optim.SGD(model.parameters(), 0.01))", ""),
}


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--only", choices=PARTS, action="append")
    given = parser.parse_args()
    chosen = given.only or PARTS
    figures: list[Figure] = []
    details: dict[str, Any] = {}
    with fresh_home() as place:
        if "truth" in chosen:
            figures += [check_truth(name, source, place, details) for name, source in TRUE.items()]
        if "equal" in chosen:
            figures += check_equal(place, details)
        if "causes" in chosen:
            figures += check_causes(place, details)
    return finish("scripts", figures, given.out, details=details)


def run(question: str, source: str, place: Path, *words: str, clock: Path | None = None) -> dict[str, Any]:
    """Ask about a script, and return the record."""
    file = place / "train.py"
    file.write_text(f"CLOCK = {'' if clock is None else str(clock)!r}\n{HEAD}\n{source}", encoding="utf-8")
    told = [LAPTIME, question, str(file), *words, "--json", "--quiet"]
    ended = subprocess.run(told, capture_output=True, text=True, check=False)
    if not ended.stdout:
        raise SystemExit(f"{' '.join(told)} ended with {ended.returncode}: {ended.stderr}")
    record: dict[str, Any] = json.loads(ended.stdout)
    return record


def check_truth(name: str, source: str, place: Path, details: dict[str, Any]) -> Figure:
    """Hold the step of each window against the script's own clock, which counts the steps that ended in it."""
    clock = place / "clock"
    clock.unlink(missing_ok=True)
    record = run("race", source, place, "cpu", "--heats", "1", "--budget", "10s", "--sensors", "none", clock=clock)
    ends = sorted(map(int, clock.read_text().split()))
    (result,) = record["lanes"][0]["heats"]
    ratios = []
    for window in result["heat"]["windows"]:
        inside = [each for each in ends if window["start_ns"] <= each <= window["end_ns"]]
        if len(inside) > 2:
            own_ns = (inside[-1] - inside[0]) / (len(inside) - 1)
            ratios.append((window["end_ns"] - window["start_ns"]) / window["steps"] / own_ns)
    details[f"truth: {name}"] = ratios
    middle = median(ratios)
    return Figure(f"{name}: a step over the script's own", middle, "times", min(ratios), max(ratios), 1.02, 0.98)


def check_equal(place: Path, details: dict[str, Any]) -> list[Figure]:
    """Race a lane against itself under another name."""
    record = run("race", TRUE["convolutions"], place, "cpu", f"cpu/threads={CORES}", "--budget", "60s")
    (found,) = record["answer"]["comparisons"]
    details["equal"] = found
    return [
        Figure("a lane with the threads it has anyway: ratio", found["ratio"], "times", found["low"], found["high"]),
        Figure("called different", float(found["verdict"] != "not distinguishable"), "", most=0),
        Figure("losses that are not equal", float(found["same_work"] is not True), "", most=0),
    ]


def check_causes(place: Path, details: dict[str, Any]) -> list[Figure]:
    """Ask why each script is slow, and race its remedy on its own."""
    figures, first, wrong = [], 0, 0
    for name, planted in CAUSES.items():
        why = run("why", planted.source, place, "cpu")["answer"]["why"]
        proven = [each["cause"] for each in why["causes"] if each["standing"] == "proven"]
        first += (why["first"][:1] == [planted.cause]) if planted.cause else not proven
        wrong += len(set(proven) - {planted.cause})
        found = next((each for each in why["remedies"] if each["says"] == planted.remedy), None)
        details[f"causes: {name}"] = {"first": why["first"], "proven": proven, "remedy": found, "says": why["says"]}
        print(name, why["says"], flush=True)
        if planted.setting:
            figures.append(_hold_remedy(name, planted, found, place, details))
    return [
        Figure("planted causes that were named first", first, "", least=len(CAUSES)),
        Figure("causes that were proven and not there", wrong, "", most=0),
        *figures,
    ]


def _hold_remedy(
    name: str, planted: Planted, found: dict[str, Any] | None, place: Path, details: dict[str, Any]
) -> Figure:
    record = run("race", planted.source, place, "cpu", f"cpu/{planted.setting}", "--budget", "45s")
    (raced,) = record["answer"]["comparisons"]
    details[f"causes: {name}"]["raced"] = raced
    told = None if found is None or found["measured"] is None else found["measured"]["ratio"] / raced["ratio"]
    return Figure(f"{name}: the remedy's gain over that of a later race", told, "times", most=1.2, least=0.83)


if __name__ == "__main__":
    raise SystemExit(main())
