"""`laptime.compare`: two results, lane by lane."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any, TypeAlias

from laptime import api, showing
from laptime.errors import UsageError
from laptime.library.asking import ShareLike, read_share
from laptime.library.results import Result, Shown
from laptime.model.compared import Compared, Difference, LaneChange
from laptime.model.record import Record

Recorded: TypeAlias = str | os.PathLike[str] | Result


@dataclass(frozen=True, slots=True, repr=False)
class CompareResult(Shown):
    """How each lane changed. `compared` is all that was found, and what `--json` prints."""

    compared: Compared

    @property
    def lanes(self) -> tuple[LaneChange, ...]:
        """How each lane changed: `ratio`, `low`, `high`, `verdict`, and the rates `before` and `after`."""
        return self.compared.lanes

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What else differs between the two: machine, versions, settings, seed, data, work."""
        return self.compared.differences

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the ratios doubtful."""
        return self.compared.warnings

    @property
    def failing(self) -> tuple[str, ...]:
        """The lanes that are slower than `fail_above` allows, for certain."""
        return self.compared.failing

    @property
    def passed(self) -> bool:
        """Whether every lane could be judged, and none is slower than `fail_above` allows."""
        return not (self.compared.failing or self.compared.unjudged)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as `--json` prints it."""
        found: dict[str, Any] = json.loads(showing.to_json(self.compared))
        return found

    def to_markdown(self) -> str:
        """Return a summary for a pull request, as `--md` prints it."""
        return showing.compared_as_markdown(self.compared)

    def _page(self, width: int, *, details: bool) -> str:
        return showing.compared_as_text(self.compared, showing.View(width, details=details))


def compare(first: Recorded, second: Recorded | None = None, *, fail_above: ShareLike | None = None) -> CompareResult:
    """Compare the second result with the first, lane by lane; with one, compare the trainings of its race.

    Each is a result, or what `laptime.load` finds: an id, a file, "latest", "@label". With `fail_above` ("5%", or
    0.05), `.failing` names the lanes that take more than that longer for certain.
    """
    share = _read_threshold(fail_above)
    before, after = _record(first), None if second is None else _record(second)
    if after is None:
        return CompareResult(api.compare_trainings(before, share))
    return CompareResult(api.compare_records(before, after, share))


def _record(given: Recorded) -> Record:
    if isinstance(given, Result):
        return given.record
    if not isinstance(given, str | os.PathLike):
        raise UsageError(f"{given!r} is no result", "give a result, an id, a file, 'latest' or '@label'")
    return api.load(os.fspath(given))


def _read_threshold(given: ShareLike | None) -> float | None:
    try:
        return None if given is None else read_share(given)
    except ValueError as error:
        raise UsageError(f"fail_above={given!r}: {error}", "such as '5%' or 0.05") from None
