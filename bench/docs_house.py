"""Draw the folders of src/laptime and who imports from whom, as docs/pictures/house.svg.

`make house` runs it. The arrows are those of the imports, without the ones that follow from others; a dashed arrow
looks up. `tests/test_architecture.py` compares the picture with the imports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "src" / "laptime"
PICTURE = ROOT / "docs" / "pictures" / "house.svg"
# The folders, the lowest first: what is above is never fetched from below, but handed down.
FOLDERS = (
    "model", "attach", "machine", "store", "trainings", "analysis", "planner", "engine", "show", "questions", "api",
    "remedies", "library", "cli",
)  # fmt: skip
# What is worth a name of its own within a folder.
ROOMS = {
    "model": "nouns and tables, errors, stats", "attach": "the agent in a script", "machine": "sensors, hardware",
    "store": "records, disk, exports", "trainings": "workloads, data", "analysis": "with diagnosis",
    "planner": "lanes, settings", "engine": "run, heat, backends, wire", "show": "pages, figures, board",
    "questions": "a folder for each", "api": "answers a question", "remedies": "auto, cached",
    "library": "import laptime", "cli": "the commands",
}  # fmt: skip
UP = ' class="up"'
TITLE = "The folders of laptime, and who imports from whom"
TIP = """<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
  <path d="M0,0 L8,4 L0,8 z"/>
</marker>"""
Arrow = tuple[str, str]
WIDTH, BOX, HEIGHT, ROW, MARGIN = 900, 164, 46, 84, 12
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328; text-anchor: middle }
  .name { font-weight: 600; font-size: 14px }
  rect { fill: #f6f8fa; stroke: #8c959f }
  path { fill: none; stroke: #8c959f; marker-end: url(#tip) }
  .up { stroke: #cf222e; stroke-dasharray: 4 3 }
  #tip path { fill: #8c959f; stroke: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } rect { fill: #161b22; stroke: #6e7681 } path { stroke: #6e7681 } .up { stroke: #f85149 }
  }
"""


def read_arrows(house: Path) -> set[Arrow]:
    """Return which folder imports from which."""
    found = set()
    for path in house.rglob("*.py"):
        folder = path.relative_to(house).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = getattr(node, "module", None)
            for name in [f"{module}.{name}" for name in names] if module else names:
                parts = name.split(".")
                if parts[0] == house.name and {folder, parts[1]} <= set(FOLDERS) and folder != parts[1]:
                    found.add((folder, parts[1]))
    return found


def draw(arrows: Iterable[Arrow]) -> str:
    """Return the picture: a folder is above all that it imports from."""
    order = {folder: number for number, folder in enumerate(FOLDERS)}
    down = {arrow for arrow in arrows if order[arrow[1]] < order[arrow[0]]}
    up = set(arrows) - down
    below = {folder: {to for of, to in down if of == folder} for folder in FOLDERS}
    levels: dict[str, int] = {}
    for folder in FOLDERS:
        levels[folder] = 1 + max((levels[other] for other in below[folder]), default=-1)
    rows = [[folder for folder in FOLDERS if levels[folder] == level] for level in range(max(levels.values()) + 1)]
    height = 2 * MARGIN + ROW * len(rows) - (ROW - HEIGHT)
    middles = {
        folder: (WIDTH * (place + 1) / (len(row) + 1), height - MARGIN - HEIGHT / 2 - ROW * level)
        for level, row in enumerate(rows)
        for place, folder in enumerate(row)
    }
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{TITLE}">',
        f"<style>{STYLE}</style>",
        TIP,
        *(_line(middles[of], middles[to]) for of, to in sorted(_needed(down, below))),
        *(_line(middles[of], middles[to], looks_up=True) for of, to in sorted(up)),
    ]
    for folder, (x, y) in middles.items():
        lines += [
            f'<rect x="{x - BOX / 2:.0f}" y="{y - HEIGHT / 2:.0f}" width="{BOX}" height="{HEIGHT}" rx="6"/>',
            f'<text class="name" x="{x:.0f}" y="{y - 3:.0f}">{folder}</text>',
            f'<text x="{x:.0f}" y="{y + 14:.0f}">{ROOMS[folder]}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _needed(down: set[Arrow], below: dict[str, set[str]]) -> set[Arrow]:
    """Return the arrows that do not follow from others."""

    def reaches(folder: str, to: str) -> bool:
        return to in below[folder] or any(reaches(other, to) for other in below[folder])

    return {(of, to) for of, to in down if not any(reaches(other, to) for other in below[of] - {to})}


def _line(of: tuple[float, float], to: tuple[float, float], *, looks_up: bool = False) -> str:
    side, aside = (-1, BOX / 3) if looks_up else (1, 0.0)
    x, y = of[0] + aside, of[1] + side * HEIGHT / 2
    to_x, to_y = to[0] + aside, to[1] - side * HEIGHT / 2
    bend = side * min(ROW / 3, abs(to_y - y) / 2)
    curve = f"M{x:.0f},{y:.0f} C{x:.0f},{y + bend:.0f} {to_x:.0f},{to_y - bend:.0f} {to_x:.0f},{to_y:.0f}"
    return f'<path{UP * looks_up} d="{curve}"/>'


if __name__ == "__main__":
    PICTURE.write_text(draw(read_arrows(HOUSE)), encoding="utf-8")
