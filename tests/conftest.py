"""Settings that every test shares."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "nnfuzz",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("nnfuzz")


@pytest.fixture(scope="session", autouse=True)
def state(tmp_path_factory):
    """A folder of its own for what nnfuzz remembers of its user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield
