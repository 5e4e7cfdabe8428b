"""How laptime itself was installed, for hints that say how to install more of it or a newer one."""

from __future__ import annotations

import json
import shlex
from functools import cache
from typing import Any
from urllib.parse import unquote, urlsplit

PACKAGE_NAME = "laptime"


def install_command(*extras: str) -> str:
    """Return the command that adds extras to this laptime, from where it came: a folder, a repository, or the index."""
    return command_for(_read_origin(), extras)


def upgrade_command() -> str:
    """Return the command that brings a newer laptime, or what to do in the folder that this one runs from."""
    origin = _read_origin()
    folder = _folder_of(origin)
    if folder is not None and origin.get("dir_info", {}).get("editable"):
        return f"bring the source in {folder} up to date"
    return command_for(origin, (), ("--upgrade",))


def installed_version() -> str:
    """Return the installed version. A source folder that is only on the path has none."""
    from importlib import metadata  # noqa: PLC0415  it is slow to import, and few commands need it

    try:
        return metadata.version(PACKAGE_NAME)
    except metadata.PackageNotFoundError:
        return "not installed"


def command_for(origin: dict[str, Any], extras: tuple[str, ...], flags: tuple[str, ...] = ()) -> str:
    """Return the command for an `origin` as pip wrote it to direct_url.json; it is empty for a package of the index."""
    wanted = f"[{','.join(extras)}]" if extras else ""
    folder = _folder_of(origin)
    if folder is not None:
        editable = ("-e",) if origin["dir_info"].get("editable") else ()
        return shlex.join(["pip", "install", *flags, *editable, f"{folder}{wanted}"])
    if "vcs_info" in origin:
        url = f"{origin['vcs_info'].get('vcs', 'git')}+{origin.get('url', '')}"
        return shlex.join(["pip", "install", *flags, f"{PACKAGE_NAME}{wanted} @ {url}"])
    return shlex.join(["pip", "install", *flags, f"{PACKAGE_NAME}{wanted}"])


@cache
def _read_origin() -> dict[str, Any]:
    """Return what pip noted of where laptime came from; nothing for a package of the index, or a bare source folder."""
    from importlib import metadata  # noqa: PLC0415  it is slow to import, and few commands need it

    try:
        told = json.loads(metadata.distribution(PACKAGE_NAME).read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _folder_of(origin: dict[str, Any]) -> str | None:
    url = urlsplit(str(origin.get("url", "")))
    return unquote(url.path) if "dir_info" in origin and url.scheme == "file" else None
