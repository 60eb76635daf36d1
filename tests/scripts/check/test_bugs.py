"""What is said of the scripts of docs/bugs, with scripts that end in every way."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from scripts.check import bugs

ROOT = Path(__file__).parents[3]
SEEN = "It should run. Seen at O0, stage import: E: axis 3 of 2 is out of range\\n"
ENDS = {
    "reproduces": "print('O3: wrong'); raise SystemExit(1)",
    "dies": "import os, signal; os.kill(os.getpid(), signal.SIGABRT)",
    "fixed": "print('O3: right')",
    "says": f"print('{SEEN}O0: E: axis 1 of 2 is out of range'); raise SystemExit(1)",
    "refuses": f"print('{SEEN}O0: E: opset 26 is not known'); raise SystemExit(1)",
    "fails": "raise ValueError('no such attribute')",
    "lacks": "import no_such_compiler",
    "hangs": "import time; time.sleep(60)",
}
STATES = {
    "reproduces": "reproduces",
    "dies": "reproduces",
    "fixed": "fixed",
    "says": "reproduces",
    "refuses": "fails otherwise",
    "fails": "fails otherwise",
    "lacks": "cannot run here",
    "hangs": "fails otherwise",
}


@pytest.fixture
def found(tmp_path, monkeypatch):
    for name, code in ENDS.items():
        folder = tmp_path / "numpy" / name
        folder.mkdir(parents=True)
        needs = '"""A title\n\nNeeds numpy 2.0-rc1, onnx, numpy; no other file.\n"""\n'
        (folder / "repro.py").write_text(needs + code)
    monkeypatch.setattr(bugs, "BUGS", tmp_path)
    monkeypatch.setattr(bugs, "SECONDS", 2)
    return {bug.name.partition("/")[2]: bug for bug in bugs.bugs([])}


@pytest.mark.parametrize("name", ENDS)
def test_the_end_of_a_script_says_what_became_of_the_bug(found, name):
    state, told = bugs.check(found[name], elsewhere=True)
    assert state == STATES[name], told


def test_bugs_are_chosen_by_system_and_name(found):
    assert [bug.name for bug in bugs.bugs(["numpy/dies"])] == ["numpy/dies"]
    assert len(list(bugs.bugs(["numpy"]))) == len(ENDS)
    assert not list(bugs.bugs(["num"]))
    assert {(bug.system, bug.found_in) for bug in found.values()} == {("numpy", "2.0")}


def test_the_page_and_the_folders_name_the_same_bugs():
    page = (ROOT / "docs" / "BUGS.md").read_text()
    linked = set(re.findall(r"\(bugs/(\S+)/repro\.py\)", page))
    assert linked == {bug.name for bug in bugs.bugs([])}


def test_a_bug_runs_where_its_system_is():
    assert bugs.place_of("numpy", "") == (sys.executable, np.__version__)
    assert bugs.place_of("no-such-compiler", "") == (sys.executable, "")
    ort = pytest.importorskip("onnxruntime").__version__
    assert bugs.place_of("onnxruntime", ort) == (sys.executable, ort)


def test_the_scripts_stand_alone():
    for bug in bugs.bugs([]):
        assert not re.search(r"^\s*(?:from|import) nnfuzz", bug.script.read_text(), re.M), bug.name
