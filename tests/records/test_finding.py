"""What a finding.json holds of where a finding comes from."""

from nnfuzz.records.finding import Origin


def test_an_origin_keeps_the_names_that_are_in_files():
    step = {"release": "1.0", "answer": "fails", "seen": "Add fails"}
    bisection = {"compiler": "toy", "result": "fails in 1.0", "release": "", "steps": [step]}
    written = {"epoch": 3, "right_in": "2.0", "bisection": [bisection]}
    assert Origin.from_json(written).to_json() == written
