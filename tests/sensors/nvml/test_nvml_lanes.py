"""A lane on several cards: each is watched, under the name of its device, whatever NVML's order is."""

from __future__ import annotations

from scripted_cards import FIRST, SECOND, two

PROGRAM = f"""
import time
from laptime.analysis.usage import points_of
from laptime.model.machine import Device
from laptime.engine.run.instruments import SensorSelection

devices = [
    Device("cuda:0", "cuda", "a card", usable=True, details={{"uuid": "{SECOND}"}}),
    Device("cuda:1", "cuda", "a card", usable=True, details={{"uuid": "{FIRST}"}}),
]
sampler = SensorSelection(None, 100.0).sampler_for("torch/2xcuda", devices)
sampler.begin(os.getpid())
deadline = time.monotonic() + 20
while not all(sampler.so_far().find(card, "temperature_c") for card in ("{FIRST}", "{SECOND}")):
    assert time.monotonic() < deadline
    time.sleep(0.01)
timeline = sampler.end()
hot = {{card: points_of(timeline, card, "temperature_c")[0][1] for card in ("{FIRST}", "{SECOND}")}}
tell([dict(timeline.cards), hot, sum(track.sensor == "host" for track in timeline.tracks)])
"""


def test_each_card_of_a_lane_is_watched(watch):
    """The framework's order is not NVML's. What belongs to the whole machine is read once."""
    script = two() | {(0, "Temperature", 0): "40", (1, "Temperature", 0): "80"}
    cards, hot, hosts = watch(script, PROGRAM)
    assert cards == {"cuda:0": SECOND, "cuda:1": FIRST}
    assert hot == {FIRST: 40, SECOND: 80}
    assert hosts in {1, 2}, "what is read seldom has times of its own"
