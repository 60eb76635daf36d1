"""What single edits cannot do: leaving out two operators at once."""

from __future__ import annotations

import pytest

from nnfuzz.reduction.cuts import LARGE
from nnfuzz.reduction.passes import PASSES, applied
from nnfuzz.reduction.subject import Inapplicable, Subject
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.producer import Producer


@pytest.fixture(scope="module")
def chain():
    """Ten of Neg and Abs."""
    producer = Producer(0, CaseConfig(nodes=10, exporter="direct", operators=("Neg", "Abs")))
    case = producer.produce(0)
    return Subject(producer.load(case), {**case.inputs, **case.weights}, case.exporter)


def candidates(subject: Subject, *passes: str):
    for name in passes:
        for edit in PASSES[name].propose(subject):
            try:
                yield applied(subject, [edit])
            except Inapplicable:
                continue


def smallest(subject: Subject, interesting, *passes: str) -> Subject:
    while True:
        better = (c for c in candidates(subject, *passes) if interesting(c))
        found = next(better, None)
        if found is None:
            return subject
        subject = found


def even(subject: Subject) -> bool:
    return len(subject.graph.nodes) % 2 == 0


def test_what_needs_two_to_go_at_once_becomes_small(chain):
    alone = smallest(chain, even, "bypasses")
    together = smallest(chain, even, "bypasses", "pairs")
    assert len(alone.graph.nodes) == len(chain.graph.nodes)
    assert len(together.graph.nodes) <= LARGE


def test_small_models_are_left_to_the_other_passes(chain):
    small = smallest(chain, lambda s: len(s.graph.nodes) >= LARGE, "bypasses")
    assert list(PASSES["pairs"].propose(small)) == []
    assert len(list(PASSES["pairs"].propose(chain))) > len(chain.graph.nodes)


def test_a_quantised_pair_is_taken_away_whole():
    operators = ("Relu", "QuantizeLinear", "DequantizeLinear")
    producer = Producer(2, CaseConfig(exporter="direct", operators=operators, quantize=1.0))
    case = next(
        case
        for case in map(producer.produce, range(20))
        if "quantize:pairs" in getattr(case, "variations", ()) and "Relu" in case.graph.operators
    )
    subject = Subject(producer.load(case), {**case.inputs, **case.weights}, case.exporter)

    def relu(s: Subject) -> bool:
        return any(node.op.name == "Relu" for node in s.graph.nodes)

    small = smallest(subject, relu, "outputs", "prefixes", "bypasses", "detours", "replacements")
    assert [node.op.name for node in small.graph.nodes] == ["Relu"]
    edits = list(PASSES["detours"].propose(subject))
    assert edits
    fewer = [c for c in candidates(subject, "detours")]
    assert all(len(c.graph.nodes) < len(subject.graph.nodes) for c in fewer) and fewer
