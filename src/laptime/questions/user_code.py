"""The user's own code, as text: the file of a training or script, and the modules that it imports from its folder.

Nothing of it is run. Of each file only what the training reaches by its names is looked at.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from laptime.store.disk import read_regular

LINE_END = re.compile(r"\r\n|\r|\n")
LARGEST_BYTES = 4 << 20
MOST_FILES = 200
NOT_OF_THE_USER = {"site-packages", "dist-packages"}  # the folders of what was installed


class NoPlaceError(Exception):
    """Why the place of a change is not known for certain."""


class SourceFile:
    """One file: its bytes, its text as Python reads it, and its tree. Line ends, encoding and BOM are kept."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self.data = data
        try:
            self.encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            self.text = data.decode(self.encoding)
            if self.text.encode(self.encoding) != data:
                raise ValueError("its encoding cannot be written back")  # noqa: TRY301
            self.tree = parse(self.text)
        except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError) as error:
            raise NoPlaceError(f"{path.name} cannot be read as Python: {error}") from None
        self._starts = [0, *(found.end() for found in LINE_END.finditer(self.text))]

    def offset(self, line: int, column: int) -> int:
        """Return where a place of the tree is in the text. Columns of a tree count bytes of UTF-8."""
        start = self._starts[line - 1]
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        return start + len(self.text[start:end].encode()[:column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return where a node begins and ends in the text."""
        begin = self.offset(node.lineno, node.col_offset)
        return begin, self.offset(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)

    def line_span(self, line: int) -> tuple[int, int]:
        """Return where a line begins, and where it ends before its line end."""
        start = self._starts[line - 1]
        found = LINE_END.search(self.text, start)
        return start, found.start() if found else len(self.text)

    @cached_property
    def newline(self) -> str:
        """How most lines end."""
        ends: list[str] = LINE_END.findall(self.text) or ["\n"]
        return max(dict.fromkeys(ends), key=ends.count)

    @cached_property
    def imported(self) -> dict[str, str]:
        """The whole name of each name that an import binds, and nothing else in the file."""
        names: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                names |= {
                    name.asname or name.name.split(".")[0]: name.name if name.asname else name.name.split(".")[0]
                    for name in node.names
                }
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
        return {name: whole for name, whole in names.items() if name not in self.bound}

    @cached_property
    def bound(self) -> set[str]:
        """The names that the file binds by anything but an import."""
        names = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                names.add(node.id)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
        return names

    def whole_name(self, node: ast.expr) -> str:
        """Return the whole name of what an expression names (torch.optim.Adam), or an empty string."""
        if isinstance(node, ast.Name):
            return self.imported.get(node.id, "")
        if isinstance(node, ast.Attribute) and (of := self.whole_name(node.value)):
            return f"{of}.{node.attr}"
        return ""


def parse(text: str) -> ast.Module:
    """Parse and compile a text, and run none of it. What Python warns about in it is the user's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
        compile(text, "text", "exec", dont_inherit=True)
    return tree


@dataclass(frozen=True)
class CodePart:
    """A statement at the top of a file that the training reaches."""

    file: SourceFile
    node: ast.stmt


@dataclass(frozen=True)
class UserCode:
    """What a training or script reaches. `start` is its own file; `function` is None for a script."""

    start: SourceFile
    function: str | None
    units: tuple[CodePart, ...]

    def calls(self) -> Iterator[tuple[CodePart, ast.Call, str]]:
        """Yield each call with the whole name of what is called."""
        for unit in self.units:
            for node in ast.walk(unit.node):
                if isinstance(node, ast.Call):
                    yield unit, node, unit.file.whole_name(node.func)

    def with_file(self, path: Path, data: bytes) -> UserCode:
        """Return the same code where one of its files has other content. Raise NoPlaceError."""
        files: dict[Path, SourceFile | None] = {unit.file.path: unit.file for unit in self.units}
        files |= {self.start.path: self.start, path: SourceFile(path, data)}
        return _Reading(self.start.path, files).read(self.function)


def read_code(start: Path, function: str | None) -> UserCode:
    """Read the file of a training, or a script, and what it reaches in its own folder. Raise NoPlaceError."""
    if NOT_OF_THE_USER & set(start.parts):
        raise NoPlaceError(f"{start.name} was installed, and is not the user's own")
    return _Reading(start).read(function)


@dataclass
class _Reading:
    """One walk through the user's files: those that were read, and the statements that were reached."""

    start: Path
    files: dict[Path, SourceFile | None] = field(default_factory=dict)
    reached: dict[int, CodePart] = field(default_factory=dict)

    def read(self, function: str | None) -> UserCode:
        file = self._file(self.start)
        if file is None:
            raise NoPlaceError(f"{self.start.name} cannot be read")
        left = [CodePart(file, node) for node in file.tree.body if _runs(node, is_script=function is None)]
        left += [CodePart(file, node) for node in file.tree.body if function is not None and _defines(node, function)]
        while left:
            unit = left.pop()
            if id(unit.node) not in self.reached:
                self.reached[id(unit.node)] = unit
                left += self._named_by(unit)
        return UserCode(file, function, tuple(self.reached.values()))

    def _named_by(self, unit: CodePart) -> Iterator[CodePart]:
        """Yield the functions and classes that a statement names, of its file and of modules in its folder."""
        for node in ast.walk(unit.node):
            if isinstance(node, ast.Name):
                yield from (
                    CodePart(unit.file, statement) for statement in unit.file.tree.body if _defines(statement, node.id)
                )
                yield from self._imported(unit.file, node.id, None)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                yield from self._imported(unit.file, node.value.id, node.attr)

    def _imported(self, file: SourceFile, name: str, attribute: str | None) -> Iterator[CodePart]:
        """Yield what a name means that was imported from a module of the user's."""
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        yield from self._of_module(self._module(file, node.module or "", node.level), alias.name)
                        inner = ".".join(filter(None, [node.module, alias.name]))
                        yield from self._of_module(self._module(file, inner, node.level), attribute)
            elif isinstance(node, ast.Import) and attribute is not None:
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        yield from self._of_module(self._module(file, alias.name, 0), attribute)

    def _of_module(self, file: SourceFile | None, name: str | None) -> Iterator[CodePart]:
        if file is not None and name is not None:
            yield from (CodePart(file, node) for node in file.tree.body if _defines(node, name))
            yield from (CodePart(file, node) for node in file.tree.body if _runs(node, is_script=False))

    def _module(self, file: SourceFile, name: str, level: int) -> SourceFile | None:
        """Return a module of the user's own folder, or None."""
        folder = file.path.parents[level - 1] if 0 < level <= len(file.path.parents) else self.start.parent
        place = folder.joinpath(*name.split(".")) if name else folder
        found = (path for path in (place.with_suffix(".py") if name else place, place / "__init__.py"))
        return next((read for path in found if (read := self._file(path)) is not None), None)

    def _file(self, path: Path) -> SourceFile | None:
        """Read a file, once. One outside of the training's folder, or a link to elsewhere, is not the user's own."""
        if path not in self.files:
            self.files[path] = None
            inside = path.resolve().is_relative_to(self.start.parent.resolve())
            if inside and len(self.files) <= MOST_FILES and not NOT_OF_THE_USER & set(path.resolve().parts):
                try:
                    data = read_regular(path, LARGEST_BYTES)
                except OSError:
                    return None
                try:
                    self.files[path] = SourceFile(path, data)
                except NoPlaceError:
                    if path == self.start:
                        raise
        return self.files[path]


def _runs(node: ast.stmt, *, is_script: bool) -> bool:
    """Whether a statement at the top of a file runs: of an imported file, what is for a script alone does not."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
        return False
    return is_script or not is_main_guard(node)


def is_main_guard(node: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":`."""
    return isinstance(node, ast.If) and any(
        isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test)
    )


def _defines(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name
