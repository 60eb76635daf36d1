"""Bugs that were written by hand are recognised once their models have been run and reduced."""

from dataclasses import replace
from pathlib import Path

import pytest

from nnfuzz.bugs.bug import Bug
from nnfuzz.bugs.ledger import Ledger, bugs_of
from nnfuzz.library.learning import learned, model_of
from nnfuzz.reduction.case import NotReduced
from nnfuzz.triage.keys import Key

PLUGIN = str(Path(__file__).parents[1] / "reduction" / "parts.py")
SCRIPT = '''"""Softplus is refused."""
import sys

import numpy as np

MODEL = """
<ir_version: 8, opset_import: ["" : 16]>
g (float[2] x) => (float[2] y) {
   h = {} (x)
   y = Abs (h)
}
"""
INPUTS = {"x": np.array([1.0, 2.0], "float32")}


def run():
    raise SystemExit(INPUTS)


run()
'''


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "bugs")
    for name, op in (("parts/known", "Softplus"), ("parts/right", "Exp")):
        text = SCRIPT.replace("= {} (", f"= {op} (")
        book.add(
            name,
            Bug(op, "parts", "exception"),
            lambda made, t=text: (made / "repro.py").write_text(t),
        )
    return book


def test_a_bug_of_a_script_is_recognised_by_what_its_model_gives(ledger):
    bugs = ledger.bugs()
    bug = learned(ledger, "parts/known", [PLUGIN])
    keys = Key.parse_all(bug.keys)
    assert any(key.is_decisive for key in keys) and bug.signatures
    assert bugs_of(bugs, [], keys) == []
    bugs["parts/known"] = bug
    assert bugs_of(bugs, [], keys) == ["parts/known"]
    weaker = replace(bug, signatures=("0123456789ab",))
    exact = replace(bugs["parts/right"], signatures=bug.signatures[:1])
    assert bugs_of({"a": weaker, "b": exact}, bug.signatures[:1], keys) == ["b", "a"]


def test_a_model_that_does_well_teaches_nothing(ledger):
    with pytest.raises(NotReduced, match="the model does not fail here"):
        learned(ledger, "parts/right", [PLUGIN])
    ledger.script("parts/right").write_text("import sys\n")
    with pytest.raises(NotReduced, match="no MODEL and INPUTS"):
        model_of(ledger.place("parts/right"))


@pytest.mark.parametrize(
    "written, reason",
    [
        ('{"x": open("made", "w")}', "the script computes open"),
        ('{"x": np.array(open("made", "w"))}', "the script computes open"),
        ('{"x": np.load("made")}', "the script computes np.load"),
        ('{"x": [}', "the script is no Python"),
    ],
)
def test_a_script_of_a_ledger_does_not_run(ledger, monkeypatch, tmp_path, written, reason):
    monkeypatch.chdir(tmp_path)
    script = ledger.script("parts/known")
    text = script.read_text().replace('{"x": np.array([1.0, 2.0], "float32")}', written)
    script.write_text(f'import os\nos.mkdir("made too")\n{text}')
    with pytest.raises(NotReduced, match=reason):
        model_of(ledger.place("parts/known"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bugs"]
