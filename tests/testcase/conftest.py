"""What the tests of this room share."""

from __future__ import annotations

import pytest

from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer

CONFIG = CaseConfig(nodes=5, exporter="direct")


@pytest.fixture(scope="module")
def producer() -> Producer:
    return Producer(3, CONFIG)


@pytest.fixture(scope="module")
def case(producer) -> TestCase:
    return next(c for c in map(producer.produce, range(20)) if isinstance(c, TestCase))
