"""A user's model is reduced while a command of theirs exits alike."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from onnx import parser

from nnfuzz.reduction.by_command import INPUTS, ModelReduction
from nnfuzz.reduction.case import NotReduced
from nnfuzz.testcase.extraction import values_of
from tests.command import nnfuzz

STEPS = "".join(f" a{i} = Tanh(a{i - 1})  b{i} = Add(a{i}, w)" for i in range(1, 40))
MODEL = (
    '<ir_version: 8, opset_import: ["" : 17]> m (float[n, 3] a0) => (float[n, 3] y, float[n, 3] z)'
    f"<float[3] w = {{1, 2, 3}}> {{ {STEPS} e = Erf(b17)  y = Mul(e, a20)  z = Add(y, a39) }}"
)
GREP = "grep -qa Erf $0 && grep -qa Mul $0 && exit 7; exit 0"


def reduced(words, values=None, budget=800):
    adopted = []
    own = ModelReduction(
        parser.parse_model(MODEL), words, values or {}, budget, lambda *one: adopted.append(one)
    )
    return own.reduce(), own.runs, adopted


def test_groups_of_nodes_go_first_and_what_they_computed_becomes_an_input():
    model, runs, _ = reduced(["bash", "-c", GREP, "{}"])
    assert [node.op_type for node in model.graph.node] == ["Erf", "Mul"] and runs < 40
    assert {value.name for value in model.graph.input} == {"b17", "a20"}
    assert [value.name for value in model.graph.output] == ["y"] and not model.graph.initializer
    onnx.checker.check_model(model, full_check=True)


def test_inputs_fit_the_model_and_the_budget_holds():
    values = values_of(parser.parse_model(MODEL), {"a0": np.ones((2, 3), np.float32)})
    script = (
        "import sys, numpy, onnx; model = onnx.load(sys.argv[1]); given = numpy.load(sys.argv[2])\n"
        "assert {v.name for v in model.graph.input} == {*given}, given\n"
        "sys.exit(7 * any(node.op_type == 'Erf' for node in model.graph.node))"
    )
    model, runs, adopted = reduced([sys.executable, "-c", script, "{}", INPUTS], values, 12)
    assert 1 <= len(model.graph.node) < 80 and runs == 12
    assert all(np.array_equal(own, values[name]) for name, own in adopted[-1][1].items())


def test_a_command_that_is_content_or_hangs_with_a_part_or_is_not_there(monkeypatch):
    with pytest.raises(NotReduced, match="exits with 0"):
        reduced(["true"])
    with pytest.raises(OSError):
        reduced(["/nowhere/to/be/found"])
    monkeypatch.setattr("nnfuzz.reduction.by_command.LEAST", 0.2)
    monkeypatch.setattr("nnfuzz.reduction.by_command.PATIENCE", 0)
    model, _, _ = reduced(["bash", "-c", "grep -qa 'a39' $0 && exit 7; sleep 60"], budget=4)
    assert any("a39" in node.input for node in model.graph.node)


def test_at_the_command_line(tmp_path):
    file = tmp_path / "mine.onnx"
    onnx.save(parser.parse_model(MODEL), file)
    done = nnfuzz("reduce", file, "--", "bash", "-c", GREP, "{}")
    assert done.returncode == 1 and "81 -> 2 nodes" in done.stdout, done.stderr
    assert len(onnx.load(tmp_path / "mine-reduced.onnx").graph.node) == 2
    done = nnfuzz("reduce", file)
    assert done.returncode == 2 and "add a command that fails with it" in done.stderr
    assert nnfuzz("reduce", file, "--", "true").returncode == 2
