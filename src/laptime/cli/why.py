"""`laptime why`: where a lane's time goes, what limits it, and what each remedy gains, measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from laptime import api
from laptime.cli.asking import make_why_ask, takes_an_inquiry
from laptime.cli.race import EXIT_UNTRUSTED, Answer, ask_one, conclude, tell

HELP = """Why does WHAT take so long on LANE, and what would make it faster?

WHAT and LANE are those of `laptime race`; with no lane it is the one that a framework's bare name means: its card if
there is one, else the processor, as written.

The lane is raced against itself. First beside its three ceilings: its loader alone, the copy to the device alone, the
training alone on batches that lie ready. Then beside experiments, in each of which one possible cause is gone; those
first to which readings and ceilings point. A cause is proven where its removal moved the time, likely where only its
signature is there, and ruled out by a figure. Fifteen causes are judged.

The answer: the verdict in one sentence; where a step's time goes; the ceilings, and which binds; remedies, each with
the gain foretold and measured, what it changes, and the line of code that does it; and what was ruled out.

Exit codes: 0 answered, 2 usage, 3 the lane did not finish or nothing could be saved, 4 the lane did other work than its
reference, or the noise was too great to tell anything, 130 interrupted (finished heats are kept).
"""


@click.command("why", help=HELP)
@takes_an_inquiry
@click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
def command(*, as_json: bool, quiet: bool, **given: Any) -> int:
    answer = ask_one(api.why, make_why_ask(given), quiet=quiet)
    tell(answer, as_json=as_json)
    return _exit_code(answer)


def _exit_code(answer: Answer) -> int:
    """An experiment that fails is an answer; the lane that was asked about has to stand."""
    record = answer.record
    untrusted = record.why is not None and not record.why.trusted
    code = conclude([replace(answer, record=replace(record, lanes=record.lanes[:1]))])
    return EXIT_UNTRUSTED if code == 0 and untrusted else code
