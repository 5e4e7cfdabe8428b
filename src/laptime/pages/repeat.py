"""The command that asks the same question again, from what a record says was asked."""

from __future__ import annotations

import shlex
from dataclasses import fields
from typing import Any

from laptime.model.ask import Ask, FullAsk
from laptime.model.questions import find_question
from laptime.model.record import Record
from laptime.questions.scale.nouns import ScaleAsk
from laptime.questions.sweep.nouns import SweepAsk
from laptime.questions.tune.nouns import TuneAsk

Options = Ask | FullAsk | TuneAsk | SweepAsk | ScaleAsk
OPTIONS = {  # how an option of a command is written, by its field; a number of seconds has its unit
    "heats": "--heats {}",
    "budget_s": "--budget {:g}s",
    "margin": "--margin {:g}",
    "seed": "--seed {}",
    "pretrained": "--pretrained",
    "patience_s": "--patience {:g}s",
    "watchdog_s": "--watchdog {:g}s",
    "data": "--data {}",
    "items": "--items {}",
    "every": "--every",
    "sensors": "--sensors {}",
    "sensors_hz": "--sensor-rate {:g}",
    "price_per_kwh": "--price {:g}",
    "rate_per_hour": "--rate {:g}",
    "profile": "--profile",
    "alone": "--alone",
    "batches": "--batch {}",
    "on": "--on {}",
    "each": "--each {}",
    "prices": "--prices {}",
    "steps": "--steps {}",
}
OF_TRAINING = {
    "laps": "--laps {}",
    "steps_per_lap": "--steps-per-lap {}",
    "seeds": "--seeds {}",
    "until_accuracy": "--until-accuracy {:g}",
    "learning_rates": "--lr {}",
    "batches": "--batch {}",
}
OF_TUNING = {"allow": "--allow {}", "frameworks": "--frameworks {}", "laps": "--laps {}", "aim": "--for {}"}
OF_SWEEP = {each.name: f"--{each.name} {{}}" for each in fields(SweepAsk)}
OF_SCALE = {"devices": "--devices {}"}


def repeat_words(record: Record) -> str:
    """Return the command, with the lanes that ran and every option that is not the default; or what was watched."""
    ask, question = record.ask, find_question(record.question)
    named = [each for each in (ask.what, *ask.others, *ask.lanes) if each] if question.name != "watch" else []
    words = ["laptime", question.command, *named]
    left_out = {"profile"} if question.name == "profile" else set()
    if question.has_own_budget:
        left_out.add("budget_s")
        words += ["--budget", f"{ask.budget_s:g}s"]
    words += _options({name: told for name, told in OPTIONS.items() if name not in left_out}, ask, Ask())
    words += [word for each in ask.variants for word in ("--set", each)]
    words += _options(OF_TRAINING, ask.full, FullAsk()) if ask.full is not None else []
    words += _options(OF_TUNING, ask.tune, TuneAsk()) if ask.tune is not None else []
    words += _options(OF_SWEEP, ask.sweep, SweepAsk()) if ask.sweep is not None else []
    if ask.scale is not None:
        words += [*_options(OF_SCALE, ask.scale, ScaleAsk()), *(f"--{each}" for each in ask.scale.growth)]
    return shlex.join([*words, *(("--", *ask.command) if ask.command else ())])


def _options(options: dict[str, str], asked: Options, plain: Options) -> list[str]:
    known = {each.name for each in fields(asked)}
    changed = [name for name in options if name in known and getattr(asked, name) != getattr(plain, name)]
    return [word for name in changed for word in _words(options[name], getattr(asked, name))]


def _words(option: str, value: Any) -> list[str]:
    name, _, form = option.partition(" ")
    if not form:
        return [name]
    if option.startswith("--items") and value == 0:
        return [name, "all"]
    return [name, ",".join(f"{each:g}" if isinstance(each, float) else str(each) for each in value)
            if isinstance(value, tuple) else form.format(value)]  # fmt: skip
