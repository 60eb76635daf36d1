"""A reduction of what only one release gets wrong keeps that the other one is right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.writing import as_json
from nnfuzz.reduction.case import NotReduced, Problem, ReduceConfig, reduce_case
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from tests.backend.releases import ADAPTER, make_index, use_index
from tests.reduction.conftest import judged_by


def test_what_fails_in_both_is_no_candidate(tmp_path, monkeypatch):
    make_index(tmp_path / "wheels")
    use_index(monkeypatch, tmp_path / "wheels", tmp_path)
    registry = BackendRegistry.discover([ADAPTER])
    settings = CaseConfig(nodes=3, exporter="direct", opset=18, operators=("Add", "Neg"))
    producer = Producer(0, settings)
    case = next(c for i in range(9) if isinstance(c := producer.produce(i), TestCase))
    spec = registry.parse("toyrel@1.0")
    failure = judged_by(producer, spec, registry, None, case).failures[0]
    right = replace(registry.parse("toyrel@2.0"), label="toyrel@2.0")
    problem = Problem(case, failure, spec, as_json(settings), rival=right)
    config = ReduceConfig(60, registry=registry)
    assert reduce_case(problem, config).after[0] == 1
    wrong = replace(problem, rival=replace(spec, label="toyrel@1.0"))
    with pytest.raises(NotReduced, match="does not reproduce"):
        reduce_case(wrong, config)
