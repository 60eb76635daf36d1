"""Rules are composed, and what does not do well is taken apart to the step that is at fault."""

from __future__ import annotations

from types import SimpleNamespace

import onnx
from onnx import parser

from nnfuzz.rewrite.rewriting import Step, rewritten
from scripts.check.rewrites import BITS, UNSUPPORTED, Bench, Settled, Tally, settled, wanting

MODEL = parser.parse_model(
    '<ir_version: 9, opset_import: ["" : 20]> g (float[2, 3] x) => (float[2, 3] y)'
    "{ r = Relu (x) s = Sigmoid (r) y = Tanh (s) }"
).SerializeToString()
STEPS = tuple(
    Step(name, 3)
    for name in ("identity", "times_one", "negated_twice", "reshape_flat", "clip_open")
)


class Fake(Bench):
    """Does not take what `broken` tells of the operators of a model."""

    def __init__(self, broken):
        self.broken, self.checked = broken, 0

    def check(self, producer, case, model):
        self.checked += 1
        operators = [node.op_type for node in onnx.load_model_from_string(model).graph.node]
        return self.broken(operators) or BITS


def found(broken):
    bench = Fake(broken)
    return list(settled(bench, None, SimpleNamespace(model=MODEL), STEPS)), bench.checked


def test_one_run_is_enough_for_steps_that_do_well():
    assert len(rewritten(MODEL, STEPS)[1]) == len(STEPS)
    assert found(lambda operators: "") == ([Settled(STEPS, BITS)], 1)


def test_the_step_at_fault_is_told_with_what_it_needs_and_the_others_count():
    (first, second), _ = found(lambda ops: "wrong" if "Neg" in ops else "")
    assert [step.rule for step in first.culprit] == ["negated_twice"]
    assert (first.word, len(second.right)) == ("wrong", len(STEPS) - 1)
    (both, _), _ = found(
        lambda ops: UNSUPPORTED if {"Neg", "Mul"} <= {*ops} or {"Neg", "Div"} <= {*ops} else ""
    )
    assert {step.rule for step in both.culprit} == {"times_one", "negated_twice"}


def test_a_case_that_does_not_do_well_by_itself_says_nothing():
    assert found(lambda ops: "wrong")[0] == []


def test_the_turn_is_that_of_the_rule_with_the_fewest_uses_until_it_is_given_up():
    tallies = {"a": Tally(applied=7), "b": Tally(applied=3), "c": Tally(applied=9), "d": Tally()}
    tallies["d"].idle = 1 << 20
    assert wanting(tallies, 9) == ["b", "a"]
