"""What `laptime verdict` is asked besides the two trainings: the gain that counts, and whether it guards a branch."""

from __future__ import annotations

from dataclasses import dataclass

from laptime.model.option_kinds import COUNT, FLAG, LAPS_RANGE, NAME, SHARE, Option, QuestionOptions, ValueRange


@dataclass(frozen=True, slots=True)
class VerdictAsk:
    """A candidate has to be faster by `gain`. With `gate`, it must not be slower by that much.

    With `learning`, its work may differ: it has to learn as well in less time. Both are then trained from up to `seeds`
    seeds, the base for `laps` laps; None leaves these to the budget. All verdicts of a `session` share one error.
    """

    gain: float = 0.02
    gate: bool = False
    learning: bool = False
    seeds: int | None = None
    laps: int | None = None
    session: str | None = None

    @property
    def changes_data(self) -> bool:
        return False


VERDICT = ("verdict",)

PART = QuestionOptions(VerdictAsk, [
    Option(
        "gain", SHARE, VERDICT, "verdict.gain", "The gain that a change has to bring.", default="2%",
        range=ValueRange(0.001, 1, "expected 0.1% to 100%", "such as 2%", shown="{:.3%}"),
    ),
    Option(
        "session", NAME, VERDICT, "verdict.session", "All verdicts of this name share one error of 1%.", metavar="NAME",
        is_repeated=False,  # it is of the loop that asked, and not of what is asked
    ),
    Option("gate", FLAG, VERDICT, "verdict.gate", "Guard a branch: discard what is slower, keep all else."),
    Option("learning", FLAG, VERDICT, "verdict.learning", "The work may differ: judge the loss reached per second."),
    Option(
        "seeds", COUNT, VERDICT, "verdict.seeds", "With --learning: from up to N seeds.  [default: 8]",
        range=ValueRange(4, 100, "expected a whole number from 4 to 100", "usually 8"), is_rare=True,
    ),
    Option(
        "laps", COUNT, VERDICT, "verdict.laps", "With --learning: the base's laps.  [default: by the budget]",
        range=LAPS_RANGE, is_rare=True,
    ),
])  # fmt: skip
