"""The clients of other tools, imported when an export needs them."""

from __future__ import annotations

import importlib
from typing import Any

from laptime.errors import UsageError


def import_client(module: str, package: str | None = None) -> Any:
    """Import a client's module; a UsageError says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        named = package or module
        is_absent = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == named
        says = (
            f"this export needs {named}, which is not installed" if is_absent else f"{named} fails to import: {error}"
        )
        raise UsageError(says, f"pip install {named}") from None
