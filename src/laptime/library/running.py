"""Runs one question for a call of the library: with its progress, and with a warning of what could not be saved."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial

from laptime import api
from laptime.errors import StoreError
from laptime.library.asking import options_as_arguments
from laptime.library.progress import progress_shown
from laptime.model.ask import Ask
from laptime.model.record import Record
from laptime.run.child import refuse_within_a_heat


def answer(question: str, ask: Ask, *, progress: bool | None) -> tuple[Record, bool]:
    return run(partial(api.answer, question, ask), progress=progress)


def run(ask: Callable[..., Record], *, progress: bool | None) -> tuple[Record, bool]:
    """Run a question. Return its record, and whether it was saved to the end."""
    refuse_within_a_heat()
    unsaved: list[StoreError] = []
    with options_as_arguments(), progress_shown(wanted=progress) as line:
        record = ask(show=line.show, tell=line.tell, warn=unsaved.append)
    warn(unsaved)
    return record, not unsaved


def warn(unsaved: Sequence[StoreError]) -> None:
    """Warn, once, of what could not be saved: the result is there all the same."""
    if unsaved:
        warnings.warn(str(unsaved[-1]), RuntimeWarning, stacklevel=5)
