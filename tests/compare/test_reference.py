"""Faults of a spec while the reference is computed."""

from __future__ import annotations

import pytest

from nnfuzz.compare.reference import ReferenceFault, reference
from tests.compare.test_envelope import F32


def test_reference_faults_name_the_node(build, monkeypatch):
    b = build(x=F32([1.0]))
    graph, params = b.done(b.add("Exp", "x"))
    monkeypatch.setattr(type(graph.nodes[0].op), "torch", lambda self, x: x.reshape(1, 1))
    with pytest.raises(ReferenceFault, match="Exp"):
        reference(graph, params)
