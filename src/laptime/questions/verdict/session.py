"""A verdict of a session: what the first rounds would keep races again, and fresh rounds alone confirm it.

The best of many tries seems faster than it is, so the rounds that chose a candidate are no proof of it. All verdicts of
a session share one error for these proofs. It is spent before the fresh rounds begin: a verdict that is killed has
spent its share.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

from laptime.engine.run.turns import Prestarter
from laptime.model.ask import Ask
from laptime.model.errors import StoreError, UsageError
from laptime.model.machine import Machine
from laptime.model.quantities import brief
from laptime.model.record import Comparison, LaneResult, Progress
from laptime.planner.groups import OVERRUN, choose_pace
from laptime.planner.plan import check_label
from laptime.questions.asking import Prepared
from laptime.questions.job import Job, Outcome, RecordStatus
from laptime.questions.verdict.nouns import Decision, SessionPart, SessionState, VerdictAnswer, share_of_error
from laptime.questions.verdict.options import VerdictAsk
from laptime.questions.verdict.reduce import alpha_at, confirm_change
from laptime.questions.verdict.speed import VerdictRace, prepare_verdict, verdict_pace

HELD_SHARE = 0.5  # of the budget, for the fresh rounds


def check_session(asked: VerdictAsk) -> None:
    """Refuse a name that cannot be one, and what a session is not about."""
    check_label(asked.session, "--session")
    if asked.session is None:
        return
    if asked.gate:
        says = "--gate with --session: a session shares the error of gains, and a gate keeps what is not slower"
        raise UsageError(says, "leave out one of the two")
    if asked.learning:
        says = "--learning with --session: how fast a candidate learns is not confirmed from fresh seeds"
        raise UsageError(says, "leave out --session: each such verdict then has an error of its own")


def prepare_session(ask: Ask, machine: Machine) -> Prepared:
    """Prepare a race of two trainings in which the first rounds have their part of the budget."""
    prepared = prepare_verdict(ask, machine)
    plan = prepared.plan
    first = replace(plan.ask, budget_s=(1 - HELD_SHARE) * plan.ask.budget_s)
    if plan.alone is not None:
        pace = choose_pace(first, len(plan.lanes))
    else:
        pace = verdict_pace(first, len(plan.lanes), forks=all(lane.may_fork for lane in plan.lanes))
    return replace(prepared, plan=replace(plan, pace=replace(pace, heats_max=round(pace.heats_max / (1 - HELD_SHARE)))))


class SessionRace(VerdictRace):
    """A race whose first rounds may choose the candidate. Then fresh rounds decide, at a share of the session."""

    def __init__(self, job: Job, prepared: Prepared, name: str) -> None:
        super().__init__(job, prepared)
        self._held_s = HELD_SHARE * job.plan.ask.budget_s
        self._part = SessionPart(name, 0, 0.0, self._held_s)
        self._share = 0
        self._first_fresh: int | None = None  # the number of the first round that did not choose
        self._choosing = 0  # how many rounds chose

    def run(self) -> None:
        state = self._update(SessionState.with_verdict)
        self._take(state.next_share)
        self._part = replace(self._part, number=state.verdicts)
        self._job.notify(
            f"verdict {state.verdicts} of session {state.name}: {brief(self._held_s)} s of the budget are held "
            "to confirm a KEEP in fresh rounds"
        )
        super().run()

    def reduce(self, status: RecordStatus) -> Outcome:
        """Return the race's outcome, with what this verdict has of its session."""
        raced = super().reduce(status)
        assert isinstance(raced.answer, VerdictAnswer)
        return replace(raced, answer=replace(raced.answer, session=self._part))

    def _run_rounds(self, prestarter: Prestarter) -> bool:
        """Run the rounds that choose, and, where these would keep the candidate, those that confirm it."""
        is_final = super()._run_rounds(prestarter)
        if self._decided(final=is_final).cause != "unconfirmed" or not self._has_room(self._job.plan.pace.heats_min, 0):
            return is_final
        # Spend a share, and let only the rounds from now on decide
        chosen, _ = self._split(self._compare(self._rounds.results(), final=self._is_final))

        def spend(state: SessionState) -> SessionState:
            self._take(state.next_share)  # another verdict of the session may have taken the one of the beginning
            return state.without_share(self._share)

        self._update(spend)
        self._part = replace(self._part, chosen=chosen, is_spent=True)
        self._choosing = self._rounds.rounds
        self._first_fresh = self._rounds.next_number()
        self._is_final = True  # if it is interrupted
        is_final = super()._run_rounds(prestarter)
        if self._decided(final=is_final).word == "KEEP":
            self._part = replace(self._part, is_spent=False)
            with contextlib.suppress(StoreError):  # what does not come back stays spent, which is safe
                self._update(lambda state: state.with_share(self._share))
        return is_final

    def _take(self, share: int) -> None:
        self._share = share
        self._part = replace(self._part, error=share_of_error(share))

    def _update(self, change: Callable[[SessionState], SessionState]) -> SessionState:
        update = self._job.services.update_session
        assert update is not None
        return update(self._part.name, change)

    def _decided(self, *, final: bool) -> Decision:
        """Return the whole verdict of the rounds so far, at their last look or at an early one."""
        self._is_final = final
        answer = self.reduce("finished").answer
        assert isinstance(answer, VerdictAnswer)
        assert answer.verdict is not None
        return answer.verdict

    # What decides now: the first rounds, within their part of the time; then the fresh ones alone, in all that is left.

    @property
    def _stage(self) -> tuple[int, int]:
        most = self._job.plan.pace.heats_max
        if self._first_fresh is None:
            return self._rounds.rounds, round((1 - HELD_SHARE) * most)
        return self._rounds.rounds - self._choosing, most - self._choosing

    def _alpha(self, *, final: bool) -> float:
        if self._first_fresh is None:
            return super()._alpha(final=final)
        done, planned = self._stage
        return alpha_at(max(done, 1), planned, final=final, errors=2 * self._part.error)

    def _is_done(self) -> bool:
        """Whether no further round of this stage is wanted, or none would fit, decided without looking at any ratio."""
        done, planned = self._stage
        return not self._running or done >= planned or not self._has_room(1, done)

    def _is_settled(self) -> bool:
        """Whether this stage ends early."""
        is_settled = super()._is_settled()
        self._is_final = not is_settled  # if it is interrupted before its next look
        return is_settled

    def _has_room(self, rounds: int, done: int) -> bool:
        """Whether this many further rounds of a stage fit. The few that make an interval may take a little longer."""
        left_s = self._job.left_s
        if done < self._job.plan.pace.heats_min:
            left_s += OVERRUN * self._job.plan.ask.budget_s
        elif self._first_fresh is None:
            left_s -= self._held_s
        return rounds * self._next_round_s <= left_s

    def _compare(self, lanes: tuple[LaneResult, ...], *, final: bool) -> tuple[Comparison, ...]:
        first = self._first_fresh
        if first is not None:  # the heats of this stage alone
            lanes = tuple(
                replace(lane, heats=tuple(heat for heat in lane.heats if heat.heat.round >= first)) for lane in lanes
            )
        return super()._compare(lanes, final=final)

    def _judge(self, lanes: tuple[LaneResult, ...], compared: tuple[Comparison, ...]) -> Decision:
        return confirm_change(super()._judge(lanes, compared), self._part)

    def _describe(self) -> Progress:
        progress = super()._describe()
        return progress if self._first_fresh is None else replace(progress, doing=f"confirms a KEEP, {progress.doing}")
