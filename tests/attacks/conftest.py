from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.sandbox.forkserver import ForkServer
from tests.models import chain

HERE = Path(__file__).parent
INPUTS = {"x": np.arange(4, dtype=np.float32)}


def model(how: str) -> bytes:
    return chain("Identity", shape=(4,), about=how)


@pytest.fixture(scope="session")
def registry():
    return BackendRegistry.discover([HERE / "attacker.py"])


@pytest.fixture(scope="session")
def server():
    with ForkServer(("numpy", "onnx", "nnfuzz.backend.service")) as server:
        yield server


@pytest.fixture
def attacked(registry, server):
    """A function that runs an attack at level O1: its outcome. Before and after it all is well."""
    spec = registry.parse("attacker,timeout=10,memory=0.5")
    with BackendRunner(spec, registry, server) as runner:

        def attack(how: str):
            assert [o.kind for o in runner.run(model("nothing"), INPUTS)] == ["ok", "ok"]
            well, outcome = runner.run(model(how), INPUTS)
            assert well.ok and well.level == "O0" and outcome.level == "O1"
            assert [o.kind for o in runner.run(model("nothing"), INPUTS)] == ["ok", "ok"]
            return outcome

        yield attack
