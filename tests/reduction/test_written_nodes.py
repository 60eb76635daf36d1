"""A failure of one node among many that an exporter writes is reduced to that node."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.writing import as_json
from nnfuzz.findings.reduced import reduce_finding
from nnfuzz.records.finding import Finding
from nnfuzz.reduction.case import ReduceConfig
from nnfuzz.reduction.trials import Servers
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.producer import Producer
from tests.reduction.conftest import judged_by

CONFIG = CaseConfig(nodes=1, exporter="torchscript", opset=17, operators=("Mish",))


@pytest.fixture
def finding():
    registry = BackendRegistry.discover([Path(__file__).parent / "parts.py"])
    spec, producer = registry.spec("parts"), Producer(3, CONFIG)
    with Servers(spec, registry) as servers:
        case = producer.produce(0)
        server = servers.compilers.of(registry.get(spec.name), spec)
        seen = judged_by(producer, spec, registry, server, case)
        made = Finding(
            seen.failures[0],
            case,
            seen.outcomes,
            spec,
            as_json(CONFIG),
            seen.verdict,
            {"onnx": "x"},
        )
        yield made, ReduceConfig(registry=registry, servers=servers)


def test_what_an_exporter_writes_around_the_failing_node_goes(finding):
    found, config = finding
    assert len(onnx.load_model_from_string(found.case.model).graph.node) > 2
    _, reduced = reduce_finding(found, config)
    nodes = onnx.load_model_from_string(reduced.case.model).graph.node
    assert [node.op_type for node in nodes] == ["Softplus"]
    assert "Softplus" in reduced.signature.title
