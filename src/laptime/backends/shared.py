"""What a back end must also provide where several processes train one network together."""

from __future__ import annotations

from typing import Protocol

from laptime.backends.base import BuiltTraining, Exercise
from laptime.model.missing import Missing
from laptime.model.ranks import CollectiveSum


class ExchangeProfiler(Protocol):
    """A framework's own profiler, asked only about what processes exchange. Its caller fences before start and stop."""

    by: str
    """Its name and version, as shown to people."""

    def start(self) -> None:
        """Start watching."""

    def stop(self) -> None:
        """Stop watching."""

    def collectives(self) -> CollectiveSum | Missing:
        """Return how long a collective was in progress since the last start, or why that was not seen."""


class SharedTraining(BuiltTraining, Protocol):
    """A training that several processes train together."""

    def exchange_profiler(self) -> ExchangeProfiler | Missing:
        """Return a profiler of this process's part in the exchange, or why there is none."""

    def exchange(self, size_bytes: int) -> Exercise:
        """Exchange this many bytes among all of them, as their gradients are."""
