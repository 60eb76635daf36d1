"""Test cases under what guidance asks for: a function of it, and probes know nothing of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from nnfuzz.generate.emphasis import Emphasis, KeptCase
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.identity import Probe
from nnfuzz.testcase.producer import Producer

CONFIG = CaseConfig(nodes=5, exporter="direct", operators=("Abs", "Add", "Relu", "Tanh", "Mul"))


@pytest.fixture(scope="module")
def plain():
    return Producer(3, CONFIG)


def made(emphasis):
    return Producer(3, replace(CONFIG, emphasis=emphasis))


def operators(producer, count=40):
    cases = [producer.produce(index) for index in range(count)]
    return Counter(n.op for case in cases if isinstance(case, TestCase) for n in case.graph.nodes)


def test_operators_and_dtypes_follow_their_factors(plain):
    factors = Emphasis(operators={"Tanh": 4.0, "Abs": 0.25}, dtypes={"float64": 4.0})
    before, after = operators(plain), operators(made(factors))
    assert after["Tanh"] / before["Tanh"] > 1.4 and after["Abs"] < before["Abs"]


def test_some_cases_change_a_kept_one(plain):
    kept = KeptCase(1, "direct", plain.produce(1).graph)
    asked = Emphasis(mutated=0.5, kept=(kept,))
    producer, again = made(asked), made(asked)
    names = {value.name for value in kept.graph.values}
    for index in range(12):
        case = producer.produce(index)
        assert case.digest() == again.produce(index).digest()
        if asked.mutates(3, index):
            shared = names & {value.name for value in case.graph.values}
            assert len(shared) > len(names) / 3
            own = made(asked.of(3, index))
            assert own.produce(index).digest() == case.digest()
        else:
            assert case.digest() == plain.produce(index).digest()


def test_probes_do_not_depend_on_guidance(plain):
    asked = Emphasis(operators={"Add": 3.0}, dtypes={"float16": 4.0}, planted=2.0)
    probe = Probe(SupportKey.parse("direct:Add(float16)->float16"), 1)
    assert made(asked).made(probe).digest() == plain.made(probe).digest()
