"""Every registered operator against PyTorch, ONNX shape inference and two ONNX runtimes."""

from __future__ import annotations

import random

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.check.operators import check_operator
from nnfuzz.check.runtimes import REFERENCE
from tests.check.implementation import runtime_of
from tests.inputs.graphs import REGISTRY

SPECS = REGISTRY.specs()
INSTANCES = 5
MORE = {"com.microsoft.DecoderMaskedMultiHeadAttention": 8}
"""Instances of operators of which few that are drawn can be solved."""


@pytest.fixture(scope="module")
def runtimes():
    """onnx.reference, and ONNX Runtime to arbitrate where it is installed."""
    backend = BackendRegistry.discover().get("onnxruntime")
    if backend.missing():
        return REFERENCE
    return {**REFERENCE, "onnxruntime": runtime_of(backend())}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_operator_conforms(spec, runtimes):
    rng = random.Random(f"ci:{spec.name}")
    instances = MORE.get(spec.name, INSTANCES)
    report = check_operator(spec, rng, instances, runtimes, REGISTRY.waivers)
    assert not report.problems, "\n".join(report.problems)
    assert report.forward >= instances / 2
    assert report.unconfirmed < report.forward + report.backward


def test_every_signature_says_what_it_yields():
    for spec in SPECS:
        assert spec.signatures(), spec.name
        assert len({(tuple(b.items()), out) for b, out in spec.signatures()}) == len(
            spec.signatures()
        )
