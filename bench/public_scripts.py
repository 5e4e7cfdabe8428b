"""How right `laptime watch` is about training scripts that others published.

    python bench/public_scripts.py LIST.json --python PYTHON --out FILE.json

No script is kept here: you bring them. LIST.json is a list of objects:

    {"name": "mnist", "repository": "pytorch/examples", "commit": "77f55b9", "folder": "/where/it/is/mnist",
     "command": ["main.py", "--epochs", "1"], "changes": "none", "counts": "steps", "per": 1, "batch": 64,
     "planted": "", "says": "", "line": ""}

`counts` names what one iteration of the script is: "steps" of optimizers, "backwards", "batches" of a DataLoader or
"keras" batches, and `per` how many of these (2 for a generator and a discriminator). Each script runs twice, with one
thread: bare, and under `laptime watch`. In both a counter of our own, set by PyTorch's hooks and not by laptime's,
counts into a shared file. A script in which a cause is `planted` runs watched only; the first sentence on its page has
to contain `says`, and a `line` (file:line) has to be the one that a finding names.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import Figure, finish, fresh_home, parser_for

LAPTIME = str(Path(sys.executable).parent / "laptime")
COUNTED = ("steps", "backwards", "batches", "keras")
SLOTS = struct.Struct(f"<{len(COUNTED)}q")
LIMIT_S = 1_800  # a machine may be busy
SUM_LIMIT = 0.01  # of the headline; a page has three digits
UNITS = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4}
HEADLINE = re.compile(r" takes ([\d.,]+) (ns|µs|ms|s|min) [^.]*?per iteration")
ROW = re.compile(r"^  \S.*?  +([\d.,]+) (ns|µs|ms|s|min) +([\d.]+) %$", re.MULTILINE)
COUNTER = """
import mmap, os, struct, sys
file = os.open(os.path.join(os.environ["COUNTS"], "%d" % os.getpid()), os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(file, 32)
state = {"pid": os.getpid(), "map": mmap.mmap(file, 32)}
def count(slot):
    if state["pid"] != os.getpid():
        file = os.open(os.path.join(os.environ["COUNTS"], "%d" % os.getpid()), os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(file, 32)
        state.update(pid=os.getpid(), map=mmap.mmap(file, 32))
    now = struct.unpack_from("<q", state["map"], 8 * slot)[0]
    struct.pack_into("<q", state["map"], 8 * slot, now + 1)
def counted(function, slot):
    def called(*given, **named):
        found = function(*given, **named)
        count(slot)
        return found
    return called
if any(os.path.basename(word) == "laptime" for word in sys.orig_argv[:3]) or "resource_tracker" in str(sys.orig_argv):
    pass
elif os.environ.get("COUNTS_OF") == "keras":
    import keras
    each = keras.callbacks.CallbackList
    each.on_train_batch_end = counted(each.on_train_batch_end, 3)
else:
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from torch.utils.data import dataloader
    register_optimizer_step_post_hook(lambda *_: count(0))
    torch.Tensor.backward = counted(torch.Tensor.backward, 1)
    dataloader._BaseDataLoaderIter.__next__ = counted(dataloader._BaseDataLoaderIter.__next__, 2)
"""


@dataclass(frozen=True)
class Published:
    """One script, as the list describes it."""

    name: str
    repository: str
    commit: str
    folder: str
    command: list[str]
    changes: str = "none"
    counts: str = "steps"
    per: int = 1
    batch: float | None = None
    planted: str = ""
    says: str = ""
    line: str = ""


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("list", type=Path, metavar="LIST.json")
    parser.add_argument("--python", default=sys.executable, metavar="PYTHON", help="the Python that runs the scripts")
    parser.add_argument("--only", action="append", metavar="NAME", help="scripts of this name")
    parser.add_argument("--pages", type=Path, metavar="FOLDER", help="keep pages and what scripts printed there")
    given = parser.parse_args()
    scripts = [Published(**load) for load in json.loads(given.list.read_text(encoding="utf-8"))]
    found = []
    for script in scripts:
        if not given.only or script.name in given.only:
            found.append(watch_twice(script, given.python, given.pages))
            print(json.dumps({name: value for name, value in found[-1].items() if name in SHOWN}), flush=True)
    return finish("public_scripts", figures_of(found), given.out, details={"scripts": found})


SHOWN = (
    "name",
    "expected",
    "iterations",
    "exact",
    "as_bare",
    "exit_codes",
    "parts_over_headline",
    "batch",
    "seen_batch",
    "first",
)


def watch_twice(script: Published, python: str, pages: Path | None) -> dict[str, Any]:
    """Run a script bare, then watched, and put what both say next to each other."""
    bare = None if script.planted else run_counted([python, *script.command], script)
    with fresh_home() as home:
        record_file = home / "record.json"
        watched = run_counted([LAPTIME, "watch", "--json", str(record_file), "--", python, *script.command], script)
        record = json.loads(record_file.read_text(encoding="utf-8")) if record_file.exists() else {}
    if pages is not None:
        pages.mkdir(parents=True, exist_ok=True)
        text = f"{bare['tail'] if bare else ''}\n--- watched\n{watched['tail']}"
        (pages / f"{script.name.replace('/', '-')}.txt").write_text(text, encoding="utf-8")
        (pages / f"{script.name.replace('/', '-')}.json").write_text(json.dumps(record), encoding="utf-8")
    loops = [each["loop"] for each in record.get("answer", {}).get("processes", []) if each.get("loop")]
    iterations = [loop["iterations"] for loop in loops]
    expected = [count // script.per for count in watched["counts"][script.counts]]
    page = watched["tail"]
    first = [each["says"] for each in record.get("findings", []) if each["rule"] != "not reliable"][:1]
    return {
        **{name: value for name, value in asdict(script).items() if name != "folder"},
        "counted": watched["counts"],
        "counted_bare": bare and bare["counts"],
        "expected": expected,
        "iterations": iterations,
        "exact": bool(expected) and sorted(iterations) == sorted(expected),
        "as_bare": bare and bare["counts"] == watched["counts"],
        "unsure": [loop["unsure"] for loop in loops if loop.get("unsure")],
        "exit_codes": [each["exit_code"] for each in (bare, watched) if each],
        "seconds": [each["seconds"] for each in (bare, watched) if each],
        "parts_over_headline": parts_over_headline(page),
        "loader_batches": loader_batches(record),
        "seen_batch": loops[0]["items_per_iteration"] if loops else None,
        "first": first[0] if first else "",
        "lines": [each["where"] for each in record.get("findings", []) if each["where"]],
    }


def run_counted(command: list[str], script: Published) -> dict[str, Any]:
    """Run a command with the counter in each of its Pythons."""
    with tempfile.TemporaryDirectory(prefix="laptime-counts-") as place:
        (Path(place) / "sitecustomize.py").write_text(COUNTER, encoding="utf-8")
        counts = Path(place) / "counts"
        counts.mkdir()
        own = {"PYTHONPATH": place, "COUNTS": str(counts), "COUNTS_OF": script.counts}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        begin = time.monotonic()
        ended = subprocess.run(
            command,
            cwd=script.folder,
            env={**os.environ, **threads, **own, "COLUMNS": "100"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=LIMIT_S,
            check=False,
        )
        seconds = time.monotonic() - begin
        rows = [SLOTS.unpack(file.read_bytes()) for file in counts.iterdir() if file.stat().st_size == SLOTS.size]
        found = {name: sorted(row[slot] for row in rows if row[slot]) for slot, name in enumerate(COUNTED)}
        tail = ended.stdout.decode(errors="replace")[-6_000:]
        return {"counts": found, "exit_code": ended.returncode, "seconds": round(seconds, 2), "tail": tail}


def loader_batches(record: dict[str, Any]) -> list[int]:
    """Return the batch sizes of all loaders that were seen."""
    processes = record.get("answer", {}).get("processes", [])
    return [loader["batch"] for process in processes for loader in process["loaders"]]


def parts_over_headline(page: str) -> float | None:
    """Return the sum of the parts that a page shows, over its headline; None where it has no headline."""
    headline = HEADLINE.search(page)
    if headline is None:
        return None
    rows = ROW.findall(page[headline.end() :])
    return sum(_in_ms(value, unit) for value, unit, _ in rows) / _in_ms(*headline.groups())


def _in_ms(value: str, unit: str) -> float:
    return float(value.replace(",", "")) * UNITS[unit]


def figures_of(found: list[dict[str, Any]]) -> list[Figure]:
    """Return how many scripts were seen rightly."""
    both = [each for each in found if len(each["exit_codes"]) > 1]
    shown = [each["parts_over_headline"] for each in found if each["parts_over_headline"] is not None]
    batches = [each for each in found if each["batch"] is not None]
    planted = [each for each in found if each["planted"]]
    named = sum(each["says"] in each["first"] for each in planted)
    right = sum(_is_batch(batch) for batch in batches)
    with_line = [each for each in found if each["line"]]
    return [
        Figure("scripts", len(found)),
        Figure("counted exactly", sum(each["exact"] for each in found), least=len(found)),
        Figure("exit codes kept", sum(len(set(each["exit_codes"])) == 1 for each in both), least=len(both)),
        Figure("pages with a headline", len(shown)),
        Figure("parts that sum to it", sum(abs(each - 1) <= SUM_LIMIT for each in shown), least=len(shown)),
        Figure("batches seen rightly", right, least=len(batches)),
        Figure("planted causes named first", named, least=0.9 * len(planted)),
        Figure("lines named", sum(each["line"] in each["lines"] for each in with_line), least=len(with_line)),
    ]


def _is_batch(each: dict[str, Any]) -> bool:
    """Whether a loader has this batch, and the mean iteration no more: the last one of an epoch may be smaller."""
    seen = each["seen_batch"]
    return each["batch"] in each["loader_batches"] and isinstance(seen, float) and seen <= each["batch"]


if __name__ == "__main__":
    raise SystemExit(main())
