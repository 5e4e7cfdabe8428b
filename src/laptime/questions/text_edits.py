"""Editing the text of a call: its keywords, and what a reason names of it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from laptime.questions.user_code import LINE_END, CodePart, NoPlaceError, SourceFile

PLACES_NAMED = 4


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Text in place of what is between two places of a file; in place of nothing where both are the same."""

    start: int
    end: int
    text: str


def set_keywords(file: SourceFile, call: ast.Call, wanted: dict[str, str], positional: Sequence[str]) -> list[TextEdit]:
    """Set keywords of a call: in place of constants that it has, or behind its last argument."""
    if any(each.arg is None for each in call.keywords) or any(isinstance(each, ast.Starred) for each in call.args):
        raise NoPlaceError(f"{name_call(file, call)} takes arguments by * or **")
    edits, added = [], []
    for name, text in wanted.items():
        given = next((each.value for each in call.keywords if each.arg == name), None)
        if given is None and name in positional and positional.index(name) < len(call.args):
            given = call.args[positional.index(name)]
        if given is None:
            added.append(f"{name}={text}")
        elif not isinstance(given, ast.Constant):
            raise NoPlaceError(f"{name_call(file, call)} has {name}={said(file, given)}")
        elif said(file, given) != text:
            edits.append(TextEdit(*file.span(given), text))
    if not edits and not added:
        raise NoPlaceError(f"{name_call(file, call)} has it already")
    return [*edits, *_append(file, call, added)]


def _append(file: SourceFile, call: ast.Call, added: Sequence[str]) -> list[TextEdit]:
    """Add arguments at the end of a call, each on a line of its own where the last one has its own line."""
    if not added:
        return []
    close = file.span(call)[1] - 1
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    if not arguments:
        return [TextEdit(close, close, ", ".join(added))]
    last = max(arguments, key=lambda each: _end_of(file, each))
    after = _end_of(file, last)
    if file.text[close : close + 1] != ")" or after > close:
        raise NoPlaceError(f"where the arguments of {name_call(file, call)} end is not certain")
    after, has_comma = _pass_comma(file, after, close)
    begin = file.line_span(last.lineno)[0]
    indent = file.text[begin : file.offset(last.lineno, last.col_offset)]
    rest = file.text[after:close]
    if indent.strip() or not LINE_END.search(rest):
        return [TextEdit(after, after, (" " if has_comma else ", ") + ", ".join(added) + "," * has_comma)]
    comment = rest[: LINE_END.search(rest).start()]  # type: ignore[union-attr]  # just found
    lines = f",{file.newline}".join(f"{indent}{each}" for each in added)
    text = f"{'' if has_comma else ','}{comment}{file.newline}{lines}{',' * has_comma}"
    return [TextEdit(after, after + len(comment), text)]


def _end_of(file: SourceFile, node: ast.expr | ast.keyword) -> int:
    return file.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)


def _pass_comma(file: SourceFile, start: int, close: int) -> tuple[int, bool]:
    """Return where the last argument ends, with its own brackets and a comma behind it; and whether there is one."""
    after, has_comma, place = start, False, start
    while place < close:
        if file.text[place] == "#":
            found = LINE_END.search(file.text, place)
            place = found.start() if found else close
        elif file.text[place] in "),":
            after, has_comma = place + 1, file.text[place] == ","
        place += 1
    return after, has_comma


def said(file: SourceFile, node: ast.AST) -> str:
    """Return the text of an expression; an empty one of what has no place."""
    return file.text[slice(*file.span(node))] if isinstance(node, ast.expr) else ""


def name_call(file: SourceFile, node: ast.expr) -> str:
    return f"{file.path.name}:{node.lineno}"


def name_calls(found: Sequence[tuple[CodePart, ast.Call]]) -> str:
    named = [name_call(unit.file, call) for unit, call in sorted(found, key=lambda each: each[1].lineno)]
    return ", ".join(named[:PLACES_NAMED]) + (", and others" if len(named) > PLACES_NAMED else "")
