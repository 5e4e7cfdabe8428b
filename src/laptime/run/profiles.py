"""Profile one lane in one child, and return a ProfileRun whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from laptime import wire
from laptime.model.missing import Missing
from laptime.model.process import Dnf
from laptime.model.profile import Profile, ProfileOrder, ProfileRun
from laptime.run.child import AnyChild, Child
from laptime.run.runner import Limits, ProcessRunner, Started, WindowWatch


class ProfileRunner(ProcessRunner):
    """Runs one lane under its framework's profiler. Reading the profile may take long without a message."""

    def __init__(self, order: ProfileOrder, patience_s: float, cores: int, tell: Callable[[str], None]) -> None:
        super().__init__(order.heat.lane.name, Limits(patience_s))
        self._order, self._tell, self._watch = order, tell, WindowWatch(cores)
        self._profile: Profile | None = None
        self._reason: str | None = None
        self._flag: str | None = None

    def run(self) -> ProfileRun:
        """Run to the end, whether it finishes or not. A profile that came is kept even if the process fails later."""
        dnf = self.follow(Started(Child(self._order.heat.lane.environment)), wire.Observe(self._order))
        profile = self._whole_profile(dnf)
        reason = None if profile is not None else f"in {dnf.phase}: {dnf.reason}" if dnf else self._reason
        return ProfileRun(self.process_run(dnf), profile, reason, self.first_step_ns)

    def note(self, message: wire.FromChild) -> None:
        super().note(message)
        if isinstance(message, wire.Profiled):
            self._profile, self._reason = message.profile, message.reason

    def answer(self, child: AnyChild, message: wire.FromChild) -> None:
        if not isinstance(message, wire.Phase):
            return
        self._tell(message.name)
        if message.name == "profile":
            self._watch.open(child)
        elif message.name == "work":
            _, self._flag = self._watch.close_span(message.at_ns - dict(self.phases)["profile"])

    def end(self) -> None:
        self._watch.end()

    def _whole_profile(self, dnf: Dnf | None) -> Profile | None:
        profile = self._profile
        if profile is not None and dnf is not None:
            ended = Missing(f"the process ended in {dnf.phase}: {dnf.reason}")
            profile = replace(profile, absent=dict.fromkeys(profile.absent, ended))
        if profile is not None and self._flag is not None:
            profile = replace(profile, notes=(*profile.notes, f"disturbed while it was profiled: {self._flag}"))
        return profile
