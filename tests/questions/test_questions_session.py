"""A verdict of a session: the rounds that choose a candidate do not keep it, and a share is spent before fresh ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_questions_race import MACHINE

from laptime.engine.run.confined import ConfinedLauncher
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.quantities import Factor
from laptime.planner import make_plan
from laptime.planner.plan import join_plans
from laptime.questions.asking import Prepared
from laptime.questions.job import CheckpointFiles, Job, Services
from laptime.questions.proving import ReferenceCache
from laptime.questions.subject import find_subject
from laptime.questions.verdict.nouns import ERRORS, Decision, SessionPart, SessionState, share_of_error, verdict_fields
from laptime.questions.verdict.options import VerdictAsk
from laptime.questions.verdict.reduce import alpha_at, confirm_change, looks
from laptime.questions.verdict.session import SessionRace, check_session
from laptime.questions.verdict.speed import VerdictRace

BASE, CANDIDATE = "cifar-cnn", "cifar-cnn@1.0"  # the same network under two names
FRESH = "confirms a KEEP, round"


class Loop:
    """A loop's session, kept in memory, and what one of its verdicts needs besides; its heats are real fake ones."""

    def __init__(self, folder: Path) -> None:
        self.script = folder / "fake.toml"
        self.states = [SessionState("loop")]
        self.said: list[str] = []
        self.at_fresh = lambda: None

    def takes(self, step_ms: float) -> None:
        """Let a step of the candidate take this long; one of the base takes 100 ms. Heats differ by half a percent."""
        text = '["*cifar-cnn"]\nstep_ms = 100.0\nspread = 0.005\n["*cifar-cnn@1.0*"]\nstep_ms = {}\nspread = 0.005\n'
        self.script.write_text(text.format(step_ms), encoding="utf-8")

    def judge(self, step_ms: float, **pace: int):
        """Return the record of a verdict of the session."""
        return self.run(lambda job, prepared: SessionRace(job, prepared, "loop"), step_ms, **pace)

    def run(self, make, step_ms: float, **pace: int):
        self.takes(step_ms)
        ask = Ask(BASE, ("fake/cpu",), others=(CANDIDATE,), budget_s=60.0, verdict=VerdictAsk(session="loop"))
        subject, workload = find_subject(BASE)
        plan = join_plans(
            [make_plan(ask, MACHINE, replace(subject, name=name), workload) for name in (BASE, CANDIDATE)], MACHINE
        )
        own = {"LAPTIME_FAKE": str(self.script)}
        lanes = tuple(replace(lane, environment={**lane.environment, **own}) for lane in plan.lanes)
        pace = replace(plan.pace, **{"heats_max": 40} | pace)
        prepared = Prepared(
            replace(plan, lanes=lanes, pace=pace),
            MACHINE,
            None,
            launcher=ConfinedLauncher(),
        )
        job = Job("verdict", prepared, self._services())
        return job.answer(make(job, prepared))

    def _services(self) -> Services:
        return Services(
            record_id="r-1",
            started="2026-01-01T00:00:00+00:00",
            tool={"name": "laptime", "version": "0"},
            journal=lambda _record: None,
            references=ReferenceCache(lambda _key: None, lambda _reference: None),
            checkpoints=CheckpointFiles(Path, Path.unlink),
            place_trace=Path,
            show=lambda _record, progress: self._hear(progress.doing),
            tell=lambda _moment: None,
            update_session=self._update,
        )

    def _update(self, _name, change):
        self.states.append(change(self.states[-1]))
        return self.states[-1]

    def _hear(self, doing: str) -> None:
        is_first = doing.startswith(FRESH) and not any(each.startswith(FRESH) for each in self.said)
        self.said.append(doing)
        if is_first:
            self.at_fresh()


class BusyAtFirst(VerdictRace):
    """Other processes compute during the first rounds, as far as the instruments can tell."""

    def _end_round(self, round_s, prestarter):
        for name, heats in self._rounds.heats.items() if self._rounds.rounds <= 4 else ():
            windows = tuple(replace(each, flag="other processes took 0.50 cores") for each in heats[-1].windows)
            self._rounds.heats[name] = [*heats[:-1], replace(heats[-1], windows=windows)]
        super()._end_round(round_s, prestarter)


@pytest.fixture
def loop(tmp_path, forked_heats):
    return Loop(tmp_path)


def test_a_verdict_goes_on_where_a_busy_machine_leaves_it_open(loop):
    """It said UNDECIDED after four rounds, with most of its budget left, and quiet rounds came."""
    record = loop.run(BusyAtFirst, 90.0)
    fields = verdict_fields(record)
    assert (fields.verdict, fields.cause) == ("KEEP", "faster")
    assert fields.rounds > 4


@pytest.mark.long
def test_a_gain_is_chosen_then_confirmed_in_fresh_rounds_and_its_share_comes_back(loop):
    spent = []
    loop.at_fresh = lambda: spent.append(loop.states[-1].spent)
    record = loop.judge(80.0)
    fields = verdict_fields(record)
    assert (fields.verdict, fields.rounds, fields.session.chosen_rounds) == ("KEEP", 4, 4)
    assert spent == [(1,)], "before the first fresh round"
    assert loop.states[-1] == SessionState("loop", 1)
    session = fields.session
    assert (session.name, session.number, session.error, session.is_spent) == ("loop", 1, share_of_error(1), False)
    assert (session.held_s, fields.confidence) == (30.0, 1 - 2 * session.error)
    (found,) = record.answer.comparisons
    assert {len(lane.heats) for lane in record.lanes} == {8}
    later = [[each.step_ms for each in lane.heats[4:]] for lane in record.lanes]
    assert found.ratios == pytest.approx([base / candidate for base, candidate in zip(*later, strict=True)])
    assert found.alpha == alpha_at(4, 36, final=False, errors=2 * session.error)
    assert fields.ratio == found.ratio != session.chosen_ratio
    assert loop.said[0] == "verdict 1 of session loop: 30 s of the budget are held to confirm a KEEP in fresh rounds"


def test_what_only_the_rounds_that_chose_it_would_keep_is_not_kept_and_costs_the_share(loop):
    """The machine, or chance, was with it: the fresh rounds know nothing of the first ones."""
    loop.at_fresh = lambda: loop.takes(125.0)
    record = loop.judge(80.0)
    fields = verdict_fields(record)
    assert (fields.verdict, fields.cause) == ("DISCARD", "slower")
    assert fields.session.chosen_ratio == pytest.approx(1.25, rel=0.03)
    assert fields.ratio == pytest.approx(0.8, rel=0.03)
    assert fields.session.is_spent
    assert f"The rounds that chose it measured {fields.session.chosen_ratio:.3f}x." in fields.reason
    assert loop.states[-1] == SessionState("loop", 1, (1,))


def test_a_verdict_that_ends_in_its_fresh_rounds_has_spent_its_share(loop):
    """An interrupt is a word of the user, who may have seen how it goes."""

    def interrupt():
        raise KeyboardInterrupt

    loop.at_fresh = interrupt
    record = loop.judge(80.0)
    fields = verdict_fields(record)
    assert (record.status, fields.verdict, fields.session.is_spent) == ("interrupted", "UNDECIDED", True)
    assert loop.states[-1] == SessionState("loop", 1, (1,))


def test_what_is_discarded_spends_nothing_and_has_no_fresh_rounds(loop):
    loop.states.append(SessionState("loop", 7, (1,)))
    fields = verdict_fields(loop.judge(125.0))
    assert (fields.verdict, fields.cause, fields.rounds) == ("DISCARD", "slower", 4)
    session = fields.session
    assert (session.number, session.error, session.chosen_ratio, session.is_spent) == (
        8,
        share_of_error(2),
        None,
        False,
    )
    assert loop.states[2:] == [SessionState("loop", 8, (1,))]
    assert not any(each.startswith(FRESH) for each in loop.said)


@pytest.mark.long
def test_a_gain_without_time_for_fresh_rounds_is_not_kept_and_spends_nothing(loop):
    fields = verdict_fields(loop.judge(80.0, heats_min=1_000))  # no minute has room for them
    assert (fields.verdict, fields.cause, fields.rounds) == ("UNDECIDED", "unconfirmed", 4)
    assert fields.needs == "more time: half of the budget is for the rounds that confirm it"
    assert loop.states[1:] == [SessionState("loop", 1)]


@pytest.mark.parametrize(
    ("word", "cause", "confirmed"),
    [
        ("KEEP", "faster", "faster"),
        ("UNDECIDED", "wide", "unconfirmed"),
        ("UNDECIDED", "early", "unconfirmed"),
        ("UNDECIDED", "busy", "busy"),
        ("DISCARD", "slower", "slower"),
    ],
)
def test_fresh_rounds_alone_decide(word, cause, confirmed):
    from test_questions_verdict import comparison

    part = SessionPart("loop", 3, 0.005, 45.0, chosen=comparison(1.1, 0.05))
    found = confirm_change(Decision(word, cause, "so it is.", factor=Factor(1.05, 1.01, 1.09)), part)
    assert (found.word, found.cause) == (word, confirmed)
    assert found.says == "so it is. The rounds that chose it measured 1.100x."


@pytest.mark.parametrize("share", [1, 2, 10])
def test_the_looks_at_fresh_rounds_spend_one_share_together(share):
    """Half of the errors of an interval are at the end where a KEEP is."""
    errors = 2 * share_of_error(share)
    early = sum(alpha_at(each, 20, final=False, errors=errors) for each in looks(20))
    assert early + alpha_at(20, 20, final=True, errors=errors) == pytest.approx(errors)
    assert errors <= ERRORS / 2


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (VerdictAsk(session=""), "--session: it is empty"),
        (VerdictAsk(session="a b"), "--session 'a b': expected a letter or digit"),
        (VerdictAsk(session="x" * 101), "--session: 101 characters"),
        (VerdictAsk(session="loop", gate=True), "--gate with --session: "),
        (VerdictAsk(session="loop", learning=True), "--learning with --session: "),
    ],
)
def test_what_cannot_be_a_session_is_refused(asked, says):
    with pytest.raises(UsageError) as refused:
        check_session(asked)
    assert refused.value.says.startswith(says)
    assert refused.value.hint
