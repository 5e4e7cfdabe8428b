"""Directs one child that profiles its lane, and always comes back with a ProfileRun."""

from __future__ import annotations

from dataclasses import dataclass, replace

from laptime import wire
from laptime.model.missing import Missing
from laptime.model.profile import Profile, ProfileOrder, ProfileRun
from laptime.model.sample import Dnf
from laptime.run.child import Child
from laptime.run.following import Notes, Started, Tell, follow
from laptime.run.instruments import Instruments


@dataclass(slots=True)
class ProfileNotes(Notes):
    """What has been heard of a profiled lane so far."""

    profile: Profile | None = None
    reason: str | None = None
    flag: str | None = None

    def take(self, message: wire.FromChild) -> None:
        Notes.take(self, message)  # not super(): a slotted dataclass is another class than the one written here
        if isinstance(message, wire.Profiled):
            self.profile, self.reason = message.profile, message.reason


def run_profile(order: ProfileOrder, patience_s: float, cores: int, tell: Tell) -> ProfileRun:
    """Have a child profile a lane; reading what a profiler saw takes long without a word, as compiling does."""
    notes, instruments = ProfileNotes(), Instruments(cores)

    def answer(child: Child, message: wire.FromChild) -> None:
        if not isinstance(message, wire.Phase):
            return
        tell(message.name)
        if message.name == "profile":
            instruments.open(child.pid)
        elif message.name == "work":
            noise = instruments.close_window()
            notes.flag = instruments.judge(noise, message.at_ns - dict(notes.phases)["profile"])

    started = Started(Child(order.heat.lane.environment))
    dnf = follow(started, wire.Observe(order), notes, answer, lambda: patience_s)
    return _make_run(notes, dnf)


def _make_run(notes: ProfileNotes, dnf: Dnf | None) -> ProfileRun:
    """A profile that was told stands, whatever ended the process after it."""
    built, finished, profile = notes.built, notes.finished, notes.profile
    if profile is not None and dnf is not None:
        ended = Missing(f"the process ended in {dnf.phase}: {dnf.reason}")
        profile = replace(profile, absent=dict.fromkeys(profile.absent, ended))
    if profile is not None and notes.flag is not None:
        profile = replace(profile, notes=(*profile.notes, f"disturbed while it was profiled: {notes.flag}"))
    gone = Missing("the process did not come to its end")
    return ProfileRun(
        profile=profile,
        reason=None if profile is not None else f"in {dnf.phase}: {dnf.reason}" if dnf else notes.reason,
        is_dnf=profile is None and dnf is not None,
        versions=built.versions if built else {},
        parameters=built.parameters if built else None,
        items_per_step=built.items_per_step if built else None,
        first_step_ns=notes.first_step_ns,
        phases_s=notes.phases_s(),
        peak_memory_bytes=finished.peak_memory_bytes if finished else gone,
        device_memory_bytes=finished.device_memory_bytes if finished else gone,
        notes=tuple(dict.fromkeys((*built.notes, *notes.noted))) if built else (),
    )
