"""The board at scale, with 100,000 rows of 2,000 machines: how long its pages take to build, how large they are, and
how long a filter takes in Chromium.

    python bench/board.py                  100,000 rows; --out keeps the result
    python bench/board.py --rows 5000      a smaller board
"""

from __future__ import annotations

import gzip
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "drawing"))

from browser import is_here, open_browser

from common import Figure, finish, parser_for
from laptime.machine.hardware import known_devices
from laptime.show.board import site
from laptime.show.board.add import board_rows
from laptime.show.board.evidence import strip
from laptime.show.board.row import BoardRow, RowDevice, encode_row
from laptime.store.schema import decode
from laptime.trainings.workloads import CATALOGUE

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
ROWS, MACHINES = 100_000, 2_000
BUILD_MOST_S, PAGE_MOST_BYTES, INDEX_MOST_KB, FILTER_MOST_MS = 60.0, 150_000, 150.0, 100.0
SETTINGS = ("as-written", "best", "fastest", "best+compile", "best+augment=host", "as-written+threads=4")
FRAMEWORKS = ("torch", "keras-tf", "keras-jax", "keras-torch")
COMPLETE = "return document.getElementById('lines').getAttribute('aria-busy') === 'false'"
FILTER = """
const field = document.querySelector(`#filters [name=${arguments[0]}]`);
field.value = arguments[1];
const began = performance.now();
field.dispatchEvent(new Event("change", { bubbles: true }));
document.body.offsetHeight;  // with the layout of what it shows
return performance.now() - began;
"""


def simulated(count: int, machines: int, drawn: random.Random) -> Iterator[BoardRow]:
    """Yield rows of machines with a processor or a card of the table of devices, in every training."""
    data = gzip.decompress((PICTURES / "cifar-cnn-default.json.gz").read_bytes())
    like = board_rows(strip(decode(data, "a kept record")), "0" * 64)[0]
    cards = [each for each in known_devices() if each.kind != "cpu"]
    places = []
    for number in range(machines):
        card = drawn.choice(cards) if number % 3 else None
        machine = replace(
            like.machine, processor=f"Simulated processor {number % 220}", cores=drawn.choice((2, 4, 8, 16, 32, 64))
        )
        device = (
            like.device
            if card is None
            else RowDevice(card.kind, card.name, card.short, int(1e9 * (card.memory_gb or 8)))
        )
        places.append((machine, device))
    for number in range(count):
        machine, device = places[number % machines]
        kind = "cpu" if device.kind == "cpu" else f"{device.kind}:0"
        framework, settings = drawn.choice(FRAMEWORKS), drawn.choice(SETTINGS)
        step_ms = 10 ** drawn.uniform(-1, 3)
        training = drawn.choice([*CATALOGUE])
        lap_s = step_ms * CATALOGUE[training].steps_per_lap / 1e3
        yield replace(
            like,
            training=training,
            lane=f"{framework}/{kind}/{settings}",
            framework=framework,
            preset=settings,
            machine=machine,
            device=device,
            step_ms=replace(like.step_ms, middle=step_ms, low=step_ms * 0.95, high=step_ms * 1.06),
            lap_s=replace(like.lap_s, middle=lap_s, low=lap_s * 0.95, high=lap_s * 1.06),
            record=f"r-2026-11-27-{number:08x}",
        )


def write_board(folder: Path, count: int, machines: int) -> None:
    for row in simulated(count, machines, random.Random(1)):
        place = folder / row.place
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(encode_row(row))


def filter_times(page: Path, folder: Path) -> tuple[list[float], float]:
    """Return how long each of some filters takes, in milliseconds, once the index is loaded; and, in seconds, the
    longest time until all details of a filter's lines are shown.
    """
    chosen = [
        ("kind", "card"),
        ("settings", "best"),
        ("framework", "torch"),
        ("tier", "2"),
        ("axis", "cost"),
        ("axis", "lap"),
        ("kind", "cpu"),
        ("settings", ""),
        ("memory", "24"),
        ("memory", ""),
    ]
    with open_browser(folder) as browser:
        browser.open(page)
        browser.run("document.getElementById('open-filters').click()")
        for _ in range(500):
            if browser.run("return document.querySelectorAll('#filters select').length > 3"):
                break
            time.sleep(0.02)
        browser.run(FILTER, "kind", "cpu")  # the first one compiles the script
        times, complete_s = [], 0.0
        for each in chosen:
            began = time.perf_counter()
            times.append(float(str(browser.run(FILTER, *each))))
            while not browser.run(COMPLETE):
                time.sleep(0.005)
            complete_s = max(complete_s, time.perf_counter() - began)
        return times, complete_s


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--machines", type=int, default=MACHINES)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_board(folder / "board", given.rows, given.machines)
        began = time.perf_counter()
        made = site.build(folder / "board", folder / "site")
        build_s = time.perf_counter() - began
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        shared = sum((folder / "site" / each).stat().st_size for each in ("board.css", "board.js"))
        first = [page.stat().st_size + shared for page in (folder / "site").rglob("*.html")]
        data = {place: place.stat().st_size for place in (folder / "site").rglob("*.data.js")}
        details = [place.stat().st_size for place in (folder / "site" / "lines").rglob("*.js")]
        largest = max(data, key=data.__getitem__)
        figures = [
            Figure(
                f"pages of {made.rows:,} rows of {given.machines:,} machines are built", build_s, "s", most=BUILD_MOST_S
            ),
            Figure("memory of the build", memory / 1e6, "MB"),
            Figure("first paint of the largest page", max(first) / 1e3, "KB", most=PAGE_MOST_BYTES / 1e3),
            Figure("the largest index, loaded by the first filter", data[largest] / 1e3, "KB", most=INDEX_MOST_KB),
            Figure("the largest file of details", max(details) / 1e3, "KB"),
        ]
        if is_here():
            times, complete_s = filter_times(largest.with_name(largest.name.replace(".data.js", ".html")), folder)
            figures.append(Figure("the slowest of ten filters in Chromium", max(times), "ms", most=FILTER_MOST_MS))
            figures.append(Figure("until all details of a filter's lines are shown, at most", 1e3 * complete_s, "ms"))
    return finish("board", figures, given.out)


if __name__ == "__main__":
    sys.exit(main())
