"""Is an edit that changes nothing ever kept? Real verdicts on real trainings, each edited so that it does the same.

    python bench/verdict_edits.py                       60 verdicts of at most 25 s (half an hour)
    python bench/verdict_edits.py --verdicts 5 --seed 7

Each verdict compares a training with a copy of its file that one to three edits changed, drawn by a seed: a local name
is renamed, comments are added, independent lines change places, an expression is written in another way that gives the
same bits. So every KEEP is wrong. A busy machine is welcome: the noise of a real one is what is tried. At most one KEEP
in a hundred is promised, so at most one in 60 is allowed; what is called other work is wrong, too, and none is allowed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import ROOT, STDERR_SHOWN, Figure, WorkerError, finish, fresh_home, parser_for

VERDICTS = 60
BUDGET = "25s"
OTHERS = ("DISCARD", "UNDECIDED")
EDITS_MOST = 3
TRAININGS = (
    ("examples/two_trainings.py", "after", "python/cpu"),
    ("examples/numpy_training.py", "training", "python/cpu"),
    ("examples/own_training.py", "training", "torch/cpu"),
    ("bench/verdict_trainings.py", "convolution", "torch/cpu"),
    ("bench/verdict_trainings.py", "regression", "python/cpu"),
)
Edit = Callable[[ast.Module, random.Random], bool]
"""Change a tree in place. Returns whether there was something to change."""


def rename_local(tree: ast.Module, rng: random.Random) -> bool:
    """Rename a variable of a function that holds no other scope."""
    scopes = (ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.comprehension, ast.Global)
    found = []
    for function in _functions(tree):
        inner = [node for statement in function.body for node in ast.walk(statement)]
        if not any(isinstance(node, scopes) for node in inner):
            stored = {node.id for node in inner if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
            found += [(inner, name) for name in sorted(stored - {each.arg for each in function.args.args})]
    if not found:
        return False
    inner, name = rng.choice(found)
    for node in inner:
        if isinstance(node, ast.Name) and node.id == name:
            node.id = f"{name}_of_this_step"
    return True


def swap_lines(tree: ast.Module, rng: random.Random) -> bool:
    """Let two neighbours change places: definitions of functions, or assignments of which one calls nothing."""
    found = [
        (body, place)
        for body in (node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.FunctionDef))
        for place in range(len(body) - 1)
        if _are_independent(body[place], body[place + 1])
    ]
    if not found:
        return False
    body, place = rng.choice(found)
    body[place], body[place + 1] = body[place + 1], body[place]
    return True


def _are_independent(one: ast.stmt, other: ast.stmt) -> bool:
    if isinstance(one, ast.FunctionDef) and isinstance(other, ast.FunctionDef):
        return not (one.decorator_list or other.decorator_list)
    if not (isinstance(one, ast.Assign) and isinstance(other, ast.Assign)):
        return False
    calls = [any(isinstance(node, ast.Call) for node in ast.walk(each)) for each in (one, other)]
    names = [_names(each, ast.Load | ast.Store) for each in (one, other)]
    return not all(calls) and not (_names(one, ast.Store) & names[1] or _names(other, ast.Store) & names[0])


def _names(tree: ast.AST, kind: Any) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, kind)}


def write_otherwise(tree: ast.Module, rng: random.Random) -> bool:
    """Write one expression in another way: a product turned round, range(n) from 0, a result that has a name first."""
    ways: list[Callable[[], None]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and _is_figure(node.left):
            ways.append(lambda node=node: node.__dict__.update(left=node.right, right=node.left))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "range" and len(node.args) == 1:
            ways.append(lambda node=node: node.args.insert(0, ast.Constant(0)))
        if isinstance(node, ast.FunctionDef) and isinstance(node.body[-1], ast.Return) and node.body[-1].value:
            ways.append(lambda node=node: _name_result(node))
    if not ways:
        return False
    rng.choice(ways)()
    return True


def _is_figure(node: ast.expr) -> bool:
    """Whether this is a number, or a constant of the file: then a product is the same from either side."""
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


def _name_result(function: ast.FunctionDef) -> None:
    last = function.body[-1]
    assert isinstance(last, ast.Return)
    assert last.value is not None
    name = "result_of_this_step"
    function.body[-1:] = [
        ast.Assign([ast.Name(name, ast.Store())], last.value),
        ast.Return(ast.Name(name, ast.Load())),
    ]


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def add_comments(text: str, rng: random.Random) -> str:
    """Write comments and empty lines in front of a third of the statements."""
    lines, tree = text.splitlines(), ast.parse(text)
    starts = {node.lineno: node.col_offset for node in ast.walk(tree) if isinstance(node, ast.stmt)}
    made: list[str] = []
    for number, line in enumerate(lines, 1):
        if number in starts and rng.random() < 1 / 3 and line[: starts[number]].strip() == "":
            made += ["", f"{' ' * starts[number]}# line {number} was here before"]
        made.append(line)
    return "\n".join(made) + "\n"


CHANGES: dict[str, Edit] = {"rename": rename_local, "swap": swap_lines, "expression": write_otherwise}


def edit(text: str, rng: random.Random) -> tuple[str, tuple[str, ...]]:
    """Return a file that does the same, and the edits that made it."""
    tree, drawn = ast.parse(text), rng.sample([*CHANGES, "comments"], rng.randint(1, EDITS_MOST))
    done = [name for name in drawn if name == "comments" or CHANGES[name](tree, rng)]
    edited = text if done in ([], ["comments"]) else ast.unparse(ast.fix_missing_locations(tree))
    if "comments" in done or not done:
        edited, done = add_comments(edited, rng), [*done, *([] if done else ["comments"])]
    compile(edited, "edited", "exec")
    return edited, tuple(done)


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict on an edited training."""

    training: str
    edits: tuple[str, ...]
    verdict: str
    cause: str
    reason: str
    ratio: float | None
    low: float | None
    high: float | None
    rounds: int
    seconds: float


def judge(number: int, seed: int, options: Sequence[str]) -> Judged:
    """Edit a training by a seed, and let `laptime verdict` say what it makes of it."""
    file, function, lane = TRAININGS[number % len(TRAININGS)]
    text = (ROOT / file).read_text(encoding="utf-8")
    edited, edits = edit(text, random.Random(f"{seed} {number}"))
    with tempfile.TemporaryDirectory(prefix="laptime-edits-") as made:
        sides = []
        for side, content in (("base", text), ("edited", edited)):
            place = Path(made) / side / Path(file).name
            place.parent.mkdir()
            place.write_text(content, encoding="utf-8")
            sides.append(f"{place}:{function}")
        said = ask(["verdict", *sides, lane, *options])
    fields = ("verdict", "cause", "reason", "ratio", "low", "high", "rounds", "seconds")
    return Judged(f"{file}:{function}", edits, **{name: said[name] for name in fields})


def ask(words: list[str]) -> dict[str, Any]:
    """Return what a verdict says to a program, whatever its exit code is."""
    command = [sys.executable, "-m", "laptime", *words, "--json", "-q"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if not ran.stdout:
        raise WorkerError(f"a verdict ended with exit code {ran.returncode}: {ran.stderr.strip()[-STDERR_SHOWN:]}")
    said: dict[str, Any] = json.loads(ran.stdout)
    return said


def judge_all(given: argparse.Namespace) -> list[Judged]:
    """Return all verdicts, each printed as it comes; those so far where Ctrl-C ends it."""
    judged: list[Judged] = []
    options = ("--budget", given.budget, *(("--session", "edits") if given.session else ()))
    with fresh_home(), contextlib.suppress(KeyboardInterrupt):
        for number in range(given.first, given.first + given.verdicts):
            judged.append(one := judge(number, given.seed, options))
            ratio = "no ratio" if one.ratio is None else f"{one.ratio:.4f}x"
            words = f"{one.verdict}, {one.cause}"
            print(f"{number + 1:3} {words:22} {ratio:9} {one.training} ({', '.join(one.edits)})", flush=True)
    return judged


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--verdicts", type=int, default=VERDICTS)
    parser.add_argument("--first", type=int, default=0, help="the number of the first edit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", default=BUDGET)
    parser.add_argument("--session", action="store_true", help="all verdicts share one error")
    given = parser.parse_args()
    judged = judge_all(given)
    words = Counter(each.verdict for each in judged)
    other_work = sum(each.cause == "other work" for each in judged)
    figures = [
        Figure("edits that change nothing: KEEP", words["KEEP"], f"of {len(judged)}", most=1),
        Figure("edits that change nothing: called other work", other_work, f"of {len(judged)}", most=0),
        *(Figure(f"edits that change nothing: {word}", words[word], f"of {len(judged)}") for word in OTHERS),
    ]
    details = {
        "seed": given.seed,
        "first": given.first,
        "budget": given.budget,
        "session": given.session,
        "verdicts": [asdict(each) for each in judged],
    }
    return finish("verdict_edits", figures, given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
