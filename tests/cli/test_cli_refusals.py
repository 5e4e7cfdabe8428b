"""Usage that cannot be met gets a sentence and exit code 2, and starts no heat."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("words", "says", "way_out"),
    [
        (
            ("cifar-cnm", "fake/cpu"),
            "unknown workload 'cifar-cnm'; nearest: cifar-cnn",
            "`laptime workloads` lists all",
        ),
        (("", "fake/cpu"), "unknown workload ''", "`laptime workloads` lists all"),
        (("cifar-cnn", "fake/npu"), "lane 'fake/npu': 'npu' is neither a framework nor a device", "devices: cpu, gpu,"),
        (("cifar-cnn", "fake/cpu/turbo"), "lane 'fake/cpu/turbo': 'turbo' is not a setting", "settings: as-written"),
        (("cifar-cnn", "fake/cpu/best+fastest"), "two presets, 'best' and 'fastest'", "name one of them"),
        (("cifar-cnn", "fake/cpu", "fake/cpu"), "lane fake/cpu/as-written is named twice", "a race needs lanes that"),
        (("cifar-cnn", "fake/cpu/batch=0"), "batch=0 cannot be", "batch takes a whole number from 1 to 1,000,000"),
        (("cifar-cnn", "fake/cpu/threads=-1"), "threads=-1 cannot be", "threads takes a whole number from 1 on"),
        (("cifar-cnn", "fake/cpu/threads=999999"), "threads=999999: this machine has", "1 to "),
        (("cifar-cnn", "fake/cpu/workers=-1+input=fast"), "workers=-1 cannot be", "workers takes a whole number"),
        (
            ("cifar-cnn", "fake/cpu/workers=2+input=one"),
            "workers=2 with input=one: batches that are kept",
            "leave input",
        ),
        (("scenes-cnn", "fake/cpu/lr=0"), "lr=0 cannot be", "lr takes a learning rate above 0 and up to 100"),
        (("cifar-cnn", "fake/mps"), "device mps is not there for fake: mps is of Apple", "usable here: cpu, cuda:0"),
        (("cifar-cnn", "fake/cuda:5"), "device cuda:5 is not there for fake", "usable here: cpu, cuda:0"),
        (("cifar-cnn", "fake/cuda:1"), "device cuda:1 cannot be used: it is out of order", "usable here: cpu, cuda:0"),
        (("cifar-cnn", "fake/cpu", "--heats", "0"), "--heats 0: expected a whole number from 1 to 1,000", "usually 5"),
        (("cifar-cnn", "fake/cpu", "--heats", "-2"), "--heats -2: expected a whole number", "usually 5"),
        (("cifar-cnn", "fake/cpu", "--heats", "9999999"), "--heats 9999999: expected", "usually 5"),
        (("cifar-cnn", "fake/cpu", "--budget", "0s"), "--budget 0s: expected 1s to 7d", "such as 60s, 2m or 1h"),
        (("cifar-cnn", "fake/cpu", "--budget", "500d"), "--budget 4.32e+07s: expected 1s to 7d", "such as 60s"),
        (("cifar-cnn", "fake/cpu", "--margin", "0"), "--margin 0.000%: expected 0.1% to 100%", "such as 3%"),
        (("cifar-cnn", "fake/cpu", "--margin", "200%"), "--margin 200.000%: expected 0.1% to 100%", "such as 3%"),
        (("cifar-cnn", "fake/cpu", "--seed", "-1"), "--seed -1: expected a whole number from 0", "such as 1"),
        (("cifar-cnn", "fake/cpu", "--seed", "4294967296"), "--seed 4294967296: expected", "such as 1"),
        (("cifar-cnn", "fake/cpu", "--patience", "0s"), "--patience 0s: expected 0.1s to 7d", "such as 10m"),
        (("cifar-cnn", "fake/cpu", "--watchdog", "30d"), "--watchdog 2.592e+06s: expected 0.1s to 7d", "such as 10m"),
        (("cifar-cnn", "fake/cpu", "--pretrained"), "--pretrained: ", ""),
        (("mine.py:training",), "there is no file mine.py", "give the path of a Python file, as file.py:function"),
        (("mine.py:", "fake/cpu"), "'mine.py:' names a file but no function in it", "give mine.py:function"),
    ],
)
def test_a_race_that_cannot_be_run_is_refused(house, words, says, way_out):
    """What was given, what was expected, the way out; nothing on stdout, nothing on disk."""
    answer = house.run("race", *words)
    assert (answer.code, answer.out) == (2, "")
    first, second = answer.err.splitlines()
    assert first.startswith("laptime: ")
    assert says in first
    assert second.startswith(f"  {way_out}") or way_out in second
    assert house.files() == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("race", "--heats", "many"), "Invalid value for '--heats': 'many' is not a valid integer"),
        (("race", "--heats", "2.5"), "Invalid value for '--heats': '2.5' is not a valid integer"),
        (("race", "--budget", "-5s"), "'-5s' is not a length of time; such as 60s, 2m or 1h"),
        (("race", "--budget", "soon"), "'soon' is not a length of time; such as 60s, 2m or 1h"),
        (("race", "--budget", "nan"), "'nan' is not a length of time"),
        (("race", "--budget", "1y"), "'1y' is not a length of time"),
        (("race", "--margin", "-3%"), "'-3%' is not a share; such as 3% or 0.03"),
        (("race", "--margin", "inf"), "'inf' is not a share; such as 3% or 0.03"),
        (("race", "--seed", "x"), "Invalid value for '--seed'"),
        (("race", "--patience", "-1s"), "'-1s' is not a length of time"),
        (("race", "--watchdog", "1 s"), "'1 s' is not a length of time"),
        (("race", "--turbo"), "No such option"),
        (("devices", "--turbo"), "No such option"),
        (("show", "one", "two"), "unexpected extra argument"),
        (
            ("rcae",),
            "no command 'rcae' (did you mean race?); commands: race, why, watch, tune, verdict, sweep, scale, train, ",
        ),
    ],
)
def test_words_that_cannot_be_read_are_refused(house, words, says):
    """The option, the value, and what may stand there."""
    answer = house.run(*words)
    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_mistake_is_found_before_a_framework_is_started(house, options):
    """No scout, no reference, no heat: a slip costs no time."""
    house.script("this is no TOML, and any child that read it would fail")
    answer = house.run("race", "cifar-cnn", "fake/cpu/turbo", *options)
    assert answer.code == 2
    assert not house.cache.exists()
    assert not house.home.exists()


@pytest.mark.parametrize("name", ["r-2000-01-01-0000", "", "nonsense", "nowhere.json", ".", "x" * 5000])
def test_a_record_that_is_not_there_is_refused(house, name):
    """The hint is the list of those that are."""
    answer = house.run("show", name)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("laptime: there is no ")
    assert "`laptime list` shows all records." in answer.err


def test_a_record_by_an_ambiguous_beginning_is_refused(house):
    """The ids that begin so are named."""
    ids = [house.raced("fake/cpu", "--heats", "1")["id"] for _ in range(2)]
    answer = house.run("show", "r-")
    assert answer.code == 2
    assert "'r-' begins 2 records: " in answer.err
    assert all(each in answer.err for each in ids)


def test_the_latest_of_no_records_is_refused(house):
    """The hint is how to make one."""
    answer = house.run("show", "latest")
    assert (answer.code, answer.err) == (2, "laptime: there are no records yet\n  `laptime race` makes one.\n")
