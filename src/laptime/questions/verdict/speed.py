"""Race a candidate against its base on one lane, until the verdict is known or the budget is used up."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from laptime.analysis.diagnosis.findings import find_unreliable
from laptime.analysis.parity import (
    find_other_beginning,
    find_other_data,
    find_other_progress,
    find_other_rates,
    find_other_sizes,
)
from laptime.analysis.replays import find_gain_elsewhere, find_other_replay
from laptime.analysis.script_pair import compare_scripts
from laptime.engine.run.confined import ConfinedLauncher
from laptime.engine.run.launchers import Launcher
from laptime.engine.run.turns import Prestarter
from laptime.model.ask import Ask
from laptime.model.errors import ExitCode, TrainingError, UsageError
from laptime.model.machine import Machine
from laptime.model.other_work import OtherWork, words_of_work
from laptime.model.plan import Pace, Subject
from laptime.model.process import IN_SHARED_MEMORY, ProcessRun
from laptime.model.quantities import Missing
from laptime.model.record import Comparison, LaneResult, OtherTraining
from laptime.model.sample import Heat, Reference
from laptime.model.stats import FIRST_LOOK
from laptime.planner.groups import choose_pace
from laptime.questions.asking import Prepared, are_scripts, names_a_file, prepare_pair, prepare_scripts
from laptime.questions.copies import copies_in_use
from laptime.questions.heat_rounds import NEW_SEEDS
from laptime.questions.job import Job, Outcome, RecordStatus
from laptime.questions.noted_code import FileChange
from laptime.questions.race.run import Race
from laptime.questions.sources import GIT, PATCH, split_revision
from laptime.questions.subject import find_subjects
from laptime.questions.verdict.cheats import find_hidden_time, find_late_gain, find_replaced
from laptime.questions.verdict.folder import find_training_of
from laptime.questions.verdict.nouns import ERRORS, EXIT_OF, Decision, VerdictAnswer, Word
from laptime.questions.verdict.options import VerdictAsk
from laptime.questions.verdict.reduce import (
    SANDBOX_RULE,
    SameWork,
    alpha_at,
    is_refusal,
    judge_change,
    judge_elsewhere,
    judge_left,
    judge_trick,
    looks,
    refuse_change,
)

TWIN = "base again"
STAY = "files that stay as they are while they are judged"
PATCHES = (".patch", ".diff")
ROUNDS_MOST = 200  # a gate has minutes, and a verdict takes the rounds that it needs
REPLAYED_ROUNDS = 0.5  # of the rounds, where it costs little
ROUNDS_OVER = 2  # times the rounds that are expected to fit: some are faster, and what is left of the budget is used


def pair_of(base: str, candidate: str) -> tuple[str, str]:
    """Return two sides in full: a commit without a file has the file of the other, a patch applies to the base.

    A folder with a patch is the one training in it.
    """
    if candidate.endswith(PATCHES):
        base = find_training_of(Path(base), candidate) if Path(base).is_dir() else base
        candidate = f"{PATCH}{candidate}:{base}"
    ends = {word: split_revision(word)[1] if word.startswith(GIT) else word for word in (base, candidate)}
    if not any(ends.values()):
        says = f"{base} and {candidate} name two commits and no training"
        raise UsageError(says, f"laptime verdict {base}:train.py:training {candidate}")
    sides = []
    for word, other in ((base, candidate), (candidate, base)):
        # The file and function of the other training, as they are here
        place = ends[other].removeprefix(PATCH).partition(":")[2] if ends[other].startswith(PATCH) else ends[other]
        sides.append(word if ends[word] else f"{word}:{place}")
    base, candidate = sides
    for word in (base, candidate):
        if not names_a_file(word):
            says = f"'{word}' is no training of your own, and a verdict is on a change of one"
            raise UsageError(says, "name a script or a function: train.py, git:main:file.py:function or change.patch")
    return base, candidate


def prepare_verdict(ask: Ask, machine: Machine) -> Prepared:
    """Prepare a race of two trainings on one lane, and of the base against itself where it guards a branch."""
    prepared = prepare_pair_of(ask, machine, twin=TWIN if _asked(ask).gate else None)
    plan = prepared.plan
    if not plan.subject.command:  # nobody is to know before what its weights and its order of data will be
        seed = plan.ask.seed or secrets.randbelow(NEW_SEEDS)
        plan = replace(plan, ask=replace(plan.ask, seed=seed))
        prepared = replace(prepared, plan=plan)
    if plan.alone is not None:
        return prepared
    pace = verdict_pace(plan.ask, len(plan.lanes), forks=all(lane.may_fork for lane in plan.lanes))
    return replace(prepared, plan=replace(plan, pace=pace))


def verdict_pace(ask: Ask, lanes: int, *, forks: bool) -> Pace:
    """Return as many short rounds as fit, as rounds differ by more than turns do; more, where these are faster."""
    pace = choose_pace(ask, lanes, takes_turns=True, forks=forks, most=ROUNDS_MOST)
    return replace(pace, heats_max=min(ROUNDS_OVER * pace.heats_max, ROUNDS_MOST), shares_steps=True)


def prepare_pair_of(ask: Ask, machine: Machine, twin: str | None = None) -> Prepared:
    """Find base and candidate, and plan both on one lane; with the name of a `twin`, the base once more."""
    candidates = [other for other in ask.others if other != ask.what]  # a record of a gate has the twin, too
    if ask.others and not candidates:
        says = f"BASE and CANDIDATE are both {ask.what}"
        raise UsageError(says, "name two trainings: laptime verdict base.py:f new.py:f")
    if len(candidates) != 1 or len(ask.lanes) > 1:
        raise UsageError("a verdict is on one candidate, on one lane", "laptime verdict base.py:f new.py:f torch/cpu")
    base, candidate = pair_of(ask.what, candidates[0])
    ask = replace(ask, what=base, others=(candidate,))
    # Most scripts write a log or a checkpoint next to themselves, and hardly a function does.
    if are_scripts(ask):
        folders = [Path(word).resolve().parent for word in (base, candidate) if Path(word).is_file()]
        return prepare_scripts(ask, machine, twin, ConfinedLauncher((Path.cwd(), *folders)))
    launcher = ConfinedLauncher(())
    with names_the_candidate(find_subjects((base, candidate))[1][0].name):
        return prepare_pair(ask, machine, twin, launcher)


@contextmanager
def names_the_candidate(name: str) -> Iterator[None]:
    """Turn an error of the candidate's own code into one that discards it, and name the sandbox if it refused that."""
    try:
        yield
    except TrainingError as error:
        copies_in_use().check()  # a copy that was lost is no fault of the training
        is_refused = is_refusal(f"{error.says}\n{error.hint}")
        if error.training != name and not is_refused:
            raise
        says = f"{error.says.rstrip('.')}. {SANDBOX_RULE}" if is_refused else error.says
        who = "it" if error.training == name else "the base"
        word: Word = "UNDECIDED" if is_refused else "DISCARD"
        judged = TrainingError(f"{word}: {who} does not train: {says}", error.hint, name)
        judged.exit_code = ExitCode[EXIT_OF[word]]
        raise judged from error


def find_left(launcher: Launcher, processes: Iterable[ProcessRun]) -> tuple[str, ...]:
    """Return what the processes left behind; none of them is alive."""
    assert isinstance(launcher, ConfinedLauncher)
    return launcher.find_left(shares_memory=any(IN_SHARED_MEMORY in (process.reaches or ()) for process in processes))


def judge_code(job: Job) -> Decision | None:
    """Return the verdict if a file of code has changed since before anything of the two sides ran."""
    job.look_at_code()
    return judge_changes(*(job.code_changes.get(subject.name) for subject in (job.plan.subject, job.plan.others[0])))


def judge_changes(of_base: FileChange | None, of_candidate: FileChange | None) -> Decision | None:
    """Return the verdict where code changed meanwhile: what ran is not known, and the base may be slower now."""
    if of_base is not None and of_base.is_another:
        says = f"the files of the base changed while it was judged: {of_base.place.name} {of_base.how}"
        return judge_trick(OtherWork("changed base", says))
    for side, change in (("base", of_base), ("candidate", of_candidate)):
        if change is not None:
            says = f"a file of the {side} was touched while it was judged: {change.place.name} {change.how}."
            return Decision("UNDECIDED", "unproven", says, STAY)
    return None


def _asked(ask: Ask) -> VerdictAsk:
    return ask.verdict or VerdictAsk()


class VerdictRace(Race):
    """A race that ends when its verdict is known.

    Each round after the first has a seed that nobody knew before, and a turn of it may be taken again by the base. The
    times are those of laptime's own process.
    """

    def __init__(self, job: Job, prepared: Prepared) -> None:
        super().__init__(job, prepared)
        self._left: tuple[str, ...] = ()  # by processes, in what others share
        self._replayed_gain = 0.0  # of the round that gained most among those with a turn taken again
        self._rounds.has_new_seeds = self._rounds.judges_by_own_clock = not job.plan.subject.command
        # Of the rounds before the first look, one that nobody knows: no seed of it was proven.
        self._surely = random.SystemRandom().randint(1, FIRST_LOOK)

    def run(self) -> None:
        with names_the_candidate(self._job.plan.others[0].name):
            super().run()

    def reduce(self, status: RecordStatus) -> Outcome:
        """Return the race's outcome, with the verdict that its rounds allow."""
        raced = super().reduce(status)
        answer = raced.answer
        verdict = self._judge(raced.lanes, answer.comparisons) if status != "running" else None
        return replace(raced, answer=VerdictAnswer(verdict, answer.comparisons, answer.alone))

    def _describe_others(self, lanes: tuple[LaneResult, ...]) -> tuple[OtherTraining, ...]:
        """Return the candidate, and a gate's twin, as a race describes them; scripts are compared by what was seen."""
        others = super()._describe_others(lanes)
        plan = self._job.plan
        if not plan.subject.command:
            return others
        base = self._lane_of(lanes, plan.subject)
        return tuple(
            replace(other, differs=words_of_work(compare_scripts(self._lane_of(lanes, other.subject), base)))
            for other in others
        )

    def _end_round(self, round_s: float, prestarter: Prestarter) -> None:
        """End a round as a race does. Where its first turn misled, the next round of scripts chooses its steps again.

        The losses of scripts are compared at the steps that both timed, so both should time the same ones.
        """
        super()._end_round(round_s, prestarter)
        self._left = self._left or find_left(self._job.launcher, self._rounds.processes)
        steps = self._rounds.turn_steps
        if self._job.plan.subject.command and any(len({*step.values()}) > 1 for step in steps.values()):
            steps.clear()

    def _is_settled(self) -> bool:
        """Whether the rounds so far decide, at the part of the errors that this look spends."""
        replayed = self._find_replayed()
        if self._job.code_changes or any(isinstance(work, OtherWork) for work in (self._find_difference(), replayed)):
            return True  # and no round changes that
        if isinstance(replayed, Missing):
            return False  # one more replay may tell
        done, planned = self._stage
        if done not in looks(planned):
            return False
        lanes = self._rounds.results()
        return self._judge_factor(lanes, self._compare(lanes, final=False)).word != "UNDECIDED"

    def _judge_factor(self, lanes: tuple[LaneResult, ...], compared: tuple[Comparison, ...]) -> Decision:
        """Return what the factor decides, at a look as at the end: on a busy machine later rounds may decide."""
        asked = _asked(self._job.plan.ask)
        busy = next((finding.says for finding in find_unreliable(lanes)), None)
        found, twin = self._split(compared)
        decided = judge_change(found, twin, asked.gain, gate=asked.gate, busy=busy)
        if decided.cause != "faster" or found is None:
            return decided
        elsewhere = find_gain_elsewhere(self._candidate_heats, found.ratio)
        return decided if elsewhere is None else judge_elsewhere(elsewhere, decided)

    def _find_difference(self) -> SameWork:
        """Return how the candidate's work differs from the base's, as far as it is known after each round."""
        plan = self._job.plan
        if not plan.subject.command:
            return self._rounds.proof.find_difference(plan.others[0], plan.subject)
        lanes = self._rounds.results()
        base, candidate = (self._lane_of(lanes, subject) for subject in (plan.subject, plan.others[0]))
        return compare_scripts(candidate, base)

    def _wants_replay(self, gain: float) -> bool:
        """Whether a turn of this round is taken again: no candidate can know of which one, after the first.

        One that gains more than all that had a turn taken again has one, too: a candidate that did less in some of its
        processes alone would gain by these.
        """
        is_most = gain > self._replayed_gain
        self._replayed_gain = max(gain, self._replayed_gain)
        if is_most or self._has_open_replay or self._rounds.rounds in {0, self._surely}:
            return True
        return super()._wants_replay(gain) and random.SystemRandom().random() < REPLAYED_ROUNDS

    def _find_replayed(self) -> SameWork:
        """Return how timed turns of the candidate came out elsewhere, where the base took them again."""
        return find_other_replay(self._candidate_heats)

    @property
    def _candidate_heats(self) -> list[Heat]:
        plan = self._job.plan
        lane = next(lane for lane in plan.lanes if plan.subject_of(lane) == plan.others[0])
        return self._rounds.heats[lane.name]

    @staticmethod
    def _lane_of(lanes: tuple[LaneResult, ...], subject: Subject) -> LaneResult:
        return next(lane for lane in lanes if lane.training == subject.name)

    def _alpha(self, *, final: bool) -> float:
        done, planned = self._stage
        return alpha_at(max(done, 1), planned, final=final, errors=ERRORS * self._job.error_share)

    def _judge(self, lanes: tuple[LaneResult, ...], compared: tuple[Comparison, ...]) -> Decision:
        plan = self._job.plan
        base, candidate = (self._lane_of(lanes, subject) for subject in (plan.subject, plan.others[0]))
        work = self._find_other_work(base, candidate)
        # A script's turns hold what is no iteration, such as its validations: they are no time that it hides.
        is_script = bool(plan.subject.command)
        trick = None if is_script else find_replaced(result.heat.changed for result in candidate.heats)
        failed = [
            (lane.training or lane.name, None if lane.status == "ok" else lane.reason or "it has no result")
            for lane in (base, candidate)
        ]
        if trick is None and not is_script and not any(why for _, why in failed):
            trick = find_hidden_time(candidate, base)
        decided = self._judge_factor(lanes, compared)
        late = find_late_gain(candidate, base) if decided.cause == "faster" and not is_script else None
        if late is not None:
            needs = "a training of more laps, or less to do before the first step"
            decided = replace(decided, word="UNDECIDED", cause="late gain", says=f"{late}.", needs=needs)
        if self._left and decided.word == "KEEP":
            decided = judge_left(self._left)
        return judge_code(self._job) or refuse_change(failed, work, trick) or decided

    def _find_other_work(self, base: LaneResult, candidate: LaneResult) -> SameWork:
        """Return how the candidate's work differs: in the references, in the proofs, or in the timed steps."""
        if self._job.plan.subject.command:
            return compare_scripts(candidate, base)
        # What the trainings are, before anything was timed
        other = self._find_difference()
        replayed = self._find_replayed()
        if replayed is None and self._differs_in_rates_alone(other, candidate):
            other = None
        items = candidate.items_per_step
        base_items = base.items_per_step
        if items is not None and base_items is not None and items != base_items:
            says = f"its batches have {items:,} items, and those of the base {base_items:,}"
            return OtherWork("other batch size", says)
        if isinstance(other, OtherWork):
            return other
        if base.parity.status == "differs":
            return Missing(f"the base differs from the float64 reference of its own training: {base.parity.reason}")
        if candidate.parity.status == "differs":
            says = f"it differs from the float64 reference of its own training: {candidate.parity.reason}"
            begins = candidate.parity.kind in {"other weights", "frozen weights"}
            return OtherWork(candidate.parity.kind if begins and candidate.parity.kind else "other precision", says)
        # What the timed steps did
        timed = find_other_sizes(candidate, base) or find_other_progress(candidate, base)
        if timed is None and isinstance(reference := self._rounds.proof.references.get(base.training or ""), Reference):
            timed = None if reference.rates else find_other_beginning(candidate, base)
        if timed is not None:
            return timed
        if base.parity.status == "same" and candidate.parity.kind == "fewer items":
            return OtherWork("fewer items", str(candidate.parity.reason))  # batches that vary would vary in the base
        # What alone proves nothing
        data = find_other_data(candidate, base)
        if isinstance(replayed, OtherWork):
            return data or replayed
        unproven = [lane.parity for lane in (base, candidate) if lane.parity.status != "same"]
        reasons = dict.fromkeys(parity.reason or "no proof was taken" for parity in unproven)
        not_known = Missing("; ".join(reasons)) if reasons else replayed
        return other or (Missing(data.says) if data else not_known)

    def _differs_in_rates_alone(self, other: SameWork, candidate: LaneResult) -> bool:
        """Whether only one side has a module that drops, and a turn of it that was taken again shows that both do."""
        references = [self._rounds.proof.references.get(subject.name) for subject in self._job.plan.subjects[:2]]
        base, changed = references
        if not isinstance(base, Reference) or not isinstance(changed, Reference):
            return False
        is_replayed = any(result.heat.replays for result in candidate.heats)
        return is_replayed and isinstance(other, Missing) and find_other_rates(changed, base) == other

    def _split(self, compared: tuple[Comparison, ...]) -> tuple[Comparison | None, Comparison | None]:
        """Return the comparison of the candidate, and that of the base's twin, each with the base."""
        others = [other.name for other in self._job.plan.others]
        found = [
            next((comparison for comparison in compared if comparison.lane.endswith(f" {name}")), None)
            for name in others
        ]
        return found[0], found[1] if len(found) > 1 else None
