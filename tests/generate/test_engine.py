"""Engines grow graphs around a start."""

from __future__ import annotations

import random

import pytest

from nnfuzz.generate.engine import Kept
from nnfuzz.generate.engines import engine
from tests.generate.conftest import CATALOG, CONFIG


def test_graphs_grow_around_a_start(name, graphs):
    if name == "mutate":
        pytest.skip("its graphs do not grow, see test_mutate.py")
    for seed, start in enumerate(graphs[:12]):
        grown = engine(name, CATALOG, CONFIG).next(random.Random(seed), [Kept(start)]).graph
        grown.verify()
        assert len(grown.nodes) == len(start.nodes) + CONFIG.nodes
        assert [node.op for node in grown.nodes if node.outputs[0] in start.values]
