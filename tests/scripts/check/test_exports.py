"""What a test does is distinguished from why it cannot begin."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.bugs.environments import Interpreters
from nnfuzz.bugs.ledger import Ledger
from scripts.check.exports import FAILED, PASSED, Exports, ran, style_of
from tests.bugs.conftest import BUG, scripted


@pytest.mark.parametrize(
    ("text", "did"),
    [
        ("def test_it():\n    assert 0\n", FAILED),
        ("def test_it():\n    import os\n    os.abort()\n", FAILED),
        ("def test_it():\n    pass\n", PASSED),
        ("import no_such_module\ndef test_it():\n    pass\n", "1 error in"),
    ],
)
def test_what_a_test_does(text, did):
    assert ran(text, sys.executable).startswith(did)


def test_a_bug_is_counted(tmp_path):
    book = Ledger(tmp_path / "bugs")
    book.add("numpy/there", replace(BUG, releases={}), scripted("import sys\nsys.exit(1)\n"))
    book.add("numpy/unscripted", BUG)
    exports = Exports(book, Interpreters(BackendRegistry(), print), without=False)
    lines = [line for name, bug in book.bugs().items() for line in exports.examine(name, bug)]
    assert lines == ["numpy/unscripted: no test: numpy/unscripted has no repro.py"]
    counts = exports.counts["numpy"]
    assert (counts["bugs"], counts["exported"], counts["fail with it"]) == (2, 1, 1)


def test_a_system_without_a_style_has_plain_tests():
    assert [style_of(replace(BUG, system=s)) for s in ("tvm", "onnxsim")] == ["tvm", "pytest"]
