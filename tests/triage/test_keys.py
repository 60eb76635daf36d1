"""Findings are one if they share a key that names the cause, or two that hint at it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.ir.view import GraphView, NodeView, ValueView
from nnfuzz.triage.keys import (
    Key,
    boilerplate,
    error_keys,
    grouped,
    have_one_cause,
    is_known_cause,
    last_clause,
    unread_keys,
    wording,
)
from nnfuzz.triage.pattern import general_message
from nnfuzz.triage.signature import Failure, Signature


def key(text):
    return Key.parse(text)


def test_one_strong_key_or_two_weak_ones_make_two_findings_one():
    assert have_one_cause([key("frame:fuse")], [key("frame:fuse"), key("cause:a")])
    weak = [key("clause:it is bad"), key("line:a.cc:7")]
    assert have_one_cause(weak, [*weak, key("cause:b")])
    assert not have_one_cause(weak, [key("clause:it is good"), key("line:a.cc:7")])
    file = [key("clause:it is bad"), key("location:a.cc")]
    assert not have_one_cause(file, file)


def test_operators_with_one_habit_are_one_finding_each_known_by_itself():
    habit = key("habit:toy ignores NaN")
    erf, reduce = [habit, key("cause:a")], [habit, key("cause:b")]
    assert set(grouped({"1": erf, "2": reduce}).values()) == {"1"}
    assert not is_known_cause(erf, reduce)
    assert is_known_cause(erf, [habit, key("cause:a")])


def test_hints_of_two_places_make_no_known_cause():
    """Where one place of a compiler raises all of its errors in the same words."""
    wrapper = [key("clause:conversion is failed for it"), key("line:api.py:599")]
    sigmoid, gelu = ([*wrapper, key(f"location:{name}.cpp")] for name in ("sigmoid", "gelu"))
    assert have_one_cause(sigmoid, gelu) and not is_known_cause(sigmoid, gelu)
    assert is_known_cause(sigmoid, wrapper) and is_known_cause(sigmoid, sigmoid)
    assert is_known_cause([*sigmoid, key("cause:a")], [*gelu, key("cause:a")])


def test_the_same_words_count_once():
    words = [key("clause:it was unwrapped while it was none"), key("said:it was unwrapped")]
    assert not have_one_cause(words, words)
    assert have_one_cause([*words, key("line:a.rs:1")], [*words, key("line:a.rs:1")])


def test_groups_are_closed_and_named_by_their_first():
    found = grouped(
        {
            1: [key("cause:a")],
            2: [key("cause:b"), key("clause:said"), key("line:f.cc:1")],
            3: [key("cause:a"), key("clause:said"), key("line:f.cc:1")],
            4: [key("clause:said"), key("line:g.cc:1")],
        }
    )
    assert found == {1: 1, 2: 1, 3: 1, 4: 4}


def test_what_a_compiler_puts_under_most_of_its_errors_is_no_hint():
    common = [key("clause:toy that did not work at all"), key("line:toy report.cc:1")]
    many = {n: [*common, key(f"clause:toy cause number {n}"), key(f"cause:{n}")] for n in "abcdef"}
    assert grouped(many) == {n: n for n in many}
    few = {n: many[n] for n in "abc"}
    assert set(grouped(few).values()) == {"a"}


def test_boilerplate_is_a_share_of_findings_and_not_of_keys():
    common = key("clause:toy while it was doing its best")
    many = {
        n: [common, *(key(f"clause:toy cause {n} number {i}") for i in range(5)), key(f"cause:{n}")]
        for n in "abcdef"
    }
    assert boilerplate(many.values()) == {common}
    assert boilerplate([*many.values(), *([key(f"clause:toy {c}")] for c in "abcdefg")]) == set()


def crash(caller, frame="rt::die", op="Elu"):
    frames = ["main.py:run", f"ns::{caller}", frame]
    return keys("", op, signal="SIGABRT", location="", frames=frames)


def test_a_frame_in_most_crashes_that_many_call_is_of_a_runtime_and_no_place():
    named = {"1": "Abs", "2": "Abs", "3": "Elu", "4": "Exp", "5": "Log"}
    found = {
        n: {*crash(f"lower_{op}", op=f"{op}{n}"), key(f"cause:{n}")} for n, op in named.items()
    }
    assert grouped(found) == {"1": "1", "2": "1", "3": "3", "4": "4", "5": "5"}


def test_a_frame_in_most_crashes_with_one_caller_is_a_place():
    found = {n: {*crash("run", "ns::kernel", f"Op{n}"), key(f"cause:{n}")} for n in "12345"}
    assert set(grouped(found).values()) == {"1"}


@given(st.lists(st.sets(st.sampled_from("abcd")), max_size=6), st.randoms())
def test_the_order_of_findings_does_not_change_the_groups(drawn, rng):
    named = {i: [key(f"cause:{c}") for c in sorted(texts)] for i, texts in enumerate(drawn)}
    shuffled = list(named.items())
    rng.shuffle(shuffled)

    def groups(findings):
        leaders = grouped(findings)
        return {frozenset(n for n in leaders if leaders[n] == first) for first in leaders.values()}

    assert groups(named) == groups(dict(shuffled))


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


def keys(message, op="Gather", line="", said="", **parts):
    made = {"message": message, "location": "a.cc", **parts}
    targets = (Target("toy"),)
    failure = Failure(Signature("h", "", made), OutcomeKind.EXCEPTION, Stage.COMPILE, targets)
    return error_keys(failure, {"message": said or message}, [op], line)


def test_dtypes_of_the_model_are_parameters_and_operators_are_not():
    one = keys("there is no kernel for float32 here")
    assert have_one_cause(one, keys("there is no kernel for float64 here"))
    assert not have_one_cause(
        keys("cannot lower the node Gather"), keys("cannot lower the node Abs", "Abs")
    )


def test_what_a_message_says_of_shapes_and_values_is_no_part_of_its_words():
    one = keys("expected dim and value, got ,I64 N and <shape>,I64")
    assert have_one_cause(one, keys("expected dim and value, got ,F32 and <shape>,F32"))
    assert not have_one_cause(one, keys("expected dim and value, found ,F32 and <shape>,F32"))


def test_one_line_of_the_compiler_that_says_the_same_is_one_cause():
    one = keys("'Elu'", "Elu", line="lower.py:12", said="'<operator>'")
    assert have_one_cause(one, keys("'Celu'", "Celu", line="lower.py:12", said="'<operator>'"))
    assert not have_one_cause(one, keys("'Celu'", "Celu", line="lower.py:99", said="'<operator>'"))
    assert have_one_cause(one, keys("another text", "Elu", line="lower.py:12"))


def test_a_crash_is_known_by_its_innermost_native_function():
    one = keys("", "Elu", signal="SIGSEGV", frames=["a", "ns::run", "ns::kernel"])
    assert have_one_cause(one, keys("", "Abs", signal="SIGSEGV", frames=["b", "ns::kernel"]))
    assert not have_one_cause(one, keys("", "Abs", signal="SIGABRT", frames=["b", "ns::kernel"]))


def unread(*operators, stage=Stage.IMPORT, about="shape"):
    """For operators in a row, of which the first one reads an input."""
    names = [f"v{i}" for i in range(len(operators) + 1)]
    values = tuple(ValueView(name, "float32", (2,)) for name in names)
    steps = zip(operators, names, names[1:], strict=False)
    graph = GraphView(values, tuple(NodeView(op, (x,), (y,)) for op, x, y in steps))
    failure = Failure(Signature("h", "", {}), OutcomeKind.EXCEPTION, stage, (Target("toy"),))
    return unread_keys(failure, {"result": about, "of": [operators[-2]]}, graph)


def test_whatever_an_importer_misses_of_a_result_it_is_one_cause():
    one = unread("ConcatFromSequence", "ArgMax")
    assert have_one_cause(one, unread("ConcatFromSequence", "QuantizeLinear", about="dtype"))
    assert have_one_cause(
        one, unread("ConcatFromSequence", "Loop", "ReduceMax", "DequantizeLinear")
    )
    assert not have_one_cause(one, unread("Loop", "ArgMax"))
    assert unread("ConcatFromSequence", "ArgMax", stage=Stage.COMPILE) == set()
    assert unread("ConcatFromSequence", "ArgMax", about=None) == set()


def test_truth_values_make_no_other_clause():
    texts = (f"input N is not as planned (got Bool {value})" for value in ("true", "false"))
    plain = (general_message(last_clause(text), ["bool"], ()) for text in texts)
    assert len(set(map(wording, plain))) == 1


def test_names_that_a_model_numbers_are_no_words():
    refused = [f"Node {name}_N cannot handle ShapeExpr inputs." for name in ("Pad", "Add")]
    assert {wording(text) for text in refused} == {"Node cannot handle ShapeExpr inputs"}
