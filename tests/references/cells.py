"""Strategies of cells and how far one client moves them, slowly: the source of tests/vectors/cells.json.

The root by its recurrence in fractions, the path from the eigenvectors of its Laplacian as NumPy finds them, and the
reach by all pairs of cells in whole numbers: no code is shared with dpmpc/linear/contributions/cells.py.

Run ``PYTHONPATH=tests python -m references.cells`` to write the vectors anew.
"""

import hashlib
import itertools
import json
from fractions import Fraction
from pathlib import Path

import numpy as np

VECTORS = Path(__file__).parents[1] / "vectors" / "cells.json"
UNIT = 1 << 10


def root(cells):
    """Return the lower-triangular root of prefix sums, to the nearest 2^-10."""
    steps = [Fraction(1)]
    for k in range(1, cells):
        steps.append(steps[-1] * Fraction(2 * k - 1, 2 * k))
    whole = [int(step * UNIT + Fraction(1, 2)) for step in steps]
    return [[whole[row - column] if row >= column else 0 for column in range(cells)] for row in range(cells)]


def path(cells):
    """Return L^(-1/4) of the path's Laplacian beside the largest free weight of the total, to the nearest 2^-10."""
    laplacian = 2 * np.eye(cells) - np.eye(cells, k=1) - np.eye(cells, k=-1)
    laplacian[0, 0] = laplacian[-1, -1] = 1
    values, vectors = np.linalg.eigh(laplacian)
    real = (vectors[:, 1:] * values[1:] ** -0.25) @ vectors[:, 1:].T
    longest = max(float(column @ column) for column in real.T)
    apart = max(float((one - other) @ (one - other)) for one in real.T for other in real.T)
    real += max(cells * (apart / 2 - longest), 0) ** 0.5 * 0.999 / cells
    return np.rint(real * UNIT).astype(int).tolist()


def columns_of(matrix, groups, missing):
    """Return what each cell of a grid adds: the strategy in its group, or one unit where the value is missing."""
    cells = len(matrix)
    for group in range(groups):
        for cell in range(cells):
            column = [0] * (groups * cells + missing * groups)
            column[group * cells : (group + 1) * cells] = [row[cell] for row in matrix]
            yield column
    for group in range(groups if missing else 0):
        column = [0] * (groups * cells + groups)
        column[groups * cells + group] = UNIT
        yield column


def reach(matrix, groups, missing):
    """Return squared L2, L1 and largest difference of all pairs, in units of 2^-10."""
    found = [0, 0, 0]
    for one, other in itertools.combinations(list(columns_of(matrix, groups, missing)), 2):
        moved = [abs(a - b) for a, b in zip(one, other, strict=True)]
        found = [max(pair) for pair in zip(found, (sum(m * m for m in moved), sum(moved), max(moved)), strict=True)]
    return found


def cases():
    for name, make in (("root", root), ("path", path)):
        for cells in (4, 16, 128):
            matrix = make(cells)
            case = {"strategy": name, "cells": cells, "first_column": [row[0] for row in matrix]}
            case["sha256"] = hashlib.sha256(np.array(matrix, "<i8").tobytes()).hexdigest()
            if cells < 128:
                case["matrix"] = matrix
            yield case


def reaches():
    for name, make in (("identity", None), ("root", root), ("path", path)):
        for cells in (1, 2, 4, 9, 16) if make is None else (2, 4, 9, 16, 40):
            matrix = (
                make(cells) if make else [[UNIT * (row == column) for column in range(cells)] for row in range(cells)]
            )
            for groups, missing in itertools.product((1,) if name == "root" else (1, 2, 3), (False, True)):
                if groups * (cells + missing) > 1:
                    squared, l1, linf = reach(matrix, groups, missing)
                    facts = {"strategy": name, "cells": cells, "groups": groups, "missing": missing}
                    yield {**facts, "squared": squared, "l1": l1, "linf": linf}


if __name__ == "__main__":
    groups = {"strategies": list(cases()), "reaches": list(reaches())}
    texts = (
        f'"{name}": [\n' + ",\n".join(json.dumps(case) for case in found) + "\n]" for name, found in groups.items()
    )
    VECTORS.write_text("{\n" + ",\n".join(texts) + "\n}\n")
