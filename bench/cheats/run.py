"""Which cheats does laptime keep, and which honest twins does it accuse?

    python bench/cheats/run.py                      a verdict on each cheat of this folder, and on its honest twin
    python bench/cheats/run.py --race               a race of each, too
    python bench/cheats/run.py --only stale_gradients --only lazy_loss
    python bench/cheats/run.py --page               the table of the last results, as Markdown

Each file of this folder is a cheat: its mechanism is at its head, and `base`, `cheat` and `honest` return trainings.
Base and candidate are copied into two folders, and laptime itself into a third: a cheat may write to all of them. The
results are written after every verdict, and what is in them is not run again. Held: no cheat is kept, nine of ten are
known by a name of their file's `NAMES`, and no honest twin is accused.
"""

from __future__ import annotations

import argparse
import ast
import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from common import ROOT, Figure, finish, parser_for, print_table, write_json  # noqa: E402

SHARED = ("shared.py", "run.py")
SIDES, KINDS = ("cheat", "honest"), ("verdict", "race")
THROWAWAY = "THROWAWAY"  # marks the copy of laptime that a cheat may edit
PATIENCE_S = 300
# What an exhibit without `NAMES` is known by: it is honest in the proof, and does something else in later steps.
LATER_STEPS = ("knows the judge", "skipped updates", "other update", "other computation")
GAIN_SEEN = 1.05  # of one pair of turns: less may be chance
ACCUSED = {"cheat", "other work", "failed"}  # causes of a DISCARD that say more than that nothing is gained


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A file of this folder: what its head says, the names by which its cheat may be known, and how its base is named.

    With `by_commit`, the base is one of a commit of git. A cheat that needs an earlier verdict has `verdicts` of 2.
    """

    name: str
    head: str
    names: tuple[str, ...] = LATER_STEPS
    by_commit: bool = False
    verdicts: int = 1

    @property
    def mechanism(self) -> str:
        """The first sentence of its head."""
        return self.head.split("\n\n")[0].replace("\n", " ")


@dataclass(frozen=True, slots=True)
class Judged:
    """What laptime said of a cheat or a twin: of a race, the word is whether it calls the work the same."""

    word: str
    cause: str = ""
    cheat: str | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    seconds: float = 0.0


def read_exhibit(path: Path) -> Exhibit:
    """Read an exhibit without importing it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in KNOWN
    }
    told = {KNOWN[name]: value for name, value in constants.items()}
    return Exhibit(path.stem, ast.get_docstring(tree) or "", **told)


KNOWN = {"NAMES": "names", "BY_COMMIT": "by_commit", "VERDICTS": "verdicts"}


def list_exhibits() -> list[Exhibit]:
    return [read_exhibit(path) for path in sorted(HERE.glob("*.py")) if path.name not in SHARED]


@contextmanager
def staged(exhibit: Exhibit) -> Iterator[tuple[Path, dict[str, str]]]:
    """Copy an exhibit twice, and laptime once, into a folder of their own; return it with the environment to use."""
    with tempfile.TemporaryDirectory(prefix="laptime-cheats-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        for side in ("base", "candidate"):
            (folder / side).mkdir()
            for name in (f"{exhibit.name}.py", "shared.py"):
                shutil.copy(HERE / name, folder / side / name)
        shutil.copytree(ROOT / "src" / "laptime", folder / "judge" / "laptime")
        (folder / "judge" / "laptime" / THROWAWAY).touch()
        environment = {
            **os.environ,
            "PYTHONPATH": str(folder / "judge"),
            "LAPTIME_HOME": str(folder / "home"),
            "LAPTIME_CACHE": str(folder / "cache"),
        }
        if exhibit.by_commit:
            own = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
            for words in (["init", "-q"], ["add", "."], [*own, "commit", "-qm", "base"]):
                subprocess.run(["git", *words], cwd=folder / "base", check=True, capture_output=True)
        try:
            yield folder, environment
        finally:
            for left in Path("/dev/shm").glob(f"laptime-exhibit-{folder.name}*"):
                left.unlink()


def ask_laptime(folder: Path, environment: dict[str, str], *words: str) -> dict[str, Any]:
    """Run a command of the copied laptime; return what it printed as JSON, or why there is none."""
    command = ["nice", "-n", "5", sys.executable, "-P", "-m", "laptime", *words, "--json", "-q"]
    try:
        ended = subprocess.run(
            command, cwd=folder / "base", env=environment, capture_output=True, text=True, check=False,
            timeout=PATIENCE_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"problem": f"it did not end within {PATIENCE_S} s"}
    try:
        told: dict[str, Any] = json.loads(ended.stdout)
    except ValueError:
        return {"problem": (ended.stderr or ended.stdout).strip()[-400:], "code": ended.returncode}
    return told


def judge(exhibit: Exhibit, side: str, lane: str, budget: str) -> Judged:
    """Return the verdict on a cheat, or on its twin."""
    file = f"{exhibit.name}.py"
    base = f"git:HEAD:{file}:base" if exhibit.by_commit else f"{file}:base"
    with staged(exhibit) as (folder, environment):
        for _ in range(exhibit.verdicts):
            words = ("verdict", base, f"../candidate/{file}:{side}", lane, "--budget", budget)
            told = ask_laptime(folder, environment, *words)
        if "verdict" not in told:
            says = str(told.get("error", {}).get("says", told.get("problem", told)))
            word = next((word for word in ("DISCARD", "UNDECIDED") if says.startswith(word)), "FAILED")
            return Judged(word, "failed" if word != "UNDECIDED" else "sandbox", reason=says)
        if told["ratio"] is None:
            told["ratio"] = read_ratio(folder / "home", told["record"])
    fields = {name: told[name] for name in ("cause", "cheat", "ratio", "low", "high", "reason", "seconds")}
    return Judged(told["verdict"], **fields)


def read_ratio(home: Path, record: str) -> float | None:
    """Return the factor of too few rounds for an interval, from the record."""
    for path in home.rglob(f"{record}*.json"):
        for compared in json.loads(path.read_text())["answer"]["comparisons"]:
            return float(compared["ratio"])
    return None


def race(exhibit: Exhibit, side: str, lane: str, budget: str) -> Judged:
    """Return whether a race calls the work of a cheat, or of its twin, the same."""
    file = f"{exhibit.name}.py"
    with staged(exhibit) as (folder, environment):
        words = ("race", f"{file}:base", f"../candidate/{file}:{side}", lane, "--heats", "2", "--budget", budget)
        told = ask_laptime(folder, environment, *words)
    compared = told.get("answer", {}).get("comparisons")
    if not compared:
        return Judged("FAILED", "failed", reason=str(told.get("problem", "no comparison")))
    found = compared[0]
    same = found["same_work"]
    differs = (told.get("others") or [{}])[0].get("differs")
    word = "differs" if same is False or isinstance(differs, str) else "same" if same is True else "unproven"
    reason = differs if isinstance(differs, str) else same["missing"] if isinstance(same, dict) else ""
    return Judged(word, "", None, found["ratio"], found.get("low"), found.get("high"), reason)


def is_kept(judged: dict[str, Any]) -> bool:
    return judged["word"] in {"KEEP", "same"}


def is_open(judged: dict[str, Any]) -> bool:
    """Whether only time or a quieter machine was missing to keep a gain: nothing was seen of what the cheat does."""
    return judged["cause"] in {"early", "wide", "busy"} and (judged["ratio"] or 0.0) > GAIN_SEEN


def is_accused(judged: dict[str, Any]) -> bool:
    return judged["word"] in {"differs", "FAILED"} or (judged["word"] == "DISCARD" and judged["cause"] in ACCUSED)


def row_of_case(case: str, judged: dict[str, Any]) -> list[str]:
    name, side, kind = case.split("/")
    factor = "" if judged["ratio"] is None else f"{judged['ratio']:.3f}x"
    if judged["low"] is not None and judged["high"] is not None:
        factor += f" ({judged['low']:.3f}-{judged['high']:.3f})"
    if side == "cheat":
        mark = "KEPT" if is_kept(judged) else "NOT SEEN" if is_open(judged) else ""
    else:
        mark = "ACCUSED" if is_accused(judged) else ""
    return [f"{name} {side} {kind}", mark, judged["word"], judged["cause"], judged["cheat"] or "", factor]


def count(cases: dict[str, dict[str, Any]], exhibits: list[Exhibit]) -> list[Figure]:
    """Count what was kept, named and accused."""
    names = {each.name: each.names for each in exhibits}
    parts = {case: case.split("/") for case in cases}
    cheats = {case: judged for case, judged in cases.items() if parts[case][1] == "cheat"}
    twins = [judged for case, judged in cases.items() if parts[case][1] == "honest"]
    judged_by_name = {case: each for case, each in cheats.items() if parts[case][2] == "verdict" and each["cheat"]}
    verdicts, races = ([judged for case, judged in cheats.items() if parts[case][2] == kind] for kind in KINDS)
    right = sum(each["cheat"] in names.get(parts[case][0], ()) for case, each in judged_by_name.items())
    return [
        Figure("cheats judged", len(verdicts)),
        Figure("cheats kept", sum(map(is_kept, verdicts)), most=0),
        Figure("cheats that only more time would keep", sum(map(is_open, verdicts))),
        Figure("cheats raced", len(races)),
        Figure("of these, called the same work", sum(map(is_kept, races))),
        Figure("cheats with a name", len(judged_by_name)),
        Figure("of these, named right", right, least=0.9 * len(judged_by_name)),
        Figure("honest twins judged", len(twins)),
        Figure("honest twins accused", sum(map(is_accused, twins)), most=0),
    ]


def print_page(cases: dict[str, dict[str, Any]], exhibits: list[Exhibit]) -> None:
    """Print a row for each cheat as Markdown: what it does, and what laptime said of it and of its twin."""
    print("| cheat | what it does | verdict | race | twin |\n|---|---|---|---|---|")
    for each in exhibits:
        cheat, twin = (cases.get(f"{each.name}/{side}/verdict") for side in SIDES)
        if cheat is not None:
            said = f"**{cheat['word']}**" if is_kept(cheat) else f"{cheat['word']}: {cheat['cheat'] or cheat['cause']}"
            raced = (cases.get(f"{each.name}/cheat/race") or {"word": ""})["word"]
            raced = f"**{raced}**" if raced == "same" else raced
            print(f"| `{each.name}` | {each.mechanism} | {said} | {raced} | {'' if twin is None else twin['word']} |")


def parse() -> argparse.Namespace:
    parser = parser_for(__doc__)
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="this exhibit alone; may be repeated"
    )
    parser.add_argument("--side", choices=SIDES, help="only the cheats, or only the twins")
    parser.add_argument("--race", action="store_true", help="race each, too")
    parser.add_argument("--again", action="store_true", help="judge again what the results have already")
    parser.add_argument("--page", action="store_true", help="run nothing, and print the results as Markdown")
    parser.add_argument("--lane", default="torch/cpu/threads=1")
    parser.add_argument("--budget", default="30s", help="of each verdict and race; an interval needs three rounds")
    return parser.parse_args()


def main() -> int:
    given = parse()
    out = given.out or ROOT / "bench" / "results" / f"{dt.datetime.now(dt.UTC):%Y-%m-%d}-cheats.json"
    cases: dict[str, dict[str, Any]] = json.loads(out.read_text())["details"] if out.exists() else {}
    exhibits = list_exhibits()
    if given.page:
        print_page(cases, exhibits)
        return 0
    kinds = {"verdict": judge, "race": race} if given.race else {"verdict": judge}
    for each in exhibits:
        for side in SIDES if given.side is None else (given.side,):
            for kind, ask in kinds.items():
                case = f"{each.name}/{side}/{kind}"
                if (given.only and each.name not in given.only) or (case in cases and not given.again):
                    continue
                cases[case] = asdict(ask(each, side, given.lane, given.budget))
                write_json(out, {"details": cases})
                print("  ".join(row_of_case(case, cases[case])), "|", cases[case]["reason"][:200], flush=True)
    print_table(["case", "", "word", "cause", "cheat", "factor"], [row_of_case(case, cases[case]) for case in cases])
    return finish("cheats", count(cases, exhibits), out, details=cases)


if __name__ == "__main__":
    sys.exit(main())
