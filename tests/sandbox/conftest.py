"""What the tests of this room share."""

import pytest

from nnfuzz.sandbox.sandbox import (
    Limits,
    Sandbox,
)

SERVICE = "hostile:make"


MEMORY = 256 << 20


@pytest.fixture
def sandbox(server):
    limits = Limits(seconds=5.0, memory_bytes=MEMORY, jobs_per_process=50)
    with Sandbox(SERVICE, limits=limits, server=server) as sandbox:
        yield sandbox
