"""Trainings as they were in a commit (`git:REV:file.py:function`), or are with a patch (`patch:FILE:file.py:function`).

Both are copies in laptime's cache folder. Nothing is changed in the user's folder or repository, not even git's index,
and no program runs that the repository's own settings name. A copy holds what git knows of: data that it ignores is
not there.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from laptime.model.errors import UsageError
from laptime.questions.copies import copies_in_use
from laptime.store.disk import open_regular

GIT, PATCH = "git:", "patch:"
COPIED_MOST_BYTES = 256 << 20
PATCH_MOST_BYTES = 64 << 20
GIT_S = 120.0
# What a hook or an alias of git sets, and so is of another command than ours.
OF_ANOTHER_COMMAND = {
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS",
    "GIT_DIR", "GIT_EXTERNAL_DIFF", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
}  # fmt: skip
OUR_SETTINGS = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=")  # no hooks, and no monitor of files
FULL_SAYS = {os.strerror(number): number for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)}


def place_named_by(word: str) -> str:
    """Return the file, with its function, that a word names: for a commit or a patch, in a copy that is made now."""
    if word.startswith(GIT):
        revision, path = split_revision(word)
        if not path:
            raise UsageError(f"'{word}' names a commit and no training", f"give {word}:file.py:function")
        return _place_in_commit(revision, path)
    if word.startswith(PATCH):
        patch, _, path = word.removeprefix(PATCH).partition(":")
        if not (patch and path):
            raise UsageError(f"'{word}' names no patch and training", "give patch:change.patch:file.py:function")
        return _place_with_patch(Path(patch), path)
    return word


def is_copied(word: str) -> bool:
    """Whether a word names a training of a commit or with a patch, whose file is a copy for one question alone."""
    return word.startswith((GIT, PATCH))


def name_source(word: str, name: str) -> str:
    """Return how a page calls a training: with its commit or patch, as it was typed, where it is of one."""
    if word.startswith(GIT):
        return f"{split_revision(word)[0]}:{name}"
    return f"{Path(word.removeprefix(PATCH).partition(':')[0]).name}:{name}" if word.startswith(PATCH) else name


def split_revision(word: str) -> tuple[str, str]:
    """Return the commit that `git:REV:PATH` names, and the rest, which may be empty. No name in git holds a colon."""
    revision, _, path = word.removeprefix(GIT).partition(":")
    if not revision:
        raise UsageError(f"'{word}' names no commit", "give git:main:file.py:function, or git:HEAD~1:file.py:function")
    return revision, path


def _place_in_commit(revision: str, path: str) -> str:
    """Return the place of a training in a copy of a commit. Its path is from here, as all paths are."""
    top = top_of(Path.cwd())
    if top is None:
        raise UsageError(f"{GIT}{revision}: this folder is in no git repository", "go into one, or name two files")
    found = ask_git(
        top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}", may_fail=True
    )
    if not found:
        raise UsageError(f"{GIT}{revision}: there is no such commit in {top}", "git log --oneline lists them")
    word = f"{GIT}{revision}:{path}"
    copy = copies_in_use().place(word, lambda folder: _check_out(top, found, folder))
    file, of, function = _split_place(path)
    if not (copy / (inside := _inside(top, file))).is_file():
        raise UsageError(f"{GIT}{revision}: there is no file {inside} in that commit", "the path is from this folder")
    return f"{copy / inside}{of}{function}"


def _check_out(top: Path, commit: str, folder: Path) -> None:
    """Write the files of a commit into a folder, by an index of its own: the user's is not touched."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".") as made:
        own = {"GIT_INDEX_FILE": str(Path(made, "index"))}
        listed = ask_git(top, "config", "--show-scope", "-z", "--get-regexp", r"^filter\.", may_fail=True).split("\0")
        settings: dict[str, str] = {}
        for scope, row in zip(listed[::2], listed[1::2], strict=False):
            name, _, value = row.partition("\n")
            if scope in {"system", "global"}:
                settings[name] = value
            else:
                settings.setdefault(name, "false" if name.endswith(".required") else "")
        ask_git(top, "read-tree", commit, environment=own)
        ask_git(top, "checkout-index", "--all", f"--prefix={folder}{os.sep}", environment=own, settings=settings)
    _mend_links(folder, top)


def _place_with_patch(patch: Path, path: str) -> str:
    """Return the place of a training in a copy of its folder, to which a patch was applied."""
    file, of, function = _split_place(path)
    for given, what in ((patch, "patch"), (Path(file), "file")):
        if not given.is_file():
            raise UsageError(f"there is no {what} {given}", "give patch:change.patch:file.py:function")
    folder = Path(file).resolve().parent
    top = top_of(folder) or folder
    word = f"{PATCH}{patch}:{path}"
    copy = copies_in_use().place(word, lambda made: _copy_and_apply(top, patch, made))
    return f"{copy / _inside(top, file)}{of}{function}"


def files_of(top: Path) -> dict[str, Path]:
    """Return the files that git knows of or would, links among them, by their places in the repository."""
    listed = ask_git(top, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return {name: top / name for name in listed if name and _is_file_or_link(top / name)}


def _is_file_or_link(place: Path) -> bool:
    try:
        mode = place.lstat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _files_below(top: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files and links of a folder that is in no repository. Folders that are links are not entered."""
    for inside, folders, names in os.walk(top):
        linked = [name for name in folders if Path(inside, name).is_symlink()]
        for place in (Path(inside, name) for name in (*names, *linked)):
            if _is_file_or_link(place):
                yield str(place.relative_to(top)), place


def _copy_and_apply(top: Path, patch: Path, folder: Path) -> None:
    left = COPIED_MOST_BYTES
    for name, path in files_of(top).items() if top_of(top) is not None else _files_below(top):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            place.symlink_to(path.readlink())
            continue
        left -= path.lstat().st_size
        if left < 0:
            says = f"{PATCH}{patch}: {top} holds more than the {COPIED_MOST_BYTES >> 20} MB that are copied"
            raise UsageError(says, "commit the change, and give git:HEAD:file.py:function")
        try:
            opened = open_regular(path, COPIED_MOST_BYTES)
        except OSError as error:
            raise UsageError(f"{path} cannot be copied: {error.strerror or error}", "see its permissions") from None
        with opened as file, place.open("xb") as copy:
            shutil.copyfileobj(file, copy)
            os.fchmod(copy.fileno(), stat.S_IMODE(os.fstat(file.fileno()).st_mode))
    _mend_links(folder, top)
    # The copy is in no repository, whatever the cache folder is in.
    outside = {"GIT_CEILING_DIRECTORIES": str(folder.parent)}
    applied = _run(folder, ["apply", "--whitespace=nowarn", str(patch.resolve())], outside)
    if applied.returncode:
        lines = applied.stderr.strip().splitlines()
        raise UsageError(f"{PATCH}{patch} does not apply: {lines[0] if lines else 'git says no more'}",
                         "make it from the files as they are now: git diff > change.patch")  # fmt: skip


def _mend_links(copy: Path, top: Path) -> None:
    """Let links that would lead nowhere from a copy lead to where they do here, as to data that git ignores.

    A link within the copy stays as it is.
    """
    for inside, folders, names in os.walk(copy):
        for place in (Path(inside, name) for name in (*folders, *names)):
            if not place.is_symlink() or os.path.exists(place):  # noqa: PTH110  a ring of links raises there
                continue
            here = os.path.realpath(top / place.relative_to(copy).parent / place.readlink())
            if os.path.exists(here):  # noqa: PTH110
                place.unlink()
                place.symlink_to(here)


def _split_place(path: str) -> tuple[str, str, str]:
    """Return the file, the colon and the function of a place."""
    return (path, "", "") if path.endswith(".py") else path.rpartition(":")


def _inside(top: Path, file: str) -> str:
    """Return a file's place in its repository."""
    try:
        return str(Path(os.path.normpath(Path.cwd() / file)).relative_to(top))
    except ValueError:
        raise UsageError(f"{file} is not in {top}", "name a file of the repository that you are in") from None


def top_of(folder: Path) -> Path | None:
    """Return the top of the repository that a folder is in; None where it is in none."""
    found = ask_git(folder, "rev-parse", "--show-toplevel", may_fail=True)
    return Path(found) if found else None


def ask_git(
    folder: Path,
    *words: str,
    environment: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    may_fail: bool = False,
) -> str:
    ran = _run(folder, list(words), environment or {}, settings or {})
    if ran.returncode and not may_fail:
        raise UsageError(f"git {words[0]}: {ran.stderr.strip()}", "see that git works there: git status")
    return "" if ran.returncode else ran.stdout.rstrip("\n")


def _run(
    folder: Path, words: list[str], environment: Mapping[str, str], settings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run git as it is set up for the folder, but for what it must not do here. Raise OSError where a disk is full."""
    kept = {name: value for name, value in os.environ.items() if name not in OF_ANOTHER_COMMAND}
    ours = {"LC_ALL": "C", "GIT_CONFIG_COUNT": str(len(settings or {}))}  # by variables: names may hold any character
    for number, (name, value) in enumerate((settings or {}).items()):
        ours |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    try:
        ran = subprocess.run(
            [shutil.which("git") or "git", *OUR_SETTINGS, *words],
            cwd=folder,
            env={**kept, **ours, **environment},
            capture_output=True,
            text=True,
            check=False,
            errors="surrogateescape",
            timeout=GIT_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"git cannot be run: {error}", "install git, or name two files") from None
    if ran.returncode:
        for says, number in FULL_SAYS.items():
            if says in ran.stderr:
                raise OSError(number, says)
    return ran
