"""Settings that every test shares."""

from __future__ import annotations

import signal
from contextlib import nullcontext

import pytest
from hypothesis import HealthCheck, settings

from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.vary import variation
from tests.backend.releases import make_index
from tests.servers import Pool, using

STARTING = {"sandbox", "backend", "test_processes.py", "test_torment.py"}
"""Rooms and modules whose tests are about how processes start and die; all others have fork servers
from a pool."""

# A shell that starts the tests in the background has them ignore Ctrl-C, which some are about.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "nnfuzz",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("nnfuzz")


def pytest_collection_modifyitems(items):
    """The longest tests come first, so that in the end no worker of pytest is left alone."""
    items.sort(key=lambda item: item.path.name != "test_commands_of_the_docs.py")


@pytest.fixture(scope="session", autouse=True)
def verified():
    """Every graph is verified."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variation, "VERIFIED", 1)
        yield


@pytest.fixture(scope="session")
def fork_servers():
    with Pool() as pool:
        yield pool


@pytest.fixture(scope="module", autouse=True)
def kept_fork_servers(request, fork_servers):
    """Tests of most rooms have their fork servers from a pool."""
    starting = {request.path.name, request.path.parent.name} & STARTING
    with nullcontext() if starting else fork_servers.instead():
        yield


@pytest.fixture(autouse=True)
def own_fork_servers(request):
    """A test with this mark starts fork servers of its own."""
    with using(ForkServer) if request.node.get_closest_marker("own") else nullcontext():
        yield


@pytest.fixture(scope="session")
def server():
    """One fork server for all sandboxes of the session: what they share must not matter."""
    with ForkServer(("numpy", "onnx", "nnfuzz.backend.service")) as server:
        yield server


@pytest.fixture(scope="session")
def release_index(tmp_path_factory):
    """A package index with releases of a toy compiler; environments stand once, beside it."""
    folder = tmp_path_factory.mktemp("releases") / "wheels"
    make_index(folder)
    return folder
