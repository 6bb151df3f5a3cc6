"""What a notebook shows of a guarantee, a release or a ledger: HTML without scripts, styles or links of its own.

Promised: all text is escaped, so that the name of a column cannot become markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def statement_html(text: str) -> str:
    """Return the HTML of a guarantee's text: a headline, then indented lines of "label: words" or of words alone.

    Lines without an indent that stand before the headline are warnings.
    """
    lines = text.splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith(" ")), len(lines))
    *warnings, headline = lines[:first]
    rows = [line.strip().partition(": ") for line in lines[first:]]
    return (
        "<div>"
        + "".join(f"<p><mark>{escape(warning)}</mark></p>" for warning in warnings)
        + f"<p><strong>{escape(headline)}</strong></p><table><tbody>"
        + "".join(_row(label, words) if words else _row("", label) for label, _, words in rows)
        + "</tbody></table></div>"
    )


def facts_html(headline: str, facts: Sequence[tuple[str, str]], more: str = "") -> str:
    """Return the HTML of a headline and a table of facts; `more` is HTML that follows them."""
    rows = "".join(_row(label, words) for label, words in facts)
    return f"<div><p><strong>{escape(headline)}</strong></p><table><tbody>{rows}</tbody></table>{more}</div>"


def _row(label: str, words: str) -> str:
    left = 'style="text-align: left; vertical-align: top"'
    return f"<tr><th {left}>{escape(label)}</th><td {left}>{escape(words)}</td></tr>"
