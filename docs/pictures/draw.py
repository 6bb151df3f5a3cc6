"""Draw the pictures of the concepts page: plain SVG, on white so that they can be read on any background.

python docs/pictures/draw.py
"""

import itertools
import json
import math
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "bench" / "results"
INK, SOFT, BLUE, RED, GREEN = "#222", "#888", "#2b6cb0", "#c53030", "#2f855a"
WIDTH = 720
SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def text(x, y, words, *, size=15, colour=INK, anchor="middle", weight="normal"):
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    style = f'font-size="{size}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x}" y="{y}" {style}>{words}</text>'


def box(x, y, width, height, words="", *, fill="#f7fafc", edge=SOFT, size=15):
    drawn = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="5" fill="{fill}" stroke="{edge}"/>'
    return drawn + (text(x + width / 2, y + height / 2 + size / 3, words, size=size) if words else "")


def arrow(x0, y0, x1, y1, colour=SOFT):
    return (
        f'<line x1="{x0}" y1="{y0}" x2="{x1}" y2="{y1}" stroke="{colour}" stroke-width="1.5" marker-end="url(#head)"/>'
    )


def dot(x, y, radius, opacity, colour=RED):
    return f'<circle cx="{x}" cy="{y}" r="{radius}" fill="{colour}" fill-opacity="{opacity}"/>'


def curve(points, colour):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>'


def flow():
    for client, y in enumerate((30, 105, 180)):
        yield box(20, y, 110, 46, f"client {client + 1}")
        for server in range(3):
            yield arrow(132, y + 23, 288, 53 + 75 * server)
    yield text(75, 262, "row + a little noise", colour=SOFT)
    for server in range(3):
        yield box(290, 30 + 75 * server, 110, 46, f"server {server + 1}")
        yield arrow(402, 53 + 75 * server, 532, 128)
    yield text(345, 262, "adds up its shares, alone", colour=SOFT)
    yield box(535, 98, 160, 60, fill="#ebf8ff", edge=BLUE)
    yield text(615, 123, "analyst opens")
    yield text(615, 143, "the sum, with noise")
    yield text(615, 262, "everything else is free", colour=SOFT)


def shares():
    yield box(25, 85, 110, 50, "7", fill="#fff5f5", edge=RED, size=22)
    yield text(80, 160, "secret", colour=SOFT)
    for row, (share, origin) in enumerate((("52", "random"), ("81", "random"), ("-126", "what is missing"))):
        y = 20 + 70 * row
        yield arrow(137, 110, 268, y + 22)
        yield box(270, y, 110, 45, share, size=20)
        yield text(395, y + 28, f"server {row + 1}: {origin}", anchor="start")
        yield arrow(566, y + 22, 598, 110)
    yield box(600, 85, 100, 50, "52 + 81 - 126", fill="#f0fff4", edge=GREEN, size=13)
    yield text(650, 160, "all three: 7", colour=GREEN)
    yield text(325, 250, "any two of them: nothing", colour=SOFT)


def sketch():
    rows, signs = (0, 2, 1, 0, 1, 2, 0, 1), (1, -1, 1, -1, -1, 1, 1, 1)
    for r in range(3):
        for client in range(8):
            hit = rows[client] == r
            sign = "" if not hit else "+1" if signs[client] > 0 else "-1"
            fill = "#fff" if not hit else "#ebf8ff" if signs[client] > 0 else "#fff5f5"
            yield box(30 + 36 * client, 60 + 36 * r, 34, 34, sign, fill=fill, size=13)
    yield text(172, 45, "public matrix: one column a client", colour=SOFT)
    yield text(345, 118, "x", size=22)
    for client in range(8):
        yield box(375, 14 + 26 * client, 130, 24, f"row of client {client + 1}", size=12)
    yield text(535, 118, "=", size=22)
    for r in range(3):
        terms = [f"{'+' if s > 0 else '-'} r{c + 1}" for c, s in enumerate(signs) if rows[c] == r]
        yield box(560, 60 + 36 * r, 140, 34, " ".join(terms), fill="#f0fff4", edge=GREEN, size=14)
    yield text(630, 45, "three sums", colour=SOFT)


def noise():
    for place, (name, at_client, total, note) in enumerate(
        (("local", 26, 44, "too much"), ("curator", 0, 26, "but sees all"), ("here", 7, 26, "and sees nothing"))
    ):
        x = 20 + 235 * place
        yield text(x + 105, 28, name, size=17, weight="bold")
        for client in range(5):
            yield box(x + 8 + 40 * client, 45, 32, 32)
            if at_client:
                yield dot(x + 24 + 40 * client, 61, at_client / 2, 0.55)
            yield arrow(x + 24 + 40 * client, 80, x + 85 + 10 * client, 128)
        yield box(x + 60, 132, 90, 56, fill="#f0fff4" if place == 2 else "#f7fafc", edge=GREEN if place == 2 else SOFT)
        yield dot(x + 105, 160, total / 2, 0.55)
        yield text(x + 105, 212, f"noise in the sum: {note}" if place == 0 else f"as little as can be, {note}", size=13)
    yield text(360, 245, "red: noise", colour=RED, size=13)


def guarantee():
    def bell(middle):
        return [(x, 200 - 160 * math.exp(-(((x - middle) / 110) ** 2) / 2)) for x in range(40, 682, 4)]

    yield curve(bell(330), BLUE) + curve(bell(365), RED)
    yield f'<line x1="30" y1="200" x2="690" y2="200" stroke="{SOFT}"/>'
    yield text(360, 224, "what is released", colour=SOFT)
    yield text(215, 80, "with Ada's row", colour=BLUE, anchor="end")
    yield text(485, 80, "with another row in its place", colour=RED, anchor="start")
    x, first, second = 480, *(200 - 160 * math.exp(-(((480 - middle) / 110) ** 2) / 2) for middle in (330, 365))
    yield f'<line x1="{x}" y1="200" x2="{x}" y2="{second}" stroke="{INK}" stroke-dasharray="4 3"/>'
    yield dot(x, first, 4, 1, BLUE) + dot(x, second, 4, 1)
    yield text(x + 36, 120, "at most e^ε times, plus δ", anchor="start", size=14)


def liars():
    """Draw the medians of bench/results/robustness.json: phi on a logarithmic axis, against the number of liars."""
    content = json.loads((RESULTS / "robustness.json").read_text())
    ways = {
        "no proofs, worst words": ("#742a2a", "no proofs: the worst words"),
        "no proofs, words at random": (RED, "no proofs: words at random"),
        "no proofs, chosen result": ("#dd6b20", "no proofs: a result of the liars' choice"),
        "proofs, worst true rows": (GREEN, "proofs: worst rows within the bounds"),
        "proofs, false reports": (BLUE, "proofs: false reports, all refused"),
    }
    counts = sorted({cell["liars"] for cell in content["cells"]})
    medians = {(cell["way"], cell["liars"]): cell["phi"]["median"] for cell in content["cells"]}
    decades = math.ceil(max(math.log10(phi) for phi in medians.values()))
    left, step, bottom, top = 80, 85, 250, 40

    def height(phi):
        return bottom - (bottom - top) * math.log10(phi) / decades

    yield text(20, 22, "error of the released regression: cost over least cost", colour=SOFT, anchor="start", size=14)
    for decade in range(0, decades + 1, max(1, decades // 5)):
        y = height(10**decade)
        yield f'<line x1="{left}" y1="{y:.1f}" x2="{left + 4 * step}" y2="{y:.1f}" stroke="#e2e8f0"/>'
        power = "10" + str(decade).translate(SUPERSCRIPTS) if decade > 1 else str(10**decade)
        yield text(left - 10, f"{y + 5:.1f}", power, colour=SOFT, anchor="end", size=13)
    for place, count in enumerate(counts):
        yield text(left + step * place, bottom + 20, f"{count:,}", colour=SOFT, size=13)
    yield text(left + 2 * step, bottom + 40, f"liars among {content['clients']:,} clients", colour=SOFT, size=14)
    ends = []
    for way, (colour, words) in ways.items():
        points = [(left + step * place, height(medians[way, count])) for place, count in enumerate(counts)]
        yield curve(points, colour)
        for x, y in points:
            yield dot(f"{x:.1f}", f"{y:.1f}", 3.5, 1, colour)
        ends.append([points[-1][1], colour, words])
    for below, above in itertools.pairwise(reversed(ends)):  # from the lowest up, no two labels on each other
        above[0] = min(above[0], below[0] - 18)
    for y, colour, words in ends:
        yield text(left + 4 * step + 12, f"{y + 5:.1f}", words, colour=colour, anchor="start", size=13)


PICTURES = {flow: 280, shares: 265, sketch: 230, noise: 255, guarantee: 235, liars: 300}


def svg(picture, height):
    tip = f'<path d="M0,1 L7,4 L0,7" fill="none" stroke="{SOFT}"/>'
    head = f'<marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">{tip}</marker>'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<defs>{head}</defs><rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>',
        *picture(),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for picture, height in PICTURES.items():
        (HERE / f"{picture.__name__}.svg").write_text(svg(picture, height))
