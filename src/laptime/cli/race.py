"""`laptime race`: run a race, show it while it runs, and end with one table."""

from __future__ import annotations

from typing import Any

import click

from laptime import api
from laptime.cli.asking import make_ask, takes_an_ask
from laptime.cli.main import EXIT_INTERRUPTED, complain
from laptime.cli.output import Progress, may_colour, page_width
from laptime.cli.printing import emit
from laptime.errors import StoreError
from laptime.model.record import Record

EXIT_DNF, EXIT_UNTRUSTED = 3, 4

HELP = """Race WHAT on each LANE: which is faster, by how much, and did they learn the same?

WHAT is a built-in workload (`laptime workloads`; cifar-cnn if left out) or a training of your own, as
file.py:function where the function returns a laptime.Training. A LANE is [framework/]device[/setting+setting...]:
torch/cpu, cuda:1/best, torch/cpu/bf16+threads=1. With no lane, every usable device races as written and at its best.

Settings: as-written, best, fastest; fp32, tf32, bf16, fp16; eager, compile, graph; channels_last; fused; threads=N,
malloc=keep; input=published|fast|cached|resident|only; workers=N; batch=N, batch=4x.

Exit codes: 0 answered, 2 usage, 3 a lane did not finish or nothing could be saved, 4 a lane did not do the same
work, 130 interrupted (finished heats are kept).
"""


@click.command("race", help=HELP)
@takes_an_ask
@click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
def command(*, as_json: bool, quiet: bool, **given: Any) -> int:
    unsaved: list[StoreError] = []
    with Progress(quiet=quiet) as progress:
        record = api.race(make_ask(given), show=progress.show, warn=unsaved.append)
    emit(api.as_json(record) if as_json else api.as_text(record, page_width(), color=may_colour(), kept=not unsaved))
    if unsaved:
        complain(unsaved[-1])
    return exit_code(record, saved=not unsaved)


def exit_code(record: Record, *, saved: bool) -> int:
    """Give the one code that says most: a result that cannot be trusted comes before one that is not whole."""
    if record.status == "interrupted":
        return EXIT_INTERRUPTED
    if any(lane.parity.status == "differs" for lane in record.lanes):
        return EXIT_UNTRUSTED
    if not saved or any(lane.status != "ok" for lane in record.lanes):
        return EXIT_DNF
    return 0
