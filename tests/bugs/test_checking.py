"""Checks of a release: scripts, where they run, what they say, and how states move."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import ReleaseError
from nnfuzz.bugs import checking as scripts
from nnfuzz.bugs.bug import BugState, ScriptResult
from nnfuzz.bugs.checking import (
    BugChange,
    Checked,
    Checker,
    Interpreter,
    Interpreters,
    ScriptRun,
    judged,
    run_script,
)
from tests.backend.releases import ADAPTER
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
        (found,) = checker(ledger, release, 4.0).check_all(ledger.names())
        bug = ledger.bug("numpy/pow")
        assert (bug.last_bad_release, bug.right_release) == ("2.0", release)
        assert bug.releases == found.bug.releases
    assert bug.notes == ("2026-11-23 fixed in 6.0",)


def test_a_regression_names_the_release_that_was_right(ledger):
    ledger.put("numpy/pow", FIXED)
    (found,) = checker(ledger, "5.0", 9.0).check_all(ledger.names())
    assert found.is_regression and "back, was fixed in 3.0 (numpy 5.0)" in found.line


def test_a_look_changes_nothing(ledger):
    before = ledger.bugs()
    (found,) = checker(ledger, "6.0", 4.0, write=False).check_all(ledger.names())
    assert found.bug.right_release == "6.0" and ledger.bugs() == before


def test_duplicates_and_absent_compilers_are_passed_over(ledger):
    ledger.add("numpy/other", replace(BUG, state=BugState.DUPLICATE, duplicate_of="numpy/pow"))
    absent = replace(checker(ledger, "6.0", 4.0), choose=lambda bug: Interpreter("", ""))
    (found,) = absent.check_all(ledger.names())
    assert (found.change, found.message) == ("cannot run here", "numpy is not installed")


def broken(file):
    file.write_text("title = [")


def unknown_state(file):
    file.write_text(file.read_text().replace("state = ", "state = 'mine' #"))


def linked(file):
    file.rename(file.with_name("elsewhere.toml"))
    file.symlink_to("elsewhere.toml")


def piped(file):
    file.unlink()
    os.mkfifo(file)


def no_utf_8(file):
    file.parent.rename(os.fsdecode(os.fsencode(file.parent) + b"\xff"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (broken, "is no TOML"),
        (unknown_state, "state"),
        (linked, "is a link"),
        (piped, "is no regular file"),
        (no_utf_8, "rename the folder"),
    ],
)
def test_a_bug_that_cannot_be_read_costs_itself_alone(ledger, damage, message):
    ledger.add("numpy/odd", BUG)
    damage(ledger.place("numpy/odd") / "bug.toml")
    named = checker(ledger, "5.0", 9.0, write=False)
    for names in (ledger.chosen([]), ledger.chosen(["numpy"])):
        odd, fine = named.check_all(names)
        assert odd.change == "cannot run here" and message in odd.message
        assert fine.name == "numpy/pow" and fine.change == "still there"
        assert odd.line.encode() and odd.row.test.encode()


def test_a_release_that_cannot_be_installed_ends_no_check(ledger):
    def refuse(bug):
        raise ReleaseError("no wheel\nfor this Python")

    (found,) = replace(checker(ledger, "6.0", 4.0), choose=refuse).check_all(ledger.names())
    assert (found.change, found.message) == ("cannot run here", "no wheel for this Python")


def test_results_are_rows():
    back = Checked("numpy/pow", "3.1", BugChange.BACK, "wrong", FIXED, 1.5, "3.0")
    still = Checked("numpy/add", "3.1", BugChange.STILL, "wrong", BUG)
    assert [c.row.status for c in (back, still)] == ["failed", "known"]
    assert (back.row.test, back.row.backend, back.row.level) == ("numpy/pow", "numpy", "3.1")


OBSERVED = "It should run. Seen at O0, stage import: E: axis 3 of 2 is out of range\\n"
ENDS = {
    "reproduces": "print('O3: wrong'); raise SystemExit(1)",
    "dies": "import os, signal; os.kill(os.getpid(), signal.SIGABRT)",
    "right": "print('O3: right')",
    "says": f"print('{OBSERVED}O0: E: axis 1 of 2 is out of range'); raise SystemExit(1)",
    "rephrases": f"print('{OBSERVED}O0: E: axis 1 is out of range'); raise SystemExit(125)",
    "refuses": f"print('{OBSERVED}O0: E: opset 26 is not known'); raise SystemExit(1)",
    "is another": f"print('{OBSERVED}O0: FileNotFoundError: no x.so'); raise SystemExit(125)",
    "fails": "raise ValueError('no such attribute')",
    "lacks": "import no_such_compiler",
    "hangs": "import time; time.sleep(60)",
    "cannot": "print('O0: cannot run: ImportError: x'); raise SystemExit(125)",
    "raises": "print('O0: cannot run: Fail: opset 26'); raise SystemExit(125)",
}
RESULTS = {
    "reproduces": "reproduces",
    "dies": "reproduces",
    "right": "right",
    "says": "reproduces",
    "rephrases": "reproduces",
    "refuses": "fails otherwise",
    "is another": "fails otherwise",
    "fails": "fails otherwise",
    "lacks": "cannot run here",
    "hangs": "fails otherwise",
    "cannot": "cannot run here",
    "raises": "fails otherwise",
}


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_a_script_says_what_became_of_the_bug(name, tmp_path):
    script = tmp_path / "repro.py"
    script.write_text(ENDS[name])
    run = run_script(script, seconds=3)
    assert run.result == RESULTS[name], run.message


def test_other_words_count_in_the_release_of_the_bug(tmp_path):
    script = tmp_path / "repro.py"
    script.write_text(ENDS["refuses"])
    assert run_script(script, same_release=True).result is ScriptResult.REPRODUCES


TOY = replace(BUG, system="toyrel")


@pytest.fixture
def made(monkeypatch):
    """The packages of the environments that are asked for; there is no release 3.0."""
    asked = []

    def environment_of(package, release, packages, modules, note):
        asked.append(packages)
        if release == "3.0":
            raise ReleaseError(f"{package} {release} cannot be installed")
        return SimpleNamespace(python=sys.executable)

    monkeypatch.setattr(scripts, "environment_of", environment_of)
    return asked


@pytest.fixture
def interpreters(made):
    return Interpreters(BackendRegistry.discover([ADAPTER]), lambda line: None)


def test_what_is_installed_has_its_release(interpreters):
    assert interpreters.of_python(sys.executable, BUG) == Interpreter(
        sys.executable, np.__version__
    )
    assert (
        interpreters.of_python(sys.executable, replace(BUG, system="no-such-compiler")).release
        == ""
    )
    assert (
        interpreters.of_python(sys.executable, replace(TOY, package="numpy")).release
        == np.__version__
    )
    assert interpreters.of_release(np.__version__, BUG) == Interpreter(
        sys.executable, np.__version__
    )
    assert interpreters.of_python(sys.executable, BUG).release == np.__version__
    with pytest.raises(ReleaseError, match="cannot be run"):
        interpreters.of_python("/no/python", BUG)


def test_a_release_runs_in_an_environment(interpreters, made):
    assert interpreters.of_release("1.0", TOY) == Interpreter(sys.executable, "1.0")
    assert made[0][0] == "toyrel==1.0"


def test_what_cannot_be_installed_is_tried_once(interpreters, made):
    for _ in range(2):
        with pytest.raises(ReleaseError, match=r"toyrel 3\.0 cannot be installed"):
            interpreters.of_release("3.0", TOY)
    assert len(made) == 1
