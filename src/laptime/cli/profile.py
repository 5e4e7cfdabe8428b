"""`laptime profile`: some steps of a lane under its framework's profiler, and where the time and the memory went."""

from __future__ import annotations

from typing import Any

import click

from laptime import api
from laptime.cli.asking import make_profile_ask, takes_a_subject
from laptime.cli.race import ask_one, conclude, tell

HELP = """Where does a step of WHAT go on each LANE? Operators by time and memory, kernels, and a trace.

WHAT and LANE are those of `laptime race`; with no lane it is the one that a framework's bare name means: its card if
there is one, else the processor, as written. With --every, each framework that is installed, on every device.

Each lane is built and warmed up as in a heat, in a fresh process; then some of its steps (as many as take two seconds,
3 to 20) are taken under the framework's own profiler: torch.profiler, JAX's or TensorFlow's. A step without it is timed
before and after, so that the profiler's own cost is told. Nothing is proven and nothing is raced.

The trace of each lane opens in https://ui.perfetto.dev or chrome://tracing.

Exit codes: 0 answered, 2 usage, 3 a lane could not be profiled or nothing could be saved, 130 interrupted.
"""


@click.command("profile", help=HELP)
@takes_a_subject
@click.option("--json", "as_json", is_flag=True, help="Print the whole record as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress.")
def command(*, as_json: bool, quiet: bool, **given: Any) -> int:
    answer = ask_one(api.profile, make_profile_ask(given), quiet=quiet)
    tell(answer, as_json=as_json)
    return conclude([answer])
