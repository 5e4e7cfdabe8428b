"""A checkup for people: what each framework makes of each device, and for what is amiss the cause and the command."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.model.checkup import Checkup, Complaint, Trial
from laptime.model.missing import Missing
from laptime.report.figures import number
from laptime.report.layout import Cell, Column, Row, lay_out, wrap
from laptime.report.phrases import machine_words

ALL_WELL = "Every device that is here can be used by every framework that is installed."
ALL_ASKED_WELL = "Every device that is here can be used by what was asked."
NO_FRAMEWORK = "No framework is installed, so nothing can be tried: pip install 'laptime[torch]'"


def render_checkup(checkup: Checkup, width: int, *, color: bool) -> str:
    lines = [*wrap(machine_words(checkup.machine), width, "  "), *_tried(checkup.trials, width, color=color)]
    unknown = {each.share.missing for each in checkup.trials if each.product and isinstance(each.share, Missing)}
    lines += [line for reason in sorted(unknown) for line in wrap(f"- (share of the peak: {reason})", width, "  ")]
    for complaint in (*checkup.unused, *checkup.around):
        lines += ["", *_complaint(complaint, width)]
    if not checkup.trials:
        lines += ["", NO_FRAMEWORK]
    elif checkup.is_well:
        well = ALL_ASKED_WELL if _not_asked(checkup) else ALL_WELL
        lines += ["", well if not checkup.around else f"{well} What is named above can slow them."]
    if checkup.trials and (others := _not_asked(checkup)):
        lines += wrap(f"Not asked: {', '.join(others)}.", width, "  ")
    return "\n".join(lines) + "\n"


def _not_asked(checkup: Checkup) -> list[str]:
    """Name the frameworks of which nothing is known: whoever was asked has a processor at least, or a problem."""
    return [each.name for each in checkup.machine.frameworks if not each.devices and each.problem is None]


def _tried(trials: Sequence[Trial], width: int, *, color: bool) -> list[str]:
    columns = [
        Column("framework"),
        Column("device"),
        Column("what it is", least=12),
        Column("a product of matrices", least=24),
    ]
    rows = [Row((Cell(each.framework), Cell(each.device), Cell(each.label), _outcome(each))) for each in trials]
    lines = lay_out(columns, rows, width, color=color) if rows else []
    if lines is not None:
        return lines
    cells = (", ".join(cell.text for cell in row.cells) for row in rows)
    return [line for text in cells for line in wrap(text, width, "  ")]


def _outcome(trial: Trial) -> Cell:
    if trial.product is None:
        return Cell(f"failed: {trial.reason or 'no reason given'}", "bad")
    rate = f"{number(trial.product.best_per_s / 1e9)} GFLOP/s"
    if isinstance(trial.share, Missing):
        return Cell(f"works, {rate}", "good")
    return Cell(f"works, {rate}, {100 * trial.share:.0f} % of its measured peak", "good")


def _complaint(complaint: Complaint, width: int) -> list[str]:
    """The command stands in a line of its own, unbroken: it is there to be copied."""
    return [*wrap(f"{complaint.about}: {complaint.says}.", width, "  "), f"    {complaint.command}"]
