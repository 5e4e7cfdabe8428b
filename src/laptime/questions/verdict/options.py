"""What `laptime verdict` is asked besides the two trainings: the gain that counts, and whether it guards a branch."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.model.option_kinds import FLAG, SHARE, Option, ValueRange


@dataclass(frozen=True, slots=True)
class VerdictAsk:
    """A candidate has to be faster by `gain`. With `gate`, it must not be slower by that much."""

    gain: float = 0.02
    gate: bool = False

    @property
    def changes_data(self) -> bool:
        return False


VERDICT = ("verdict",)

VERDICT_OPTIONS = [
    Option(
        "gain", SHARE, VERDICT, "verdict.gain", "The gain that a change has to bring.", default="2%",
        range=ValueRange(0.001, 1, "expected 0.1% to 100%", "such as 2%", shown="{:.3%}"),
    ),
    Option("gate", FLAG, VERDICT, "verdict.gate", "Guard a branch: discard what is slower, keep all else."),
]  # fmt: skip
