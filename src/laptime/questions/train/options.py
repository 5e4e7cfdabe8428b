"""What `laptime train` is asked besides what is trained: how long, and from which seeds, rates and batches."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.model.option_kinds import (
    BATCHES,
    COUNT,
    COUNTS,
    LAPS_RANGE,
    NUMBERS,
    SHARE,
    Option,
    QuestionOptions,
    ValueRange,
)


@dataclass(frozen=True, slots=True)
class FullAsk:
    """The options of a whole training; an option that is left out keeps its published value.

    Each lane is trained once for every pair of `learning_rates` and `batches`, where any are named.
    """

    laps: int | None = None
    steps_per_lap: int | None = None
    seeds: int = 1
    until_accuracy: float | None = None
    learning_rates: tuple[float, ...] = ()
    batches: tuple[int, ...] = ()

    @property
    def changes_data(self) -> bool:
        """Whether lanes may read other batches than they were written with."""
        return bool(self.batches)


TRAIN_COMMAND = ("train",)

PART = QuestionOptions(FullAsk, [
    Option("laps", COUNT, TRAIN_COMMAND, "full.laps", "N laps.  [default: as published]", range=LAPS_RANGE),
    Option(
        "steps_per_lap", COUNT, TRAIN_COMMAND, "full.steps_per_lap", "N steps a lap.  [default: as published]",
        is_rare=True, range=ValueRange(1, 10_000_000, "expected a whole number from 1 to 10,000,000", "such as 3"),
    ),
    Option(
        "seeds", COUNT, TRAIN_COMMAND, "full.seeds", "Train each lane from N seeds.  [default: 1]",
        range=ValueRange(1, 100, "expected a whole number from 1 to 100", "such as 3"),
    ),
    Option(
        "until_accuracy", SHARE, TRAIN_COMMAND, "full.until_accuracy", "Say when an accuracy was reached: 0.7 or 70%.",
        range=ValueRange(0, 1, "expected a share above 0 and up to 1", "such as 0.7 or 70%", above=True),
    ),
    Option(
        "lr", NUMBERS, TRAIN_COMMAND, "full.learning_rates", "Learning rates, a lane each: 1e-3,1e-4.",
        range=ValueRange(0, 100, "expected numbers above 0 and up to 100", "such as 1e-3,1e-4", above=True),
    ),
    Option("batch", COUNTS, TRAIN_COMMAND, "full.batches", "Batch sizes, a lane each: 64,128.", range=BATCHES),
])  # fmt: skip
