"""The readings of the standard agree with PyTorch; the long comparison is `nnfuzz ops check`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nnfuzz.check.arbitration import AGREES, arbitrate
from nnfuzz.check.reading import readings_of
from nnfuzz.check.runtimes import READING, runtime_of_readings
from nnfuzz.spec.registry import OpRegistry
from nnfuzz.testcase.producer import load_module

FILES = sorted((Path(__file__).parent / "readings").glob("*.py"))
OWN = [reading for file in FILES for reading in readings_of(load_module(str(file)))]
ABSTRACT = {"Pooling", "Recurrent"}
ALSO = {
    "MaxPool": "MaxPoolIndices",
    "AveragePool": "AveragePoolDilated",
    "GridSample": "GridSampleVolume",
    "Resize": "ResizeAntialias",
    "Optional": "OptionalGetElement",
}
"""Operators that lower to the one that is read, where names differ or another one is harder."""
WANTED = 3


@pytest.mark.parametrize("reading", [r for r in OWN if r.__name__ not in ABSTRACT], ids=str)
def test_a_reading_agrees_with_pytorch(reading):
    name = ALSO.get(reading.__name__, reading.__name__)
    registry = OpRegistry.load()
    runtimes = {READING: runtime_of_readings(OWN)}
    said = arbitrate(registry.get(name), random.Random(0), WANTED, registry.waivers, runtimes)
    assert said.answers[READING][AGREES] >= WANTED
    assert not list(said.problems())
