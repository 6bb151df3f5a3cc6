"""What a report says as text: a simulation first, a verdict before the guarantee, and no character that acts."""

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
        noise_plots={},
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
