"""Changes of code that start a data loader, or make it, once, where a loop does it in each of its turns."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from laptime.attach.left_out import LOOPS, ways_to
from laptime.questions.text_edits import TextEdit, name_calls, set_keywords
from laptime.questions.user_code import NoPlaceError, SourceFile, UserCode

LOADERS = {"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"}
ALL_AGAIN = (
    "{batches} = itertools.chain.from_iterable(itertools.repeat({loader}))  # shuffled again after its last batch"
)


def start_loader_once(code: UserCode, _value: int) -> tuple[SourceFile, int, Sequence[TextEdit]]:
    """Write `next(batches)` for `next(iter(loader))`, with the batches made in front of the loop."""
    found = [(unit, call) for unit, call, _ in code.calls() if _loader_begun(call) and _loops_around(unit.file, call)]
    if len(found) != 1:
        raise NoPlaceError(f"{len(found)} loops begin a loader for each batch: {name_calls(found)}")
    ((unit, call),) = found
    file, loader = unit.file, _loader_begun(call)
    outer = next((loop for loop in _loops_around(file, call) if loader not in _stored_in(loop)), None)
    batches = f"{loader}_batches"
    if outer is None or batches in file.bound:
        raise NoPlaceError(f"{file.path.name}:{call.lineno} is in no loop that could take its batches from `{batches}`")
    line = ALL_AGAIN.format(batches=batches, loader=loader)
    return file, outer.lineno, [
        *_import_of(file, "itertools"),
        _line_before(file, outer, line),
        TextEdit(*file.span(call), f"next({batches})"),
    ]  # fmt: skip


def make_loader_once(code: UserCode, _value: int) -> tuple[SourceFile, int, Sequence[TextEdit]]:
    """Move the line that makes a loader in front of the loop, and keep its workers."""
    found = [
        (unit, call)
        for unit, call, name in code.calls()
        if name in LOADERS and _loops_around(unit.file, call)
    ]  # fmt: skip
    if len(found) != 1:
        raise NoPlaceError(f"{len(found)} loops make a loader: {name_calls(found)}")
    ((unit, call),) = found
    file = unit.file
    *around, (body, statement) = ways_to(file.tree, call.lineno)
    loop = around[-1][1] if around else None
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is call and isinstance(loop, LOOPS):
            pass
        case _:
            raise NoPlaceError(f"{file.path.name}:{call.lineno} does more in its loop than to make a loader")
    read = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    others = _stored_in(loop, but=statement)
    if read & others or name in others or len(body) == 1:
        raise NoPlaceError(f"the loader of {file.path.name}:{call.lineno} is another one in each turn of its loop")
    # Its own text goes over, with what keeps its workers
    workers = [keyword.value for keyword in call.keywords if keyword.arg == "num_workers"]
    has_workers = any(isinstance(count, ast.Constant) and count.value for count in workers)
    begin, end = file.span(statement)
    text = file.text[begin:end]
    if file.text[file.line_span(statement.lineno)[0] : begin].strip():
        raise NoPlaceError(f"{file.path.name}:{call.lineno} is behind another statement in its line")
    keeps = any(keyword.arg == "persistent_workers" for keyword in call.keywords)
    kept = set_keywords(file, call, {"persistent_workers": "True"}, ()) if has_workers and not keeps else []
    for edit in sorted(kept, key=lambda edit: -edit.start):
        text = text[: edit.start - begin] + edit.text + text[edit.end - begin :]
    first, _ = file.line_span(statement.lineno)
    _, last = file.line_span(statement.end_lineno or statement.lineno)
    after = last + len(file.newline) if file.text.startswith(file.newline, last) else last
    return file, loop.lineno, [_line_before(file, loop, text), TextEdit(first, after, "")]


def _loader_begun(call: ast.Call) -> str:
    """Return the name of the loader in `next(iter(loader))`; an empty string for any other call."""
    match call:
        case ast.Call(
            func=ast.Name(id="next"),
            args=[ast.Call(func=ast.Name(id="iter"), args=[ast.Name(id=loader)], keywords=[])],
            keywords=[],
        ):
            return loader
    return ""


def _loops_around(file: SourceFile, call: ast.Call) -> list[ast.stmt]:
    """Return the loops around a call in the same function, the outermost first."""
    around = [statement for _, statement in ways_to(file.tree, call.lineno)]
    scope = max((at + 1 for at, statement in enumerate(around) if isinstance(statement, ast.FunctionDef)), default=0)
    return [statement for statement in around[scope:] if isinstance(statement, LOOPS)]


def _stored_in(loop: ast.AST, but: ast.AST | None = None) -> set[str]:
    """Return the names that a loop stores, but for what one of its statements does."""
    inside = {id(node) for node in ast.walk(but)} if but is not None else set()
    return {
        node.id
        for node in ast.walk(loop)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in inside
    }


def _line_before(file: SourceFile, statement: ast.stmt, line: str) -> TextEdit:
    begin, _ = file.line_span(statement.lineno)
    indent = file.text[begin : file.span(statement)[0]]
    if indent.strip():
        raise NoPlaceError(f"{file.path.name}:{statement.lineno} is behind another statement in its line")
    return TextEdit(begin, begin, f"{indent}{line}{file.newline}")


def _import_of(file: SourceFile, module: str) -> list[TextEdit]:
    """Import a module of Python's library in front of the first import, unless the file has it by its name."""
    if file.imported.get(module) == module:
        return []
    first = next(
        (
            node
            for node in file.tree.body
            if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.module != "__future__")
        ),
        None,
    )
    if first is None or module in file.bound:
        raise NoPlaceError(f"{file.path.name} has no place for `import {module}`")
    return [_line_before(file, first, f"import {module}")]
