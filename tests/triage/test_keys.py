"""Findings are one if they share a key that names the cause, or two that hint at it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.triage.keys import Key, KeyKind, error_keys, grouped, last_clause, same

GRAPH = {"values": [["x", "float32", [2]]], "nodes": [{"op": "Gather"}]}


def key(text):
    return Key.parse(text)


def test_one_strong_key_or_two_weak_ones_make_two_findings_one():
    assert same([key("pass:Fuse")], [key("pass:Fuse"), key("cause:a")])
    assert not same([key("clause:it is bad")], [key("clause:it is bad")])
    weak = [key("clause:it is bad"), key("location:a.cc")]
    assert same(weak, [*weak, key("cause:b")])
    assert not same(weak, [key("clause:it is good"), key("location:a.cc")])


def test_groups_are_closed_and_named_by_their_first():
    found = grouped(
        {
            1: [key("cause:a")],
            2: [key("cause:b"), key("clause:said"), key("location:f.cc")],
            3: [key("cause:a"), key("clause:said"), key("location:f.cc")],
            4: [key("clause:said"), key("location:g.cc")],
        }
    )
    assert found == {1: 1, 2: 1, 3: 1, 4: 4}


@given(st.lists(st.sets(st.sampled_from("abcd")), max_size=6), st.randoms())
def test_the_order_of_findings_does_not_change_the_groups(drawn, rng):
    named = {i: [key(f"cause:{c}") for c in sorted(texts)] for i, texts in enumerate(drawn)}
    shuffled = list(named.items())
    rng.shuffle(shuffled)

    def groups(findings):
        leaders = grouped(findings)
        return {frozenset(n for n in leaders if leaders[n] == first) for first in leaders.values()}

    assert groups(named) == groups(dict(shuffled))


def test_a_key_is_read_back():
    for kind in KeyKind:
        made = Key(kind, "some: text")
        assert Key.parse(str(made)) == made


@pytest.mark.parametrize(
    ("message", "clause"),
    [
        ("[Pass] END: RNN_N (a, b) HAS THROWN: Unknown activation function for it: x",
         "Unknown activation function for it"),
        ("Failed to set tensor for input", "Failed to set tensor for input"),
        ("'v'", ""),
    ],
)  # fmt: skip
def test_the_last_clause_is_the_innermost_statement(message, clause):
    assert last_clause(message) == clause


def test_dtypes_of_the_model_are_parameters_and_operators_are_not():
    def keys(message, op="Gather", dtype="float32"):
        graph = {"values": [["x", dtype, [2]]], "nodes": [{"op": op}]}
        return error_keys({"message": message, "location": "a.cc"}, graph)

    one = keys("there is no kernel for float32 here")
    assert same(one, keys("there is no kernel for float64 here", dtype="float64"))
    assert not same(keys("cannot lower the node Gather"), keys("cannot lower the node Abs", "Abs"))
