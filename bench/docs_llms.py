"""Write llms.txt: the pages of docs/ as a list for language models, as https://llmstxt.org describes it.

`make llms` runs it. The titles are those of the navigation (mkdocs.yml), the notes the first sentence of each page.
One file is at the root of the repository, the other at the root of the site.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SECTION = re.compile(r"^  - (\S.*):$")
PAGE = re.compile(r"^ +- (?:(?P<title>.*): )?(?P<file>[\w-]+\.md)$")
BUILDERS = "For those who build it"  # a reader who only uses laptime may skip it: "Optional", as the format calls that
SHORT = """laptime races training on CPU and GPU, proves that the work is the same, and gives factors with intervals.
A program reads `--json` of any command (`laptime help schema COMMAND`) and exit codes (`laptime help exit-codes`)."""


def make_llms(folder: str, ending: str) -> str:
    """Return llms.txt whose links begin with a folder and have this ending."""
    lines = [
        "# laptime",
        "",
        "> How long does a training take on each device, and by what proven factor is one faster?",
    ]
    lines += ["", *SHORT.splitlines()]
    for line in (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].splitlines():
        section, page = SECTION.match(line), PAGE.match(line)
        if section:
            lines += ["", f"## {'Optional' if section[1] == BUILDERS else section[1]}", ""]
        elif page:
            title, point = read_page(DOCS / page["file"])
            if line.startswith("  - "):  # the overview is of no section
                lines += ["", "## First", ""]
            lines.append(f"- [{page['title'] or title}]({folder}{Path(page['file']).stem}{ending}): {point}")
    return "\n".join(lines) + "\n"


def read_page(place: Path) -> tuple[str, str]:
    """Return a page's title and its first sentence, without Markdown."""
    title, _, rest = place.read_text(encoding="utf-8").partition("\n")
    point = " ".join(rest.strip().split("\n\n")[0].split())
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", point).replace("**", "")
    return title.removeprefix("# "), re.split(r"(?<=[.?!]) ", plain)[0]


FILES = {ROOT / "llms.txt": ("docs/", ".md"), DOCS / "llms.txt": ("", ".html")}


if __name__ == "__main__":
    for place, (folder, ending) in FILES.items():
        place.write_text(make_llms(folder, ending), encoding="utf-8")
