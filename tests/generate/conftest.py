"""What the tests of this room share."""

from __future__ import annotations

import random

import pytest

from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engines import MADE, engine
from nnfuzz.generate.turns import CoverageTargets
from nnfuzz.ir.graph import Graph
from nnfuzz.operators.registry import OpRegistry

REGISTRY = OpRegistry.load()


CONFIG = admitted_by_schema(GenerateConfig(nodes=10), REGISTRY.specs())


CATALOG = Catalog(REGISTRY.specs(), CONFIG)


@pytest.fixture(scope="module", params=MADE)
def name(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def graphs(name) -> list[Graph]:
    """As a campaign makes them."""
    made_by, targets = engine(name, CATALOG, CONFIG), CoverageTargets(CATALOG)
    return [made_by.next(random.Random(i), (), targets.pick(0, i)).graph for i in range(450)]
