"""`laptime scale`: one training on 1, 2, 4 devices."""

from __future__ import annotations

from laptime.cli.questions import ONE_LANE, WORDS, make_command

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
all-reduce predicts more devices, with ranges, up to eight times the largest count. With three counts or more, the
largest is predicted from the others first, and the page says how well. In PyTorch a lane may name ddp (the default),
fsdp or dp.

With --on ray or --on torchrun the devices may be on several nodes (docs/clusters.md).
"""

scale = make_command(
    "scale",
    SCALE_HELP,
    plans=True,
    examples=("laptime scale cifar-cnn cuda --devices 1,2,4", "laptime scale my.py:training cpu --both"),
    page="docs/scale.md",
    more=SCALE_MORE,
)
