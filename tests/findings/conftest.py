"""Findings of a planted compiler, as the tests of reports have them."""

from tests.report.conftest import case, finding_of, registry, runner_of, server

__all__ = ["case", "finding_of", "registry", "runner_of", "server"]
