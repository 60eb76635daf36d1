"""Fork servers that outlive the tests that asked for them, for later tests that ask for the same.

Each imports PyTorch or a compiler, which takes seconds of CPU time. Workers are forked anew for
every test all the same, from a process that has only imported. Tests of fork servers, and of how
workers start, do without.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from nnfuzz.sandbox.forkserver import ForkServer, Home

ASKING = (
    "nnfuzz.campaign.lanes",
    "nnfuzz.corpus.producers",
    "nnfuzz.backend.runner",
    "nnfuzz.sandbox.sandbox",
    "nnfuzz.testcase.client",
    "nnfuzz.reduction.servers",
)
"""Modules that start fork servers."""
OF_PYTORCH = (
    *("numpy", "onnx", "onnx.numpy_helper", "onnx.reference", "torch", "nnfuzz.compare.verdict"),
    *("nnfuzz.testcase.producer", "nnfuzz.testcase.jobs", "nnfuzz.campaign.lane_service"),
    *("nnfuzz.reduction.service", "nnfuzz.findings.reducer_service", "nnfuzz.corpus.service"),
)
"""What fork servers with PyTorch import: one that has imported all of it serves everybody."""
MOST_IDLE = max(4, 20 // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1)))
"""Fork servers that nobody uses at the moment, of each process of pytest; one holds some 300 MB."""


class Kept(ForkServer):
    """A fork server that goes back to its pool when it is closed."""

    def __init__(self, pool: Pool, about: object, *arguments: Any, **more: Any) -> None:
        self.pool, self.about = pool, about
        super().__init__(*arguments, **more)

    def close(self) -> None:
        """Ends the workers; the process stays. Idempotent."""
        for worker in [*self._on_end]:
            self.kill(worker)
        self.pool.take_back(self)

    def end(self) -> None:
        super().close()


class Pool:
    """Hands out fork servers, each to one user at a time. A context manager."""

    def __init__(self) -> None:
        self._idle: list[Kept] = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        while self._idle:
            self._idle.pop().end()

    def server(
        self,
        preload: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        warm: tuple[str, dict[str, Any]] | None = None,
        home: Home | None = None,
    ) -> Kept:
        """An idle one that has imported the same under the same environment, or a new one.

        What it was warmed up with may differ: that only saves workers time.
        """
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "XDG_"))}
        preload = tuple(preload)
        if any(name.startswith("nnfuzz.") for name in preload) and {*preload} <= {*OF_PYTORCH}:
            preload = OF_PYTORCH
        about = preload, environment, home, variables, [*sys.path]
        for server in self._idle:
            if server.alive and server.about == about:
                self._idle.remove(server)
                return server
        return Kept(self, about, preload, environment, warm, home)

    def take_back(self, server: Kept) -> None:
        if server not in self._idle:
            self._idle.append(server)
        if len(self._idle) > MOST_IDLE:
            self._idle.pop(0).end()

    def instead(self) -> AbstractContextManager[None]:
        """Whoever asks for a fork server gets one of these."""
        return using(self.server)


@contextmanager
def using(make: Callable[..., ForkServer]) -> Iterator[None]:
    """Whoever asks for a fork server gets what a function makes."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ASKING:
            patch.setattr(f"{module}.ForkServer", make)
        yield
