"""`laptime scale`: one training on 1, 2, 4 devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from laptime.cli.asking import (
    ALONE,
    HEATS,
    MONEY_OPTIONS,
    SAYS,
    SUBJECT_OPTIONS,
    WATCH_OPTIONS,
    Duration,
    Several,
    Share,
    make_ask,
)
from laptime.cli.main import rare
from laptime.cli.questions import ONE_LANE, WORDS, make_command
from laptime.model.ask import Ask
from laptime.questions.scale.nouns import GROWTH, ScaleAsk

SCALE_HELP = f"""Train WHAT on 1, 2, 4 devices: what do they bring, and what is lost?

{WORDS}
{ONE_LANE}
"""
SCALE_MORE = """\
A LANE names one device, and devices of its kind are counted. All counts race in turns, and with them experiments:
the same processes without their exchange of gradients, the same on batches that are ready, and one device on its
part of a batch. From these follow the parts of a step: the exchange that no computing hides, a slow rank, loaders
that do not keep up, devices that slow each other down. With --weak each device has the batch as written, with
--strong they share it out. On a processor a device is a process with its share of the cores. A model of an
all-reduce predicts up to 4,096 devices; with three counts or more, the largest is predicted from the others first,
and the page says how well. In PyTorch a lane may name ddp (the default), fsdp or dp.

With --on ray or --on torchrun the devices may be on several nodes (docs/clusters.md).
"""


def make_scale_ask(given: dict[str, Any]) -> Ask:
    """Return the ask of the command."""
    told = dict(given)
    devices = told.pop("devices") or ()
    growth = tuple(word for word in GROWTH if told.pop(word))
    return replace(make_ask(told), scale=ScaleAsk(devices, growth))


scale = make_command(
    "scale",
    SCALE_HELP,
    make_scale_ask,
    (
        *SUBJECT_OPTIONS,
        click.option("--devices", type=Several(int), help="Counts to race: 1,2,4.  [default: 1, 2, 4 to all]"),
        rare("--weak", is_flag=True, help="Each device has the batch as written.  [default]"),
        click.option("--strong", is_flag=True, help="The devices share out the batch as written."),
        click.option("--both", is_flag=True, help="Race both: the batch as written on each, and shared out."),
        click.option("--budget", type=Duration(), default="2m", show_default=True, help=SAYS["budget"]),
        click.option("--margin", type=Share(), default="5%", show_default=True, help=SAYS["margin"]),
        HEATS,
        ALONE,
        rare("--on", metavar="WHERE", help="A cluster: ray, slurm or torchrun."),
        *WATCH_OPTIONS,
        *MONEY_OPTIONS,
    ),
    plans=True,
    examples=("laptime scale cifar-cnn cuda --devices 1,2,4", "laptime scale my.py:training cpu --both"),
    page="docs/scale.md",
    more=SCALE_MORE,
)
