"""Draw the pictures of README and docs from kept records, light and dark: `make pictures`.

    python bench/docs_pictures.py            write docs/pictures/*.svg again
    python bench/docs_pictures.py --check    say which differ from what is there, and exit 1

Each record is one that laptime wrote, in docs/pictures/NAME.json.gz; only folders are shortened.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from pathlib import Path

from laptime.api.showing import report_of
from laptime.model.figure import Report
from laptime.show.drawing.pictures import DARK, LIGHT_THEME, Theme, card, numbers_by_lane, standalone
from laptime.store import schema

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
THEMES = {"light": LIGHT_THEME, "dark": DARK}
# What is drawn: the picture's name, the record, and the title of one of its figures; a card where there is none.
DRAWN = (
    ("race", "scenes-cnn-h100", None),
    ("turns", "cifar-cnn-default", "What happened: the lanes took turns"),
    ("factor", "cifar-cnn-default", "How sure is 1.56x?"),
    ("why", "plates-cnn-why-h100", "What it would gain, as measured"),
    ("step", "plates-cnn-why-h100", "Where the time of a step goes"),
    ("search", "cifar-mlp-tune", "The search on torch/cpu, in its order"),
    ("sweep", "cifar-mlp-sweep", "Rate over batch"),
    ("scale", "cifar-mlp-scale", "What more devices bring"),
    ("watch", "plain-loop-watch", "Where the time of an iteration goes"),
)


def draw(report: Report, title: str | None, theme: Theme) -> str:
    if title is None:
        return card(report, theme)
    figure = next(each for each in report.figures if each.title == title)
    picture = standalone(figure.chart, figure.title, numbers_by_lane(report), theme)
    assert picture is not None
    return picture


def pictures() -> dict[Path, str]:
    """Return the text of every picture by its place."""
    made = {}
    for name, record, title in DRAWN:
        data = gzip.decompress((PICTURES / f"{record}.json.gz").read_bytes())
        report = report_of(schema.decode(data, record), holds_record=False)
        for word, theme in THEMES.items():
            made[PICTURES / f"{name}-{word}.svg"] = draw(report, title, theme)
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    differ = []
    made = pictures()
    if parser.parse_args().check:
        differ = [place.name for place, text in made.items() if not place.exists() or place.read_text() != text]
        print("\n".join(f"{each} differs: make pictures" for each in differ) or "all are as the command makes them")
        return int(bool(differ))
    for place, text in made.items():
        place.write_text(text, encoding="utf-8")
        print(place.relative_to(PICTURES.parents[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
