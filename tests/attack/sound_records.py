"""Sound records of every kind, as files: what is damaged, and into what escapes are planted."""

from __future__ import annotations

import full_records
import infer_records
import records
import scale_records
import sweep_records
import tune_records
import verdict_records
import watch_records
import why_records
from test_pages_profile import CARD, CPU
from test_pages_profile import page_of as profiled
from test_pages_watched import watched_answers, watched_training

from laptime.store.schema import encode


def literals() -> dict[str, bytes]:
    """Return the records that the tests of pages are made of: every kind of page, with every kind of failure."""
    profiled_lanes = (records.lane("torch/cpu/a", 172.4, profile=CPU), records.lane("b", 5.2, profile=CARD))
    shown = {
        **{f"race {name}": make() for name, make in records.SHOWN.items()},
        **{f"full {name}": make() for name, make in full_records.SHOWN.items()},
        **{f"infer {name}": make() for name, make in infer_records.SHOWN.items()},
        **{f"why {name}": make() for name, make in why_records.SHOWN.items()},
        **{f"scale {name}": make() for name, make in scale_records.SHOWN.items()},
        **{f"tune {name}": make() for name, make in tune_records.SHOWN.items()},
        **{f"sweep {name}": make() for name, make in sweep_records.SHOWN.items()},
        **{f"watch {name}": make() for name, make in watch_records.SHOWN.items()},
        **{f"verdict {name}": make() for name, make in verdict_records.SHOWN.items()},
        "profile": profiled(),
        "race with profiles": records.record(profiled_lanes),
        "full watched": watched_training(),
        "infer watched": watched_answers(),
    }
    return {name: encode(record) for name, record in shown.items()}


def raced(house, *, long: bool) -> dict[str, bytes]:
    """Return what real commands leave behind."""
    lanes = ("fake/cpu", "fake/cuda/best")
    house.race(*lanes, "--heats", "2", "--profile")
    paid = ("--price", "0.3", "--rate", "2", "-q")
    house.run("train", "cifar-cnn", *lanes, "--laps", "2", "--steps-per-lap", "5", *paid)
    house.run("infer", "cifar-cnn", *lanes, "--heats", "2", *paid)
    if long:
        house.run("why", "cifar-cnn", "fake/cpu", "--budget", "20s", "-q")
    return {f"real {place.stem}": place.read_bytes() for place in house.files()}
