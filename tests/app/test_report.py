"""What a report says as text: a simulation first, a verdict before the guarantee, and no character that acts."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpmpc import RidgeRegression
from dpmpc.app.render.about import About
from dpmpc.app.render.released import report_of
from dpmpc.app.render.report import GuaranteeInWords, Report
from dpmpc.release.results import NumberTable, Result


def report(simulation=None, **result):
    return Report(
        title="Release",
        about=[("Operators", ["somebody"])],
        released=["3 people."],
        result=Result(**result),
        promise=GuaranteeInWords("the guarantee", "", [], simulation),
        facts=[],
        noise=NumberTable("Sizes", {"noise": [1.0]}, ["x"]),
        free=[],
        paid=[],
        code="",
        data={"kind": "release"},
    )


def test_no_character_of_a_note_acts_on_a_terminal():
    said = str(report(notes=["\x1b[2Jdone", "\u202eright to left"]))
    assert "done" in said
    assert not {"\x1b", "\u202e"} & set(said)


def test_a_simulation_is_called_one_first_and_a_verdict_comes_before_the_guarantee():
    lines = str(report("repeatable", verdict="nothing was learned.")).splitlines()
    assert lines[:3] == ["SIMULATION: repeatable", "", "Release"]
    assert lines.index("Verdict. nothing was learned.") < lines.index("the guarantee")


def test_without_a_model_the_numbers_stand_by_themselves():
    assert report(data={"description": {}}).to_dict() == {
        "title": "Release",
        "about": {"operators": ["somebody"]},
        "kind": "release",
        "description": {},
        "warnings": [],
    }
    fields = report(model="ridge", data={"target": "y"}).to_dict()
    assert (fields["model"], fields["parameters"], fields["result"]) == ("ridge", {}, {"target": "y"})


FLAG_NOTE = "(on bounds): the interval rests on the bounds."


def wide(rows, notes=()):
    names = [f"x{place} (on bounds)" for place in range(rows)]
    return NumberTable("Regression", {"coefficient": [1.0] * rows}, names, notes=notes)


@given(
    rows=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    notes=st.lists(st.text(st.characters(categories=("L", "N", "Zs")), max_size=300), max_size=6),
    warnings=st.integers(0, 3),
    simulation=st.booleans(),
)
def test_a_screen_has_forty_lines_and_keeps_what_explains_flags(rows, notes, warnings, simulation):
    found = report(
        "repeatable" if simulation else None,
        tables=[wide(count, [*notes, FLAG_NOTE]) for count in rows],
        notes=notes,
        warnings=["be careful"] * warnings,
    )
    lines = found.brief().split("\n")
    assert sum(max(1, math.ceil(len(line) / 100)) for line in lines) <= 40
    assert lines.count(FLAG_NOTE) == lines.count("Regression") >= 1
    assert ("SIMULATION: repeatable" in lines) == simulation
    assert any("be careful" in line for line in lines) == bool(warnings)
    shown = sum(line.startswith("x") for line in lines)
    assert (shown < sum(rows)) == any(line.startswith("... and ") for line in lines)
    assert not {"\x1b", "\u202e"} & set(report(notes=["\x1b[2Jdone"], tables=[wide(2, ["\u202eleft"])]).brief())


def test_the_screen_of_a_fit_states_the_promise_in_a_line_and_ends_with_the_table():
    X = np.random.default_rng(0).uniform(-1, 1, (20_000, 12))
    fit = RidgeRegression(bounds=(-1, 1), simulation_seed=1).fit(X, X @ np.linspace(-0.1, 0.1, 12))
    about, promised = About.of_release(fit.releases_[0]), fit.guarantee_
    found = report_of(fit.releases_, fit.result(), about, in_rounds=True, guarantee=promised)
    lines = found.brief().split("\n")
    assert len(lines) <= 40
    promised = next(line for line in lines if "differential privacy" in line)
    assert "neighbouring: one client's whole row is replaced" in promised
    assert "holds even if the analyst and 2 of the 3 servers" in promised
    assert sum(line.split()[0] in fit.feature_names_ for line in lines if line.strip()) == 12
    assert lines.index(promised) < lines.index(next(line for line in lines if line.startswith("Regression of")))
