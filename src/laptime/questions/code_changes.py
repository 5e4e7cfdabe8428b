"""Remedies as changes of the user's own code: found when a question begins and kept in its record; made again by
`laptime apply`.

A record may be a stranger's. So nothing is written that a record holds: its word names a row of the table of changes,
which is made from the file that is here, if it is the file that ran. Paths of a record are followed only within the
user's own folder.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import shlex
import shutil
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

from laptime.analysis.diagnosis.script_findings import DONE_LESS, SET_BY
from laptime.model.errors import StoreError, UsageError
from laptime.model.quantities import Missing, times
from laptime.model.record import NOT_RELIABLE, CodeChange, Finding, Record
from laptime.model.secrets import looks_secret
from laptime.questions.rewrites import Edited, describe_rewrite, rewrite
from laptime.questions.sources import ask_git, is_copied, top_of
from laptime.questions.tune.nouns import TuneAnswer
from laptime.questions.user_code import LARGEST_BYTES, NoPlaceError, UserCode, read_code
from laptime.questions.why.nouns import Experiment, WhyAnswer, recommended_first
from laptime.store.disk import open_atomically, read_regular

ONE_LINE_LESS = "\n\\ No newline at end of file\n"
CONTEXT_LINES = 3
WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
UTF_8 = {"utf-8", "utf-8-sig", "ascii"}
LONGEST_PATH = 1024
LONGEST_DIFF = 20_000  # characters: a line of a file may be of any length

ASK_AGAIN = "Ask again: laptime why, watch or tune."
NO_ONE_PLACE = "the remedy is no change of one place in the code"

MayChange = TypeVar("MayChange", Finding, Experiment)


# While a question runs: which change a remedy is, in the code as it is now.


class ChangeFinder:
    """Finds changes in the code of a training or script, which is read now: it may be edited while it runs."""

    def __init__(self, what: str, file: str | None, function: str | None = None) -> None:
        self._code: UserCode | None = None
        self._why_none = ""
        if file is None:
            self._why_none = "no Python file of the user's own is named"
        elif is_copied(what):
            self._why_none = "its code is a copy of a commit, or with a patch"
        else:
            try:
                start = Path(file).resolve(strict=True)
                self._code = read_code(start, function)
            except (NoPlaceError, OSError) as error:
                self._why_none = f"its code was not read: {error}"
            else:
                here = Path.cwd()
                self._top = _top_or_none(start.parent) or (here if start.is_relative_to(here) else start.parent)

    def add_to(self, remedy: MayChange, word: str) -> MayChange:
        """Return a remedy with the change that a word of the table names, or with the reason for none."""
        if self._code is None or not word:
            return replace(remedy, unchanged=self._why_none or NO_ONE_PLACE)
        try:
            return replace(remedy, change=_describe(self._code, word, self._top))
        except NoPlaceError as error:
            return replace(remedy, unchanged=str(error))

    def place_of(self, names: Collection[str]) -> str | None:
        """Return the first line that calls one of these, such as torch.set_num_threads; None where none is known."""
        code = self._code
        here = Path.cwd()
        if code is None:
            return None
        calls = [(unit.file.path, call.lineno) for unit, call, name in code.calls() if name in names]
        if not calls:
            return None
        path, line = min(calls, key=lambda call: (call[0] != code.start.path, *call))
        shown = path.relative_to(here) if path.is_relative_to(here) else Path(path.name)
        return f"{shown.as_posix()}:{line}"

    def advise(self, finding: Finding) -> Finding:
        """Return a finding with its place and the change that it advises, or with the reason for none."""
        placed = self.placed(finding, SET_BY.get(finding.rule, ()))
        advised = self.add_to(placed, finding.rewrite)
        file, _, line = (finding.where or "").rpartition(":")
        is_here = self._code is not None and file and Path(file).name == self._code.start.path.name
        if advised.change is not None or finding.rule not in DONE_LESS or not is_here:
            return advised
        seldom = self.add_to(placed, f"{DONE_LESS[finding.rule]}={line}")
        return advised if finding.rewrite and seldom.change is None else seldom

    def placed(self, finding: Finding, set_by: Collection[str]) -> Finding:
        """Return a finding with the line that sets what it is about, where that is known."""
        where = self.place_of(set_by)
        if finding.where is not None or where is None:
            return finding
        return replace(finding, where=where, says=f"{finding.says.rstrip('.')} ({where}).")

    def source_of(self, file: str) -> bytes | None:
        """Return the source of a file that is named as lines are, from the folder that is here; None where none is.

        A script says the name, so nothing outside of the user's own folders is read.
        """
        if self._code is None:
            return None
        for folder in (Path.cwd(), self._code.start.path.parent):
            with contextlib.suppress(OSError, ValueError):  # such as a name with a zero in it
                path = (folder / file).resolve()
                if path.is_relative_to(folder.resolve()):
                    return read_regular(path, LARGEST_BYTES)
        return None

    def find_all(self, words: Sequence[str]) -> tuple[tuple[CodeChange, ...], dict[str, str]]:
        """Return one change for each file that these words of the table change, and why each other word has none."""
        by_file: dict[Path, list[str]] = {}
        why_none: dict[str, str] = {}
        code = self._code
        for word in words:
            if code is None or not word:
                why_none[word] = self._why_none or NO_ONE_PLACE
                continue
            try:
                edited = rewrite(code, word)
                code = code.with_file(edited.file.path, edited.data)
                by_file.setdefault(edited.file.path, []).append(word)
            except NoPlaceError as error:
                why_none[word] = str(error)
        changes = []
        for found in by_file.values():
            assert self._code is not None
            try:
                changes.append(_describe(self._code, "+".join(found), self._top))
            except NoPlaceError as error:
                why_none |= dict.fromkeys(found, str(error))
        return tuple(changes), why_none


def _top_or_none(folder: Path) -> Path | None:
    try:
        top = top_of(folder)
    except UsageError:  # git is not installed
        return None
    return None if top is None else top.resolve()


def _describe(code: UserCode, word: str, top: Path) -> CodeChange:
    edited = rewrite(code, word)
    names = []
    for path in (edited.file.path, code.start.path):
        if not path.is_relative_to(top):
            raise NoPlaceError(f"{path.name} is outside of {top.name}")
        names.append(path.relative_to(top).as_posix())
    digest = hashlib.sha256(edited.file.data).hexdigest()
    return CodeChange(word, names[0], edited.line, digest, _kept_diff(names[0], edited), names[1], code.function)


def _kept_diff(name: str, edited: Edited) -> str | Missing:
    """Return the diff that a record keeps: text that git takes, without what looks like a secret."""
    diff = make_diff(name, edited)
    if looks_secret(diff):
        return Missing("a line next to it looks like a secret, and records may be passed on")
    if edited.file.encoding not in UTF_8 and not diff.isascii():
        return Missing(f"the file is in {edited.file.encoding}, and a record is in UTF-8")
    if not name.isprintable() or '"' in name or "\\" in name:
        return Missing("a diff cannot hold the name of the file")
    return diff if len(diff) <= LONGEST_DIFF else Missing("the lines next to it are too long")


def make_diff(name: str, edited: Edited) -> str:
    """Return a unified diff that `git apply` takes in any folder of the work tree."""
    encoding = edited.file.encoding.removesuffix("-sig")  # a mark at the beginning is a part of the first line
    before, after = (_lines(data.decode(encoding)) for data in (edited.file.data, edited.data))
    tab = "\t" if " " in name else ""
    body = difflib.unified_diff(before, after, f"a/{name}{tab}", f"b/{name}{tab}", n=CONTEXT_LINES)
    lines = [line if line.endswith("\n") else line + ONE_LINE_LESS for line in body]
    return "".join([f"diff --git a/{name} b/{name}\n", *lines])


def _lines(text: str) -> list[str]:
    """Split a text where git does: behind each line feed."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1].removesuffix("\n")
    return lines if lines[-1] else lines[:-1]


# Of a record: what it offers, and the change made again from the file that is here.


@dataclass(frozen=True, slots=True)
class Offer:
    """A remedy of a record that is a change of code. What it does is said by our table, never by the record.

    `gain` says what was measured of it, where the record has that.
    """

    says: str
    change: CodeChange
    gain: str
    is_recommended: bool


def list_offers(record: Record) -> list[Offer]:
    """Return the remedies that are changes of code, in the order of their numbers.

    Of watch, what its first sentence named is recommended, and of a tuning what it confirmed.
    """
    found = []
    if isinstance(record.answer, WhyAnswer) and record.answer.why is not None:
        for remedy in recommended_first(record.answer.why):
            if remedy.change is not None:
                gain = "not tried" if remedy.measured is None else f"measured {times(remedy.measured.ratio)}"
                found.append(_offer(remedy.change, gain, is_recommended=remedy.recommended))
    if isinstance(record.answer, TuneAnswer) and record.answer.tuning is not None:
        for lane in record.answer.tuning.lanes:
            gain = "" if lane.gain is None else f"measured {times(lane.gain.ratio)}"
            is_confirmed = lane.standing == "confirmed"
            found += [_offer(change, gain, is_recommended=is_confirmed) for change in lane.changes]
    judged = [finding for finding in record.findings if finding.rule != NOT_RELIABLE]
    for place, finding in enumerate(judged):
        if finding.change is not None:
            gain = "" if finding.gain is None else f"predicted {times(finding.gain.likely)}"
            found.append(_offer(finding.change, gain, is_recommended=place == 0))
    return found


def _offer(change: CodeChange, gain: str, *, is_recommended: bool) -> Offer:
    return Offer(describe_rewrite(change.rewrite), change, gain, is_recommended)


def why_no_offer(record: Record) -> str | None:
    """Return why the first remedy of a record is no change of code; None where no reason is known."""
    reasons = [finding.unchanged for finding in record.findings]
    if isinstance(record.answer, TuneAnswer) and record.answer.tuning is not None:
        lanes = record.answer.tuning.lanes
        reasons += [f"{unplaced.word}: {unplaced.reason}" for lane in lanes for unplaced in lane.unplaced]
        reasons += [f"nothing was confirmed to be faster on {lane.asked}" for lane in lanes if not lane.words]
    if isinstance(record.answer, WhyAnswer) and record.answer.why is not None:
        reasons += [remedy.unchanged for remedy in recommended_first(record.answer.why)]
    return next(filter(None, reasons), None)


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A change that was made again from the file that is here, and is not yet written.

    `is_tracked` says whether git knows the file, and `is_clean` whether it is as its last commit has it.
    """

    path: Path
    start: Path
    change: CodeChange
    before: bytes
    after: bytes
    diff: str
    is_tracked: bool
    is_clean: bool


def make_edit(change: CodeChange, *, outside: bool) -> FileEdit:
    """Make a change again, from the table and the file in this work tree. Raise UsageError where that is not sure.

    Only a file that git tracks is edited, unless `outside` allows any file below this folder.
    """
    top = top_of(Path.cwd())
    if top is None and not outside:
        raise UsageError(
            "this folder is under no version control, where a change cannot be undone",
            "Go to the folder of the repository, or allow it: --outside",
        )
    root = (top or Path.cwd()).resolve()
    path = _find_own(root, change.file)
    start = _find_own(root, change.start)
    is_tracked = top is not None and _ask(root, "ls-files", "--", change.file) != ""
    if not (is_tracked or outside):
        raise UsageError(f"git does not track {change.file}, so a change cannot be undone",
                         f"git add {change.file}, or allow it: --outside")  # fmt: skip
    try:
        before = read_regular(path, LARGEST_BYTES)
    except OSError as error:
        raise UsageError(f"{change.file} cannot be read: {error.strerror or error}", "see its permissions") from None
    if hashlib.sha256(before).hexdigest() != change.digest:
        raise UsageError(f"{change.file} changed since the record was made", ASK_AGAIN)
    edited = _rewrite_again(change, start)
    if (edited.file.path, edited.line, edited.file.data) != (path, change.line, before):
        says = (
            f"the place of this change is {edited.file.path.name}:{edited.line} here, and {change.file}:{change.line} "
        )
        raise UsageError(f"{says}in the record", ASK_AGAIN)
    is_clean = is_tracked and _ask(root, "status", "--porcelain", "--", change.file) == ""
    return FileEdit(path, start, change, before, edited.data, make_diff(change.file, edited), is_tracked, is_clean)


def _rewrite_again(change: CodeChange, start: Path) -> Edited:
    try:
        return rewrite(read_code(start, change.function), change.rewrite)
    except NoPlaceError as error:
        raise UsageError(f"the change '{change.rewrite}' cannot be made: {error}", ASK_AGAIN) from None


def _ask(root: Path, *words: str) -> str:
    return ask_git(root, *words, environment={"GIT_LITERAL_PATHSPECS": "1"})


def _find_own(root: Path, name: str) -> Path:
    """Return a Python file of this folder by its name in a record. No other path and no link is followed."""
    place = PurePosixPath(name)
    is_plain = name.isprintable() and "\\" not in name and len(name) <= LONGEST_PATH and place.as_posix() == name
    if not is_plain or place.is_absolute() or ".." in place.parts or place.suffix != ".py" or ":" in name:
        raise UsageError(f"the record names the file {name!a}", "A path of a .py file within this folder was expected.")
    path = root.joinpath(*place.parts)
    for part in (path, *path.parents):
        if part == root:
            break
        if part.is_symlink():
            raise UsageError(f"{name} is a link, or in a linked folder", "laptime apply edits regular files alone.")
    if not path.is_file() or not path.resolve().is_relative_to(root):
        raise UsageError(f"there is no file {name} in {root}", "Go to the folder in which the record was made.")
    return path


def write_edit(edit: FileEdit) -> None:
    """Write the change, whole or not at all. The file's owner, mode and other attributes stay."""
    name = edit.change.file
    try:
        if read_regular(edit.path, LARGEST_BYTES) != edit.before:
            raise UsageError(f"{name} was changed a moment ago", "See what changed it, and try again.")
        status = edit.path.stat()
        # A new file would take the place of one that is not to be changed, and root is stopped by no mode
        if not status.st_mode & WRITABLE:
            raise UsageError(f"{name} is read-only", f"Allow it: chmod u+w {shlex.quote(name)}")
        if status.st_nlink > 1:
            says = f"{name} has {status.st_nlink} names (hard links), and the others would keep the old text"
            raise UsageError(says, "Make the change that is shown by hand, or give the file a copy of its own.")
        with open_atomically(edit.path) as file:
            file.write(edit.after)
            if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), status.st_uid, status.st_gid)  # before the mode, of which this takes bits
            shutil.copystat(edit.path, file.name)
            os.utime(file.name)  # what compiles sources goes by this
    except OSError as error:
        says = f"{name} could not be written: {error.strerror or error}"
        raise StoreError(says, "See its owner, its folder's permissions, and the room on the disk.") from None
