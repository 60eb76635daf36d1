"""Reducing test cases whose model has a symbolic dimension."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from nnfuzz.ir.sizes import copies, operators
from nnfuzz.materialize.dynamic import SizeError, emit_dynamic
from nnfuzz.materialize.opsets import DYNAMIC
from nnfuzz.reduction.passes import FIXING, PASSES, applied, proposed
from nnfuzz.reduction.sizes import at_each_size, edited
from nnfuzz.reduction.subject import Inapplicable, Subject
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer

NAMES = ("Add", "Mul", "Relu", "MatMul", "Softmax", "ReduceSum", "Transpose", "Concat", "Abs")
CONFIG = CaseConfig(
    nodes=6, operators=NAMES, dynamic=1.0, exporter="direct", dtypes={"float32": 1.0}
)
MOST = 6


@pytest.fixture(scope="module")
def subjects():
    producer = Producer(2, CONFIG)
    cases = [producer.produce(index) for index in range(14)]
    found = [c for c in cases if isinstance(c, TestCase) and c.exporter == DYNAMIC]
    assert len(found) > 3
    return [Subject(producer.load(c), {**c.inputs, **c.weights}, DYNAMIC) for c in found]


def test_a_subject_is_one_per_size_and_comes_together_again(subjects):
    for subject in subjects:
        parts = at_each_size(subject)
        assert len(parts) == 3
        for part in parts:
            part.checked()
        same = edited(subject, lambda part: part)
        assert same.graph.inputs == subject.graph.inputs
        assert same.measure() == subject.measure()


def test_static_shapes_are_one_edit_away(subjects):
    for subject in subjects:
        (edit,) = proposed(subject, FIXING)
        static = applied(subject, [edit])
        assert static.exporter == "direct"
        assert len(static.graph.nodes) == len(subject.graph.nodes)
        assert static.measure() < subject.measure()
        assert operators(static.graph.view()) == 3 * operators(subject.graph.view())


@pytest.mark.parametrize("name", [name for name in PASSES if name != FIXING])
def test_edits_are_made_at_each_size(subjects, name):
    seen: Counter[str] = Counter()
    for subject in subjects:
        for edit in itertools.islice(proposed(subject, name), MOST):
            try:
                made = applied(subject, [edit])
                emit_dynamic(made.graph, made.params, 20)
            except (Inapplicable, SizeError) as error:
                seen[type(error).__name__] += 1
                continue
            parts = copies(made.graph)
            assert len(parts) == 3
            assert len({tuple(n.op.name for n in part.nodes) for part in parts}) == 1
            seen["made"] += 1
    if name in ("neighbourhoods", "outputs", "prefixes", "numbers"):
        assert seen["made"]
