"""Models for compilers that refuse some inputs, outputs and ranks."""

from dataclasses import replace

import pytest

from nnfuzz.generate.interface import INPUT, OUTPUT, RANK_0
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.operators.draw import Sizes
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.identity import Probe
from nnfuzz.testcase.producer import Producer

OTHERS = [*(d.text for d in DType if d is not DType.FLOAT32), RANK_0]
ONLY_FLOAT32 = tuple(f"{end} {kind}" for end in (INPUT, OUTPUT) for kind in OTHERS)
CONFIG = CaseConfig(nodes=5, exporter="direct", dynamic=0.3)


def made(config, count=60):
    producer = Producer(3, config)
    cases = [producer.produce(index) for index in range(count)]
    return [case for case in cases if isinstance(case, TestCase)]


def kinds(case, names):
    graph = case.graph
    return {graph.dtypes[n] for n in names} | {len(graph.shapes[n]) or RANK_0 for n in names}


def test_what_is_refused_at_the_ends_stays_within_models():
    plain = made(CONFIG)
    assert {"int64", "bool", RANK_0} <= {k for c in plain for k in kinds(c, c.graph.outputs)}
    cases = made(replace(CONFIG, interface=ONLY_FLOAT32))
    assert len(cases) > 0.9 * len(plain)
    for case in cases:
        ends = kinds(case, (*case.graph.inputs, *case.graph.outputs))
        assert ends.isdisjoint(OTHERS), case
        assert {*case.inputs} == {*case.graph.inputs} and {*case.expected} == {*case.graph.outputs}
    inner = {dtype for case in cases for dtype in case.graph.dtypes.values()}
    assert {"int64", "bool", "float64"} <= inner
    assert any("dynamic" in case.variations for case in cases)


def test_a_probe_of_what_makes_numbers_of_a_refused_kind_can_run():
    producer = Producer(3, replace(CONFIG, interface=ONLY_FLOAT32))
    case = producer.made(Probe(SupportKey.parse("direct:Less(float32)->bool"), 0))
    assert [node.op for node in case.graph.nodes] == ["Less", "Cast"]
    assert kinds(case, case.graph.outputs).isdisjoint(OTHERS)


@pytest.mark.parametrize("large", [0.0, 1.0])
def test_values_have_the_ranks_that_a_compiler_takes(large):
    cases = made(replace(CONFIG, sizes=Sizes(ranks=(1, 2, 4)), large=large, dynamic=0.0))
    ranks = {len(shape) for case in cases for shape in case.graph.shapes.values()}
    assert len(cases) > 40 and ranks == {1, 2, 4}
