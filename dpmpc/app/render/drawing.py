"""Plots in the report's look, drawn by matplotlib: as SVG that stands inside a page.

Every colour is one of `COLOURS`. Inside a page each is a CSS variable with that name, so that the page's light and dark
styles reach into the plots. Text stays text, which a browser sets in the page's font; it is never read as mathematics.

matplotlib is optional (``pip install '.[plots]'`` in the source folder); `available` returns whether it is installed.
"""

from __future__ import annotations

import importlib.util
import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from markupsafe import Markup

INSTALL = "pip install '.[plots]' in its source folder"
#: Name -> colour on white. Those of data can be told apart by colour-blind eyes (Okabe and Ito, darkened to contrast).
COLOURS = {
    "ink": "#1b2430",
    "muted": "#5a6572",
    "line": "#d5dae0",
    "surface": "#fefefe",
    "blue": "#0b62a4",
    "orange": "#b85300",
    "green": "#007a5a",
    "purple": "#9c4a7e",
    "sky": "#3f8fc4",
    "sand": "#a87c1c",
}
WIDTH = 3.9  # inches: at this width a plot's text is as large as the page's, on a phone too
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dpmpc",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": COLOURS["ink"],
    "axes.edgecolor": COLOURS["muted"],
    "axes.labelcolor": COLOURS["ink"],
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "xtick.labelcolor": COLOURS["ink"],
    "ytick.labelcolor": COLOURS["ink"],
    "grid.color": COLOURS["line"],
    "grid.linewidth": 0.8,
}


def available() -> bool:
    """Return whether plots can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


@contextmanager
def figure(height: float, width: float = WIDTH) -> Iterator[Any]:
    """Yield an empty figure of the report's look, in inches; draw and save it in the body of the ``with`` statement."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)  # the browser has fonts of its own
        drawn = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(drawn)
        yield drawn


def inline(drawn: Any, name: str, title: str, description: str) -> Markup:
    """Return a figure as an ``<svg>`` element that refers to nothing outside of it."""
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="svg", transparent=True)
    root = ElementTree.fromstring(buffer.getvalue())  # noqa: S314 (matplotlib wrote it just now)
    for part in list(root):
        if part.tag == f"{_SVG}metadata":  # it links to vocabularies
            root.remove(part)
    for parent in root.iter():
        for style in parent.findall(f"{_SVG}style"):  # it would hold for the whole page
            parent.remove(style)
    for element in root.iter():
        _make_local(element, name)
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-labelledby": f"{name}-title {name}-description",
    }
    for tag, text in (("desc", description), ("title", title)):
        label = ElementTree.Element(tag, {"id": f"{name}-{'title' if tag == 'title' else 'description'}"})
        label.text = text
        root.insert(0, label)
    return Markup(ElementTree.tostring(root, encoding="unicode"))  # noqa: S704 (all text is escaped)


def figures(value: float, digits: int = 3, *, smallest: float = 1e-5) -> str:
    """Write a number for people: to some significant digits, with commas, as a power of ten if tiny or huge."""
    if not math.isfinite(value):  # an estimate that the noise hides, or a bound that there is not
        return "not shown" if math.isnan(value) else "∞" if value > 0 else "−∞"
    rounded = float(f"{value:.{digits}g}")
    if rounded == 0 or smallest <= abs(rounded) < 1e7:
        decimals = max(digits - 1 - math.floor(math.log10(abs(rounded))), 0) if rounded else 0
        text = f"{rounded:,.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if decimals else text
    else:
        mantissa, _, exponent = f"{rounded:.{digits - 1}e}".partition("e")
        power = "10" + str(int(exponent)).translate(_RAISED)
        leading = f"{float(mantissa):g}"
        text = power if leading == "1" else f"{leading}×{power}"
    return text.replace("-", "−")


def _make_local(element: Any, name: str) -> None:
    """Take namespaces off an element, and put the figure's name before its ids and references."""
    element.tag = element.tag.removeprefix(_SVG)
    if _LINK in element.attrib:
        element.attrib["href"] = element.attrib.pop(_LINK)
    for key, value in element.attrib.items():
        if key == "id":
            element.attrib[key] = f"{name}-{value}"
        elif key == "href":
            element.attrib[key] = f"#{name}-{value[1:]}"
        elif key == "style":
            element.attrib[key] = _with_variables(value)
        else:
            element.attrib[key] = value.replace("url(#", f"url(#{name}-")


def _with_variables(style: str) -> str:
    """Replace fixed colours by the page's variables."""
    for name, value in COLOURS.items():
        style = style.replace(value, f"var(--{name})")
    return style
