"""The pages of the board: what is on them, in HTML and in a real browser, and that nothing of a row runs."""

from __future__ import annotations

import re
import time
import tomllib
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from board_records import kept
from browser import is_here, open_browser
from drawn_records import HACK, HOSTILE
from test_drawing_browser import CONTRAST_LEAST, CONTRASTS

from laptime.model.errors import RecordError, UsageError
from laptime.show.board import site
from laptime.show.board.add import board_rows
from laptime.show.board.entries import ANOTHER, ONCE, SAME_KIND, TIERS, fastest_of_each, tier_of
from laptime.show.board.evidence import strip
from laptime.show.board.folder import LIST
from laptime.show.board.row import LONGEST_SLUG, encode_row, slug
from laptime.trainings.workloads import CATALOGUE

ROOT = Path(__file__).parents[2]
FIRST_PAGE_BYTES = 150_000
needs_browser = pytest.mark.skipif(not is_here(), reason="Chromium and its driver are not installed")
VISIBLE = "return [...document.querySelectorAll('#lines tbody tr')].map(row => row.innerText)"
OVERFLOW = "return document.documentElement.scrollWidth - innerWidth"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The site of the repository's own board."""
    folder = tmp_path_factory.mktemp("site")
    site.build(ROOT / "board", folder)
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


def words_of(page: Path) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8"))).split())


def test_each_training_has_a_page_with_its_claim_next_to_what_was_measured(pages):
    for name, workload in CATALOGUE.items():
        told = words_of(pages / f"{name}.html")
        assert f"published {workload.published.claim}" in told
        assert "measured by laptime" in told
    scenes = words_of(pages / "scenes-cnn.html")
    assert (
        "On NVIDIA H100 SXM5 80GB, torch/cuda:0 as written is 3.83x as fast as torch/cpu as written on "
        "Intel(R) Xeon(R) Processor, 16 cores (2.38 to 6.15)."
    ) in scenes
    assert "Record r-2026-11-27-05b4." in scenes
    plates = words_of(pages / "plates-cnn.html")
    assert "On AMD EPYC, 2 cores, torch/cpu/best is 3.79x as fast as torch/cpu as written (3.7 to 3.89)." in plates
    assert "No record has a card and a processor yet." in plates
    assert "6.12x as fast as torch/cuda:0 as written (one pair, no interval)." in words_of(pages / "pets-densenet.html")
    assert "0 % of its windows were disturbed. Machine: " in scenes
    assert "precision=bf16. Versions: " in scenes


NUMBERS = tomllib.loads((Path(__file__).parent / "published_numbers.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_page_shows_every_published_number(pages, name):
    told = words_of(pages / f"{name}.html").replace(" :", ":")  # a bold name ends before its colon
    assert [f"{part}: {each}" for part, all_of in NUMBERS[name].items() for each in all_of if each not in told] == []


def test_the_three_kinds_never_look_alike(pages):
    page = (pages / "cifar-cnn.html").read_text(encoding="utf-8")
    lines = {kind: re.findall(rf'<tr class="{kind}">.*?</tr>', page) for kind in "mrp"}
    assert all(lines.values())
    for each in lines["m"]:
        assert 'class="dot"' in each
        assert "stripe" not in each
        assert re.search(r'href="records/r-[0-9a-f-]+\.json\.gz"', each)
        assert "Command: laptime " in each
        assert "Settings: " in each
    for each in lines["r"]:
        assert 'class="dot"' in each
        assert "band" not in each
        assert "record</a>" not in each
        assert "Flaw: " in each
        assert "Claim: " in each
    for each in lines["p"]:
        assert "stripe" in each
        assert "dot" not in each
        assert len(re.findall(r'<td class="number[^"]*">[^<]+ to [^<]+</td>', each)) == 2  # the lap and the factor
    assert 'href="device/h100-sxm.html"' in " ".join(lines["p"])  # what is predicted leads to what was measured
    assert len(lines["r"]) == 7
    assert len(lines["p"]) == 12


def test_pages_ask_nothing_of_others_and_are_small(pages):
    for page in pages.rglob("*.html"):
        told = page.read_text(encoding="utf-8")
        assert "default-src 'none'" in told
        assert not re.search(r'(?:src|href)="(?:https?:)?//', told)
        assert " style=" not in told
        assert len(told) + sum((pages / each).stat().st_size for each in ("board.css", "board.js")) < FIRST_PAGE_BYTES
        for link in re.findall(r'(?:href|src)="([^"#]+)"', told):
            assert (page.parent / link).exists(), (page.name, link)


def rows_like(count: int):
    """Return rows that only a simulation has: of many devices, some repeated."""
    row = next(each for each in board_rows(strip(kept()), "") if each.lane == "torch/cpu/best")
    for number in range(count):
        factor = 1 + number / count
        yield replace(
            row,
            record=f"r-2026-11-27-{number:04x}",
            machine=replace(row.machine, processor=f"Processor {number // 2}"),
            step_ms=replace(row.step_ms, middle=row.step_ms.middle * factor),
            lap_s=replace(row.lap_s, middle=row.lap_s.middle * factor),
        )


def board_of(rows, folder: Path) -> Path:
    for row in rows:
        place = folder / row.place
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(encode_row(row))
    return folder


def test_a_table_is_on_several_pages(tmp_path):
    made = site.build(board_of(rows_like(260), tmp_path / "board"), tmp_path / "site")
    assert (made.rows, made.devices) == (260, 130)
    first = (tmp_path / "site" / "cifar-cnn.html").read_text(encoding="utf-8")
    assert "60 of 137 lines on a logarithmic axis" in words_of(tmp_path / "site" / "cifar-cnn.html")
    assert "cifar-cnn-page-2.html" in first
    assert len(first) < FIRST_PAGE_BYTES
    assert "fastest of 2 rows" in first
    assert first.count(TIERS[SAME_KIND]) > 10
    device = words_of(min((tmp_path / "site" / "device").glob("processor-0-*.html")))
    assert device.count(TIERS[SAME_KIND]) == 2
    cards = sum("processor" not in each.stem for each in (tmp_path / "site" / "device").glob("*.html"))
    assert f"All {130 + cards} devices" in words_of(tmp_path / "site" / "index.html")


def test_what_left_the_board_leaves_the_site(tmp_path):
    """And what others put next to the pages stays."""
    folder = tmp_path / "site"
    site.build(board_of(rows_like(260), tmp_path / "board"), folder)
    (folder / "records").mkdir()
    own = ("own.html", "device/own.data.js", "CNAME", "records/r-2026-11-27-0000.json.gz", "lines/cifar-cnn/own.0.js")
    mine = [folder / each for each in own]
    for place in mine:
        place.write_text("mine")
    before = {each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()}
    site.build(board_of(rows_like(2), tmp_path / "smaller"), folder)
    after = {each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file()}
    assert {each.relative_to(folder).as_posix() for each in mine} < after
    gone = {"cifar-cnn-page-2.html", "devices.html"}
    assert gone <= before - after
    assert sum(each.startswith("lines/") for each in before - after) > 100
    assert len([each for each in after if each.startswith("device/processor")]) == 2 * len(
        {row.device_slug for row in rows_like(2)}
    )


def test_a_build_writes_over_no_file_of_others(tmp_path):
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(UsageError, match=r"index\.html is there already, and no `laptime board build` wrote it"):
        site.build(ROOT / "board", tmp_path)
    assert (tmp_path / "index.html").read_text() == "mine"
    (tmp_path / "index.html").unlink()
    site.build(ROOT / "board", tmp_path)  # what was written before the refusal is on the list
    site.build(ROOT / "board", tmp_path)


HOSTILE_NAMES = ("../secret", "/etc/hostname", "a/../../secret", ".hidden", "linked/secret", "", "x" * 5_000, "\u202e")


def test_a_list_that_somebody_wrote_removes_nothing_outside(tmp_path):
    outside, folder = tmp_path / "outside", tmp_path / "site"
    outside.mkdir()
    folder.mkdir()
    for place in (tmp_path / "secret", outside / "secret", folder / ".hidden"):
        place.write_text("stays")
    (folder / "linked").symlink_to(outside)
    (folder / LIST).write_text("\n".join(HOSTILE_NAMES), encoding="utf-8")
    site.build(ROOT / "board", folder)
    assert all(each.exists() for each in (tmp_path / "secret", outside / "secret", folder / ".hidden"))


def test_a_card_has_one_name_and_one_page(tmp_path):
    """Whatever its driver calls it, and also where nobody has measured it."""
    labels = ("NVIDIA H100 80GB HBM3", "H100 SXM5", "NVIDIA GeForce RTX 7090", "GeForce RTX 7090", "geforce rtx-7090")
    row = next(rows_like(1))
    shorts = ["h100-sxm", "h100-sxm", None, None, None]
    rows = [
        replace(row, record=f"r-2026-11-27-000{at}", device=replace(row.device, kind="cuda", label=label, short=short))
        for at, (label, short) in enumerate(zip(labels, shorts, strict=True))
    ]
    site.build(board_of(rows, tmp_path / "board"), tmp_path / "site")
    pages = {each.stem for each in (tmp_path / "site" / "device").glob("*.html")}
    assert {each for each in pages if "h100" in each or "7090" in each} == {"h100-sxm", "rtx-7090"}
    assert "gtx-1080-ti" in pages
    h100 = words_of(tmp_path / "site" / "device" / "h100-sxm.html")
    assert "NVIDIA H100 SXM5 80GB 2 rows of 1 training" in h100
    assert "Machine: H100 SXM5; " in h100
    assert "Nobody sent a measured row of it yet." in words_of(tmp_path / "site" / "device" / "gtx-1080-ti.html")


def test_what_a_filter_loads_does_not_grow_with_all_rows(tmp_path):
    """The index has one line for each device, framework and settings; the rest is split by device, in small files."""
    sizes = {}
    for count in (100, 600):
        rows = (replace(each, machine=replace(each.machine, processor="One")) for each in rows_like(count))
        site.build(board_of(rows, tmp_path / f"board-{count}"), tmp_path / f"site-{count}")
        made = tmp_path / f"site-{count}"
        sizes[count] = (made / "cifar-cnn.data.js").stat().st_size
        largest = max(each.stat().st_size for each in (made / "lines").rglob("*.js"))
        assert largest < 80_000
    assert abs(sizes[600] - sizes[100]) < 20


def test_long_names_that_differ_at_their_ends_are_two_files():
    first, second = (slug(f"torch/cpu/best+{'threads=1+' * 12}workers={number}") for number in (1, 2))
    assert first != second
    assert (len(first), len(second)) == (LONGEST_SLUG, LONGEST_SLUG)
    assert slug("torch/cpu/best") == "torch-cpu-best"


def test_a_link_is_not_copied_into_the_site(tmp_path):
    """A record that is a link to a file of this machine, on a board that nobody checked."""
    board = board_of(rows_like(1), tmp_path / "board")
    (board / "records").mkdir()
    (tmp_path / "secret").write_text("x")
    (board / "records" / "r-2026-11-27-0000.json.gz").symlink_to(tmp_path / "secret")
    site.build(board, tmp_path / "site")
    assert not (tmp_path / "site" / "records").exists()


@pytest.mark.parametrize("record", ["../../x", 'r-1"><script>', "r-2026-11-27-0000/../../../x"])
def test_a_record_that_is_no_id_names_no_file(tmp_path, record):
    rows = [replace(next(rows_like(1)), record=record)]
    place = tmp_path / "board" / "rows" / "cifar-cnn" / "x" / "r-2026-11-27-0000-x.json"
    place.parent.mkdir(parents=True)
    place.write_bytes(encode_row(rows[0]))
    with pytest.raises(RecordError, match="names a record that cannot be"):
        site.build(tmp_path / "board", tmp_path / "site")


def test_a_row_that_takes_no_time_is_named(tmp_path):
    """On a board that nobody checked: there is no place for it on a logarithmic axis."""
    row = next(rows_like(1))
    board = board_of([replace(row, lap_s=replace(row.lap_s, middle=0.0))], tmp_path / "board")
    with pytest.raises(RecordError, match="takes no time"):
        site.build(board, tmp_path / "site")


def test_tiers_say_who_repeated_a_row():
    one, two = (next(rows_like(2)), replace(next(rows_like(2)), record="r-2026-11-28-0001"))
    other = replace(two, record="r-2026-11-28-0002", machine=replace(two.machine, processor="Processor 0 v2"))
    far = replace(two, step_ms=replace(two.step_ms, middle=1.0, low=0.9, high=1.1))
    assert tier_of(one, [one]) == ONCE
    assert tier_of(one, [one, far]) == ONCE
    assert tier_of(one, [one, two]) == SAME_KIND
    assert tier_of(one, [one, two, other]) == ANOTHER
    (line,) = fastest_of_each([one, two])
    assert (line.tier, line.rows) == (SAME_KIND, 2)


@needs_browser
def test_a_page_with_a_script_shows_what_it_shows_without(pages, browser):
    page = pages / "cifar-cnn.html"
    browser.resize(1280)
    browser.show_as()
    with browser.without_scripts():
        browser.open(page)
        plain = browser.run(VISIBLE)
    browser.open(page)
    assert browser.run(VISIBLE) == plain
    open_filters(browser)
    assert [each.split("\n")[0] for each in browser.run(VISIBLE)] == [each.split("\n")[0] for each in plain]
    assert [re.sub(r"\s+", " ", each) for each in browser.run(VISIBLE)] == [re.sub(r"\s+", " ", each) for each in plain]
    assert browser.messages() == []
    assert all(each.startswith("file:") for each in browser.requests())


def open_filters(browser) -> None:
    browser.run("document.getElementById('open-filters').click()")
    wait_for(browser, "return document.querySelectorAll('#filters select').length > 3")


def wait_for(browser, script: str) -> None:
    for _ in range(200):
        if browser.run(script):
            return
        time.sleep(0.02)
    raise AssertionError(script)


CHOOSE = """
const field = document.querySelector(`#filters [name=${arguments[0]}]`);
if (field.type === "checkbox") field.checked = arguments[1] === "1"; else field.value = arguments[1];
field.dispatchEvent(new Event("change", { bubbles: true }));
return location.hash;
"""


@pytest.mark.long
@needs_browser
def test_filters_axis_and_factor_are_in_the_address(pages, browser, tmp_path):
    browser.open(pages / "cifar-cnn.html")
    open_filters(browser)
    assert browser.run(CHOOSE, "reported", "0") == "#reported=0"
    assert browser.run(CHOOSE, "predicted", "0") == "#reported=0&predicted=0"
    shown = browser.run(VISIBLE)
    assert shown
    assert all("measured" in each for each in shown)
    browser.run(CHOOSE, "kind", "cpu")
    assert browser.run(
        "return [...document.querySelectorAll('#lines .m b')].every(each => each.innerText.includes('cores'))"
    )
    before = browser.run(VISIBLE)
    browser.run("document.querySelector('#lines button.factor').click()")
    assert "against=m%2F" in browser.run("return location.hash")  # a line by what it is, and not by its place
    assert browser.run("return document.querySelector('#lines button.factor').innerText") == "1.00x"
    state = browser.run("return location.hash")
    # Who gets the address sees the same.
    link = tmp_path / "link.html"
    link.write_text(f'<meta http-equiv="refresh" content="0;url={(pages / "cifar-cnn.html").as_uri()}{state}">')
    browser.open(link)
    wait_for(browser, "return document.querySelectorAll('#filters select').length > 3")
    assert [each.split("\n")[0] for each in browser.run(VISIBLE)] == [each.split("\n")[0] for each in before]
    browser.run("document.querySelector('#filters button[type=reset]').click()")
    assert browser.run("return location.hash") in {"", "#"}
    browser.run(CHOOSE, "axis", "step")
    assert browser.run("return document.getElementById('axis-name').innerText") == "a step"
    assert browser.run("return document.querySelector('#filters [name=training]')") is None
    browser.run(CHOOSE, "axis", "cost")
    assert all("$" in each for each in browser.run(VISIBLE))
    assert browser.messages() == []


@pytest.mark.long
@needs_browser
def test_the_page_of_a_device_is_filtered_by_training(pages, browser):
    browser.open(pages / "device" / "h100-sxm.html")
    open_filters(browser)
    assert browser.run(CHOOSE, "training", "cifar-mlp") == "#training=cifar-mlp"
    shown = browser.run(VISIBLE)
    assert shown
    assert all("cifar-mlp" in each for each in shown)


@pytest.mark.long
@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(pages, browser, width):
    browser.resize(width)
    for name in ("index", "cifar-cnn", "scenes-cnn", "device/h100-sxm"):
        browser.open(pages / f"{name}.html")
        assert browser.run(OVERFLOW) <= 0, name
        if name != "index":
            open_filters(browser)
            browser.run("document.querySelectorAll('details').forEach(each => each.open = true)")
            assert browser.run(OVERFLOW) <= 0, name
    browser.resize(1280)


def hostile_site(folder: Path, strings: list[str]) -> Path:
    """Return the pages of rows with a hostile string in every field that is text; `check` would refuse them all."""
    row = next(each for each in board_rows(strip(kept()), "") if each.lane == "torch/cpu/best")
    rows = [
        replace(
            row,
            record=f"r-2026-11-27-{number:04x}",
            lane=f"torch/cpu/{bad}",
            preset=bad,
            framework=bad,
            command=bad,
            date=bad,
            laptime=bad,
            versions={bad: bad},
            settings={bad: bad},
            factor=replace(row.factor, reference=f"torch/cpu/{bad}"),
            device=replace(row.device, kind="cuda", label=bad, short=None),
            machine=replace(row.machine, processor=bad, system=bad, architecture=bad),
        )
        for number, bad in enumerate(strings)
    ]
    site.build(board_of(rows, folder / "board"), folder / "site")
    return folder / "site"


def test_what_a_row_says_is_text(tmp_path):
    """Neither markup on a page, nor a script in the file that its filters load."""
    made = hostile_site(tmp_path, HOSTILE[:4])
    for page in (*made.glob("*.html"), *made.glob("device/*.html")):
        told = page.read_text(encoding="utf-8")
        assert told.count("<script") == ("board.js" in told)
        assert f"<script>{HACK}" not in told
    data = [each.read_text(encoding="utf-8") for each in made.rglob("*.js") if each.name != "board.js"]
    assert HACK in "".join(data)
    assert "<" not in "".join(data)


@pytest.mark.long
@needs_browser
def test_nothing_that_a_row_says_is_run(browser, tmp_path):
    """Each of 60 hostile strings in every field."""
    hostile_site(tmp_path, HOSTILE[:60])
    for page in (
        "index",
        "cifar-cnn",
        "devices",
        *sorted(f"device/{each.stem}" for each in (tmp_path / "site/device").glob("*.html")),
    ):
        if not (tmp_path / "site" / f"{page}.html").exists():
            continue
        browser.open(tmp_path / "site" / f"{page}.html")
        if browser.run("return document.getElementById('open-filters') !== null"):
            open_filters(browser)
            browser.run(
                "document.querySelectorAll('#lines *').forEach(each => { each.focus && each.focus(); "
                "each.dispatchEvent(new MouseEvent('mouseover', { bubbles: true })); })"
            )
        assert browser.run("return window.hacked || 0") == 0, page
        assert (
            browser.run("return document.querySelectorAll('main script, main iframe, main img, main object').length")
            == 0
        )
        assert all(each.startswith("file:") for each in browser.requests())
        assert browser.messages() == []
    assert HACK.encode() in b"".join(each.read_bytes() for each in (tmp_path / "site").glob("*.html"))


@pytest.mark.long
@needs_browser
def test_a_keyboard_reaches_all_and_a_screen_reader_hears_it(pages, browser):
    browser.open(pages / "cifar-cnn.html")
    open_filters(browser)
    nameless = browser.run("""
        return [...document.querySelectorAll("select, input, button, a")].filter(each => each.offsetParent)
          .filter(each => !(each.labels && each.labels.length) && !each.innerText.trim())
          .filter(each => !each.getAttribute("aria-label"))
          .map(each => each.outerHTML)""")
    assert nameless == []
    assert browser.run("return [...document.querySelectorAll('#lines th')].every(each => each.scope === 'col')")
    assert browser.run("return document.getElementById('count').getAttribute('role')") == "status"
    focused = browser.run("""
        const all = [...document.querySelectorAll("select, input, button, a, summary")];
        return all.filter(each => each.offsetParent)
          .filter(each => { each.focus(); return document.activeElement !== each; }).length""")
    assert focused == 0


@pytest.mark.long
@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_all_words_can_be_read(pages, browser, dark):
    browser.show_as(dark=dark)
    for name in ("index", "cifar-cnn", "device/h100-sxm"):
        browser.open(pages / f"{name}.html")
        least = browser.run(CONTRASTS.replace('"h1,h2,', '"h1,h2,em,dt,dd,a,label,select,legend,'))
        assert [each for each in least.items() if each[1] < CONTRAST_LEAST] == [], name
    browser.show_as()
