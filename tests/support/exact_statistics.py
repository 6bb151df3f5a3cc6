"""Statistics that only somebody with the rows can compute, and a search for them in what a command has written.

A number that is found has the digits of a statistic: whole numbers of three digits or more are compared as they are,
others where five significant digits or more are printed. A noisy number has five digits of one statistic by chance with
a probability of about 1e-5 for a noise of a tenth; the noise of the tests that search is seeded.
"""

import itertools
import math
import re

import numpy as np

from bench.secure_sketching.simulation import exact_sums

_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.]*\w)")
_BYTES = re.compile(r'"(?:bytes|payload|peak|verify_bytes)_[a-z_]*": [\d.]+')  # of the network: no statistic
_MINUS, _LEAST_DIGITS = "\u2212", 5


def of_table(names, rows):
    """Return sums, means, spreads, products and extremes of columns, as they are and as deviations, by name."""
    found = {}
    for place, name in enumerate(names):
        x = rows[:, place]
        found |= {f"sum {name}": x.sum(), f"mean {name}": x.mean(), f"sum of squares {name}": x @ x}
        found |= {f"deviation {name}": x.std(), f"variance {name}": x.var(), f"sample variance {name}": x.var(ddof=1)}
        found |= {f"sum of fourth powers {name}": np.sum(x**4), f"mean square {name}": x @ x / len(x)}
        values, counts = np.unique(x, return_counts=True)
        if len(values) <= 12:
            found |= {f"number of {name} = {value:g}": count for value, count in zip(values, counts, strict=True)}
            found[f"sum of squared counts {name}"] = np.sum(counts.astype(float) ** 2)
    for i, j in itertools.combinations(range(len(names)), 2):
        pair = f"{names[i]}, {names[j]}"
        found |= {
            f"product {pair}": rows[:, i] @ rows[:, j],
            f"correlation {pair}": np.corrcoef(rows[:, [i, j]].T)[0, 1],
        }
    return found


def of_regression(names, rows, target, alpha=0.0):
    """Return coefficients, least loss, explained share of the regression of a column on the others."""
    place = names.index(target)
    x = np.column_stack([np.ones(len(rows)), np.delete(rows, place, 1)])
    penalty = alpha * np.diag([0.0, *[1.0] * (x.shape[1] - 1)])
    best = np.linalg.solve(x.T @ x + penalty, x.T @ rows[:, place])
    residual = rows[:, place] - x @ best
    loss, total = residual @ residual, rows[:, place].var() * len(rows)
    kind = f"regression of {target}"
    found = {f"{kind}: coefficient {number}": value for number, value in enumerate(best)}
    return found | {
        f"{kind}: least loss": loss,
        f"{kind}: mean loss": loss / len(rows),
        f"{kind}: root mean loss": math.sqrt(loss / len(rows)),
        f"{kind}: residual deviation": math.sqrt(loss / (len(rows) - x.shape[1])),
        f"{kind}: R^2": 1 - loss / total,
    }


def numbers_of(text):
    """Return the numbers of a text as they are printed, without commas, but for bytes and memory of servers."""
    said = _BYTES.sub("", text.replace(_MINUS, "-"))
    return {token.replace(",", "") for token in _NUMBER.findall(said)}


def shown(statistics, text):
    """Return the names of the statistics that a text shows."""
    whole, others = set(), {}
    for token in numbers_of(text):
        digits = len(re.sub(r"[eE].*|[-.]", "", token).lstrip("0"))
        if re.fullmatch(r"-?\d{3,}", token):
            whole.add(int(token))
        if digits >= _LEAST_DIGITS:
            others.setdefault(digits, set()).add(float(token))
    found = []
    for name, value in statistics.items():
        value = float(value)
        if not math.isfinite(value) or value == 0:
            continue
        if (value.is_integer() and abs(value) >= 100 and int(value) in whole) or any(
            float(f"{sign * value:.{digits - 1}e}") in values for digits, values in others.items() for sign in (1, -1)
        ):
            found.append(name)
    return found


def opened_without_noise(release, rows):
    """Return how many entries of a release are the sums of the rows without noise."""
    return int(np.sum(exact_sums(release.task, rows) == release.sums))
