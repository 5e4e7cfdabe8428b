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


def set_keywords(
    file: SourceFile, call: ast.Call, wanted: dict[str, str], positional: Sequence[str], *, having: str = ""
) -> list[TextEdit]:
    """Set keywords of a call: in place of constants that it has, in a dict that it takes by **, or behind its last one.

    Of the dicts, only those that are `having` a key get others.
    """
    edits: list[TextEdit] = []
    added: list[str] = []
    dicts = dicts_given(file, call)
    missing: list[list[str]] = [[] for _ in dicts]
    for name, text in wanted.items():
        given = given_for(call, dicts, name)
        if name in positional and positional.index(name) < len(call.args):
            given = [call.args[positional.index(name)]]
        if not given and not dicts:
            added.append(f"{name}={text}")
        if all(keyword.arg != name for keyword in call.keywords):
            for known, keys in zip(dicts, missing, strict=True):
                if name not in _items(known) and (not having or having in _items(known)):
                    keys.append(f"'{name}': {text}")
        for value in given:
            if not isinstance(value, ast.Constant):
                raise NoPlaceError(f"{name_call(file, call)} has {name}={said(file, value)}")
            if said(file, value) != text:
                edits.append(TextEdit(*file.span(value), text))
    edits += [_added_to(file, known, keys) for known, keys in zip(dicts, missing, strict=True) if keys]
    if not edits and not added:
        raise NoPlaceError(f"{name_call(file, call)} has it already")
    return [*edits, *_append(file, call, added)]


def given_for(call: ast.Call, dicts: Sequence[ast.Dict], name: str) -> list[ast.expr]:
    """Return what a call is given for a keyword: by its name, or in each dict that it may take by **."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == name]
    return named or [_items(given)[name] for given in dicts if name in _items(given)]


def dicts_given(file: SourceFile, call: ast.Call) -> list[ast.Dict]:
    """Return the dicts of which a call takes one by **: they are written in one place, and serve such calls alone."""
    taken = [keyword.value for keyword in call.keywords if keyword.arg is None]
    if not taken and not any(isinstance(arg, ast.Starred) for arg in call.args):
        return []
    refused = NoPlaceError(f"{name_call(file, call)} takes arguments by * or **")
    if len(taken) != 1 or not isinstance(taken[0], ast.Name):
        raise refused
    name = taken[0].id
    nodes = list(ast.walk(file.tree))
    made = [node.value for node in nodes if isinstance(node, ast.Assign) and _names_only(node.targets, name)]
    alike = [node for node in nodes if isinstance(node, ast.Call) and ast.dump(node.func) == ast.dump(call.func)]
    uses = sum(item.arg is None and _names_only([item.value], name) for other in alike for item in other.keywords)
    # Such as options.update(...) where there is a card: what it sets later wins.
    uses += sum(
        isinstance(node, ast.Attribute) and node.attr == "update" and _names_only([node.value], name) for node in nodes
    )
    dicts = _branches(made[0]) if len(made) == 1 else []
    if not dicts or sum(_names_only([node], name) for node in nodes) != uses + 1:
        raise refused
    return dicts


def _names_only(nodes: Sequence[ast.AST], name: str) -> bool:
    return len(nodes) == 1 and isinstance(nodes[0], ast.Name) and nodes[0].id == name


def _branches(value: ast.expr) -> list[ast.Dict]:
    """Return a dict that is written out, or both of `a if test else b`; none where a key is not a plain word."""
    parts = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    dicts = [part for part in parts if isinstance(part, ast.Dict) and len(_items(part)) == len(part.keys)]
    return dicts if len(dicts) == len(parts) else []


def _items(given: ast.Dict) -> dict[str, ast.expr]:
    pairs = zip(given.keys, given.values, strict=True)
    return {key.value: value for key, value in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str)}


def _added_to(file: SourceFile, given: ast.Dict, items: Sequence[str]) -> TextEdit:
    """Add items behind the last one of a dict."""
    end = _end_of(file, given.values[-1]) if given.values else file.span(given)[1] - 1
    return TextEdit(end, end, (", " if given.values else "") + ", ".join(items))


def _append(file: SourceFile, call: ast.Call, added: Sequence[str]) -> list[TextEdit]:
    """Add arguments at the end of a call, each on a line of its own where the last one has its own line."""
    if not added:
        return []
    close = file.span(call)[1] - 1
    arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    if not arguments:
        return [TextEdit(close, close, ", ".join(added))]
    last = max(arguments, key=lambda argument: _end_of(file, argument))
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
    lines = f",{file.newline}".join(f"{indent}{item}" for item in added)
    text = f"{'' if has_comma else ','}{comment}{file.newline}{lines}{',' * has_comma}"
    return [TextEdit(after, after + len(comment), text)]


def _end_of(file: SourceFile, node: ast.expr | ast.keyword) -> int:
    return file.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)


def _pass_comma(file: SourceFile, start: int, close: int) -> tuple[int, bool]:
    """Return where the last argument ends, with its own brackets and a comma behind it; and whether there is one."""
    after = start
    has_comma = False
    place = start
    while place < close:
        if file.text[place] == "#":
            found = LINE_END.search(file.text, place)
            place = found.start() if found else close
        elif file.text[place] in "),":
            after = place + 1
            has_comma = file.text[place] == ","
        place += 1
    return after, has_comma


def said(file: SourceFile, node: ast.AST) -> str:
    """Return the text of an expression; an empty one of what has no place."""
    return file.text[slice(*file.span(node))] if isinstance(node, ast.expr) else ""


def name_call(file: SourceFile, node: ast.expr) -> str:
    return f"{file.path.name}:{node.lineno}"


def name_calls(found: Sequence[tuple[CodePart, ast.Call]]) -> str:
    named = [name_call(unit.file, call) for unit, call in sorted(found, key=lambda pair: pair[1].lineno)]
    return ", ".join(named[:PLACES_NAMED]) + (", and others" if len(named) > PLACES_NAMED else "")
