"""What is found by looking at several results: how lanes changed from one to another, and one lane over time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from laptime import api
from laptime.api import showing
from laptime.library.notebook import Shown
from laptime.questions.compare.nouns import Compared, Difference, History, HistoryPoint, LaneChange


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

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row for each lane. An interval that is not known is an empty cell."""
        return api.compared_frame(self.compared)

    def _page(self, width: int, *, details: bool) -> str:
        return showing.compared_as_text(self.compared, showing.View(width, details=details))


@dataclass(frozen=True, slots=True, repr=False)
class HistoryResult(Shown):
    """One lane over time. `history` is all that was found; a page that `is_short` has at most 40 lines."""

    history: History
    is_short: bool = True

    @property
    def lane(self) -> str:
        """The lane that is followed."""
        return self.history.lane

    @property
    def points(self) -> tuple[HistoryPoint, ...]:
        """A row for each record, the oldest first: `id`, `started`, `items_per_s`, `change`, `marks`."""
        return self.history.points

    @property
    def others(self) -> tuple[str, ...]:
        """Further lanes of these records."""
        return self.history.others

    @property
    def left_out(self) -> tuple[str, ...]:
        """Which records have no figure of this lane, and why."""
        return self.history.left_out

    def to_dict(self) -> dict[str, Any]:
        """Return the history as `--json` prints it."""
        found: dict[str, Any] = json.loads(showing.to_json(self.history))
        return found

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with a row for each record, the oldest first."""
        return api.history_frame(self.history)

    def _page(self, width: int, *, details: bool) -> str:
        view = showing.View(width, details=details)
        return showing.history_as_text(self.history, view, is_short=self.is_short and not details)
