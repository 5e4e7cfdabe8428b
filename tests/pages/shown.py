"""A record's page with all details, in the form in which tests ask for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laptime.model.record import Record
from laptime.show.pages.page import View


def in_details(render: Callable[[Record, View], str]) -> Callable[..., str]:
    """Return a function that makes the page of a record with its details, at a width."""

    def shown(record: Record, width: int = 100, **how: Any) -> str:
        return render(record, View(width, details=True, **how))

    return shown
