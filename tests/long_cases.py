"""The cases of a test of which `make test` tries some, and `make test-all` the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def cases(*short: Any, long: Iterable[Any]) -> list[Any]:
    """Return all cases, with the mark `long` on those that it belongs to; a tuple holds several arguments."""
    marked = [pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=pytest.mark.long) for each in long]
    return [*short, *marked]
