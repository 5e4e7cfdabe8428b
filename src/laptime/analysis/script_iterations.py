"""Units of a watched script -> iterations.

Units that end in no optimizer step are put together with the next ones: gradients accumulate. So are units without a
fetch of their own whose optimizers differ: a generator and a discriminator.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from laptime.analysis.script_units import Unit
from laptime.model.script import Counted

ALONE_MOST = 256  # backward passes without any optimizer step: the script updates its weights itself
INNER_MOST = 64  # updates with the same optimizer after one fetch; if there are more, they are iterations of their own


class IterationBuilder:
    """Puts units together to iterations."""

    def __init__(self, emit: Callable[[Unit], None]) -> None:
        self._emit = emit
        self._group: list[Unit] = []
        self._has_fetch = False  # the group began with a fetch
        self._is_updated = False
        self._held: list[Unit] = []  # units after the group's update that have no fetch and, yet, no update
        self.counted: Counted = "optimizer steps"
        self.unsure: str | None = None
        self._updates = 0
        self._is_first = True  # no iteration was emitted
        self.evaluates = False  # within iterations without an optimizer

    def take(self, unit: Unit) -> None:
        """Take the next unit."""
        self._updates += unit.updated
        if self.counted == "backward passes":
            if unit.steps:
                self.unsure = "it began to use an optimizer after many backward passes without one"
            self._emit_alone(unit)
            return
        if not self._is_updated:
            self._add(unit)
            if not self._updates and len(self._group) >= ALONE_MOST:
                self._count_backwards()
        elif unit.follows_fetch:
            self._end_group()
            self._add(unit)
        elif not unit.updated:
            _append(self._held, unit)
        elif unit.optimizers.isdisjoint(self._optimizers()) or (self._has_fetch and len(self._group) < INNER_MOST):
            self._group += [*self._held, unit]
            self._held = []
        else:
            self._split_group()
            self._group, self._held = [*self._held, unit], []
            self._has_fetch = False

    def skip(self) -> None:
        """End the last iteration: units follow that are not known. One that has no update yet is left out."""
        if self._is_updated:
            self._end_group()
        elif self._updates:
            self._group = []

    def finish(self) -> None:
        """Emit what is left. Without any optimizer step, each backward pass was an iteration.

        Where all followed one fetch, the whole of the data was one batch: each update was an iteration.
        """
        if not self._updates:
            self._count_backwards()
        elif self._is_updated and self._is_first and self._repeats():
            self._emit_updates([*self._group, *self._held])
        elif self._is_updated:
            self._end_group()

    def _repeats(self) -> bool:
        """Whether an optimizer steps twice in a row in the group: not each of several in its turn."""
        updates = [each.optimizers for each in self._group if each.updated]
        return any(first & second for first, second in pairwise(updates))

    def _add(self, unit: Unit) -> None:
        if not self._group:
            self._has_fetch = unit.follows_fetch
        if self._updates:
            _append(self._group, unit)
        else:  # without any update, each may turn out to be an iteration
            self._group.append(unit)
        self._is_updated = self._is_updated or unit.updated

    def _optimizers(self) -> set[int]:
        return set().union(*(each.optimizers for each in self._group))

    def _end_group(self) -> None:
        self._emit_joined([*self._group, *self._held])
        self._group, self._held, self._is_updated = [], [], False

    def _split_group(self) -> None:
        """Emit a group that no fetch begins, or that is too long for one fetch: each update was an iteration."""
        if not self._has_fetch or len(self._group) < INNER_MOST:
            self._emit_joined(self._group)
            return
        self._emit_updates(self._group)

    def _emit_updates(self, units: list[Unit]) -> None:
        part: list[Unit] = []
        for unit in units:
            part.append(unit)
            if unit.updated:
                self._emit_joined(part)
                part = []
        if part:
            self._emit_joined(part)

    def _emit_joined(self, units: list[Unit]) -> None:
        if units:
            first, *rest = units
            for each in rest:
                first.join(each)
            self._is_first = False
            self._emit(first)

    def _count_backwards(self) -> None:
        self.counted = "backward passes"
        for each in self._group:
            self._emit_alone(each)
        self._group, self._is_updated = [], False

    def _emit_alone(self, unit: Unit) -> None:
        """Emit an iteration without an optimizer: what has no gradients may be how the script updates its weights.

        Not so what is between `eval()` and `train()`.
        """
        unit.forward_backward += unit.no_grad - unit.evaluated
        unit.no_grad = unit.evaluated
        self.evaluates = self.evaluates or unit.evaluated > 0
        self._emit(unit)


def _append(units: list[Unit], unit: Unit) -> None:
    """Add a unit; one behind another without an update is put together with it, so that a list stays short."""
    if units and not units[-1].updated:
        units[-1].join(unit)
    else:
        units.append(unit)
