"""One statement of a script is left out: what would its training take without it? Or what it makes is made twice.

Or it is done in every tenth turn only, as the change of code does that `laptime apply` makes for an evaluation.

The parent asks which can be left out, and the agent compiles the script so. Whatever else reads of what the statement
makes must not be there. What it does besides, such as writing a file, is left out, too. What something reads can be
made once more in front of it, and thrown away: what that takes is what it takes.
"""

from __future__ import annotations

import ast
import os

from . import kinds

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

TRAINING = {"backward", "step", "zero_grad", "update", "minimize", "train", "eval", "fit", "apply_gradients", "exit",
            "load_state_dict", "push", "put", "pop"}  # fmt: skip
DEMANDED = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Raise, ast.Import, ast.ImportFrom, ast.Global,
          ast.Nonlocal, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Delete, ast.Assert)  # fmt: skip
JUMPS = (ast.Break, ast.Continue)
LOOPS = (ast.For, ast.While)
ENCLOSING = (*LOOPS, ast.With)
SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign)
MAKING = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)
# What may take something away, hand it on, or wait, if it is called once more.
NOT_AGAIN = {"append", "appendleft", "extend", "insert", "add", "remove", "discard", "clear", "popleft", "popitem",
             "get", "get_nowait", "send", "recv", "write", "writelines", "read", "readline", "readlines", "wait",
             "join", "result", "acquire", "release", "shuffle", "seed", "manual_seed", "sort", "reverse",
             "setdefault"}  # fmt: skip
NAMES_NOT_AGAIN = {"next", "print", "input", "open", "exec", "eval", "setattr", "delattr"}
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef)


def lines_changed(source: Any, line: int, change: str) -> Any:
    """Return the first and the last line of the statement that such a change is of; None where it cannot be made."""
    try:
        found = LINE_CHANGES[change][0](ast.parse(source), line)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return None if found is None else (found[1].lineno, found[1].end_lineno)


def compile_changed(source: Any, place: str, line: int, change: str) -> Any:
    """Return the code of a file with a statement changed so; None where that cannot be."""
    find, edit = LINE_CHANGES[change]
    tree = ast.parse(source, place)
    found = find(tree, line)
    if found is None:
        return None
    edit(*found)
    return compile(tree, place, "exec", dont_inherit=True)


def _pass_over(body: Any, statement: Any) -> None:
    body[body.index(statement)] = ast.copy_location(ast.Pass(), statement)


def _make_twice(body: Any, statement: Any) -> None:
    body.insert(body.index(statement), ast.copy_location(ast.Expr(statement.value), statement))


# In every tenth turn; they are counted where no variable of the script can be.
IS_DUE = "globals().setdefault('__laptime_turns__', __import__('itertools').count()).__next__() % 10 == 0"


def _do_seldom(body: Any, statement: Any) -> None:
    """Do a statement, or what is behind an `if`, when it is come to first, and every tenth time after that."""
    guard: Any = ast.parse("if " + IS_DUE + ": pass").body[0]
    for node in ast.walk(guard):
        ast.copy_location(node, statement)
    if isinstance(statement, ast.If):
        guard.body = statement.body
        statement.body = [guard]
    else:
        guard.body = [statement]
        body[body.index(statement)] = guard


def _find_turn(tree: Any, line: int) -> Any:
    """Return the statement at a line with the body that it is in, if it trains nothing: not each turn has to do it.

    What it stores is read later, so it has to be within a loop that the same function goes through: there it stays.
    """
    ways = ways_to(tree, line)
    if not ways or not isinstance(ways[-1][1], (*SIMPLE, *ENCLOSING, ast.If)):
        return None
    statement = ways[-1][1]
    scope = _scope(tree, ways)
    done = statement.body if isinstance(statement, ast.If) else [statement]
    nodes = [node for part in done for node in ast.walk(part)]
    calls = {node.func.attr for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
    if calls & TRAINING or any(isinstance(node, (*DEMANDED, *JUMPS)) for node in nodes):
        return None
    around = [outer for _, outer in ways[:-1]]
    inner = around[around.index(scope) + 1 :] if scope in around else around
    return ways[-1] if any(isinstance(outer, LOOPS) for outer in inner) else None


def _find_repeatable(tree: Any, line: int) -> Any:
    """Return the statement at a line with the body that it is in, if what it makes can be made once more."""
    ways = ways_to(tree, line)
    if not ways or not isinstance(ways[-1][1], MAKING) or ways[-1][1].value is None:
        return None
    nodes = list(ast.walk(ways[-1][1].value))
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    attributes = {function.attr for function in called if isinstance(function, ast.Attribute)}
    names = {function.id for function in called if isinstance(function, ast.Name)}
    in_place = any(name.endswith("_") and not name.startswith("_") for name in attributes)
    changes = in_place or attributes & (TRAINING | NOT_AGAIN) or names & NAMES_NOT_AGAIN
    waits = any(isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)) for node in nodes)
    works = any(isinstance(node, (ast.Call, ast.BinOp, *COMPREHENSIONS)) for node in nodes)
    return ways[-1] if works and not changes and not waits else None


def line_in(place: str, word: str) -> int:
    """Return the line of a file that a word such as train.py:45 names; 0 if it names another file, or none."""
    name, _, line = word.rpartition(":")
    return int(line) if name and name == os.path.basename(place) else 0


def find_needless(tree: Any, line: int) -> Any:
    """Return the statement at a line with the body that it is in: the whole loop, or `with`, that does nothing else."""
    ways = ways_to(tree, line)
    if not ways or not _can_be_left_out(ways[-1][1], _scope(tree, ways)):
        return None
    found = ways[-1]
    for body, outer in reversed(ways[:-1]):
        is_all = isinstance(outer, ENCLOSING) and outer.body == [found[1]] and not getattr(outer, "orelse", None)
        if not is_all or not _can_be_left_out(outer, _scope(tree, ways)):
            break
        found = (body, outer)
    return found


def ways_to(tree: Any, line: int) -> list:
    """Return the statements around a line from the outermost on, each with the body that it is in."""
    ways: list = []
    inside: Any = tree
    while inside is not None:
        bodies = [getattr(inside, name, None) or [] for name in ("body", "orelse", "finalbody")]
        bodies += [handler.body for handler in getattr(inside, "handlers", ())]
        within = [(body, inner) for body in bodies for inner in body if inner.lineno <= line <= inner.end_lineno]
        inside = within[0][1] if within else None
        ways += within[:1]
    return ways


def _scope(tree: Any, ways: list) -> Any:
    """Return the innermost function, or the file, that the last of the statements is in."""
    for _, outer in reversed(ways[:-1]):
        if isinstance(outer, DEFINED):
            return outer
    return tree


def _can_be_left_out(statement: Any, scope: Any) -> bool:
    """Whether all goes on without a statement: it trains nothing, and what it makes is read nowhere else."""
    if not isinstance(statement, (*SIMPLE, *ENCLOSING)):
        return False
    nodes = list(ast.walk(statement))
    calls = {node.func.attr for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
    jumps = () if isinstance(statement, LOOPS) else JUMPS
    in_place = any(name.endswith("_") and not name.startswith("_") for name in calls)  # as PyTorch names it
    if in_place or calls & TRAINING or any(isinstance(node, (*DEMANDED, *jumps)) for node in nodes):
        return False
    stored = [node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store)]
    if isinstance(statement, ast.AugAssign):
        return isinstance(statement.target, ast.Name)  # it was there before, and keeps its value
    if not all(isinstance(node, (ast.Name, ast.Tuple, ast.List, ast.Starred)) for node in stored):
        return False
    own = {name for node in nodes if isinstance(node, COMPREHENSIONS) for name in _targets(node)}
    names = {node.id for node in stored if isinstance(node, ast.Name)} - own
    return not any(_is_read(child, names, statement) for child in ast.iter_child_nodes(scope))


def _is_read(node: Any, names: set, statement: Any) -> bool:
    """Whether a name of these is read or shared in a node: not by the statement, nor where it is another variable."""
    if node is statement or not names:
        return False
    if isinstance(node, (*DEFINED, ast.Lambda)):
        within = list(ast.walk(node))
        if not any(isinstance(part, (ast.Global, ast.Nonlocal)) for part in within):
            stored = {part.id for part in within if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
            names = names - stored - {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}
    elif isinstance(node, (ast.For, ast.With, *COMPREHENSIONS)) and statement not in ast.walk(node):
        names = names - _targets(node)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
        return True
    if isinstance(node, (ast.Global, ast.Nonlocal)) and names & set(node.names):
        return True
    return any(_is_read(child, names, statement) for child in ast.iter_child_nodes(node))


def _targets(node: Any) -> set:
    """Return the names that a loop, a `with`, or a comprehension sets for itself."""
    if isinstance(node, ast.With):
        targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
    else:
        targets = [node.target] if isinstance(node, ast.For) else [loop.target for loop in node.generators]
    return {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}


# By the name of the setting: what finds the statement with the body that it is in, and what changes it there.
WAYS = ((find_needless, _pass_over), (_find_repeatable, _make_twice), (_find_turn, _do_seldom))
LINE_CHANGES = dict(zip(kinds.CHANGES_OF_LINES, WAYS))  # noqa: B905  of Python 3.8
