"""What the benchmarks share: figures against limits, the machine they come from, how both are shown and kept."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from laptime.machine.look import look_at_machine
from laptime.model.errors import LaptimeError
from laptime.model.record import HeatResult
from laptime.model.stats import Interval, median

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("laptime", "torch", "numpy", "msgspec", "click")
STDERR_SHOWN = 2_000
T = TypeVar("T")
Compare = Callable[[str, argparse.Namespace], "tuple[list[Figure], dict[str, Any]]"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One result. `most` or `least` is its limit; without one it is for information. No value means it was not had."""

    name: str
    value: float | None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    most: float | None = None
    least: float | None = None

    @property
    def kept(self) -> bool | None:
        """Whether the limit is kept; None where there is no limit."""
        if self.most is None and self.least is None:
            return None
        if self.value is None or not math.isfinite(self.value):
            return False
        return (self.most is None or self.value <= self.most) and (self.least is None or self.value >= self.least)


class WorkerError(RuntimeError):
    """A process that a benchmark needs did not do its part."""


def figure_of(name: str, interval: Interval, unit: str = "times", **limits: float) -> Figure:
    """Return an interval as a figure; one pair alone has no ends."""
    low, high = (end if 0 < end < math.inf else None for end in (interval.low, interval.high))
    return Figure(name, interval.estimate, unit, low, high, **limits)


def parser_for(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser that shows the script's own docstring and knows --out."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write the result as JSON, too")
    return parser


def finish(
    name: str,
    figures: Sequence[Figure],
    out: Path | None,
    *,
    details: Mapping[str, Any] | None = None,
    versions: Mapping[str, str] | None = None,
) -> int:
    """Print the figures, write the result where it is wanted, and give the exit code."""
    print_table(["figure", "value", "limit", ""], [row_of(figure) for figure in figures])
    if out is not None:
        write_json(out, result(name, figures, details=details or {}, versions=versions or {}))
    return 1 if any(figure.kept is False for figure in figures) else 0


def result(
    name: str,
    figures: Sequence[Figure],
    *,
    details: Mapping[str, Any],
    versions: Mapping[str, str],
    command: str | None = None,
) -> dict[str, Any]:
    """Return the one shape in which every benchmark's result is kept."""
    return {
        "bench": name,
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "command": command or command_line(),
        "pass": all(figure.kept is not False for figure in figures),
        "figures": [{**asdict(figure), "pass": figure.kept} for figure in figures],
        "machine": machine(),
        "versions": {**list_versions(), **versions},
        "details": details,
    }


def machine() -> dict[str, Any]:
    """Describe this computer as a record does, without the frameworks, and how busy it is at the end."""
    seen: dict[str, Any] = msgspec.to_builtins(look_at_machine())
    seen.pop("frameworks")
    return {**seen, "load_1m": os.getloadavg()[0]}


def list_versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def command_line() -> str:
    """Return the command as anybody would type it in the project's folder: no path of this machine is kept."""
    return " ".join(["python", *map(_plain, sys.argv)])


def _plain(word: str) -> str:
    path = Path(word)
    if not path.is_absolute():
        return word
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def row_of(figure: Figure) -> list[str]:
    """Return a figure as a row of a table: name, value with its interval, limit, verdict."""
    value = f"{number(figure.value)} {figure.unit}".rstrip()
    if figure.low is not None and figure.high is not None:
        value += f" ({number(figure.low)} to {number(figure.high)})"
    limits = [f"at least {number(figure.least)}"] if figure.least is not None else []
    limits += [f"at most {number(figure.most)}"] if figure.most is not None else []
    return [figure.name, value, ", ".join(limits), {None: "", True: "kept", False: "BROKEN"}[figure.kept]]


def number(value: float | None) -> str:
    """Write a number with as many digits as say something."""
    if value is None:
        return "none"
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3f}" if abs(value) >= 1 else f"{value:.4f}"


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), flush=True)


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def side_by_side(rounds: int, first: Callable[[], T], second: Callable[[], T]) -> tuple[list[T], list[T]]:
    """Measure both again and again in the order A B, B A, A B ...; each round is a pair."""
    mine: list[T] = []
    others: list[T] = []
    for number_of_round in range(rounds):
        for kept, measure in ((mine, first), (others, second))[:: -1 if number_of_round % 2 else 1]:
            kept.append(measure())
    return mine, others


def others_work(heats: Iterable[HeatResult]) -> float | None:
    """Return the cores that other processes took in the middle one of some heats' windows: so quiet the result is."""
    noises = [window.noise for result in heats for window in result.heat.windows if window.noise is not None]
    seen = [noise.other_cores for noise in noises if isinstance(noise.other_cores, float)]
    return median(seen) if seen else None


def compare_each(given: argparse.Namespace, compare: Compare, details: dict[str, Any]) -> list[Figure]:
    """Compare each of the workloads that are given; one that fails breaks its limit, and the others go on."""
    figures: list[Figure] = []
    for name in given.workloads:
        try:
            found, details[name] = compare(name, given)
        except (WorkerError, LaptimeError) as error:
            found = [Figure(f"{name}: {error}", None, least=0)]
        for each in found:
            print(each.name, each.value, each.unit, flush=True)
        figures += found
    return figures


def most_of(values: Iterable[float | None]) -> float | None:
    """Return the largest of the values that were had."""
    return max((value for value in values if value is not None), default=None)


def run_json(command: Sequence[str], *, said: str = "", environment: Mapping[str, str] | None = None) -> Any:
    """Run a process to its end and give the JSON in the last line that it prints."""
    ended = subprocess.run(
        command, input=said, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})}
    )
    lines = ended.stdout.strip().splitlines()
    if ended.returncode or not lines:
        told = ended.stderr.strip()[-STDERR_SHOWN:]
        raise WorkerError(f"{Path(command[0]).name} ended with exit code {ended.returncode}: {told}")
    return json.loads(lines[-1])


@contextlib.contextmanager
def fresh_home() -> Iterator[Path]:
    """Let laptime keep its records and references in a folder of their own, gone afterwards."""
    names = ("LAPTIME_HOME", "LAPTIME_CACHE")
    before = {name: os.environ.get(name) for name in names}
    with tempfile.TemporaryDirectory(prefix="laptime-bench-") as folder:
        os.environ.update({name: str(Path(folder) / name.lower()) for name in names})
        try:
            yield Path(folder)
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
