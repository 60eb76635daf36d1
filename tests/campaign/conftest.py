"""What the tests of this room share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.campaign.backend_pool import BackendPool

HOSTILE = Path(__file__).parent.parent / "backend" / "hostile.py"


@pytest.fixture
def make(monkeypatch) -> Iterator:
    """Makes a pool of one worker that takes for a hang what it needs half a second for."""
    monkeypatch.setattr("nnfuzz.campaign.pace.LEAST_SUSPICIOUS", 0.5)
    registry, made = BackendRegistry.discover([HOSTILE]), []

    def pool(timeout, **more) -> BackendPool:
        spec = replace(registry.parse(f"hostile,timeout={timeout}"), label="hostile")
        made.append(BackendPool(spec, registry, ("O0", "O2"), 1, **more))
        for _ in range(20):
            made[-1].pace.add(0.001)
        return made[-1]

    yield pool
    for each in made:
        each.close()
