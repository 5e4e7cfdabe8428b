"""What is trained: a built-in workload by its name, or a user's own function by `file.py:function`."""

from __future__ import annotations

import ast
from pathlib import Path

from laptime.errors import UsageError
from laptime.model.plan import Subject
from laptime.model.workload import Adam, Workload
from laptime.workloads import find_workload

SIGNS = {"keras": {"keras", "tensorflow"}, "jax": {"jax", "flax", "equinox", "optax"}, "torch": {"torch"}}


def find_subject(what: str) -> tuple[Subject, Workload | None]:
    """Understand WHAT; nothing of the user's is run here."""
    if ".py" in what:
        return _own_subject(what), None
    workload = find_workload(what)
    return _describe(workload), workload


def _describe(workload: Workload) -> Subject:
    optimizer = "Adam" if isinstance(workload.optimizer, Adam) else "SGD"
    return Subject(
        name=workload.name,
        title=workload.title,
        parameters=workload.parameters,
        batch=workload.batch,
        steps_per_lap=workload.steps_per_lap,
        laps=workload.laps,
        items=workload.items,
        optimizer=optimizer,
        loss=workload.loss,
    )


def _own_subject(what: str) -> Subject:
    place, colon, function = what.rpartition(":")
    if not colon or not function.isidentifier():
        raise UsageError(
            f"'{what}' names a file but no function in it",
            f"give {what.split(':', 1)[0]}:function, where the function returns a laptime.Training",
        )
    file = Path(place).expanduser()
    if not file.is_file():
        raise UsageError(f"there is no file {file}", "give the path of a Python file, as file.py:function")
    tree = _read_tree(file)
    _check_function(tree, file, function)
    return Subject(
        name=f"{file.name}:{function}",
        title=f"{function} of {file.name}",
        parameters=None,
        batch=None,
        steps_per_lap=None,
        laps=None,
        items="items",
        file=str(file.resolve()),
        function=function,
        written_for=_written_for(tree, function),
    )


def _read_tree(file: Path) -> ast.Module:
    """Read the text: the file is run in the child only, never here."""
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    except (SyntaxError, ValueError, OSError) as error:  # a null byte was a ValueError until Python 3.11.4
        raise UsageError(f"{file} cannot be read as Python: {error}", "mend the file") from None


def _written_for(tree: ast.Module, function: str) -> str | None:
    """Tell the framework by what is imported; Keras first, for which the others are engines.

    A step is a function of JAX's, or of anything else: no lane but python's asks what it computes with.
    """
    named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    roots = {name.split(".")[0] for name in named}
    found = [framework for framework, modules in SIGNS.items() if roots & modules]
    if _gives_step(tree, function):
        return "jax" if "jax" in found else "python"
    return found[0] if found else None


def _gives_step(tree: ast.Module, function: str) -> bool:
    """Look at what the function returns; at the whole file, where it has that from another."""
    bodies = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    made = [call for body in bodies for call in _trainings_in(body)] or _trainings_in(tree)
    return any(keyword.arg == "step" for call in made for keyword in call.keywords)


def _trainings_in(tree: ast.AST) -> list[ast.Call]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call for call in calls if ast.unparse(call.func) in {"Training", "laptime.Training"}]


def _check_function(tree: ast.Module, file: Path, function: str) -> None:
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    bound = {name.id for node in ast.walk(tree) if isinstance(node, ast.Assign) for name in ast.walk(node)
             if isinstance(name, ast.Name)}  # fmt: skip
    bound |= {alias.asname or alias.name for node in ast.walk(tree)
              if isinstance(node, ast.ImportFrom) for alias in node.names}  # fmt: skip
    if function not in bound | set(names):
        there = ", ".join(names) or "none"
        raise UsageError(f"{file} has no function '{function}'", f"functions there: {there}")
