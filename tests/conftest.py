"""Settings that every test shares."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "nnfuzz",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("nnfuzz")
