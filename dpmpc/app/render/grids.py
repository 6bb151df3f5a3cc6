"""Tables of text for a terminal, in one style; tables of numbers are `dpmpc.release.NumberTable`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table


def grid(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1, caption: str | None = None
) -> Table:
    """Return a table whose first columns are aligned to the left and whose others, of numbers, to the right."""
    made = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        caption=caption,
    )
    for place, heading in enumerate(headings):
        made.add_column(heading, justify="left" if place < left else "right")
    for row in rows:
        made.add_row(*row)
    return made
