"""The files of the user's own code: do they stay as they are while a question runs, and until a record goes on?

A training could change the code of the one that it is compared with: to be slower, or to import something else. So the
files of code are noted before any code of the user's runs, and looked at again after every round. Data are no code: a
training may keep a cache or a checkpoint next to itself.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import all_suffixes
from importlib.util import cache_from_source
from pathlib import Path

from laptime.model.errors import UsageError
from laptime.questions.copies import code_in, copies_in_use
from laptime.questions.subject import read_tree
from laptime.questions.user_code import LARGEST_BYTES, MOST_FILES, NOT_OF_THE_USER
from laptime.store.disk import open_regular

MORE_MOST_FILES = 2_000  # of a copy, or of a folder whose code imports what it names at run time
LOOKED_AT_MOST = 20_000  # files of such a folder, most of which may be data
NAMED_AT_RUN_TIME = {"importlib", "import_module", "spec_from_file_location", "__import__", "exec", "runpy"}
FILES_NAMED_MOST = 40  # by a record; more are one digest
ALL_FILES = "all its files"
DIGITS = 32  # hexadecimal


@dataclass(frozen=True, slots=True)
class FileState:
    """What a file held, and what the system counts up whenever it is written or put in another's place."""

    digest: str
    written: tuple[int, int]


NOT_THERE = None
FileStates = Mapping[Path, FileState | None]
"""Each place from which a side's code may be imported, and what is there."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that is another now; or one that was written, and holds the same as before."""

    place: Path
    how: str
    is_another: bool


CodeChanges = Mapping[str, FileChange]
"""The change of each training's code that was seen first, or counts for most."""


@dataclass(frozen=True, slots=True)
class NotedCode:
    """The code of a question's trainings, by their names, as it was before anything of them ran."""

    noted: Mapping[str, FileStates] = field(default_factory=dict)

    def digests(self) -> dict[str, dict[str, str]]:
        """Return digests of each training's code, by which a record knows whether it is still the one that ran."""
        return {name: _digests_of(noted) for name, noted in self.noted.items()}

    def find_changes(self, known: CodeChanges) -> CodeChanges:
        """Return what has changed so far. What was known stays, but another file counts for more than a touched one."""
        copies_in_use().check()
        others = {name for name, change in known.items() if change is not None and change.is_another}
        found = {name: find_change(noted) for name, noted in self.noted.items() if name not in others}
        return {**known, **{name: change for name, change in found.items() if change is not None}}


def note_code_of(files: Mapping[str, str | None]) -> NotedCode:
    """Note the code that each training's file imports by name. A training without a file is laptime's own."""
    return NotedCode({name: note_files(Path(file)) for name, file in files.items() if file is not None})


def _digests_of(noted: FileStates) -> dict[str, str]:
    """Return a digest for each file, or one for all of them where there are many."""
    start = next(iter(noted)).parent
    found = {os.path.relpath(place, start): state.digest[:DIGITS] for place, state in noted.items() if state}
    if len(found) <= FILES_NAMED_MOST:
        return found
    lines = "\n".join(f"{name} {digest}" for name, digest in sorted(found.items()))
    return {ALL_FILES: hashlib.sha256(lines.encode()).hexdigest()[:DIGITS]}


def note_files(start: Path) -> FileStates:
    """Note the code of a side: what its file imports by name; and all code of a copy, which nobody else works in.

    So much too where it imports what it names at run time.
    """
    copy = copies_in_use().holding(start)
    places, names_at_run_time = _imported(start)
    if copy is not None or names_at_run_time:
        more = filter(_is_users, code_in(copy or start.parent, LOOKED_AT_MOST))
        places |= dict.fromkeys(itertools.islice(more, MORE_MOST_FILES))
    if copy is not None:  # elsewhere, other programs of the user's may compile them
        sources = [place for place in places if place.suffix == ".py" and place.is_file()]
        places |= dict.fromkeys(Path(cache_from_source(place)) for place in sources)
    return {place: _state_of(place) for place in places}


def find_change(before: FileStates) -> FileChange | None:
    """Return how a file differs from what was noted: one that is another comes first."""
    changes = [change for place, state in before.items() if (change := _compare(place, state, _state_of(place)))]
    return min(changes, key=lambda change: not change.is_another, default=None)


def _compare(place: Path, before: FileState | None, now: FileState | None) -> FileChange | None:
    if before == now:
        return None
    if before is None or now is None:
        return FileChange(place, "is new" if before is None else "is gone", is_another=True)
    if before.digest != now.digest:
        return FileChange(place, "holds something else", is_another=True)
    return FileChange(place, "was written, and holds the same again", is_another=False)


def _state_of(place: Path) -> FileState | None:
    """Return what is at a place; a file that cannot be read, or is large, is known by its size and times."""
    try:
        with open_regular(place, LARGEST_BYTES) as file:
            status = os.fstat(file.fileno())
            digest = hashlib.sha256(file.readall() or b"").hexdigest()
    except OSError:
        try:
            status = place.stat()
        except OSError:
            return NOT_THERE
        digest = f"{status.st_size} {status.st_mtime_ns}"
    return FileState(digest, (status.st_ino, status.st_ctime_ns))


def _imported(start: Path) -> tuple[dict[Path, None], bool]:
    """Return the places where Python would look for what a file imports by name, and so on, in its own folders.

    Those where nothing is belong to them: a file there would be imported in place of another. Return also whether some
    of the code imports what it names at run time.
    """
    roots = [start.parent]
    while (roots[-1] / "__init__.py").exists() and roots[-1] != roots[-1].parent:
        roots.append(roots[-1].parent)
    left = [start]
    places = {start: None}
    at_run_time = False
    read = set[Path]()
    while left and len(read) < MOST_FILES:
        file = left.pop()
        if file in read:
            continue
        read.add(file)
        try:
            tree = read_tree(file)
        except UsageError:  # it is no Python, or no regular file
            continue
        at_run_time |= any(isinstance(node, ast.Name) and node.id in NAMED_AT_RUN_TIME for node in ast.walk(tree))
        found = [place for folder, parts in _names_in(tree, file, roots) for place in _places(folder, parts)]
        places |= dict.fromkeys(found)
        left += [place for place in found if place.suffix == ".py" and place.is_file()]
    return places, at_run_time


def _names_in(tree: ast.Module, file: Path, roots: list[Path]) -> Iterator[tuple[Path, list[str]]]:
    """Yield each name that is imported, in its parts, with each folder in which it may be."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((root, alias.name.split(".")) for alias in node.names for root in roots)
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            folders = roots if not node.level else file.parents[node.level - 1 : node.level]
            yield from ((folder, [*module, alias.name]) for alias in node.names for folder in folders)


def _places(folder: Path, parts: list[str]) -> Iterator[Path]:
    """Yield the files that a name may be in: those of its packages, and its own."""
    for part in parts:
        yield from (folder / f"{part}{suffix}" for suffix in all_suffixes())
        folder /= part
        yield folder / "__init__.py"
        if not folder.is_dir() or not _is_users(folder):
            return


def _is_users(place: Path) -> bool:
    return NOT_OF_THE_USER.isdisjoint(place.parts)
