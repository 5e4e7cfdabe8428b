"""`laptime profile`: the operators of a step."""

from __future__ import annotations

from laptime.cli.questions import ONE_LANE, WORDS, make_command

PROFILE_HELP = f"""Where does a step of WHAT go on each LANE? Operators by time and memory, kernels, and a trace.

{WORDS}
{ONE_LANE}
"""
PROFILE_MORE = """\
Each lane is built and warmed up as in a heat, in a fresh process. Then some of its steps (3 to 20, for about two
seconds) run under the framework's own profiler: torch.profiler, JAX's or TensorFlow's. Steps without it are timed
before and after, so the profiler's own cost is known. Nothing is proven and nothing is raced. The trace of each
lane opens in https://ui.perfetto.dev or chrome://tracing. `laptime race --profile` races first.
"""

profile = make_command(
    "profile",
    PROFILE_HELP,
    hidden=True,
    examples=("laptime profile cifar-cnn torch/cpu", "laptime profile my.py:training cuda"),
    page="docs/why.md",
    more=PROFILE_MORE,
)
