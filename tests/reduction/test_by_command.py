"""A user's model is reduced while a command of theirs exits alike."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

from nnfuzz.base.untrusted import all_nodes
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


CHAIN = " ".join(f"b{i} = {'Erf' if i == 5 else 'Tanh'}(b{i - 1})" for i in range(1, 10))
BODIES = {
    "If": f"""(float[n, 3] a, bool c) => (float[n, 3] y) {{
        x = Sin(a)  z = If(c) <then_branch = t () => (float[n, 3] u) {{
            b0 = Cos(x)  {CHAIN}  u = Exp(b9) }}, else_branch = e () => (float[n, 3] v) {{
            w = Tanh(x)  v = Neg(w) }}>  y = Exp(z) }}""",
    "Loop": f"""(float[n, 3] a, int64 m) => (float[n, 3] y, float[k, n, 3] all) {{
        x = Sin(a)  go = Constant<value = bool {{1}}>()  z, all = Loop(m, go, x)
            <body = t (int64 i, bool c, float[n, 3] s) =>
                (bool d, float[n, 3] u, float[n, 3] row) {{
            d = Identity(c)  b0 = Cos(s)  {CHAIN}  u = Exp(b9)  row = Neg(b9) }}>  y = Exp(z) }}""",
    "Scan": f"""(float[n, 3] a) => (float[3] y, float[n, 3] all) {{
        zero = Constant<value = float[3] {{0, 0, 0}}>()  x = Sin(a)
        y, all = Scan<num_scan_inputs = 1, body = t (float[3] s, float[3] row) =>
            (float[3] u, float[3] v) {{
            b0 = Add(s, row)  {CHAIN}  u = Exp(b9)  v = Neg(b9) }}>(zero, x) }}""",
}
GIVEN = {"a": np.ones((2, 3), np.float32), "c": np.array(True), "m": np.array(2)}


def exits(words, _, __):
    """A command that takes the model, its inputs, and operators that it exits with 7 for."""
    model, given = onnx.load(words[0]), dict(np.load(words[1]))
    ReferenceEvaluator(model).run(None, given)
    kinds = [node.op_type for node in all_nodes(model.graph.node)]
    return SimpleNamespace(returncode=7 * all(kind in kinds for kind in words[2:]))


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("outside", [False, True])
def test_bodies_are_reduced_alone_or_where_they_are(kind, outside, monkeypatch):
    monkeypatch.setattr("nnfuzz.reduction.by_command.run_program", exits)
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> m {BODIES[kind]}')
    given = {v.name: GIVEN[v.name] for v in model.graph.input}
    words = ["{}", INPUTS, "Erf", *([kind, "Sin"] if outside else [])]
    values = {**values_of(model, given), **given}
    done = ModelReduction(model, words, values, 400, lambda *one: None).reduce()
    kinds = [node.op_type for node in all_nodes(done.graph.node)]
    if outside:
        assert {*kinds} >= {"Erf", kind, "Sin"} and len(kinds) <= 5
    else:
        assert kinds == ["Erf"]
