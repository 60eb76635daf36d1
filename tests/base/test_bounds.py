"""Models that would take too much are refused before they do."""

from __future__ import annotations

import time

import pytest

from nnfuzz.base.bounds import Unusable, blaming, check_bounds, check_sense
from tests.attacks import bombs
from tests.attacks.test_bombs import MANY, one_line
from tests.command import nnfuzz


@pytest.mark.parametrize("name", ["doubling", "doubling_in_bodies", "recursion"])
def test_functions_are_counted_before_anything_walks_them(name):
    check_bounds(bombs.doubling(12))
    began = time.process_time()
    with pytest.raises(Unusable, match=r"too large|calls itself"):
        check_bounds(bombs.BOMBS[name](MANY))
    assert time.process_time() - began < 1


@pytest.mark.parametrize("name", ["circle", "conflicting"])
def test_a_model_without_sense_is_not_rewritten(name, tmp_path):
    with pytest.raises(Unusable, match="makes no sense"):
        check_sense(bombs.BOMBS[name](2))
    check_sense(bombs.nested(3))
    (tmp_path / "m.onnx").write_bytes(bombs.BOMBS[name](2).SerializeToString())
    done = nnfuzz("rewrite", tmp_path / "m.onnx", "--out", tmp_path / "out")
    assert "makes no sense" in one_line(done)


def test_an_exception_is_the_fault_of_a_model_that_is_not_valid():
    valid, other = bombs.model([bombs.node("Neg", "x")]), bombs.mistyped(3)
    with pytest.raises(Unusable, match="is not valid"), blaming(other):
        raise KeyError("anything")
    with pytest.raises(KeyError, match="anything"), blaming(valid):
        raise KeyError("anything")
    with pytest.raises(ZeroDivisionError), blaming(other, known=ZeroDivisionError):
        raise ZeroDivisionError
