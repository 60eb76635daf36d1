"""Every waiver shows; if a test fails, the reference implementation has been mended.

Then remove the declaration (opspecs/waivers.py).
"""

from __future__ import annotations

import random
import re

import onnx
import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.check.questions import example_of
from nnfuzz.check.runtimes import BUNDLED
from nnfuzz.operators.registry import OpRegistry
from tests.check.implementation import runtime_of

REGISTRY = OpRegistry.load()
WAIVERS = REGISTRY.waivers
DECLARED = [(spec, waiver) for spec in REGISTRY.specs() for waiver in WAIVERS.of(spec.name)]


@pytest.fixture(scope="module")
def runtimes():
    registry = BackendRegistry.discover()
    found = dict(BUNDLED)
    for name in {waiver.implementation for _, waiver in DECLARED} - found.keys():
        if not registry.get(name).missing():
            found[name] = runtime_of(registry.get(name)())
    return found


@pytest.mark.parametrize(
    ("spec", "waiver"),
    DECLARED,
    ids=[f"{spec.name}-{waiver.implementation}-{waiver.claim[:24]}" for spec, waiver in DECLARED],
)
def test_an_instance_shows_it(spec, waiver, runtimes):
    if waiver.implementation not in runtimes:
        pytest.skip(f"{waiver.implementation} is not installed")
    found = example_of(spec, waiver, random.Random(0), WAIVERS, runtimes)
    assert found, f"nothing shows that {waiver.implementation} {waiver.claim}"


def documentation(name, version):
    """All words of an operator's schema, in lower case, between single spaces."""
    domain = next(d for d in ("", "ai.onnx.ml") if onnx.defs.has(name, d))
    schema = onnx.defs.get_schema(name, version, domain)
    parts = [*schema.attributes.values(), *schema.inputs, *schema.outputs]
    types = [p.type_str for p in (*schema.inputs, *schema.outputs)]
    words = [schema.doc, *(f"{p.name} {p.description}" for p in parts), *types]
    return _plain(" ".join(words))


def _plain(text):
    return " ".join(text.split()).lower()


def test_claims_are_worded_alike_and_not_repeated():
    for spec, waiver in DECLARED:
        assert waiver.claim and not waiver.claim.endswith("."), spec.name
        claims = [
            d.claim for d in WAIVERS.of(spec.name) if d.implementation == waiver.implementation
        ]
        assert claims.count(waiver.claim) == 1, spec.name


def test_what_a_clause_quotes_is_in_the_standard():
    """Clauses begin with operators and versions, or a page; brackets hold other words than its."""
    for clause in {waiver.clause for _, waiver in DECLARED}:
        source, _, words = clause.partition(": ")
        if source.endswith(".md"):
            continue
        named = [item.rsplit("-", 1) for item in source.split(", ")]
        texts = [documentation(name, int(version)) for name, version in named]
        for quoted in re.findall(r'"([^"]*)"', words):
            for part in re.split(r"\[[^\]]*\]|\.\.\.", quoted):
                assert any(_plain(part).strip(" ,.") in text for text in texts), (clause, part)
