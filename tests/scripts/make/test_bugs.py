"""The page of bugs has every bug of the ledger, whose scripts stand alone."""

import re
from dataclasses import replace

from nnfuzz.bugs.bug import BugState, ScriptResult
from nnfuzz.findings.folder import read_finding
from scripts.make.bugs import DOCS, LEDGER, SECTIONS, page
from tests.bugs.conftest import BUG


def test_every_script_is_linked_and_every_bug_is_of_a_section():
    linked = set(re.findall(r"\(bugs/(\S+)/repro\.py\)", page(LEDGER.bugs())))
    scripts = {f.parent.relative_to(LEDGER.folder).as_posix() for f in DOCS.rglob("bugs/*/*/*.py")}
    assert linked == scripts and len(scripts) > 150
    systems = {system for section in SECTIONS for system in section.systems}
    assert {bug.system for bug in LEDGER.bugs().values()} == systems


def test_a_row_has_states_and_releases():
    releases = {"1.31.1": ScriptResult.REPRODUCES, "1.32.0": ScriptResult.RIGHT}
    bug = replace(
        BUG,
        title="Pow: wrong values",
        system="torch",
        state=BugState.FIXED,
        model="Pow of 0",
        found_by="nnfuzz fuzz -b torch",
        releases=releases,
    )
    row = "| Pow: **wrong values** (fixed) | Pow of 0 | 1.31.1; right in 1.32.0 |  |"
    assert row in page({"torch/pow": bug})


def test_the_scripts_stand_alone():
    for script in DOCS.rglob("bugs/*/*/repro.py"):
        finding = script.with_name("finding.json")
        if finding.exists() and read_finding(script.parent).origin.runs_of_one:
            continue  # what several runs of one program show takes nnfuzz
        assert not re.search(r"^\s*(?:from|import) nnfuzz", script.read_text(), re.M), script
