"""Reduced failures with the same operators, dtypes and error are one."""

from dataclasses import replace

from nnfuzz.ir.edges import edge_keys, is_edge
from nnfuzz.triage.refine import Pattern, pattern_of, refined
from nnfuzz.triage.signature import failures

from .test_signature import failed, outcome, verdict


def graph(*nodes, dtype="float32"):
    """nodes: (op, inputs, output) by names; what nobody computes is an input."""
    names = dict.fromkeys(n for _, inputs, output in nodes for n in (*inputs, output))
    return {
        "values": [[name, dtype, [2]] for name in names],
        "nodes": [
            {"op": op, "attributes": {}, "inputs": list(inputs), "outputs": [output]}
            for op, inputs, output in nodes
        ],
    }


FUSED = graph(("Relu", "x", "h"), ("Conv", "hw", "y"))


def mismatch(made, output="y", kind="value", levels=("O1",)):
    ran = [outcome("O0"), outcome("O1")]
    wrong = {level: [(output, kind)] for level in levels}
    (failure,) = failures(ran, verdict(**wrong), made)
    return refined(failure, made).hash


def test_names_and_the_order_of_independent_nodes_do_not_matter():
    one = graph(("Abs", "a", "b"), ("Exp", "c", "d"), ("Add", "bd", "y"))
    two = graph(("Exp", "q", "r"), ("Abs", "s", "t"), ("Add", "tr", "z"))
    assert pattern_of(one) == pattern_of(two)
    assert mismatch(one) == mismatch(two, "z")


def test_a_mismatch_is_known_by_all_operators_dtypes_edges_and_levels():
    other = [
        graph(("Relu", "x", "h"), ("Conv", "hw", "y"), dtype="float64"),
        graph(("Relu", "x", "h"), ("Conv", "xw", "y")),
        graph(("Conv", "xw", "y")),
    ]
    hashes = {mismatch(made) for made in (FUSED, *other)} | {mismatch(FUSED, levels=("O0", "O1"))}
    assert len(hashes) == 5
    assert mismatch(FUSED, kind="nonfinite") == mismatch(FUSED) != mismatch(FUSED, kind="shape")


def test_an_error_keeps_its_text():
    (one,), (two,) = failures([failed("O0")]), failures([failed("O0", "worse")])
    assert refined(one, FUSED).hash != refined(two, FUSED).hash
    assert refined(one, FUSED).hash == refined(replace(one, levels=("O9",)), FUSED).hash
    assert refined(one, FUSED).title == one.signature.title


def test_a_pattern_reads_well():
    assert str(pattern_of(FUSED)) == "Relu, Conv (float32)"
    assert str(pattern_of(None)) == ""
    assert pattern_of(FUSED).edges == ("Relu->Conv(float32)",)
    long = graph(*[("Abs", f"{i}", f"{i + 1}") for i in range(8)])
    assert str(pattern_of(long)) == "Abs, Abs, Abs, Abs, Abs, Abs and 2 more (float32)"


def test_a_pattern_within_another():
    larger = graph(("Abs", "x", "a"), ("Relu", "a", "h"), ("Conv", "hw", "y"))
    assert pattern_of(FUSED).within(pattern_of(larger))
    other = graph(("Relu", "x", "h"), ("Conv", "hw", "y"), dtype="float64")
    assert pattern_of(FUSED).within(pattern_of(other))
    assert not pattern_of(larger).within(pattern_of(FUSED))
    assert not pattern_of(FUSED).within(Pattern(pattern_of(FUSED).nodes, ()))


def test_edges_are_no_operator_signatures():
    assert edge_keys(FUSED) == ("Relu->Conv(float32)",)
    assert is_edge("Relu->Conv(float32)") and not is_edge("Add(int8)->int8")


def test_one_wrong_pass_is_one_bug_in_whatever_pattern():
    (one,) = failures([failed("O0")])
    other = graph(("Conv", "xw", "y"))
    assert refined(one, FUSED, ["Fuse"]).hash == refined(one, other, ["Fuse"]).hash
    assert refined(one, FUSED, ["Fuse"]).hash != refined(one, FUSED, ["Fold"]).hash
    assert refined(one, FUSED, ["Fuse"]).hash != refined(one, FUSED).hash
