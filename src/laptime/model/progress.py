"""How far a question is: made by the question, and drawn by one place for the terminal, the notebook and a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Progress:
    """What is being done now, and how much of the time is gone.

    `lanes` holds what each lane does now, by its name. `left_s` is what is still to come, the most of it where it
    `is_most`, and None where it is not known. Where there is no terminal, it has a line only if it `is_news`. What
    `stays` is a notice: a terminal keeps its line above what is drawn next.
    """

    doing: str
    elapsed_s: float = 0.0
    left_s: float | None = None
    is_most: bool = True
    lanes: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    is_news: bool = True
    stays: bool = False

    @property
    def share(self) -> float | None:
        """The share of the time that is gone, or None where the rest is not known."""
        if self.left_s is None:
            return None
        whole_s = self.elapsed_s + self.left_s
        return self.elapsed_s / whole_s if whole_s > 0 else 1.0
