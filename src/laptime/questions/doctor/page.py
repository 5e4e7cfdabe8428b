"""The page of the doctor: can each framework use each device, what was tried, and each problem with its command."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.model.installation import install_command
from laptime.model.missing import Missing
from laptime.pages.layout import Cell, Column, clean, painted, table_or_sentences, wrap, wrap_all
from laptime.pages.numbers import number
from laptime.pages.words import machine_words
from laptime.questions.doctor.devices_page import NO_FRAMEWORK
from laptime.questions.doctor.nouns import Checkup, DeviceTest, Problem

ALL_WELL = "Every device that is here can be used by every framework that is installed."
ALL_ASKED_WELL = "Every device that is here can be used by what was asked."


def render_checkup(checkup: Checkup, width: int, *, color: bool) -> str:
    """Return the page of the doctor: whether all can be used, what was tried, and each problem with its command."""
    lines = painted(_verdict(checkup), width, "strong", color=color)
    lines += [*wrap(machine_words(checkup.machine), width, "  "), *_tried(checkup.trials, width, color=color)]
    unknown = {each.share.missing for each in checkup.trials if each.product and isinstance(each.share, Missing)}
    lines += wrap_all((f"- (share of the peak: {reason})" for reason in sorted(unknown)), width)
    for problem in (*checkup.unused, *checkup.around):
        lines += ["", *_problem(problem, width)]
    if checkup.trials and (others := _not_asked(checkup)):
        lines += wrap(f"Not asked: {', '.join(others)}.", width, "  ")
    return "\n".join(lines) + "\n"


def _verdict(checkup: Checkup) -> str:
    """Return the answer in a sentence."""
    if not checkup.trials:
        return f"{NO_FRAMEWORK}, so nothing can be tried: {install_command('torch')}"
    if checkup.is_well:
        well = ALL_ASKED_WELL if _not_asked(checkup) else ALL_WELL
        return well if not checkup.around else f"{well} What is named below can slow them."
    failed = [f"{each.framework}/{each.device}" for each in checkup.trials if each.product is None]
    unused = [each.about for each in checkup.unused]
    return f"Not every device can be used: {'; '.join([*unused, *failed])}."


def _not_asked(checkup: Checkup) -> list[str]:
    """Return the frameworks that were not asked. One that was asked has a processor at least, or a problem."""
    return [each.name for each in checkup.machine.frameworks if not each.devices and each.problem is None]


def _tried(trials: Sequence[DeviceTest], width: int, *, color: bool) -> list[str]:
    columns: list[Column[DeviceTest]] = [
        Column("framework", lambda trial: trial.framework),
        Column("device", lambda trial: trial.device),
        Column("what it is", lambda trial: trial.label, least=12),
        Column("a product of matrices", _outcome, least=24),
    ]
    return table_or_sentences(columns, trials, width, color=color) if trials else []


def _outcome(trial: DeviceTest) -> Cell:
    if trial.product is None:
        return Cell(f"failed: {trial.reason or 'no reason given'}", "bad")
    rate = f"{number(trial.product.best_per_s / 1e9)} GFLOP/s"
    if isinstance(trial.share, Missing):
        return Cell(f"works, {rate}", "good")
    return Cell(f"works, {rate}, {100 * trial.share:.0f} % of its measured peak", "good")


def _problem(problem: Problem, width: int) -> list[str]:
    """Return a problem, with its command on a separate line, unbroken, so that it can be copied."""
    return [*wrap(f"{problem.about}: {problem.says}.", width, "  "), f"    {clean(problem.command)}"]
