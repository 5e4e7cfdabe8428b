"""Does a remedy of `laptime watch` gain what its page predicts? Each cause is planted, and taken away by hand.

    python bench/watch_gains.py                     all of them: a few minutes
    python bench/watch_gains.py --only threads --rounds 5

A plant is a script with its cause and with its remedy. laptime watches the first. Then both run bare, in turns, and
time their own iterations but the first three: their quotient is what the remedy gains. Held: laptime's first sentence
is of the planted rule, and the gain is at most what the page says, within the spread of the rounds.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import Figure, finish, fresh_home, parser_for

ROUNDS = 3
SCRIPT = """
import time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.manual_seed(0)
{head}

def main():
    network, loader, optimizer = make()
    times = []
    for epoch in range({epochs}):
        for rows, labels in loader:
            began = time.perf_counter()
            times.append(began)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(rows), labels)
            loss.backward()
            optimizer.step()
            {after}
    times.append(time.perf_counter())
    print("iteration_ms", (times[-1] - times[3]) / (len(times) - 4) * 1e3)

if __name__ == "__main__":
    main()
"""
IN_MEMORY = """
def make():
    rows, labels = torch.randn({items}, {width}), torch.randint(0, 10, ({items},))
    network = {network}
    {setup}
    loader = DataLoader(TensorDataset(rows, labels), batch_size={batch})
    return network, loader, {optimizer}
"""
FROM_ITEMS = """
class Items(Dataset):
    def __len__(self):
        return 640
    def __getitem__(self, number):
        row = torch.full((256,), float(number % 7))
        {item}
        return row, number % 10

def make():
    network = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    loader = DataLoader(Items(), batch_size=32{workers})
    return network, loader, torch.optim.SGD(network.parameters(), lr=0.01)
"""
WIDE = "nn.Sequential(nn.Linear({width}, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))"
DEEP = "nn.Sequential(*[nn.Linear(16, 16) for _ in range(300)])"
SGD = "torch.optim.SGD(network.parameters(), lr=0.01)"
ADAM = "torch.optim.Adam(network.parameters(), lr=1e-4, foreach=False{more})"
DECODES = "for turn in range(60): row = (row * 1.0001).roll(1)"
WAITS = "time.sleep(0.001)"
IN_WORKERS = ", num_workers=2, persistent_workers=True"


@dataclass(frozen=True, slots=True)
class Plant:
    """A cause: the rule that has to find it, and its script with the cause and with the remedy."""

    rule: str | None
    cause: str
    remedy: str


def memory(network: str, *, optimizer: str = SGD, setup: str = "pass", after: str = "pass", **sizes: int) -> str:
    known = {"items": 3200, "width": 512, "batch": 32, "epochs": 4} | sizes
    head = IN_MEMORY.format(
        **{**known, "network": network.format(width=known["width"])}, setup=setup, optimizer=optimizer
    )
    return SCRIPT.format(head=head, epochs=known["epochs"], after=after)


def items(item: str, workers: str = "") -> str:
    return SCRIPT.format(head=FROM_ITEMS.format(item=item, workers=workers), epochs=6, after="pass")


SMALL = {"width": 16, "items": 3200}
PLANTS = {
    "optimizer": Plant("script optimizer", memory(DEEP, optimizer=ADAM.format(more=""), **SMALL),
                       memory(DEEP, optimizer=ADAM.format(more=", fused=True"), **SMALL)),
    "threads": Plant("script on one thread", memory(WIDE, setup="torch.set_num_threads(1)", batch=128),
                     memory(WIDE, batch=128)),
    "anomalies": Plant("script finds anomalies", memory(DEEP, setup="torch.autograd.set_detect_anomaly(True)", **SMALL),
                       memory(DEEP, **SMALL)),
    "anomalies of wide layers": Plant("script finds anomalies",
                                      memory(WIDE, setup="torch.autograd.set_detect_anomaly(True)"), memory(WIDE)),
    "items that compute": Plant("script waits for data", items(DECODES), items(DECODES, IN_WORKERS)),
    "items that wait": Plant("script waits for data", items(WAITS), items(WAITS, IN_WORKERS)),
    "a line that waits": Plant("script outside the step", memory(WIDE, after=WAITS), memory(WIDE)),
    "float64": Plant("script in float64", memory(WIDE, setup="network.double(); rows = rows.double()"), memory(WIDE)),
    "saves": Plant("script outside the step", memory(WIDE, after="torch.save(network.state_dict(), 'saved.pt')"),
                   memory(WIDE)),
    "nothing": Plant(None, memory(WIDE), memory(WIDE)),
    "nothing, in memory": Plant(None, *[memory("nn.Linear({width}, 10)", width=64)] * 2),
}  # fmt: skip


def run_bare(text: str, folder: Path) -> float:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, cwd=folder)
    return float(ran.stdout.split()[-1])


def try_plant(name: str, rounds: int, home: Path) -> dict[str, Any]:
    """Watch a plant, then time it with its cause and without."""
    plant, folder = PLANTS[name], home / name.replace(" ", "-")
    folder.mkdir()
    (folder / "train.py").write_text(plant.cause, encoding="utf-8")
    record = folder / "record.json"
    command = [sys.executable, "-m", "laptime", "watch", "--json", record, "--", sys.executable, "train.py"]
    watched = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    told = json.loads(record.read_text(encoding="utf-8"))
    findings = [each for each in told["findings"] if each["rule"] != "not reliable"]
    ratios, whole_ms = [], []
    for number in range(rounds):
        sides = [("cause", plant.cause), ("remedy", plant.remedy)]
        took = {side: run_bare(text, folder) for side, text in (sides if number % 2 == 0 else sides[::-1])}
        ratios.append(took["cause"] / took["remedy"])
        whole_ms.append(took["cause"])
    first = findings[0] if findings else {}
    gain = first.get("gain") or {}
    return {
        "name": name, "rule": plant.rule, "first": first.get("rule"), "where": first.get("where"),
        "likely": gain.get("likely"), "most": gain.get("most"), "others": [each["rule"] for each in findings[1:]],
        "gain": statistics.median(ratios), "gains": ratios, "iteration_ms": whole_ms,
        "watched_ms": float(watched.stdout.split()[-1]),
        "said_ms": told["answer"]["processes"][0]["loop"]["step_ms"]["median"],
    }  # fmt: skip


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--only", action="append", choices=sorted(PLANTS), metavar="NAME")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    rows = []
    with fresh_home() as home:
        for name in given.only or PLANTS:
            rows.append(try_plant(name, given.rounds, home))
            print(json.dumps(rows[-1]), flush=True)
    planted = [row for row in rows if row["rule"] is not None]
    named = [row for row in planted if row["first"] == row["rule"]]
    within = [row for row in named if min(row["gains"]) <= row["most"]]
    figures = [
        Figure("planted causes in the first sentence", len(named), f"of {len(planted)}", least=len(planted)),
        Figure("gains of these within the bound", len(within), f"of {len(named)}", least=len(named)),
        Figure("findings where nothing is wrong", sum(bool(row["first"]) for row in rows if not row["rule"]), most=0),
    ]  # fmt: skip
    return finish("watch_gains", figures, given.out, details={"rows": rows, "rounds": given.rounds})


if __name__ == "__main__":
    sys.exit(main())
