"""Tests at edges: which they are, and what is in them."""

from dataclasses import replace

import numpy as np

from nnfuzz.backend.numeric import beyond
from nnfuzz.generate.config import dtype_weights
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from nnfuzz.vary.generation import Edges


def test_strange_numbers_are_told_from_others():
    assert beyond({"x": np.array([1, -0.0], np.float16)})
    assert beyond({"x": np.array([np.nan])})
    assert not beyond({"x": np.array([1e-42, 0.0], np.float32), "n": np.array([-(2**31)])})


SHARE = CaseConfig(nodes=5, exporter="direct", edge_share=0.3)


def test_a_share_of_the_tests_is_at_edges():
    producer = Producer(1, SHARE)
    chosen = [i for i in range(60) if Edges.chosen(SHARE, 1, i)]
    assert 9 <= len(chosen) <= 27
    others = [i for i in range(60) if i not in chosen]
    cases = {i: producer.produce(i) for i in (*chosen, *others[:12])}
    made = {i: case for i, case in cases.items() if isinstance(case, TestCase)}
    assert sum(_strange(made[i]) for i in chosen if i in made) >= 5
    assert not any(_strange(made[i]) for i in others if i in made)


def test_the_share_changes_no_other_test():
    plain, some = Producer(1, CaseConfig(nodes=5, exporter="direct")), Producer(1, SHARE)
    index = next(i for i in range(20) if not Edges.chosen(SHARE, 1, i))
    assert plain.produce(index).digest() == some.produce(index).digest()


def test_nothing_is_left_for_edges_where_no_operator_decides():
    producer = Producer(1, replace(SHARE, edge_share=1.0, operators=("Softmax",)))
    case = producer.produce(3)
    assert isinstance(case, TestCase) and {n.op for n in case.graph.nodes} == {"Softmax"}


def _strange(case) -> bool:
    return any(x.dtype.kind == "f" and not np.isfinite(x).all() for x in case.inputs.values())


def test_some_tensors_at_edges_are_empty():
    producer = Producer(2, replace(SHARE, edge_share=1.0))
    cases = [case for i in range(60) if isinstance(case := producer.produce(i), TestCase)]
    empty = [case for case in cases if any(x.size == 0 for x in case.inputs.values())]
    assert len(cases) >= 57 and 1 <= len(empty) <= 30


def test_exporters_trace_what_pytorch_computes():
    """PyTorch refuses to divide integers by zero, which edge values are among."""
    config = replace(SHARE, exporter="torchscript", edge_share=1.0, operators=("Transpose", "Mod"))
    producer = Producer(3, replace(config, nodes=3, dtypes=dtype_weights(("int32",), ())))
    for case in (producer.produce(i) for i in (11, 14, 15)):
        assert isinstance(case, TestCase)
        assert any((x == 0).any() for x in case.inputs.values())
