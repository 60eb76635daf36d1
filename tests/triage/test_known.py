"""Files of known failures: hashes, and patterns that reduced findings fit."""

from dataclasses import replace

import pytest

from nnfuzz.ir.view import NO_GRAPH, GraphView
from nnfuzz.triage.keys import KnownError, KnownFailures

TEXT = """
a258b5a34ce8 wrong shape of Range
# a comment

backend=tvm operator=Pow dtype=bfloat16   # the next release has it
"""
GRAPH = GraphView.from_json(
    {
        "values": [["x", "bfloat16", [2]], ["p", "int64", [2]], ["y", "bfloat16", [2]]],
        "nodes": [{"op": "Pow"}, {"op": "Abs"}],
    }
)


def test_hashes_and_patterns_are_read_and_written():
    known = KnownFailures.parse(TEXT.splitlines())
    assert known.hashes == {"a258b5a34ce8"}
    assert KnownFailures.parse(known.lines()) == known
    assert KnownFailures.parse([]) == KnownFailures()


def test_a_pattern_fits_what_has_all_that_it_names():
    known = KnownFailures.parse(TEXT.splitlines())
    assert known.fits(["tvm"], "exception", "compile", GRAPH)
    assert not known.fits(["onnxruntime"], "exception", "compile", GRAPH)
    assert not known.fits(["tvm"], "exception", "compile", replace(GRAPH, values=()))
    assert not known.fits(["tvm"], "exception", "compile", NO_GRAPH)
    errors = KnownFailures.parse(["kind=exception stage=compile"])
    assert errors.fits(["any"], "exception", "compile", NO_GRAPH)


@pytest.mark.parametrize("line", ["a258", "operator:Pow", "op=Pow", "backend=", "Range fails"])
def test_what_cannot_be_read_is_named_with_the_fix(line):
    with pytest.raises(KnownError, match=r"known failures, line 2: .*backend=\.\.\."):
        KnownFailures.parse(["", line])
