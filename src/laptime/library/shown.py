"""What prints as a page: in a terminal, in a file, and in a notebook."""

from __future__ import annotations

import shutil
from html import escape

from laptime.errors import LaptimeError
from laptime.library.notebook import is_notebook
from laptime.visible import visible

WIDTH_OFF_TERMINAL = 100
AS_TYPED = "white-space:pre;line-height:1.25"  # bars of blocks touch, and no line is broken


def _width() -> int:
    """Return the terminal's width. A notebook's is not that of the terminal in which its server was started."""
    return WIDTH_OFF_TERMINAL if is_notebook() else shutil.get_terminal_size((WIDTH_OFF_TERMINAL, 24)).columns


def as_block(text: str) -> str:
    """Return a page as HTML, every letter in its place."""
    return f'<pre style="{AS_TYPED}">{escape(visible(text))}</pre>'


class Shown:
    """What prints as a page."""

    __slots__ = ()

    def page(self, *, width: int | None = None, details: bool = False) -> str:
        """Return the page, in `width` columns: by default the terminal's, or 100. With `details` it has all notes."""
        return visible(self._page(width or _width(), details=details))

    def _page(self, width: int, *, details: bool) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        try:
            return self.page()
        except LaptimeError as error:
            return f"<{type(self).__name__}: {error.says}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the page for a notebook."""
        return as_block(repr(self))
