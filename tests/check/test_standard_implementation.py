"""The standard implementations agree with PyTorch."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nnfuzz.backend.registry import import_plugin
from nnfuzz.check.operators import check_operator
from nnfuzz.check.questions import AGREES
from nnfuzz.operators.registry import OpRegistry
from tests.check.implementation import (
    STANDARD_IMPLEMENTATION,
    runtime_of_standard_implementations,
    standard_implementations_of,
)

FILES = sorted((Path(__file__).parent / "standard").glob("*.py"))
OWN = [
    implementation
    for file in FILES
    for implementation in standard_implementations_of(import_plugin(file))
]
ABSTRACT = {"Pooling", "Recurrent", "ContribImplementation"}
ALSO = {
    "MaxPool": "MaxPoolIndices",
    "AveragePool": "AveragePoolDilated",
    "GridSample": "GridSampleVolume",
    "Resize": "ResizeAntialias",
    "Optional": "OptionalGetElement",
}
"""Operators that lower to the one that is read, where names differ or another one is harder."""
WANTED = 3


@pytest.mark.parametrize("implementation", [r for r in OWN if r.__name__ not in ABSTRACT], ids=str)
def test_a_standard_implementation_agrees_with_pytorch(implementation):
    name = implementation.__name__
    if domain := implementation.op_domain:
        name = f"{domain}.{name}"
    name = ALSO.get(name, name)
    registry = OpRegistry.load()
    runtimes = {STANDARD_IMPLEMENTATION: runtime_of_standard_implementations(OWN)}
    spec, rng = registry.get(name), random.Random(0)
    report = check_operator(spec, rng, WANTED, runtimes, registry.waivers, ["forward"])
    assert report.answers[STANDARD_IMPLEMENTATION][AGREES] >= WANTED
    assert report.ok, report.problems
