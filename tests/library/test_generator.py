"""Generators: sequences of test cases that depend on their settings alone."""

from __future__ import annotations

import itertools

import pytest

import nnfuzz
from nnfuzz.base.writing import as_json
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.client import ProducerClient
from nnfuzz.testcase.identity import Numbered


def test_a_case_is_a_function_of_its_index(cases):
    first = [case.digest() for case in itertools.islice(cases, 3)]
    assert first == [cases[index].digest() for index in range(3)]
    assert len(set(first)) == 3


def test_the_cases_are_those_of_a_campaign(cases):
    with ProducerClient(cases.seed, as_json(cases.config)) as producer:
        made = producer.produce(Numbered(cases.seed, 2))
    assert made.digest() == cases[2].digest()


def test_settings_decide_what_models_are_made_of(cases):
    for case in itertools.islice(cases, 3):
        assert {node.op for node in case.graph.nodes} <= {"Add", "Mul", "Relu", "Sub"}
        assert {array.dtype.name for array in case.inputs.values()} == {"float32"}


def test_sizes_are_a_word():
    shares = {w: nnfuzz.Generator(sizes=w).config.large for w in ("small", "mixed", "large")}
    assert shares == {"small": 0.0, "mixed": 0.1, "large": 1.0}


def test_an_index_without_a_test_case_is_passed_over(cases, monkeypatch):
    failed = NotProduced(Numbered(0, 0), "inputs", "no valid input")
    produce = cases._producer.produce
    monkeypatch.setattr(cases._producer, "produce", lambda i: produce(i) if i else failed)
    assert next(iter(cases)).id.index == 1
    with pytest.raises(nnfuzz.NoTestCase, match="index 0 gives no test case: no valid input"):
        cases[0]
    monkeypatch.setattr(cases._producer, "produce", lambda i: failed)
    with pytest.raises(nnfuzz.NoTestCase, match="100 indexes in a row"):
        next(iter(cases))


def test_mistakes_are_told():
    with pytest.raises(ValueError, match="no dtype 'float33'"):
        nnfuzz.Generator(dtypes=["float33"])
    with pytest.raises(ValueError, match="unknown exporter 'onnx'"):
        nnfuzz.Generator(exporter="onnx")
    with pytest.raises(TypeError, match="node"):
        nnfuzz.Generator(node=3)
    with pytest.raises(ValueError, match="no size 'tiny': write small, mixed or large"):
        nnfuzz.Generator(sizes="tiny")
    with pytest.raises(IndexError):
        nnfuzz.Generator()[-1]


def test_exporters_take_turns():
    assert nnfuzz.Generator(exporter="mixed").config.exporters == ("direct", "torchscript")


def test_an_unknown_setting_is_named_with_the_one_that_was_meant():
    with pytest.raises(TypeError, match="there is no setting 'node'; did you mean 'nodes'"):
        nnfuzz.Generator(node=3)
