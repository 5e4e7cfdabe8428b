"""The one training of a folder that a patch is judged on: `laptime verdict DIR change.patch`."""

from __future__ import annotations

import os
import re
from pathlib import Path

from laptime.model.errors import UsageError
from laptime.questions.sources import PATCH_MOST_BYTES, files_of, top_of
from laptime.questions.subject import find_trainings, read_tree
from laptime.questions.user_code import is_main_guard
from laptime.store.disk import read_regular

PATCHED = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)
TRAININGS_LISTED = 8
MAKES_A_PATCH = "git diff > change.patch makes one"


def find_training_of(folder: Path, patch: str) -> str:
    """Return `file.py:function` of the one training in a folder, or else of the one in files that the patch changes.

    Where these make none, it is the one script that the patch changes. Refuse what is not clear, with a list.
    """
    # The Python files that git knows of in a folder; outside a repository, those that are right in it
    top = top_of(folder.resolve())
    if top is None:
        python_files = sorted(path for path in folder.glob("*.py") if path.is_file())
    else:
        inside = (place for place in files_of(top).values() if place.suffix == ".py" and place.is_file())
        root = folder.resolve()
        python_files = sorted(folder / path.relative_to(root) for path in inside if path.is_relative_to(root))
    changed = _changed_files(folder, patch)
    trainings = [(file, function) for file in python_files for function in _trainings(file)]
    scripts: list[str] = []
    if len(trainings) != 1:
        in_patch = [file for file in python_files if _whole(file) in changed]
        changed_trainings = [training for training in trainings if training[0] in in_patch]
        if not changed_trainings:  # among trainings, a script shows itself by its guard: others may be parts of them
            scripts = [str(file) for file in in_patch if not trainings or _has_guard(file)]
        trainings = changed_trainings or ([] if scripts else trainings)
    words = [f"{file}:{function}" for file, function in trainings]
    found = words or scripts
    if len(found) == 1:
        return found[0]
    if not found:
        says = f"{folder} has no function that returns a laptime.Training, and {patch} changes no script in it"
        raise UsageError(says, f"name its file: laptime verdict {folder / 'train.py'} {patch}")
    more = len(found) - TRAININGS_LISTED
    listed = ", ".join(found[:TRAININGS_LISTED]) + (f" and {more} more" if more > 0 else "")
    says = f"{folder} has {len(found)} {'trainings' if words else 'scripts that the patch changes'}: {listed}"
    raise UsageError(says, f"name one: laptime verdict {found[0]} {patch}")


def _changed_files(folder: Path, patch: str) -> set[str]:
    """Return the files that a patch changes. Its places are from the top of the repository, or from the folder."""
    try:
        text = read_regular(patch, PATCH_MOST_BYTES).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        raise UsageError(f"there is no patch {patch}", MAKES_A_PATCH) from None
    except OSError as error:
        raise UsageError(f"the patch {patch} cannot be read: {error.strerror or error}", MAKES_A_PATCH) from None
    top = top_of(folder.resolve()) or folder.resolve()
    return {_whole(top / name.strip()) for name in PATCHED.findall(text) if "\0" not in name}


def _whole(file: Path) -> str:
    """Return a file's path without links. A ring of links leads nowhere, and is left as it is."""
    return os.path.realpath(file)


def _trainings(file: Path) -> list[str]:
    try:
        return find_trainings(read_tree(file))
    except UsageError:  # a file that is not read as Python is no training
        return []


def _has_guard(file: Path) -> bool:
    try:
        return any(map(is_main_guard, read_tree(file).body))
    except UsageError:
        return False
