"""Reports in a real browser: nothing fails, nothing is requested, nothing runs that a record says, all can be read."""

from __future__ import annotations

import re
from collections import Counter

import drawn_records
import pytest
from browser import is_here, open_browser

from laptime.api.showing import report_of
from laptime.model.figure import Bars, Factors, Plane, Stack, Turns
from laptime.show.drawing.html import as_html
from laptime.show.drawing.svg import places
from laptime.store import schema
from long_cases import cases

pytestmark = pytest.mark.skipif(not is_here(), reason="Chromium and its driver are not installed")
LARGEST_BYTES = 300_000
NUMBER = re.compile(r"-?[\d.]+(?:e[+-]?\d+)?")
FIRST_SEEN = [
    "race",
    "turns",
    "published-training",
    "broken-training",
    "inference",
    "why",
    "why-on-a-card",
    "scale",
    "tune",
    "sweep",
    "watch",
    "verdict",
    "profile",
    "default-race",
    "race-on-a-card",
    "watched-loop",
]
CONTRAST_LEAST = 4.5
CONTRASTS = """
const rgb = text => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
const below = element => { for (let e = element; e; e = e.parentElement) {
  const found = rgb(getComputedStyle(e).backgroundColor); if (found.length < 4 || found[3] > 0) return found; }
  return [255, 255, 255]; };
const over = (top, [r, g, b], alpha) => top.slice(0, 3).map((v, i) => v * alpha + [r, g, b][i] * (1 - alpha));
const behind = element => {  // the colours of the shapes of a chart on which a word is, each over what is below it
  const svg = element.closest("svg"), found = [below(svg)], its = element.getBoundingClientRect();
  if (getComputedStyle(element).stroke !== "none") return found;  // it has the page's colour around its letters
  for (const shape of svg.querySelectorAll("rect,circle")) {
    if (!(shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING)) break;
    const box = shape.getBoundingClientRect(), style = getComputedStyle(shape);
    const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
    const down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
    if (style.fill === "none" || across < 1 || down < 3) continue;
    const fill = rgb(style.fill);
    const alpha = (fill[3] ?? 1) * Number(style.opacity) * Number(style.fillOpacity);
    found.push(over(fill, found.at(-1), alpha));
  }
  return found;
};
const least = {};
const words = "h1,h2,p,span,small,b,a,li,td,th,figcaption,summary,code,pre,button,svg.plane text,svg.rows text";
for (const element of document.querySelectorAll(words)) {
  if (!element.textContent.trim()) continue;
  const style = getComputedStyle(element), ink = rgb(element.closest("svg") ? style.fill : style.color);
  const grounds = element.closest("svg") ? behind(element) : [below(element)];
  const name = element.tagName + "." + (element.className.baseVal ?? element.className);
  for (const ground of grounds) {
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    least[name] = Math.min(least[name] ?? 99, (a + .05) / (b + .05));
  }
}
return least;
"""
SEEN = """
document.querySelectorAll("details").forEach(each => each.open = true);
return [...document.querySelectorAll("main, main *")].map(element => {
  const { x, y, width, height } = element.getBoundingClientRect(), style = getComputedStyle(element);
  const own = [...element.childNodes].filter(node => node.nodeType === Node.TEXT_NODE).map(node => node.data).join("");
  const shown = [style.display, style.visibility, style.opacity, style.color, style.fill, style.stroke].join(" ");
  return [element.tagName, own, element.getAttribute("d") || "", shown, x, y, width, height];
});
"""
DRAWN = """
return [...document.querySelectorAll("figure")].map(figure => [
  [...figure.querySelectorAll("svg.wide [data-value]")].map(each =>
    [each.dataset.value, each.dataset.low ?? null, each.dataset.high ?? null].map(v => v === null ? v : Number(v))),
  [...figure.querySelectorAll(".curve")].map(each => each.getAttribute("d")),
  [...figure.querySelectorAll(".curve-ends,.ends[data-key]")].map(each => each.getAttribute("d")),
]);
"""
LIVE = "return [...document.querySelectorAll('.keys button')].filter(each => !each.disabled).length"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    """Return a function that opens the report of a record, and returns its HTML."""
    folder, made = tmp_path_factory.mktemp("reports"), {}

    def show(name):
        if name not in made:
            made[name] = folder / f"{name}.html"
            made[name].write_text(as_html([report_of(drawn_records.SHOWN[name]())]), encoding="utf-8")
        browser.resize(1000)
        browser.open(made[name])
        return made[name].read_text(encoding="utf-8")

    return show


@pytest.mark.parametrize("name", cases(*(each for each in drawn_records.SHOWN if each != "million"), long=["million"]))
def test_a_report_opens_alone_and_fits(browser, opened, name):
    """No message in the console, no request, and at 360 pixels nothing to scroll sideways; in print neither."""
    html = opened(name)
    assert len(html.encode()) < LARGEST_BYTES
    assert browser.messages() == []
    assert [each for each in browser.requests() if not each.startswith("file:")] == []
    browser.resize(360)
    assert browser.run("return document.documentElement.scrollWidth") <= 360
    browser.show_as(media="print")
    assert browser.run("return document.documentElement.scrollWidth") <= 360
    browser.show_as()
    assert browser.run("return document.querySelectorAll('h2').length") > 3


@pytest.mark.parametrize("name", cases(*(each for each in drawn_records.SHOWN if each != "million"), long=["million"]))
def test_every_number_and_every_interval_of_every_chart_is_drawn(browser, opened, name):
    """What is drawn is what the figures hold, which are compared with their records in test_drawing_figures.py."""
    opened(name)
    figures = report_of(drawn_records.SHOWN[name](), holds_record=False).figures
    ordered = [*(each for each in figures if not each.more), *(each for each in figures if each.more)]
    drawn = browser.run(DRAWN)
    assert len(drawn) == len(ordered)
    for figure, (values, curves, ends) in zip(ordered, drawn, strict=True):
        if not isinstance(figure.chart, Plane):
            assert Counter(map(tuple, values)) == Counter(map(tuple, numbers_held(figure.chart))), figure.title
            continue
        held = [places(each.points, figure.chart) for each in figure.chart.curves]
        shown = [[float(each) for each in NUMBER.findall(path)] for path in curves]
        assert len(shown) == sum(map(bool, held)), figure.title
        for points, numbers, curve in zip(filter(None, held), shown, figure.chart.curves, strict=False):
            if curve.kind == "line" and len(points) > 1:
                flat = [value for point in points for value in point]
                assert numbers == pytest.approx(flat, rel=1e-6, abs=1e-6), figure.title
        assert len(ends) == sum(any(each.ends) for each in figure.chart.curves), figure.title


def numbers_held(chart):
    """Return each number of a chart of rows with both ends of its interval."""
    match chart:
        case Bars():
            told = [(each.value, each.low, each.high) for each in chart.bars if each.value is not None]
            return [list(each) for each in told] + [[each.value, None, None] for each in chart.reported if each.value]
        case Factors():
            told = [[each.value, each.low, each.high] for each in chart.factors]
            return told + [[ratio, None, None] for each in chart.factors for ratio in each.rounds if ratio > 0]
        case Turns():
            turns = [turn.ms for each in chart.rounds for turn in each.turns]
            dots = [ratio for each in chart.rounds for _, ratio in each.factors if ratio > 0]
            return [[each, None, None] for each in (*turns, *dots)]
        case Stack():
            return [[part.share, None, None] for _, parts in chart.rows for part in parts]
    return []


def numbers_of(browser, picked, name="value"):
    """Return the numbers of the elements that are shown, of those that a selector picks."""
    script = """
    return [...document.querySelectorAll(arguments[0])].filter(e => e.closest("svg").getBoundingClientRect().width)
      .map(e => Number(e.dataset[arguments[1]]))
    """
    return browser.run(script, picked, name)


def widths_of(browser, picked):
    script = """
    return [...document.querySelectorAll(arguments[0])].map(e => e.getBoundingClientRect().width).filter(Boolean)
    """
    return browser.run(script, picked)


def test_bars_and_curves_are_the_records_numbers(browser, opened):
    opened("race")
    record = drawn_records.SHOWN["race"]()
    laps = [lane.lap_s for lane in record.lanes]
    assert numbers_of(browser, ".of-bars rect.bar") == [each.median for each in laps]
    assert numbers_of(browser, ".of-bars rect.bar", "low") == [each.low for each in laps]
    assert numbers_of(browser, ".of-bars rect.bar", "high") == [each.high for each in laps]
    widths = widths_of(browser, ".of-bars rect.bar")
    assert [width / max(widths) for width in widths] == pytest.approx(
        [each.median / max(lap.median for lap in laps) for each in laps], rel=1e-3
    )
    told = sorted(each.lap_s[0] for each in record.published.results)
    assert numbers_of(browser, ".of-bars circle.reported") == told
    browser.run("document.querySelectorAll('details').forEach(each => each.open = true)")
    drawn = browser.run("return document.querySelector('[id^=figure-0] + .of-plane .curve').getAttribute('d')")
    assert drawn.startswith("M")
    steps = browser.run(
        "return [...document.querySelectorAll('h2')].find(e => e.textContent.startsWith('Steps of'))"
        ".nextElementSibling.querySelector('.curve').getAttribute('d')"
    )
    result = record.lanes[0].heats[0]
    steps_ms = [ns / 1e6 for window in result.heat.windows for ns in window.step_ns]
    assert [float(each) for each in re.findall(r"[\d.e+-]+ ([\d.e+-]+)", steps)] == pytest.approx(steps_ms, rel=1e-5)


def test_factors_and_turns_are_the_records_numbers(browser, opened):
    """The estimate, both ends, each round, and each turn; what was disturbed is marked."""
    opened("turns")
    record = drawn_records.SHOWN["turns"]()
    (found,) = record.answer.comparisons
    for name, value in (("value", found.ratio), ("low", found.low), ("high", found.high)):
        assert numbers_of(browser, ".of-factors path.factor", name) == [value]
    assert numbers_of(browser, ".of-factors circle.round") == list(found.ratios)
    assert numbers_of(browser, ".of-turns circle") == list(found.ratios)
    windows = sorted(
        (result.heat.round, window.start_ns, (window.end_ns - window.start_ns) / 1e6 / window.steps, bool(window.flag))
        for lane in record.lanes for result in lane.heats for window in result.heat.windows
    )  # fmt: skip
    assert numbers_of(browser, ".of-turns rect[data-value]") == pytest.approx([each[2] for each in windows])
    assert len(widths_of(browser, ".of-turns rect.disturbed-turn")) == sum(each[3] for each in windows) == 1
    opened("scale")
    assert browser.run("return document.querySelectorAll('.curve-ends').length") > 0


@pytest.mark.parametrize("name", FIRST_SEEN)
def test_the_answer_and_the_first_chart_are_seen_at_once(browser, opened, name):
    """Within 640 pixels of a wide page and 800 of a phone; no words of a chart are cut off or lie on each other."""
    first = "return document.querySelector('figure svg, figure table').getBoundingClientRect()"
    cut = """
    const found = [];
    for (const svg of document.querySelectorAll("svg")) {
      const frame = svg.getBoundingClientRect();
      if (!frame.width) continue;
      const words = [...svg.querySelectorAll("text")].map(each => [each.textContent, each.getBoundingClientRect()]);
      for (const [said, box] of words) {
        if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1) found.push(said);
        for (const [other, its] of words) {
          const across = Math.min(box.right, its.right) - Math.max(box.left, its.left);
          const down = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
          if (its !== box && across > 2 && down > 4) found.push(said + " on " + other);
        }
      }
    }
    return found;
    """
    for width, least in ((1280, 640), (390, 800)):
        opened(name)
        browser.resize(width)
        assert browser.run("return document.querySelector('.big, h1').getBoundingClientRect().bottom") < least / 2
        assert browser.run(first)["top"] < least
        assert browser.run(cut) == []
        assert browser.run("return document.documentElement.scrollWidth") <= width


def test_what_is_not_reliable_is_a_chip(browser, opened):
    opened("disturbed")
    told = browser.run("return document.querySelector('.chip').textContent")
    assert told.startswith("NOT RELIABLE: ")
    opened("race")
    assert browser.run("return document.querySelector('.chip')") is None


def test_a_curve_is_named_by_the_pointer_and_the_keyboard_and_can_be_switched_off(browser, opened):
    opened("training")
    browser.run("document.querySelector('svg.plane').focus()")
    browser.press("ArrowRight")
    assert browser.run("return document.getElementById('tip').textContent").startswith("torch/cpu")
    browser.press("Escape")
    assert browser.run("return document.getElementById('tip')") is None
    seen = "return [...document.querySelectorAll('.curve')].filter(c => getComputedStyle(c).display !== 'none').length"
    before = browser.run(seen)
    browser.run("document.querySelector('.keys button').click()")
    assert browser.run(seen) == before - 1
    assert browser.run("return document.querySelector('.keys button').getAttribute('aria-pressed')") == "false"


@pytest.mark.parametrize("dark", [False, True])
def test_every_word_can_be_read(browser, opened, dark):
    browser.show_as(dark=dark)
    least = {}
    for name in (
        "failures",
        "why",
        "training",
        "tune",
        "sweep",
        "watch",
        "verdict",
        "scale",
        "inference",
        "default-race",
        "turns",
    ):
        opened(name)
        browser.run("document.querySelectorAll('details').forEach(each => each.open = true)")
        for kind, contrast in browser.run(CONTRASTS).items():
            least[kind] = min(contrast, least.get(kind, 99))
    browser.show_as()
    assert {kind: each for kind, each in least.items() if each < CONTRAST_LEAST} == {}


def test_a_report_is_whole_without_javascript(browser, opened):
    """Every element has the same words, curve, place, size and colour as with it; only what switches curves is off."""
    for name in ("race", "failures", "why", "training"):
        html = opened(name)
        assert "<noscript" not in html
        seen, live = browser.run(SEEN), browser.run(LIVE)
        with browser.without_scripts():
            opened(name)
            assert (browser.run("return document.getElementById('tip')"), browser.run(LIVE)) == (None, 0)
            assert browser.run(SEEN) == seen
        assert live == html.count("<button"), "no script ran where it was allowed"
        drawn = [each for each in seen if each[0] in {"FIGURE", "TABLE", "SECTION", "svg"}]
        assert {"FIGURE", "TABLE"} <= {each[0] for each in drawn}
        hidden = [each for each in drawn if not each[6] * each[7]]
        assert {each[0] for each in hidden} == {"svg"}, "of each chart of rows, one of two is shown"
        assert len(hidden) == html.count('class="rows narrow"')


def test_what_a_record_says_never_runs(browser, tmp_path):
    """Sixty strings that mean harm, in every field that holds words, of every question."""
    place = tmp_path / "hostile.html"
    place.write_text(as_html([report_of(each) for each in drawn_records.hostile()]), encoding="utf-8")
    browser.resize(360)
    browser.open(place)
    browser.run("document.querySelectorAll('*').forEach(e => e.dispatchEvent(new Event('mouseover')))")
    assert browser.run("return window.hacked || 0") == 0
    assert [each for each in browser.requests() if not each.startswith("file:")] == []
    assert browser.messages() == []
    assert browser.run("return document.querySelectorAll('script').length") == 1
    assert browser.run("return document.querySelectorAll('img,iframe,object,embed,form,base,link').length") == 0
    links = browser.run("return [...document.querySelectorAll('a')].map(a => [a.download, a.href.slice(0, 5)])")
    assert all(re.fullmatch(r"[\w-]+\.(json|csv|txt)", name) and href == "data:" for name, href in links)
    assert browser.run("return document.documentElement.scrollWidth") <= 360


def test_a_file_that_the_page_holds_is_saved_by_a_click(browser, opened, tmp_path):
    """From a page on disk, without a script of its own."""
    browser.save_to(tmp_path)
    record = drawn_records.SHOWN["turns"]()
    with browser.without_scripts():
        opened("turns")
        browser.run("document.querySelector('a[download$=json]').click()")
        saved = browser.wait_for_file(tmp_path / f"{record.id}.json")
    assert schema.decode(saved, "saved") == record
    assert browser.messages() == []
