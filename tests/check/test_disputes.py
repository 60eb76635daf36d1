"""What is declared of authorities on ONNX shows; if a test fails, they have been mended.

Then remove the declaration from the operator's spec, and write the page in docs/ anew.
"""

from __future__ import annotations

import random

import pytest

from nnfuzz.check.arbitration import example_of
from nnfuzz.check.runtimes import STANDARD, runtime_of
from nnfuzz.execute.registry import BackendRegistry
from nnfuzz.spec.registry import OpRegistry

DECLARED = [(spec, dispute) for spec in OpRegistry.load().specs() for dispute in spec.untrusted]


@pytest.fixture(scope="module")
def runtimes():
    registry = BackendRegistry.discover()
    found = dict(STANDARD)
    for name in {dispute.authority for _, dispute in DECLARED} - found.keys():
        if not registry.get(name).missing():
            found[name] = runtime_of(registry.get(name)())
    return found


@pytest.mark.parametrize(
    ("spec", "dispute"),
    DECLARED,
    ids=[f"{spec.name}-{dispute.authority}-{dispute.claim[:24]}" for spec, dispute in DECLARED],
)
def test_an_instance_shows_it(spec, dispute, runtimes):
    if dispute.authority not in runtimes:
        pytest.skip(f"{dispute.authority} is not installed")
    found = example_of(spec, dispute, random.Random(0), runtimes)
    assert found, f"nothing shows that {dispute.authority} {dispute.claim}"


def test_every_claim_names_the_clause_that_decides():
    for spec, dispute in DECLARED:
        assert dispute.clause and dispute.claim, spec.name
        assert not dispute.claim.endswith("."), spec.name
        known = [d for d in spec.untrusted if d.authority == dispute.authority]
        assert len({d.claim for d in known}) == len(known), spec.name
