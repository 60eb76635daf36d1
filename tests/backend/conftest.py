import pytest

from nnfuzz.sandbox.forkserver import ForkServer


@pytest.fixture(scope="session")
def server():
    """One fork server for all sandboxes of the session: what they share must not matter."""
    with ForkServer(("numpy", "onnx", "nnfuzz.backend.service")) as server:
        yield server
