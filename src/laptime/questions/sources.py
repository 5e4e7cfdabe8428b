"""Trainings as they were in a commit (`git:REV:file.py:function`), or are with a patch (`patch:FILE:file.py:function`).

Both are copies in laptime's cache folder. Nothing is changed in the user's folder or repository, not even git's index.
A copy holds what git knows of: data that it ignores is not there.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from laptime.disk import cache_folder
from laptime.errors import UsageError

GIT, PATCH = "git:", "patch:"
TREES = "trees"
KEPT_TREES = 12  # the copies that were used last
LONGEST_ID = 12  # characters of a copy's name
COPIED_MOST_BYTES = 256 << 20
GIT_S = 120.0


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
    copy = _make_tree(found[:LONGEST_ID], lambda folder: _check_out(top, found, folder))
    file, of, function = _split_place(path)
    if not (copy / (inside := _inside(top, file))).is_file():
        raise UsageError(f"{GIT}{revision}: there is no file {inside} in that commit", "the path is from this folder")
    return f"{copy / inside}{of}{function}"


def _check_out(top: Path, commit: str, folder: Path) -> None:
    """Write the files of a commit into a folder, by an index of its own: the user's is not touched."""
    own = {"GIT_INDEX_FILE": str(folder.with_name(folder.name + ".index"))}
    try:
        ask_git(top, "read-tree", commit, environment=own)
        ask_git(top, "checkout-index", "--all", f"--prefix={folder}{os.sep}", environment=own)
    finally:
        Path(own["GIT_INDEX_FILE"]).unlink(missing_ok=True)


def _place_with_patch(patch: Path, path: str) -> str:
    """Return the place of a training in a copy of its folder, to which a patch was applied."""
    file, of, function = _split_place(path)
    for each, what in ((patch, "patch"), (Path(file), "file")):
        if not each.is_file():
            raise UsageError(f"there is no {what} {each}", "give patch:change.patch:file.py:function")
    top = top_of(Path(file).resolve().parent)
    files = files_of(top) if top is not None else {}
    if top is None:
        top = Path(file).resolve().parent
        files = {str(each.relative_to(top)): each for each in sorted(top.rglob("*")) if each.is_file()}
    size = sum(each.stat().st_size for each in files.values())
    if size > COPIED_MOST_BYTES:
        says = f"{PATCH}{patch}: {top} holds {size >> 20} MB, and up to {COPIED_MOST_BYTES >> 20} MB are copied"
        raise UsageError(says, "commit the change, and give git:HEAD:file.py:function")
    copy = _make_tree(_digest(patch, files), lambda folder: _copy_and_apply(files, patch, folder))
    return f"{copy / _inside(top, file)}{of}{function}"


def files_of(top: Path) -> dict[str, Path]:
    """Return the files that git knows of or would, by their places in the repository."""
    listed = ask_git(top, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    return {name: top / name for name in listed if name and (top / name).is_file()}


def _digest(patch: Path, files: Mapping[str, Path]) -> str:
    """Return a name for a copy that depends on all that is in it."""
    told = hashlib.sha256(patch.read_bytes())
    for name, path in sorted(files.items()):
        told.update(f"\0{name}\0".encode("utf-8", "surrogateescape"))
        told.update(path.read_bytes())
    return told.hexdigest()[:LONGEST_ID]


def _copy_and_apply(files: Mapping[str, Path], patch: Path, folder: Path) -> None:
    for name, path in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    # The copy is in no repository, whatever the cache folder is in.
    outside = {"GIT_CEILING_DIRECTORIES": str(folder.parent)}
    applied = _run(folder, ["apply", "--whitespace=nowarn", str(patch.resolve())], outside)
    if applied.returncode:
        says = applied.stderr.strip().splitlines()
        raise UsageError(f"{PATCH}{patch} does not apply: {says[0] if says else 'git says no more'}",
                         "make it from the files as they are now: git diff > change.patch")  # fmt: skip


def _make_tree(name: str, fill: Callable[[Path], None]) -> Path:
    """Return the copy of this name. It is made under another name first, so that what is there is whole."""
    home = cache_folder() / TREES
    copy = home / name
    if copy.is_dir():
        os.utime(copy)
        return copy
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=home, prefix=".") as made:
        folder = Path(made) / name
        folder.mkdir()
        fill(folder)
        try:
            folder.rename(copy)
        except OSError:
            if not copy.is_dir():  # another laptime may have made it meanwhile
                raise
    copies = [tree for tree in home.iterdir() if not tree.name.startswith(".")]
    for tree in sorted(copies, key=lambda tree: -tree.stat().st_mtime)[KEPT_TREES:]:
        shutil.rmtree(tree, ignore_errors=True)
    return copy


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


def ask_git(folder: Path, *words: str, environment: Mapping[str, str] | None = None, may_fail: bool = False) -> str:
    ran = _run(folder, list(words), environment or {})
    if ran.returncode and not may_fail:
        raise UsageError(f"git {words[0]}: {ran.stderr.strip()}", "see that git works there: git status")
    return "" if ran.returncode else ran.stdout.rstrip("\n")


def _run(folder: Path, words: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [shutil.which("git") or "git", *words],
            cwd=folder,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
            errors="surrogateescape",
            timeout=GIT_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"git cannot be run: {error}", "install git, or name two files") from None
