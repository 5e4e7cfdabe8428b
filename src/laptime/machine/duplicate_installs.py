"""A module that several distributions have installed: whose files are imported, and what to do. Nothing is imported."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from laptime.model.frameworks import Package

FILES_COMPARED = 200


@dataclass(frozen=True, slots=True)
class InstalledCopy:
    """A distribution that lists a module's files as its own; `sizes` are the file sizes that it recorded."""

    name: str
    version: str
    folder: Path
    sizes: dict[str, str]

    @property
    def words(self) -> str:
        return f"{self.name} {self.version}"


def find_duplicate_installs(package: Package) -> str:
    """Report which distributions brought a module, if there are several, which one is imported, and what to do."""
    module = package.name
    found = [(name, each) for name in (module, *package.also) for each in metadata.distributions(name=name)]
    if len(found) < 2:
        return ""
    copies = list({(each.folder, each.words): each for each in _copies(found, module)}.values())
    if len(copies) < 2:
        return ""
    spec = util.find_spec(module)
    home = Path(spec.origin).resolve().parents[1] if spec and spec.origin else None
    here = [each for each in copies if each.folder == home]
    away = [each for each in copies if each.folder != home]
    told = [_tell_mixed(here)] if len(here) > 1 else [f"{each.words} in {each.folder} is imported" for each in here]
    told += [f"{each.words} in {each.folder} is not" for each in away]
    both = " ".join(dict.fromkeys(each.name for each in copies))
    way_out = f"pip uninstall {both}, and install the one that is meant"
    path = ", or take the other's folder off PYTHONPATH" if away else ""
    return f"{module} is installed {_times(len(copies))}: {', '.join(told)} ({way_out}{path})"


def _copies(found: Iterable[tuple[str, metadata.Distribution]], module: str) -> Iterator[InstalledCopy]:
    """Skip distributions that only have the name: some contain nothing but their dependencies."""
    for name, each in found:
        folder = Path(str(each.locate_file(""))).resolve()
        record = each.read_text("RECORD")  # the operating system's own packages often have none
        rows = csv.reader((record or "").splitlines())
        sizes = {row[0]: row[2] for row in rows if len(row) == 3 and row[0].startswith(f"{module}/")}
        if sizes or (record is None and (folder / module).is_dir()):
            yield InstalledCopy(name, each.version, folder, sizes)


def _tell_mixed(copies: Sequence[InstalledCopy]) -> str:
    """Report whose files are in a folder into which several were installed; the last one overwrote the others."""
    votes: Counter[str] = Counter()
    first, *others = copies
    differing = [each for each in first.sizes if any(other.sizes.get(each) != first.sizes[each] for other in others)]
    for name in differing[:FILES_COMPARED]:
        file = first.folder / name
        size = str(file.stat().st_size) if file.exists() else ""
        votes.update(each.words for each in copies if each.sizes.get(name) == size)
    all_ = " and ".join(each.words for each in copies)
    whose = f"most files are those of {votes.most_common(1)[0][0]}" if votes else "nobody can tell whose files are left"
    return f"{all_} have written over each other in {first.folder}, and {whose}"


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"
