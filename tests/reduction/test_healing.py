"""What heals a wrong result tells which operators share its cause, and which do not."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from nnfuzz.findings.causes import cause_of
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.reduction.healing import CONSTANT, OPERANDS, healed, narrowest_cause, shared_key
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.identity import Numbered
from nnfuzz.triage.hypothesis import Hypothesis
from nnfuzz.triage.keys import have_one_cause
from tests.reduction.test_diagnosis import bench, reduced

__all__ = ["bench"]


def case_of(bench, operator, operands, constants=0, **attributes) -> TestCase:
    """A model of one operator of so many operands, the last ones of which are constants."""
    producer, rng = bench[2], np.random.default_rng(1)
    names = [f"x{i}" for i in range(operands)]
    arrays = {n: (rng.random((2, 3)) * 8 - 6).astype(np.float32) for n in names}
    op = producer.registry.get(operator)(**attributes)
    type_ = TensorType(DType.FLOAT32, (2, 3))
    values = {n: Value(n, type_) for n in names}
    values["y"] = Value("y", *op.type_transfer(*[type_] * operands))
    inputs, weights = names[: operands - constants], names[operands - constants :]
    graph = Graph(values, [Node(op, tuple(names), ("y",))], inputs, weights, ["y"])
    given = [{n: arrays[n] for n in part} for part in (inputs, weights)]
    return producer.expose(TestCase(Numbered(0, 0), graph.view(), b"", *given, {}, "direct", 20))


def keyed(bench, case):
    """The keys of the reduced finding of a case, its cause, and the evidence."""
    finding, evidence = reduced(bench, case)
    found = cause_of(finding, bench[0])
    return found.keys, found, evidence


def test_an_attribute_that_only_the_lowering_sets_is_one_cause_of_many_operators(bench):
    wrong = [(name, {"axes": (), "keepdims": 0}) for name in ("ReduceMax", "ReduceSum")]
    found = [keyed(bench, case_of(bench, name, 1, **rest)) for name, rest in wrong]
    assert have_one_cause(*(keys for keys, _, _ in found))
    for (name, _), (_, _, evidence) in zip(wrong, found, strict=True):
        assert [str(h) for h in evidence.explanations] == [f"{name} ignores noop_with_empty_axes"]
        assert evidence.heals == ("noop_with_empty_axes",)


def test_constants_and_operands_are_causes_of_their_own(bench):
    cases = {
        "constant": [case_of(bench, "Sub", 2, 1), case_of(bench, "Div", 2, 1)],
        "operands": [case_of(bench, "Min", 3), case_of(bench, "Mean", 3)],
    }
    found = {name: [keyed(bench, case) for case in listed] for name, listed in cases.items()}
    for name, pair in found.items():
        assert have_one_cause(*(keys for keys, _, _ in pair)), name
        assert all(name in evidence.heals for _, _, evidence in pair)
    assert found["constant"][0][2].explanations == ()  # not that it has the opposite sign
    assert found["constant"][0][1].parts["constant"] and found["operands"][0][1].parts["many"]
    assert not have_one_cause(found["constant"][0][0], found["operands"][0][0])


def test_deaths_without_a_word_in_one_small_family_are_one(bench):
    dead = [keyed(bench, case_of(bench, name, 1))[0] for name in ("HardSwish", "Mish")]
    assert have_one_cause(*dead)
    assert any("SIGSEGV in compile at Gated" in key.text for key in dead[0])


@pytest.mark.parametrize(
    "heals, operator, text",
    [
        (["dilations"], "Conv", "ignores dilations"),
        (["mode"], "Pad", "ignores mode=constant"),
        (["axis"], "Softmax", ""),
        (["is_causal", "softcap"], "Attention", ""),
        ([], "Conv", ""),
        ([OPERANDS], "Max", "a family"),
    ],
)
def test_one_thing_that_heals_is_shared_by_the_operators_that_have_it(heals, operator, text):
    claimed = shared_key(heals, operator, Hypothesis.parse("a family"))
    assert str(claimed or "") == text


def test_of_several_things_that_heal_a_known_cause_chooses():
    both, known = ("strides", "dilations"), [("dilations",), ("constant", "strides"), ()]
    assert narrowest_cause(both, known) == ["dilations"]
    assert narrowest_cause(both, [*known, ("strides",)]) == both
    assert narrowest_cause(("strides",), known) == ("strides",)


def test_different_attributes_of_one_operator_are_different_causes():
    texts = [shared_key([name], "Attention", None) for name in ("is_causal", "softcap")]
    assert all(a != b for a, b in combinations(texts, 2))
    assert str(healed([CONSTANT], "Add")) == "Add is right where no operand is constant"
    assert str(healed(["mode", "axis"], "Pad")) == "Pad is right without mode or axis"
