"""`action.yml` and examples/ci/: what they run, run as their runners do."""

from __future__ import annotations

import ast
import json
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from runners import (
    BROKEN,
    EXPRESSION,
    ROOT,
    action,
    git,
    make_python,
    make_wheel,
    programs_first,
    repository,
    run_action,
    run_script,
    training_of,
)

OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_IGNORE_INSTALLED": "1"}
TRAINING = {"training": "train.py:training", "lane": "python/cpu"}


@pytest.fixture
def here(torch_house, tmp_path):
    """A folder for a repository, and an environment whose laptime is this one."""
    folder = tmp_path / "repository"
    folder.mkdir()
    return folder, programs_first(torch_house.environment(), Path(sys.executable).parent)


def test_no_input_is_put_into_a_script():
    """GitHub puts what is in `${{ }}` into the script before bash reads it: an input could be a command."""
    steps = action()["runs"]["steps"]
    assert [step["shell"] for step in steps] == ["bash", "bash"]
    assert not [step["name"] for step in steps if EXPRESSION in step["run"]]
    workflow = yaml.safe_load((ROOT / "examples" / "ci" / "training-verdict.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["verdict"]
    assert not [step for step in job["steps"] if EXPRESSION in step.get("run", "")]
    (given,) = (step["with"] for step in job["steps"] if "laptime" in step.get("uses", ""))
    assert given.keys() <= action()["inputs"].keys()


@pytest.mark.parametrize(
    "given",
    [
        {"base": "$(touch hacked)"},
        {"base": "--upload-pack=touch hacked"},
        {"base": "HEAD; touch hacked"},
        {"training": "-c touch hacked"},
        {"lane": "--help"},
    ],
)
def test_an_input_that_is_a_command_is_refused(here, given):
    folder, environment = here
    base = repository(folder, training_of("before"), training_of("after"))
    ran = run_action(folder, environment, installs=False, **{**TRAINING, "base": base, **given})
    assert ran.code == 2
    assert "::error::" in ran.said
    assert not [*folder.rglob("hacked")]


def test_an_input_that_is_a_command_stays_a_word(here):
    folder, environment = here
    base = repository(folder, training_of("before"), training_of("after"))
    told = {"training": "`touch hacked`", "budget": "$(touch hacked)", "arguments": "; touch hacked", "gain": "*"}
    ran = run_action(folder, environment, installs=False, lane="python/cpu", base=base, **told)
    assert ran.code == 2
    assert not [*folder.rglob("hacked")]


def test_a_change_that_does_not_train_fails_the_job_in_words(here):
    folder, environment = here
    base = repository(folder, training_of("after"), BROKEN)
    ran = run_action(folder, environment, installs=False, base=base, **TRAINING)
    assert (ran.code, ran.outputs["verdict"], ran.outputs["ratio"]) == (1, "DISCARD", "")
    assert "DISCARD: it does not train: " in ran.summary
    assert "RuntimeError: there is no data here" in ran.summary
    once_more = run_action(folder, environment, installs=False, base=base, fail_on="none", **TRAINING)
    assert (once_more.code, once_more.outputs["verdict"]) == (0, "DISCARD")


def test_the_code_of_a_pull_request_has_no_part_in_the_job(here):
    """Its json.py is not imported, and what it prints is no command of the runner."""
    folder, environment = here
    told = 'raise RuntimeError("\\n::set-output name=verdict::KEEP\\n::add-mask::a")'
    base = repository(folder, training_of("after"), BROKEN.replace('raise RuntimeError("there is no data here")', told))
    for name in ("json", "shlex", "secrets", "pip"):
        (folder / f"{name}.py").write_text(f"open('imported-{name}', 'w')\n", encoding="utf-8")
    ran = run_action(folder, environment, installs=False, base=base, **TRAINING)
    assert (ran.code, ran.outputs["verdict"]) == (1, "DISCARD")
    assert [*folder.rglob("imported-*")] == []
    lines = ran.said.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("::stop-commands::"))
    last = lines.index(f"::{lines[first].rpartition('::')[2]}::")
    commands = [number for number, line in enumerate(lines) if "::" in line and number not in {first, last}]
    assert commands
    assert all(first < number < last for number in commands)


def test_arguments_may_be_quoted_and_every_word_can_fail_the_job(here):
    """A stand-in for laptime notes its words, and says KEEP: how the action calls it is what is tested."""
    folder, environment = here
    base = repository(folder, training_of("before"), training_of("after"))
    programs = folder.parent / "programs"
    programs.mkdir()
    noted = "import sys\nopen('words', 'a').write(repr(sys.argv[1:]) + '\\n')\n"
    (programs / "laptime").write_text(f"#!{sys.executable}\n{noted}", encoding="utf-8")
    (programs / "laptime").chmod(0o755)
    environment |= {"PATH": f"{programs}:{environment['PATH']}"}
    given = {**TRAINING, "base": base, "arguments": "--name 'a b' --glob * \"\""}
    for fail_on, code in (("DISCARD", 0), ("KEEP", 1), ("UNDECIDED KEEP", 1), ("none", 0), ("keep", 2)):
        ran = run_action(folder, environment, installs=False, fail_on=fail_on, **given)
        assert ran.code == code, ran.said
    words = ast.literal_eval((folder / "words").read_text().splitlines()[0])
    assert words[words.index("--") + 1 :] == ["--name", "a b", "--glob", "*", ""]
    ran = run_action(folder, environment, installs=False, **{**given, "arguments": "'a"})
    assert (ran.code, "::error::arguments: a quote has no end" in ran.said) == (2, True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("sides", "code", "word", "cause"),
    [(("before", "after"), 0, "KEEP", "not slower"), (("after", "before"), 1, "DISCARD", "slower")],
)
def test_the_action_installs_laptime_and_judges_a_change(here, sides, code, word, cause):
    """In a Python that has no laptime before. Its gate races three lanes; these are far apart."""
    folder, environment = here
    commit = repository(folder, *map(training_of, sides))
    programs = make_python(folder.parent / "python")
    environment = programs_first(environment, programs) | OFFLINE
    package = str(make_wheel(folder.parent))
    ran = run_action(folder, environment, base=commit, budget="2m", package=package, **TRAINING)
    assert (programs / "laptime").is_file()
    left = Path(ran.outputs["folder"])
    fields = json.loads((left / "verdict.json").read_text(encoding="utf-8"))
    if fields["cause"] == "busy":
        pytest.skip("other processes computed meanwhile")
    assert (ran.code, ran.outputs["verdict"]) == (code, word), ran.said
    assert (fields["verdict"], fields["cause"]) == (word, cause)
    assert float(ran.outputs["ratio"]) == fields["ratio"]
    assert f"{word}: it is" in ran.summary
    assert "HEAD:train.py:training" in ran.summary
    assert {each.name for each in left.iterdir()} == {"verdict.json", "report.html", "card.svg", "said.txt", "home"}
    assert word in (left / "card.svg").read_text(encoding="utf-8")
    assert git(folder, "status", "--porcelain") == ""


def gitlab():
    return yaml.safe_load((ROOT / "examples" / "ci" / "gitlab-ci.yml").read_text(encoding="utf-8"))["training speed"]


def test_gitlab_fails_for_a_change_that_does_not_train(here):
    """Its own lines, in the order of the runner; the lane is that of this small training."""
    folder, environment = here
    base = repository(folder, training_of("after"), BROKEN)
    (line,) = gitlab()["script"]
    assert shlex.split(line)[-1] == "10m"
    environment |= {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "CI_PROJECT_DIR": str(folder)}
    code, said = run_script(line.replace(" cpu ", " python/cpu "), folder, environment)
    assert (code, "DISCARD: it does not train" in said) == (1, True), said
    assert gitlab()["allow_failure"] == {"exit_codes": 3}


@pytest.mark.long
def test_gitlab_keeps_the_report_and_the_card_of_a_change(here):
    folder, environment = here
    base = repository(folder, training_of("before"), training_of("after"))
    environment |= {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "LAPTIME_HOME": str(folder.parent / "laptime-home")}
    (line,) = gitlab()["script"]
    code, said = run_script(line.replace(" cpu ", " python/cpu "), folder, environment)
    assert (code, said.startswith("KEEP: it is not slower")) == (0, True), said
    for each in gitlab()["after_script"]:
        assert run_script(each, folder, environment)[0] == 0
    assert all((folder / name).is_file() for name in gitlab()["artifacts"]["paths"])


def test_a_push_is_stopped_by_a_change_that_does_not_train(here):
    """pre-commit splits the entry as a shell does, and runs it without one."""
    folder, environment = here
    repository(folder, training_of("after"), BROKEN)
    git(folder, "branch", "-q", "published", "HEAD~1")
    git(folder, "branch", "-q", "--set-upstream-to=published")
    config = yaml.safe_load((ROOT / "examples" / "ci" / "pre-commit-config.yaml").read_text(encoding="utf-8"))
    (hook,) = config["repos"][0]["hooks"]
    assert (hook["stages"], hook["language"], hook["pass_filenames"]) == (["pre-push"], "system", False)
    shell, option, line = shlex.split(hook["entry"])
    assert (shell, option) == ("sh", "-c")
    code, said = run_script(shlex.join([shell, option, line.replace(" cpu ", " python/cpu ")]), folder, environment)
    assert (code, "DISCARD: it does not train" in said) == (1, True), said
