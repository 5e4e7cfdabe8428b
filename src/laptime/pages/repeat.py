"""The command that asks the same question again, from what a record says was asked."""

from __future__ import annotations

import shlex
from dataclasses import fields
from typing import Any

from laptime.model.ask import WHY_BUDGET_S, Ask, FullAsk
from laptime.model.record import Record
from laptime.model.tuning import TuneAsk

COMMANDS = {"full": "train"}
Options = Ask | FullAsk | TuneAsk
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


def repeat_words(record: Record) -> str:
    """Return the command, with the lanes that ran and every option that is not the default; or what was watched."""
    ask, question = record.ask, record.question
    if ask.command:
        return shlex.join(["laptime", question, "--", *ask.command])
    words = ["laptime", COMMANDS.get(question, question), ask.what, *ask.others, *ask.lanes]
    plain = Ask(budget_s=WHY_BUDGET_S) if question == "why" else Ask()
    left_out = {"profile"} if question == "profile" else set()
    words += _options({name: told for name, told in OPTIONS.items() if name not in left_out}, ask, plain)
    words += _options(OF_TRAINING, ask.full, FullAsk()) if ask.full is not None else []
    words += _options(OF_TUNING, ask.tune, TuneAsk()) if ask.tune is not None else []
    return shlex.join(words)


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
