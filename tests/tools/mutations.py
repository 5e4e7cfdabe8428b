"""Change one thing in src, run the tests that cover it, and say whether they noticed: 150 times, drawn by a seed.

    python tests/tools/mutations.py --count 150 --seed 0 [--root ANOTHER_CHECKOUT] [--only stats --only heat]
    python tests/tools/mutations.py --marks 'not long'    # what `make test` alone notices

A copy of the checkout is changed, never the checkout itself; a test that fails without a change says nothing, and is
set aside. Each change is tried on the tests of its own room first, then on all that need no framework, then on the slow
ones that run its room. What no test notices is listed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parents[2]
SOURCES = Path("src") / "laptime"
NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "results")
NEED_NONE = ("analysis", "data", "diagnosis", "extending", "heat", "machine", "model", "pipelines", "planner", "pages",
             "run", "sensors", "stats", "store", "wire", "workloads", "questions")  # fmt: skip
SLOW = {
    "backends": ("backends", "contracts"),
    "remedies": ("remedies",),
    "pipelines": ("backends", "cli"),
    "heat": ("backends", "contracts", "cli"),
}
SLOW_OTHERWISE = ("cli", "alone")
NOT_FOUND = "pytest ended with 4"
NO_END = "no end"  # it may hang by the change, or the machine was busy: counted separately
SWAPPED: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}


@dataclass(frozen=True)
class Mutation:
    """One expression of a file, and what it becomes."""

    place: Path
    node: ast.expr
    becomes: str

    @property
    def room(self) -> str:
        """The innermost folder or file that has tests of its own."""
        names = [part.removesuffix(".py") for part in self.place.parts[2:]]
        return next((name for name in reversed(names) if (HERE / "tests" / name).is_dir()), names[0])

    def __str__(self) -> str:
        return f"{self.place}:{self.node.lineno}  {ast.unparse(self.node)}  ->  {self.becomes}"

    def apply(self, root: Path) -> bytes:
        """Write the changed file below a root; return what it was."""
        place = root / self.place
        before = place.read_bytes()
        lines = before.splitlines(keepends=True)
        first, last = self.node.lineno - 1, self.node.end_lineno - 1
        head, tail = lines[first][: self.node.col_offset], lines[last][self.node.end_col_offset :]
        changed = [*lines[:first], head, f"({self.becomes})".encode(), tail, *lines[last + 1 :]]
        place.write_bytes(b"".join(changed))
        return before


def _becomes(node: ast.AST) -> str | None:
    """Return what an expression is changed into; nothing, where it is not one that is changed."""
    match node:
        case ast.Compare(left, [operator, *others], comparators) if type(operator) in SWAPPED:
            return ast.unparse(ast.Compare(left, [SWAPPED[type(operator)](), *others], comparators))
        case ast.BoolOp(operator, values):
            return ast.unparse(ast.BoolOp(SWAPPED[type(operator)](), values))
        case ast.BinOp(left, operator, right) if type(operator) in SWAPPED and not isinstance(left, ast.Constant):
            return ast.unparse(ast.BinOp(left, SWAPPED[type(operator)](), right))
        case ast.UnaryOp(ast.Not(), operand):
            return ast.unparse(operand)
        case ast.IfExp(test, body, orelse):
            return ast.unparse(ast.IfExp(test, orelse, body))
        case ast.Constant(bool() as value):
            return str(not value)
        case ast.Constant(int() as value):
            return str(value + 1)
        case ast.Constant(float() as value):
            return str(2 * value + 1)
    return None


def _expressions(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk through what runs: no annotation, and nothing inside an f-string, which has no place of its own."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.JoinedStr):
            continue
        if isinstance(child, ast.Return) and child.value is not None:
            yield child
        if isinstance(child, ast.expr):
            yield child
        if isinstance(tree, ast.AnnAssign | ast.arg) and child is tree.annotation:
            continue
        if isinstance(tree, ast.FunctionDef) and child is tree.returns:
            continue
        yield from _expressions(child)


def all_mutations(root: Path) -> list[Mutation]:
    found = []
    for place in sorted((root / SOURCES).rglob("*.py")):
        for node in _expressions(ast.parse(place.read_bytes())):
            if isinstance(node, ast.Return):
                if not isinstance(node.value, ast.Constant):
                    found.append(Mutation(place.relative_to(root), node.value, "None"))
            elif becomes := _becomes(node):
                found.append(Mutation(place.relative_to(root), node, becomes))
    return found


class Suite:
    """The tests of a copy of the checkout."""

    def __init__(self, root: Path, longest_s: float, stages: int, marks: str) -> None:
        self.root, self.longest_s, self.stages, self.marks = root, longest_s, stages, marks
        self._broken: set[str] = set()

    def notices(self, mutation: Mutation) -> str | None:
        """Return the first test that notices a change; nothing, where none does."""
        slow = SLOW.get(mutation.room, SLOW_OTHERWISE)
        for stage in ((mutation.room,), NEED_NONE, slow)[: self.stages]:
            folders = [f"tests/{each}" for each in stage if (self.root / "tests" / each).is_dir()]
            while folders and (failed := self._first_failure(mutation, folders)):
                if failed not in self._broken:
                    return failed
        return None

    def _first_failure(self, mutation: Mutation, folders: list[str]) -> str | None:
        """Return the first test that fails on changed sources; one that fails without the change is set aside."""
        before = mutation.apply(self.root)
        try:
            failed = self._run("-x", *(f"--deselect={each}" for each in sorted(self._broken)), *folders)
        finally:
            (self.root / mutation.place).write_bytes(before)
        if failed is not None and "::" in failed and self._run(failed) not in {None, NOT_FOUND}:
            print(f"fails without a change: {failed}", flush=True)
            self._broken.add(failed)
        return failed

    def _run(self, *words: str) -> str | None:
        """Return the first test that fails, or why there is none to name; nothing, where all pass."""
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "--tb=no", "-rfE"]
        command += ["-m", self.marks] * bool(self.marks)
        environment = {**os.environ, "PYTHONPATH": str(self.root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        process = subprocess.Popen(
            [*command, *words],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            said, _ = process.communicate(timeout=self.longest_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return NO_END
        if process.returncode in {0, 5}:
            return None
        lines = (line for line in said.splitlines() if line.startswith(("FAILED", "ERROR")))
        return next(
            (line.partition(" ")[2].split(" - ")[0] for line in lines), f"pytest ended with {process.returncode}"
        )


def main() -> None:
    """Draw, try, and print a table by room."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=HERE)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=float, default=900.0, help="seconds a stage may take")
    parser.add_argument("--stages", type=int, default=3, help="1: its own room alone; 2: and all fast tests")
    parser.add_argument("--only", action="append", default=[], help="a room; all by default")
    parser.add_argument("--marks", default="", help="the tests that pytest -m selects; all by default")
    asked = parser.parse_args()
    found = [each for each in all_mutations(asked.root) if not asked.only or each.room in asked.only]
    drawn = random.Random(asked.seed).sample(found, min(asked.count, len(found)))
    print(f"{len(drawn)} of {len(found):,} mutations, seed {asked.seed}", flush=True)
    caught, endless, missed = Counter[str](), Counter[str](), list[Mutation]()
    with tempfile.TemporaryDirectory(prefix="laptime-mutations-") as folder:
        root = Path(folder) / "copy"
        shutil.copytree(asked.root, root, ignore=NOT_COPIED)
        suite = Suite(root, asked.longest, asked.stages, asked.marks)
        for number, each in enumerate(drawn, 1):
            began_s = time.monotonic()
            by = suite.notices(each)
            caught[each.room] += by not in {None, NO_END}
            endless[each.room] += by == NO_END
            missed += [each] * (by is None)
            told = f"caught by {by}" if by else "NOT CAUGHT"
            print(f"{number:3}  {time.monotonic() - began_s:5.0f} s  {told}  {each}", flush=True)
    total = Counter(each.room for each in drawn)
    print(f"\n{'room':12}{'drawn':>7}{'caught':>8}{'no end':>8}")
    for room in sorted(total):
        print(f"{room:12}{total[room]:7}{caught[room]:8}{endless[room]:8}")
    print(f"{'all':12}{total.total():7}{caught.total():8}{endless.total():8}\n\nNot caught:", *missed, sep="\n  ")


if __name__ == "__main__":
    main()
