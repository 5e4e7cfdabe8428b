"""Trainings that are driven one step after another: most of them; a framework with a loop of its own is not."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Stepwise(ABC):
    """Takes many steps where the training knows how to take one."""

    stride = 1

    @abstractmethod
    def step(self) -> None:
        """Start one optimizer update."""

    def run(self, steps: int) -> None:
        step = self.step
        for _ in range(steps):
            step()


class Marked(Stepwise):
    """One that can also mark the points between its steps."""

    @abstractmethod
    def mark(self) -> object:
        """Note this point of the work: host time on a processor, an event on an accelerator."""

    def run_marked(self, steps: int) -> list[object]:
        step, mark = self.step, self.mark
        marks = [mark()]
        for _ in range(steps):
            step()
            marks.append(mark())
        return marks
