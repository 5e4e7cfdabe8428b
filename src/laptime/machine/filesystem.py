"""On which kind of file system a folder lies."""

from __future__ import annotations

from pathlib import Path

from laptime.model.missing import Missing


def find_filesystem(folder: Path, proc: Path = Path("/proc")) -> str | Missing:
    """Give the kind of the innermost mount that holds the folder, as the kernel names it: ext4, nfs4, fuse.sshfs."""
    try:
        lines = (proc / "self" / "mountinfo").read_text(errors="replace").splitlines()
    except OSError as error:
        return Missing(f"{proc}/self/mountinfo: {error.strerror}")
    mounts = [_read(line) for line in lines if " - " in line]
    holding = [(place, kind) for place, kind in mounts if _holds(place, folder.resolve())]
    if not holding:
        return Missing("no mount holds it")
    return max(reversed(holding), key=lambda each: len(each[0].parts))[1]  # of two at one place the later one is seen


def _read(line: str) -> tuple[Path, str]:
    before, _, after = line.partition(" - ")
    return Path(before.split()[4].encode().decode("unicode_escape")), after.split()[0]


def _holds(place: Path, folder: Path) -> bool:
    return place == folder or place in folder.parents
