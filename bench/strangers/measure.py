"""Runs a script bare, watched, and asked why, and puts laptime's words next to the counter's."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from strangers.checkouts import Checkouts, environment_of
from strangers.counter import Truth, read_truth
from strangers.nouns import Measured, Plant, Script

LIMIT_S = 1_800  # a machine may be busy
TAIL = 3_000
NOT_A_CAUSE = "not reliable"


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a script that can run: where it is, its words, and its variables."""

    script: Script
    folder: Path
    arguments: tuple[str, ...]
    environment: dict[str, str]

    @property
    def command(self) -> list[str]:
        return [sys.executable, self.script.file, *self.arguments]


def copy_script(checkouts: Checkouts, script: Script, side: str = "") -> Copy:
    folder = checkouts.copy(script, script.name + side, ())
    return Copy(script, folder, script.arguments, environment_of(checkouts, script, folder, script.items))


def copy_side(checkouts: Checkouts, script: Script, plant: Plant, side: str) -> Copy:
    """Return a copy with the cause, or, where the side is "remedy", without."""
    folder = checkouts.copy(script, f"{plant.name} {side}", plant.remedy if side == "remedy" else plant.cause)
    arguments = script.arguments if plant.arguments is None else plant.arguments
    if side != "remedy" and plant.cause_arguments is not None:
        arguments = plant.cause_arguments
    return Copy(script, folder, arguments, environment_of(checkouts, script, folder, plant.items or script.items))


def run_counted(command: list[str], copy: Copy, **variables: str) -> tuple[Truth | None, dict[str, Any]]:
    """Run a command in the copy's folder, and return what the counter saw and how the command ended."""
    with tempfile.TemporaryDirectory(prefix="strangers-") as counts:
        began = time.monotonic()
        ended = subprocess.run(
            command,
            cwd=copy.folder,
            env={**copy.environment, "STRANGERS_COUNTS": counts, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            timeout=LIMIT_S,
            check=False,
        )
        took = time.monotonic() - began
        truth = read_truth(Path(counts), copy.script.counts, copy.script.per)
    tail = ended.stdout.decode(errors="replace")[-TAIL:]
    return truth, {"exit_code": ended.returncode, "seconds": round(took, 2), "tail": tail}


def run_bare(copy: Copy) -> dict[str, Any]:
    truth, ended = run_counted(copy.command, copy)
    return {**(asdict(truth) if truth else {}), **(ended if ended["exit_code"] or not truth else {})}


def in_turns(sides: dict[str, Copy], rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Run copies bare in the order A B, B A, A B ..., and return what each run took."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            runs[name].append(run_bare(sides[name]))
    return runs


def gain_of(runs: dict[str, list[dict[str, Any]]], field: Measured) -> dict[str, Any]:
    """Return how many times as fast the remedy is, of each round."""
    first, second = runs.values()
    ratios = [a[field] / b[field] for a, b in zip(first, second, strict=True) if field in a and field in b]
    if not ratios:
        return {"gain": None, "runs": runs}
    return {"gain": statistics.median(ratios), "low": min(ratios), "high": max(ratios), "runs": runs}


def watch(copy: Copy, plant: Plant | None, record_file: Path) -> dict[str, Any]:
    """Watch a copy, between two bare runs of it. The record stays in a file."""
    before = run_bare(copy)
    record_file.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "laptime", "watch", "--json", str(record_file), "--", *copy.command]
    truth, ended = run_counted(command, copy)
    after = run_bare(copy)
    record = json.loads(record_file.read_text(encoding="utf-8")) if record_file.exists() else {}
    loops = [each["loop"] for each in record.get("answer", {}).get("processes", []) if each.get("loop")]
    bare = [each for each in (before, after) if "mean_ms" in each]
    row: dict[str, Any] = {**ended, "bare": [before, after], "watched": asdict(truth) if truth else None}
    if loops and truth and bare:
        row |= judge_loop(max(loops, key=lambda loop: loop["iterations"]), truth, bare)
    findings = [each for each in record.get("findings", []) if each["rule"] != NOT_A_CAUSE]
    shown = ("rule", "where", "says", "advice", "gain")
    row["findings"] = [
        {**{name: each.get(name) for name in shown}, "change": each.get("change") is not None} for each in findings
    ]
    row["reliable"] = len(findings) == len(record.get("findings", []))
    if plant is not None:
        row |= judge_first(findings[0] if findings else {}, plant, expected_lines(copy, plant))
    return row


def judge_loop(loop: dict[str, Any], truth: Truth, bare: list[dict[str, Any]]) -> dict[str, Any]:
    """Put a record's loop next to the counter's truth of the same run, and of the bare runs around it."""
    step = loop["step_ms"]
    headline = step["median"] if isinstance(step, dict) else None
    bare_ms = statistics.fmean(each["mean_ms"] for each in bare)
    row = {
        "iterations": loop["iterations"],
        "expected": truth.iterations,
        "exact": loop["iterations"] == truth.iterations,
        "headline_ms": headline,
        "bare_ms": bare_ms,
        "bare_spread": max(each["mean_ms"] for each in bare) / min(each["mean_ms"] for each in bare) - 1,
        "counted_by": loop["counted"],
        "unsure": loop.get("unsure"),
        "warm_iterations": loop.get("warm_iterations"),
        "levels": loop.get("levels"),
    }
    if headline is None:
        return row
    between_s = sum(gap["seconds"] for gap in loop.get("gaps", ()))
    said_s = headline * (loop["iterations"] - loop.get("warm_iterations", 1)) / 1e3 + between_s + loop.get("warm_s", 0)
    own_s = truth.whole_s + loop["first_ms"] / 1e3
    return row | {
        "headline_over_bare": over(headline, [(each["within_ms"], each["mean_ms"]) for each in bare]),
        "headline_over_counted": over(headline, [(truth.within_ms, truth.mean_ms)]),
        "duration_over_counted": said_s / own_s,
    }


def over(headline: float, means: list[tuple[float, float]]) -> float:
    """Return a headline over what was counted; 1 between the means without and with the starts of loaders.

    A page may count what the first batch of an epoch waits for to its iteration, or between.
    """
    without, with_starts = (statistics.fmean(each) for each in zip(*means, strict=True))
    return headline / min(max(headline, min(without, with_starts)), max(without, with_starts))


def expected_lines(copy: Copy, plant: Plant) -> list[str]:
    """Return the lines, as file:line, that a finding may name."""
    file = plant.line_file or copy.script.file
    text = (copy.folder / file).read_text(encoding="utf-8")
    wanted = [each for each in (plant.line, *plant.lines) if each]
    places = []
    for each in wanted:
        at = text.find(each)
        if at < 0:
            raise ValueError(f"{plant.name}: no line has {each!r}")
        places.append(f"{file}:{text.count(chr(10), 0, at) + 1}")
    return places


def judge_first(first: dict[str, Any], plant: Plant, lines: list[str]) -> dict[str, Any]:
    where, gain = first.get("where"), first.get("gain") or {}
    return {
        "expected_rules": list(plant.rules),
        "expected_lines": lines,
        "rule_right": first.get("rule") in plant.rules,
        "line_right": not lines or (where is not None and any(is_line(where, each) for each in lines)),
        "likely": gain.get("likely"),
        "most": gain.get("most"),
    }


def is_line(where: str, expected: str) -> bool:
    """Whether two places are the same line; one may be relative to another folder."""
    (file, _, line), (other, _, number) = where.rpartition(":"), expected.rpartition(":")
    return line == number and Path(file).name == Path(other).name


def ask_why(copy: Copy, budget: str | None) -> dict[str, Any]:
    """Ask `laptime why` about a copy, within its default budget."""
    words = [sys.executable, "-m", "laptime", "why", copy.script.file, "--json"]
    words += ["--budget", budget] if budget else []
    began = time.monotonic()
    ended = subprocess.run(
        [*words, "--", *copy.arguments], cwd=copy.folder, env=copy.environment, stdin=subprocess.DEVNULL,
        capture_output=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    took = round(time.monotonic() - began, 1)
    try:
        record = json.loads(ended.stdout)
    except json.JSONDecodeError:
        record = {}
    (copy.folder / "why.json").write_bytes(ended.stdout)
    answer = (record.get("answer") or {}).get("why") or {}
    return {
        "exit_code": ended.returncode, "seconds": took, "error": ended.stderr.decode(errors="replace")[-TAIL:],
        "why": answer, "remedies": answer.get("remedies", []),
    }  # fmt: skip


def apply_change(checkouts: Checkouts, script: Script, plant: Plant | None, rounds: int) -> dict[str, Any]:
    """Watch a copy, planted or not, let `laptime apply` change it, and run it in turns with an unchanged one."""
    if plant is None:
        cause, changed = (copy_script(checkouts, script, side) for side in ("", " applied"))
    else:
        cause, changed = (copy_side(checkouts, script, plant, side) for side in ("cause", "applied"))
    changed.folder.joinpath(".gitignore").write_text("*.json\n", encoding="utf-8")
    record = changed.folder / "record.json"
    ended = [
        subprocess.run(
            [sys.executable, "-m", "laptime", *words], cwd=changed.folder, env=changed.environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )
        for words in (
            ["watch", "-q", "--json", str(record), "--", *changed.command],
            ["apply", str(record), "--yes"],
        )
    ]  # fmt: skip
    applied = ended[-1]
    found = json.loads(record.read_text(encoding="utf-8")).get("findings", []) if record.exists() else []
    first = next((each for each in found if each["rule"] != NOT_A_CAUSE), {})
    row = {"exit_code": applied.returncode, "said": (applied.stdout + applied.stderr)[-TAIL:], "first": first}
    if applied.returncode:
        return row
    return row | gain_of(in_turns({"cause": cause, "applied": changed}, rounds), plant.measure if plant else "mean_ms")
