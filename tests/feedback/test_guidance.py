"""What guidance makes of tests: a function of them, within limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnfuzz.feedback.guidance import KEPT, LEAST, MOST, CoverageObservation, Guidance, NoFeedback
from nnfuzz.generate.emphasis import NO_EMPHASIS, Emphasis, KeptCase
from nnfuzz.ir.features import Features, NodeFeatures, features
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.ir.view import GraphView, NodeView, ValueView


def graph(op, dtype="float32", size=4):
    values = ValueView("x", dtype, (size,)), ValueView("y", dtype, (size,))
    return GraphView(values, (NodeView(op, ("x",), ("y",)),), ("x",), (), ("y",))


def test(index, op, passes=None, dtype="float32", size=4, motifs=(), mutated=False):
    view = graph(op, dtype, size)
    told = None if passes is None else {"toy": tuple(f"{name}({op})" for name in passes)}
    kept = KeptCase(index, "direct", view) if passes else None
    return CoverageObservation(
        index, features(view), motifs, told, "direct", mutated, kept, (f"{op}({dtype})",)
    )


test.__test__ = False


def learnt(*epochs):
    guidance = Guidance()
    for tests in epochs:
        guidance.observe(tests)
    return guidance


def test_nothing_is_known_before_the_first_test():
    assert Guidance().emphasis() == NO_EMPHASIS == NoFeedback().emphasis()


def test_an_operator_with_new_vertices_is_worth_more():
    same = [test(i, "Relu") for i in range(40)]
    new = [test(i + 40, "Conv", size=i + 1) for i in range(40)]
    weights = learnt(same, new).emphasis().operators
    assert weights["Conv"] > 1.2 > 0.8 > weights["Relu"]


def test_a_rare_pass_is_worth_more_than_one_that_every_model_meets():
    tests = [
        test(i, f"Op{i % 20}", ["always"] + ["rare"] * (i % 20 == 7), size=i + 1)
        for i in range(200)
    ]
    guidance = learnt(tests[:100], tests[100:])
    weights = guidance.emphasis().operators
    assert max(weights, key=weights.__getitem__) == "Op7"
    assert guidance.emphasis().kept[0].graph.nodes[0].op == "Op7"


def test_dtypes_motifs_and_ways_are_arms_as_well():
    tests = [
        test(i, f"Op{i % 30}", ["rare"] * (i % 3 == 0), ("int8", "float32", "bool")[i % 3], i + 1,
             (("fused~",), ("other",), ())[i % 3], i % 3 == 0)
        for i in range(90)
    ]  # fmt: skip
    emphasis = learnt(tests).emphasis()
    assert emphasis.dtypes["int8"] > 1 > emphasis.dtypes["bool"]
    assert emphasis.motifs["fused"] > 1 > emphasis.motifs["other"]
    assert emphasis.mutated > 0.3


def test_factors_stay_within_their_limits():
    tests = [test(i, f"Op{i % 9}", ["rare"] * (i % 9 == 0), size=i + 1) for i in range(900)]
    emphasis = learnt(tests, tests, tests).emphasis()
    factors = [*emphasis.operators.values(), *emphasis.dtypes.values()]
    assert factors and all(LEAST <= factor <= MOST for factor in factors)
    assert len(emphasis.kept) <= KEPT


def test_what_is_refused_is_not_kept():
    guidance = learnt([test(i, f"Op{i}", ["rare"] * (i < 4)) for i in range(20)])
    assert {case.index for case in guidance.emphasis().kept} == {0, 1, 2, 3}
    kept = guidance.emphasis([SupportKey.parse("direct:Op2(float32)")]).kept
    assert {case.index for case in kept} == {0, 1, 3} and guidance.keeps == {0, 1, 2, 3}


def test_the_same_tests_give_the_same_emphasis():
    epochs = [[test(i + e * 50, f"Op{i % 7}", ["p"] * (i % 5 == e)) for i in range(50)]
              for e in range(3)]  # fmt: skip
    assert learnt(*epochs).emphasis() == learnt(*epochs).emphasis()


def test_a_test_case_depends_on_kept_graphs_only_if_it_mutates_one():
    whole = Emphasis({"Add": 2.0}, mutated=0.5, kept=(KeptCase(3, "direct", graph("Abs")),))
    mutating = [whole.mutates(7, index) for index in range(40)]
    assert 10 < sum(mutating) < 30
    for index, mutates in enumerate(mutating):
        assert whole.of(7, index) == (whole if mutates else replace(whole, kept=(), mutated=0.0))
    assert whole.of(7, None) == NO_EMPHASIS


@pytest.mark.parametrize("digest", ["00000000", "ffffffff"])
def test_any_digest_has_a_place(digest):
    guidance = learnt(
        [CoverageObservation(0, Features((NodeFeatures("Add", "int8", digest),), ()))]
    )
    assert guidance.emphasis() == NO_EMPHASIS
