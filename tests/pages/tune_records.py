"""Records of tunings as literals: a winner that was confirmed, and a lane that nothing makes faster."""

from __future__ import annotations

from dataclasses import replace

import records

from laptime.model.quantities import Factor, Missing
from laptime.model.record import CodeChange, Record
from laptime.questions.tune.nouns import (
    AtBest,
    Learned,
    SettingWorth,
    TriedSet,
    TuneAnswer,
    TunedLane,
    Tuning,
    Unplaced,
)
from laptime.questions.tune.options import TuneAsk

SETTINGS = (
    SettingWorth("malloc=keep", "", Factor(1.5, 1.45, 1.56), in_winner=True),
    SettingWorth("bf16", "arithmetic", Factor(1.3, 1.26, 1.35), in_winner=True),
    SettingWorth("fused", "", Factor(1.002, 0.97, 1.04), in_winner=False),
    SettingWorth("compile", "", None, in_winner=False, reason="RuntimeError: no compiler"),
    SettingWorth("threads=1", "", None, in_winner=False, reason="the budget had no room for it"),
)
PATH = (
    TriedSet(("channels_last",), Factor(0.96, 0.93, 0.99), kept=False),
    TriedSet(("malloc=keep",), Factor(1.5, 1.45, 1.56), kept=True),
    TriedSet(("bf16",), Factor(1.3, 1.26, 1.35), kept=False),
    TriedSet(("fused",), Factor(1.002, 0.97, 1.04), kept=False),
    TriedSet(("compile",), None, kept=False, reason="RuntimeError: no compiler"),
    TriedSet(("bf16", "malloc=keep"), Factor(2.04, 1.96, 2.12), kept=True),
)
WINNER = TunedLane(
    asked="torch/cpu/as-written",
    winner="torch/cpu/bf16+malloc=keep",
    words=("bf16", "malloc=keep"),
    standing="confirmed",
    gain=Factor(1.95, 1.92, 1.98),
    seemed=2.04,
    pairs=7,
    settings=SETTINGS,
    tried=9,
    ties=("bf16+fused+malloc=keep",),
    code=("torch.autocast(device_type, dtype=torch.bfloat16)", "laptime.keep_memory()"),
    environment={"MALLOC_TOP_PAD_": "67108864"},
    path=PATH,
)
AS_IT_IS = TunedLane(
    "torch/cuda:0/as-written", "torch/cuda:0/as-written", (), "no gain", None, None, 0, SETTINGS[2:4], 3
)


def tuned(says: str, *lanes: TunedLane, at_best: tuple[AtBest, ...] = ()) -> Record:
    names = dict.fromkeys(name for each in lanes for name in (each.asked, each.winner))
    made = tuple(records.lane(name, 170.0 / (1 + number)) for number, name in enumerate(names))
    record = records.record(made)
    asked = replace(record.ask, tune=TuneAsk(("precision",)))
    return replace(record, question="tune", ask=asked, answer=TuneAnswer(tuning=Tuning(says, lanes, at_best)))


def confirmed() -> Record:
    return tuned("torch/cpu is 1.95x (1.92-1.98) as fast with bf16+malloc=keep.", WINNER)


def unconfirmed() -> Record:
    """The best of the search, in which one setting alone seemed slower, is no faster on fresh heats."""
    settings = (*SETTINGS[:2], SettingWorth("threads=1", "", Factor(0.96, 0.93, 0.99), in_winner=True))
    words = ("bf16", "malloc=keep", "threads=1")
    gain = Factor(0.99, 0.95, 1.04)
    return tuned(
        "No settings make torch/cpu surely faster than it is.",
        replace(
            WINNER, words=words, standing="no gain", gain=gain, settings=settings, ties=(), code=(), environment=None
        ),
    )


def two_lanes() -> Record:
    best = AtBest(AS_IT_IS.winner, WINNER.winner, Factor(9.0, 8.8, 9.2))
    says = "torch/cpu is 1.95x as fast with bf16+malloc=keep. No settings make torch/cuda:0 surely faster than it is."
    return tuned(says, WINNER, AS_IT_IS, at_best=(best,))


def learned() -> Record:
    """The winner has a loss and no accuracy, as a training without classes."""
    asked = Learned(WINNER.asked, 2, "test", 10_000, 1.3512, 0.5123)
    best = Learned(WINNER.winner, 2, "test", 10_000, 1.355, Missing("outputs and targets are not classes"))
    record = tuned(
        "torch/cpu is 1.95x (1.92-1.98) as fast with bf16+malloc=keep.", replace(WINNER, learned=(asked, best))
    )
    return replace(record, ask=replace(record.ask, tune=TuneAsk(("precision",), laps=2)))


DIFF = """diff --git a/train.py b/train.py
--- a/train.py
+++ b/train.py
@@ -24,5 +24,5 @@
     optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
-    loader = DataLoader(Drawings(), batch_size=BATCH, shuffle=True)
+    loader = DataLoader(Drawings(), batch_size=BATCH, shuffle=True, num_workers=4, persistent_workers=True)
     for epoch in range(epochs):
"""
CHANGE = CodeChange("workers=4", "train.py", 25, "0" * 64, DIFF, "train.py")


def script() -> Record:
    """Of the winner's two settings one has a certain place in the script."""
    worths = (
        SettingWorth("workers=4", "", Factor(1.8, 1.7, 1.9), in_winner=True),
        SettingWorth("malloc=keep", "", Factor(1.1, 1.05, 1.15), in_winner=True),
        SettingWorth("channels_last", "", None, in_winner=False, reason="the model has no convolution of images"),
    )
    lane = TunedLane(
        "cpu/as-written", "cpu/malloc=keep+workers=4", ("malloc=keep", "workers=4"), "confirmed",
        Factor(1.95, 1.92, 1.98), 2.04, 7, worths, 9, environment={"MALLOC_TOP_PAD_": "67108864"}, changes=(CHANGE,),
        unplaced=(Unplaced("malloc=keep", "train.py does not import laptime at its top", "laptime.keep_memory()"),),
    )  # fmt: skip
    record = tuned("cpu is 1.95x (1.92-1.98) as fast with malloc=keep+workers=4.", lane)
    command = ("python", "train.py", "--epochs", "3")
    workload = replace(record.workload, name="train.py", title="train.py", command=command)
    return replace(record, ask=replace(record.ask, what="train.py", command=("--epochs", "3")), workload=workload)


SHOWN = {"script": script, "confirmed": confirmed, "two-lanes": two_lanes, "learned": learned}
