"""A check moves states: fixed in a release, back in another one, flaky, or fails otherwise."""

from dataclasses import replace

import pytest

from nnfuzz.backend.releases import ReleaseError
from nnfuzz.bugs.bug import BugState, ScriptResult
from nnfuzz.bugs.checking import BugChange, Checked, Checker, Interpreter, ScriptRun, judged
from tests.bugs.conftest import BUG, TODAY

RUN = {result.name: ScriptRun(result, "says") for result in ScriptResult}
FIXED = replace(BUG, state=BugState.FIXED, right_release="3.0")


@pytest.mark.parametrize(
    "bug, release, results, change, state",
    [
        (BUG, "2.0", "REPRODUCES", "still there", "new"),
        (BUG, "3.0", "RIGHT", "fixed", "fixed"),
        (BUG, "0.5", "RIGHT", "not there", "new"),
        (BUG, "2.0", "RIGHT", "does not reproduce where it did", "new"),
        (BUG, "3.0", "RIGHT REPRODUCES", "reproduces now and then", "flaky"),
        (BUG, "3.0", "OTHERWISE", "fails otherwise", "new"),
        (BUG, "3.0", "CANNOT_RUN", "cannot run here", "new"),
        (FIXED, "3.1", "REPRODUCES", "back", "confirmed"),
        (FIXED, "3.0", "REPRODUCES", "back", "confirmed"),
        (FIXED, "2.5", "REPRODUCES", "there, and fixed later", "fixed"),
        (FIXED, "4.0", "RIGHT", "not there", "fixed"),
        (replace(BUG, state=BugState.WONTFIX), "3.0", "RIGHT", "fixed", "fixed"),
        (replace(BUG, state=BugState.FLAKY), "2.0", "REPRODUCES", "still there", "flaky"),
        (replace(BUG, state=BugState.FLAKY), "2.0", "RIGHT", "not there", "flaky"),
        (replace(BUG, state=BugState.FLAKY), "3.0", "RIGHT", "not there", "flaky"),
    ],
)
def test_results_move_states(bug, release, results, change, state):
    found, now = judged(bug, release, [RUN[name] for name in results.split()], TODAY)
    assert (found, now.state) == (change, state)
    assert (len(now.notes) == len(bug.notes)) == (now.state == bug.state)


def test_releases_follow_what_was_run():
    _, fixed = judged(BUG, "4.0", [RUN["RIGHT"]], TODAY)
    assert (fixed.last_bad_release, fixed.right_release) == ("2.0", "4.0")
    _, earlier = judged(fixed, "3.0", [RUN["RIGHT"]], TODAY)
    assert earlier.right_release == "3.0" and earlier.releases["4.0"] == "right"
    _, back = judged(earlier, "5.0", [RUN["REPRODUCES"]], TODAY)
    assert (back.last_bad_release, back.right_release) == ("5.0", "")
    assert back.notes[-1] == "2026-11-23 back in 5.0, was fixed in 3.0"


def checker(ledger, release, right_from, **more):
    """A checker of a compiler whose releases are right from one on."""

    def run(script, python, same_release):
        right = float(python) >= right_from
        return RUN["RIGHT" if right else "REPRODUCES"]

    def choose(bug):
        return Interpreter(release, release)

    return Checker(ledger, choose, print, TODAY, run=run, **more)


def test_a_release_between_is_the_first_right_one(ledger):
    for release in ("6.0", "4.0"):
        (found,) = checker(ledger, release, 4.0).check_all(ledger.bugs())
        bug = ledger.bug("numpy/pow")
        assert (bug.last_bad_release, bug.right_release) == ("2.0", release)
        assert bug.releases == found.bug.releases
    assert bug.notes == ("2026-11-23 fixed in 6.0",)


def test_a_regression_names_the_release_that_was_right(ledger):
    ledger.put("numpy/pow", FIXED)
    (found,) = checker(ledger, "5.0", 9.0).check_all(ledger.bugs())
    assert found.is_regression and "back, was fixed in 3.0 (numpy 5.0)" in found.line


def test_a_look_changes_nothing(ledger):
    before = ledger.bugs()
    (found,) = checker(ledger, "6.0", 4.0, write=False).check_all(before)
    assert found.bug.right_release == "6.0" and ledger.bugs() == before


def test_duplicates_and_absent_compilers_are_passed_over(ledger):
    ledger.add("numpy/other", replace(BUG, state=BugState.DUPLICATE, duplicate_of="numpy/pow"))
    absent = replace(checker(ledger, "6.0", 4.0), choose=lambda bug: Interpreter("", ""))
    (found,) = absent.check_all(ledger.bugs())
    assert (found.change, found.message) == ("cannot run here", "numpy is not installed")


def test_a_release_that_cannot_be_installed_ends_no_check(ledger):
    def refuse(bug):
        raise ReleaseError("no wheel\nfor this Python")

    (found,) = replace(checker(ledger, "6.0", 4.0), choose=refuse).check_all(ledger.bugs())
    assert (found.change, found.message) == ("cannot run here", "no wheel for this Python")


def test_results_are_rows():
    back = Checked("numpy/pow", "3.1", BugChange.BACK, "wrong", FIXED, 1.5, "3.0")
    still = Checked("numpy/add", "3.1", BugChange.STILL, "wrong", BUG)
    assert [c.row.status for c in (back, still)] == ["failed", "known"]
    assert (back.row.test, back.row.backend, back.row.level) == ("numpy/pow", "numpy", "3.1")
