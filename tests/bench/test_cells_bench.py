"""The bench of cells: its test without privacy is that of SciPy, and its page says what was measured."""

import numpy as np
import pytest
import scipy.stats

from bench.system.cells import COVERED, LAWS, TESTED, Population, ranks_reject, render


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_the_test_of_the_people_themselves_is_that_of_scipy(shift):
    rng, rejected = np.random.default_rng(0), set()
    for _ in range(40):
        groups = [np.round(3 * rng.normal(away, 1, 60)).clip(-9, 9).astype(int) for away in (0.0, shift)]
        oracle = scipy.stats.kruskal(*groups).statistic * 120 / 119 > scipy.stats.chi2.ppf(0.95, 1)
        counts = np.stack([np.bincount(group + 9, minlength=19) for group in groups]).astype(float)
        assert ranks_reject(counts) == oracle
        rejected.add(bool(oracle))
    assert rejected == {False, True}


def test_its_page_has_a_line_for_each_setting():
    level, power = Population("ties", 2_000, 3.0).simulate(3), Population("bell", 2_000, 3.0, 0.2).simulate(3)
    assert all(0 <= level["share"][name] <= 1 for name in (*COVERED, *TESTED))
    assert level["told"]["counts"] == 3.0
    assert power["told"]["quantiles"] == 0.0
    text = render({"measured": [level, power], "flights": []})
    assert text.count("| ties | 2,000 | 3 |") == 2
    assert "| 2,000 | 3 | " in text
    assert "flights" not in text.lower()
    assert all(law.sum() == pytest.approx(1) for law in LAWS.values())
