"""A change that a record names is made again from the table and the file that is here: a record can plant no code."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace

import pytest
import tune_records

from laptime.model.errors import UsageError
from laptime.model.quantities import Missing
from laptime.model.record import Finding
from laptime.questions.code_changes import ChangeFinder, list_offers, make_edit, why_no_offer, write_edit
from laptime.questions.rewrites import REWRITES, describe_rewrite

OWN = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
SCRIPT = "import torch\nfrom torch.utils.data import DataLoader\n\nloader = DataLoader(data, batch_size=8)\n"
EDITED = SCRIPT.replace("batch_size=8", "batch_size=8, num_workers=2, persistent_workers=True")


def git(folder, *words, code=0):
    answer = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode == code, answer.stderr
    return answer.stdout


def commit(folder, content=SCRIPT, name="train.py"):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    git(folder, "init", "-q")
    git(folder, "config", "core.autocrlf", "false")
    git(folder, "add", "--all")
    git(folder, *OWN, "commit", "-qm", "first", "--allow-empty")
    return folder / name


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with one script."""
    top = tmp_path / "work"
    top.mkdir()
    commit(top)
    monkeypatch.chdir(top)
    return top


def found(file, word="workers=2", function=None):
    """Return a finding with the change that a question would keep."""
    finding = Finding("script waits for data", "It waits.", {}, "Load in workers.", "likely")
    return ChangeFinder(str(file), str(file), function).add_to(finding, word)


def applied(change, *, outside=False):
    edit = make_edit(change, outside=outside)
    write_edit(edit)
    return edit


def refused(change, *, outside=False):
    with pytest.raises(UsageError) as error:
        applied(change, outside=outside)
    return error.value.says


@pytest.mark.parametrize(
    ("content", "ends"),
    [
        (SCRIPT, "\n"),
        (SCRIPT.replace("\n", "\r\n"), "\r\n"),
        (SCRIPT.rstrip("\n"), ""),
        ("\ufeff" + SCRIPT, "\n"),
        (SCRIPT.replace("data, ", "(\n\tdata  # é\n\t), "), "\n"),
        (f"# coding: latin-1\n{SCRIPT}\n\n\n\nname = 'é'\n".encode("latin-1"), "\n"),
    ],
    ids=["plain", "CRLF", "no newline at the end", "BOM", "tabs", "latin-1"],
)
def test_git_takes_the_diff_and_apply_writes_the_same(repository, content, ends):
    file = commit(repository, content)
    before = file.read_bytes()
    change = found(file).change
    assert (change.file, change.start, change.function) == ("train.py", "train.py", None)
    assert isinstance(change.diff, str)
    (repository / "c.diff").write_text(change.diff, encoding="utf-8", newline="")
    git(repository, "apply", "--check", "c.diff")
    git(repository, "apply", "c.diff")
    by_git = file.read_bytes()
    assert by_git != before
    file.write_bytes(before)
    file.chmod(0o750)
    edit = applied(change)
    assert file.read_bytes() == by_git
    assert file.read_bytes().endswith(ends.encode())
    assert file.stat().st_mode & 0o777 == 0o750
    assert edit.is_tracked
    git(repository, "checkout", "--", "train.py")
    assert file.read_bytes() == before


def test_a_diff_that_a_record_cannot_hold_has_its_reason_and_is_still_applied(repository):
    near = f"# coding: latin-1\n{SCRIPT}name = 'é'\n".encode("latin-1")
    change = found(commit(repository, near)).change
    assert change.diff == Missing("the file is in iso-8859-1, and a record is in UTF-8")
    applied(change)
    assert (repository / "train.py").read_bytes().decode("latin-1") == f"# coding: latin-1\n{EDITED}name = 'é'\n"
    secret = found(commit(repository, f"{SCRIPT}api_key = 'abc'\n")).change
    assert secret.diff == Missing("a line next to it looks like a secret, and records may be passed on")
    long = found(commit(repository, f"{SCRIPT}x = '{'y' * 30_000}'\n")).change
    assert long.diff == Missing("the lines next to it are too long")
    assert found(commit(repository, SCRIPT, 'a"b.py')).change.diff == Missing("a diff cannot hold the name of the file")
    assert isinstance(found(commit(repository, SCRIPT, "a b.py")).change.diff, str)


def test_a_folder_further_down_is_part_of_the_path(repository, monkeypatch):
    """Both the diff and the record are from the top, and git takes the diff in any folder."""
    file = commit(repository, SCRIPT, "src/my train.py")
    monkeypatch.chdir(repository / "src")
    change = found(file).change
    assert change.file == "src/my train.py"
    (repository / "c.diff").write_text(change.diff, encoding="utf-8")
    git(repository / "src", "apply", "../c.diff")
    assert file.read_text() == EDITED
    git(repository, "checkout", "--", ".")
    applied(change)
    assert file.read_text() == EDITED


def test_the_diff_of_a_record_is_never_what_is_written(repository):
    file = repository / "train.py"
    change = replace(
        found(file).change, diff="--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-import torch\n+import os\n"
    )
    edit = applied(change)
    assert file.read_text() == EDITED
    assert "import os" not in edit.diff


@pytest.mark.parametrize(
    "name",
    ["../train.py", "/etc/passwd", "{top}/train.py", "./train.py", "sub/../train.py", "", ".", "train.txt", "a\\b.py",
     "train.py\x1b[2J.py", "C:train.py", "sub//train.py", "a" * 5000 + ".py", ".git/config", "train.py\n.py"],
)  # fmt: skip
@pytest.mark.parametrize("part", ["file", "start"])
def test_only_a_plain_path_within_the_folder_is_followed(repository, name, part):
    (repository / "train.txt").write_text(SCRIPT)
    (repository.parent / "train.py").write_text(SCRIPT)
    change = replace(found(repository / "train.py").change, **{part: name.replace("{top}", str(repository))})
    assert refused(change, outside=True).startswith("the record names the file '")
    assert (repository / "train.py").read_text() == (repository.parent / "train.py").read_text() == SCRIPT


def test_no_link_is_followed(repository):
    outside = repository.parent / "elsewhere"
    outside.mkdir()
    (outside / "train.py").write_text(SCRIPT)
    change = found(repository / "train.py").change
    (repository / "train.py").unlink()
    (repository / "train.py").symlink_to(outside / "train.py")
    assert refused(change) == "train.py is a link, or in a linked folder"
    (repository / "sub").symlink_to(outside)
    assert refused(replace(change, file="sub/train.py")) == "sub/train.py is a link, or in a linked folder"
    assert (outside / "train.py").read_text() == SCRIPT
    (repository / "train.py").unlink()
    os.mkfifo(repository / "train.py")
    assert refused(change).startswith("there is no file train.py in ")


def test_a_file_that_changed_is_refused(repository):
    change = found(repository / "train.py").change
    (repository / "train.py").write_text(SCRIPT + "\n")
    assert refused(change) == "train.py changed since the record was made"
    (repository / "train.py").write_text(SCRIPT)
    edit = make_edit(change, outside=False)
    (repository / "train.py").write_text(SCRIPT + "\n")
    with pytest.raises(UsageError, match="was changed a moment ago"):
        write_edit(edit)
    assert (repository / "train.py").read_text() == SCRIPT + "\n"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rewrite": "import os"}, "the change 'import os' cannot be made: this laptime knows no such change of code"),
        ({"rewrite": "workers=99999"}, "the change 'workers=99999' cannot be made: this laptime knows no such"),
        ({"rewrite": "fused"}, "the change 'fused' cannot be made: no Adam, "),
        ({"line": 1}, "the place of this change is train.py:4 here, and train.py:1 in the record"),
        ({"start": "other.py"}, "the place of this change is other.py:4 here, and train.py:4 in the record"),
        ({"digest": ""}, "train.py changed since the record was made"),
        ({"file": "none.py"}, "there is no file none.py in "),
    ],
)
def test_what_a_record_says_is_checked(repository, changes, says):
    commit(repository, SCRIPT, "other.py")
    assert refused(replace(found(repository / "train.py").change, **changes)).startswith(says)
    assert git(repository, "status", "--porcelain") == ""


def test_only_what_git_can_take_back_is_edited_unless_it_is_allowed(repository, tmp_path, monkeypatch):
    (repository / "new.py").write_text(SCRIPT)
    change = found(repository / "new.py").change
    assert refused(change) == "git does not track new.py, so a change cannot be undone"
    assert not applied(change, outside=True).is_clean
    assert (repository / "new.py").read_text() == EDITED
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(plain)
    change = found(plain / "train.py").change
    assert refused(change) == "this folder is under no version control, where a change cannot be undone"
    applied(change, outside=True)
    assert (plain / "train.py").read_text() == EDITED


def test_a_file_that_is_read_only_or_has_other_names_stays_as_it_is(repository):
    """A new file would stand in its place, and no mode stops root."""
    file = repository / "train.py"
    file.chmod(0o444)
    assert refused(found(file).change) == "train.py is read-only"
    file.chmod(0o644)
    (repository / "other.py").hardlink_to(file)
    assert refused(found(file).change).startswith("train.py has 2 names (hard links)")
    assert file.read_text() == (repository / "other.py").read_text() == SCRIPT
    (repository / "other.py").unlink()
    applied(found(file).change)
    assert file.read_text() == EDITED


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_of_a_file_stays(repository):
    file = repository / "train.py"
    os.chown(file, 12345, 23456)
    file.chmod(0o2750)
    applied(found(file).change)
    status = file.stat()
    assert file.read_text() == EDITED
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (12345, 23456, 0o2750)


def test_extended_attributes_of_a_file_stay(repository):
    file = repository / "train.py"
    try:
        os.setxattr(file, "user.note", b"mine")
    except OSError as error:
        pytest.skip(f"this file system has none: {error}")
    applied(found(file).change)
    assert os.getxattr(file, "user.note") == b"mine"


def test_whether_git_can_take_it_back_is_known(repository):
    file = repository / "train.py"
    assert make_edit(found(file).change, outside=False).is_clean
    file.write_text(SCRIPT + "# mine\n")
    assert not make_edit(found(file).change, outside=False).is_clean


def test_a_pattern_of_git_is_a_plain_name(repository):
    """The file `*.py` is not tracked, and others that the pattern matches are."""
    (repository / "*.py").write_text(SCRIPT)
    assert refused(found(repository / "*.py").change) == "git does not track *.py, so a change cannot be undone"


@pytest.mark.parametrize(
    ("what", "file", "says"),
    [
        ("train.py", None, "no Python file of the user's own is named"),
        ("git:HEAD:train.py:f", "train.py", "its code is a copy of a commit, or with a patch"),
        ("none.py", "none.py", "its code was not read: "),
        ("broken.py", "broken.py", "its code was not read: broken.py cannot be read as Python: "),
    ],
)
def test_where_no_code_is_known_the_reason_is_kept(repository, what, file, says):
    (repository / "broken.py").write_text("def (:\n")
    finding = ChangeFinder(what, file).add_to(Finding("rule", "It waits.", {}, "Do.", "likely"), "workers=2")
    assert finding.change is None
    assert finding.unchanged.startswith(says)


def test_a_remedy_that_is_no_change_of_code_says_so(repository):
    finding = found(repository / "train.py", "")
    assert (finding.change, finding.unchanged) == (None, "the remedy is no change of one place in the code")


def test_the_settings_of_a_winner_are_one_change_for_each_file(repository):
    """In the order of the words; what has no certain place has its reason, and stops no other."""
    parts = "import torch\n\n\ndef make(net):\n    return torch.optim.SGD(net.parameters(), 0.1)\n"
    commit(repository, parts, "parts.py")
    file = commit(repository, f"{SCRIPT}from parts import make\nopt = make(net)\n")
    finder = ChangeFinder("train.py", str(file))
    words = ["compile", "fused", "threads=2", "workers=2", "prefetch=4", "keep_memory", ""]
    changes, why_none = finder.find_all(words)
    assert [(each.file, each.rewrite, each.line) for each in changes] == [
        ("parts.py", "compile+fused", 5),
        ("train.py", "threads=2+workers=2+prefetch=4", 4),
    ]
    assert why_none == {
        "keep_memory": "train.py does not import laptime at its top",
        "": "the remedy is no change of one place in the code",
    }
    for change in changes:
        (repository / "c.diff").write_text(change.diff, encoding="utf-8")
        git(repository, "apply", "--check", "c.diff")
        applied(change)
    assert (
        "    net.compile()\n    return torch.optim.SGD(net.parameters(), 0.1, fused=True)\n"
        in (repository / "parts.py").read_text()
    )
    assert "num_workers=2, persistent_workers=True, prefetch_factor=4)" in file.read_text()
    assert "changed since the record was made" in refused(changes[1])


def test_code_that_is_not_there_has_one_reason_for_all_words(tmp_path):
    none = ((), {"fused": "no Python file of the user's own is named"})
    assert ChangeFinder("", None).find_all(["fused"]) == none


def test_a_stranger_joins_no_words_of_their_own(repository):
    (change,), _ = ChangeFinder("train.py", str(repository / "train.py")).find_all(["workers=2", "prefetch=4"])
    for word in ("workers=2+exec", "workers=2+", "+".join(["workers=2"] * 40)):
        assert refused(replace(change, rewrite=word)).startswith(f"the change '{word}' cannot be made")


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("batch_8x", "Make the batch 8 times as large. This changes the learning."),
        ("pinned+batch_2x",
         ("Load batches into pinned memory. Make the batch 2 times as large. This changes how much memory it takes "
         "and the learning.")),
        ("fused", "Use the optimizer's fused form. The training learns the same."),
        ("exec", "This laptime knows no such change of code."),
    ],
)  # fmt: skip
def test_what_a_change_does_is_said_by_our_table(repository, word, says):
    """The record says that it changes nothing."""
    finding = found(repository / "train.py")
    finding = replace(finding, advice="Changes nothing.", change=replace(finding.change, rewrite=word))
    record = replace(tune_records.unconfirmed(), findings=(finding,))
    assert [each.says for each in list_offers(record)] == [says]


def test_every_change_of_the_table_says_what_it_does():
    told = [describe_rewrite(f"{word}=2" if row.takes_value else word) for word, row in REWRITES.items()]
    assert all(each[0].isupper() and "{" not in each and "knows no such" not in each for each in told), told


def test_a_tuning_offers_what_it_confirmed():
    record = tune_records.script()
    (offer,) = list_offers(record)
    assert (offer.change, offer.gain, offer.is_recommended) == (tune_records.CHANGE, "measured 1.95x", True)
    assert offer.says == "Load the data in 4 worker processes. The training learns the same."
    assert why_no_offer(record) == "malloc=keep: train.py does not import laptime at its top"
    assert list_offers(tune_records.unconfirmed()) == []


def test_the_line_that_calls_a_function_is_found_by_its_whole_name(tmp_path, monkeypatch):
    """Also in a module of the user's own; another function of the same name is none."""
    (tmp_path / "train.py").write_text(
        "import settings\nfrom torch import set_num_threads as few\n\nfew(1)\nsettings.make()\n"
    )
    (tmp_path / "settings.py").write_text("import torch\n\ndef make():\n    torch.autograd.set_detect_anomaly(True)\n")
    monkeypatch.chdir(tmp_path)
    finder = ChangeFinder("train.py", "train.py")
    assert finder.place_of({"torch.set_num_threads"}) == "train.py:4"
    assert finder.place_of({"torch.autograd.set_detect_anomaly"}) == "settings.py:4"
    assert finder.place_of({"numpy.set_num_threads"}) is None
    assert ChangeFinder("mnist", None).place_of({"torch.set_num_threads"}) is None


def test_a_line_is_done_seldom_where_nothing_else_is_advised(repository):
    """The change that the advice names comes first; without a place for that, the line itself."""
    loop = "for i, batch in enumerate(loader):\n    opt.step()\n    sum += loss.item()\n    print(model)\n"
    file = commit(repository, f"{SCRIPT}sum = 0.0\n{loop}print(sum)\n")
    finder = ChangeFinder("train.py", str(file))
    line = Finding(
        "script line", "It logs.", {}, "Log every few hundred iterations only.", "likely", where="train.py:9"
    )
    assert finder.advise(line).change.rewrite == "seldom=9"
    assert "+    if i % 100 == 0:\n+        print(model)" in finder.advise(line).change.diff
    assert finder.advise(replace(line, where="other.py:9")).change is None
    assert finder.advise(replace(line, rule="script memory grows")).change is None
    reads = replace(line, rule="script reads in each step", rewrite="no_item")
    assert finder.add_to(reads, "no_item").change is None
    assert finder.advise(reads).change.rewrite == "seldom=9"
    step = finder.advise(replace(line, where="train.py:7"))
    assert (step.change, step.unchanged) == (None, "train.py:7 trains something, or other code reads what it makes")
    waits = replace(line, rule="script waits for data", rewrite="workers=2", where=None)
    assert finder.advise(waits).where is None
    assert finder.source_of("train.py") == file.read_bytes()
    assert finder.source_of("missing.py") is None
    (repository.parent / "other.py").write_text("x = 1")
    assert finder.source_of("../other.py") is finder.source_of(str(repository.parent / "other.py")) is None
