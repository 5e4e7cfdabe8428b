"""From the cells of a notebook to one file: the statements that a function needs, in the order in which they ran.

A statement is needed where it binds or changes a name that a needed statement reads. A name that a statement reads when
it runs is looked up among the statements before it. A name in the body of a function is looked up where the function is
called, so later definitions count.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import re
import symtable
import types
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from laptime.errors import UsageError
from laptime.model.questions import QUESTIONS

# Calls whose only purpose is to change what they are called on, or a library's global state.
CHANGING_CALLS = re.compile(
    r"append|extend|insert|add|update|setdefault|remove|discard|pop|clear|sort|reverse"
    r"|(set|use|enable|disable|register)_\w+|(manual_)?seed"
)
ASKS = tuple(each.command for each in QUESTIONS if each.has_magic)
RUNS_ITS_CELL = {"time", "capture", "prun", *ASKS}  # cell magics that run the rest in the notebook's own names
OF_OURS = re.compile(rf"\s*get_ipython\(\)\.run_cell_magic\('({'|'.join(ASKS)})'")  # as IPython keeps a cell
RUN_AT_ONCE = {"listcomp", "setcomp", "dictcomp", "genexpr"}
ALWAYS_THERE = {*dir(builtins), *dir(types.ModuleType("any")), "__builtins__", "__file__"}
FUTURE = "__future__"
IMPORT_STAR = "*"
OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
CONDITIONAL = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.With, ast.AsyncWith, ast.Match)


@dataclass(frozen=True, slots=True)
class Statement:
    """One top-level statement of a cell.

    It `binds` names, and `changes` what other names hold. It `reads` names when it runs; functions in it read `later`
    names when they are called. If it `settles`, earlier definitions of what it binds do not matter.
    """

    node: ast.stmt
    binds: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    later: frozenset[str] = frozenset()
    settles: bool = True

    @property
    def is_definition(self) -> bool:
        return isinstance(self.node, DEFINITIONS)


def read_cells(cells: Iterable[str], reached: int | None = None) -> list[Statement]:
    """Return the statements of all cells, in order. Of the last one, only those above the line `reached`.

    A cell that is not Python, and so did not run, has none. A cell of laptime's own magic has run to its end.
    """
    texts = list(cells)
    trees = [_parse(cell) for cell in texts]
    if trees and reached is not None and not OF_OURS.match(texts[-1]):
        trees[-1] = [node for node in trees[-1] if (node.end_lineno or node.lineno) < reached]
    return [statement for nodes in trees for statement in map(_describe, nodes) if statement is not None]


def write_file(statements: Sequence[Statement], function: str, path: Sequence[str]) -> str:
    """Return the text of a file with all that `function` needs. `path` is added to the import path."""
    nodes = [statements[index].node for index in sorted(find_needed(statements, function))]
    future = dict.fromkeys(ast.unparse(each.node) for each in statements if _is_future(each.node))
    lines = [f'"""laptime made this file from the cells of a notebook: all that `{function}` needs."""', *future]
    lines += ["import sys", f"sys.path += [each for each in {list(path)!r} if each not in sys.path]"]
    return "\n".join(lines) + "\n\n" + "\n\n".join(map(ast.unparse, nodes)) + "\n"


def find_needed(statements: Sequence[Statement], function: str) -> set[int]:
    """Return the places of the statements that the function needs. Refuse a name that no statement binds."""
    search = _Search(statements)
    search.find(function)
    if search.unknown:
        names = ", ".join(f"'{name}'" for name in sorted(search.unknown))
        raise UsageError(
            f"'{function}' needs {names}, which no cell of this notebook defines",
            "Define it in a cell (as Python, not by a magic), or write the training in a file and import it.",
        )
    return search.needed


class _Search:
    """Follows names to the statements that bind or change them, and their names in turn."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self._statements = statements
        self._seen: set[tuple[str, int]] = set()
        self.needed: set[int] = set()
        self.unknown: set[str] = set()

    def find(self, name: str) -> None:
        wanted = [(name, len(self._statements), True)]
        while wanted:
            name, before, must_be_there = wanted.pop()
            if (name, before) in self._seen:
                continue
            self._seen.add((name, before))
            found = self._definers(name, before)
            if not found and must_be_there and name not in ALWAYS_THERE:
                self.unknown.add(name)
            self.needed.update(found)
            for place in found:
                statement = self._statements[place]
                wanted += [(each, place, each not in statement.binds) for each in statement.reads]
                wanted += [(each, before, True) for each in statement.later]
                if not statement.is_definition:  # a lambda may be called at once
                    wanted += [(each, place, False) for each in statement.later]

    def _definers(self, name: str, before: int) -> list[int]:
        """Return the last statement before a place that settles a name, and all after it that bind or change it."""
        found: list[int] = []
        is_bound = False
        for place in reversed(range(before)):
            statement = self._statements[place]
            if name in statement.binds | statement.changes:
                found.append(place)
            if name in statement.binds:
                is_bound = True
                if statement.settles:
                    break
        if is_bound or name in ALWAYS_THERE:
            return found
        return [place for place in range(before) if IMPORT_STAR in self._statements[place].binds]


def _parse(cell: str) -> list[ast.stmt]:
    try:
        nodes = ast.parse(cell).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [inner for node in nodes for inner in _inside_magic(node)]


def _inside_magic(node: ast.stmt) -> list[ast.stmt]:
    """Return the statements below a cell magic such as %%time, which runs them; any other statement as it is."""
    match node:
        case ast.Expr(
            ast.Call(
                ast.Attribute(ast.Call(ast.Name("get_ipython")), "run_cell_magic"),
                [ast.Constant(str(magic)), _, ast.Constant(str(body))],
            )
        ) if magic in RUNS_ITS_CELL:
            return _parse(body)
    return [node]


def _describe(node: ast.stmt) -> Statement | None:
    """Return a statement with its names, or None where it cannot be compiled outside a notebook, as `await` is."""
    if isinstance(node, ast.ImportFrom) and node.names[0].name == IMPORT_STAR:
        return Statement(node, binds=frozenset({IMPORT_STAR}), settles=False)
    if _is_future(node):
        return Statement(node)
    try:
        table = symtable.symtable(ast.unparse(node), "cell", "exec")
    except (SyntaxError, RecursionError):
        return None
    symbols = table.get_symbols()
    at_once = {each.get_name() for each in symbols if each.is_referenced()}
    later: set[str] = set()
    for inner in table.get_children():
        _collect(inner, at_once, later)
    return Statement(
        node,
        binds=frozenset(each.get_name() for each in symbols if each.is_assigned() or each.is_imported()),
        changes=frozenset(_changed(node)),
        reads=frozenset(at_once),
        later=frozenset(later),
        settles=_settles(node),
    )


def _collect(table: symtable.SymbolTable, at_once: set[str], later: set[str]) -> None:
    """Add the global names of a scope: the body of a class and a comprehension run at once, a function later."""
    runs_now = table.get_type() == "class" or table.get_name().strip("<>") in RUN_AT_ONCE
    names = at_once if runs_now else later
    names |= {each.get_name() for each in table.get_symbols() if each.is_global() and each.is_referenced()}
    for inner in table.get_children():
        _collect(inner, names, later)


def _settles(node: ast.stmt) -> bool:
    """Whether an earlier definition of the names is lost. `import a.b` adds to what an earlier `import a.c` bound."""
    if isinstance(node, ast.Import):
        return not any("." in each.name and each.asname is None for each in node.names)
    return not isinstance(node, (ast.AugAssign, *CONDITIONAL))


def _changed(node: ast.stmt) -> Iterator[str]:
    """Return the names whose objects a statement changes: `a.b = 1`, `a["b"] = 1`, `a.append(1)`, `a.b.set_c(1)`."""
    for each in _same_scope(node):
        match each:
            case ast.Attribute() | ast.Subscript() if not isinstance(each.ctx, ast.Load):
                yield from _root(each)
            case ast.Expr(ast.Call(ast.Attribute(attr=called) as function)) if CHANGING_CALLS.fullmatch(called):
                yield from _root(function)


def _same_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Return a node and all below it, but not what is in functions and classes."""
    yield node
    if not isinstance(node, OWN_SCOPE):
        for inner in ast.iter_child_nodes(node):
            yield from _same_scope(inner)


def _root(node: ast.AST) -> Iterator[str]:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == FUTURE


def without_failed(statements: Sequence[Statement], lived: dict[str, str]) -> list[Statement]:
    """Leave out functions that never came to be, because their cell failed above them.

    `lived` has the source of each function that the notebook holds now.
    """
    last: dict[str, int] = {}
    for place, statement in enumerate(statements):
        if isinstance(statement.node, ast.FunctionDef) and _is_source(statement.node, lived):
            last[statement.node.name] = place
    return [
        statement
        for place, statement in enumerate(statements)
        if not isinstance(statement.node, ast.FunctionDef) or place <= last.get(statement.node.name, place)
    ]


def _is_source(node: ast.FunctionDef, lived: dict[str, str]) -> bool:
    with contextlib.suppress(SyntaxError, ValueError):
        return ast.dump(ast.parse(lived.get(node.name, ""))) == ast.dump(ast.Module([node], []))
    return False
