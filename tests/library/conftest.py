"""Small test cases of float32, and a registry that forgets."""

from __future__ import annotations

import pytest

import nnfuzz
from nnfuzz.library import plugins


@pytest.fixture(scope="session")
def cases():
    operators = ["Add", "Mul", "Relu", "Sub"]
    return nnfuzz.Generator(seed=7, nodes=3, dtypes=["float32"], operators=operators)


@pytest.fixture
def registered(monkeypatch):
    """What a test registers is gone after it."""
    kept: dict[str, str] = {}
    monkeypatch.setattr(plugins, "_registered", kept)
    return kept
