"""Results for other tools: a regression fails, everything else passes or is skipped."""

import json

from nnfuzz.bugs.bug import BugState
from nnfuzz.bugs.checking import BugChange, Checked
from nnfuzz.bugs.results import bugs_json, counts, results_json, rows
from nnfuzz.corpus.junit import junit_xml
from nnfuzz.corpus.markdown import results_page
from tests.bugs.conftest import BUG

CHECKED = [Checked(f"numpy/{c.name}", "numpy", "2.0", c, "says", BUG, 1.0) for c in BugChange]


def test_only_a_regression_fails():
    failed = [row.test for row in rows(CHECKED) if row.status in ("failed", "error")]
    assert failed == ["numpy/BACK"]
    assert b'failures="1" errors="0"' in junit_xml(rows(CHECKED), "bugs")
    assert "numpy/BACK" in results_page(rows(CHECKED), "Bugs")


def test_everything_has_a_form_in_json():
    found = json.loads(json.dumps(results_json(CHECKED)))
    assert found["regressions"] == ["numpy/BACK"] and len(found["results"]) == len(BugChange)
    assert {"numpy/FIXED", "numpy/OTHERWISE"} < {*found["news"]}
    assert found["counts"] == counts(CHECKED) == {change.value: 1 for change in BugChange}
    (bug,) = bugs_json({"numpy/pow": BUG})["bugs"].values()
    assert bug["state"] == BugState.NEW and bug["releases"] == {"2.0": "reproduces"}
