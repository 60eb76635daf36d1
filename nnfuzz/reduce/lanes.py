"""Workers of the reducer: lanes that try candidates side by side.

A lane is one worker with torch and onnx (nnfuzz.reduce.service) and one of the backend. The parent
imports neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

from nnfuzz.execute.events import Limits, Reply
from nnfuzz.execute.registry import BackendRegistry, BackendSpec
from nnfuzz.execute.runner import BackendRunner
from nnfuzz.execute.sandbox import Sandbox, wait
from nnfuzz.reduce.candidate import Question, Tried
from nnfuzz.reduce.edit import Edit, Group
from nnfuzz.reduce.lane import Lane, said
from nnfuzz.reduce.servers import PRELOAD, SERVICE, Servers, operators_of
from nnfuzz.testcase.case import TestCase

LIMITS = Limits(seconds=120.0)


class WorkerError(RuntimeError):
    """A worker of nnfuzz's own failed."""


class Lanes:
    """All lanes, and one job at a time beside them. A context manager."""

    def __init__(
        self,
        config: Mapping[str, Any],
        backend: BackendSpec | None,
        workers: int,
        registry: BackendRegistry | None = None,
        limits: Limits | None = None,
        servers: Servers | None = None,
    ) -> None:
        """config: CaseConfig.to_json(). backend: None for findings about an exporter. servers: to
        share, and then left open.

        Raises: RegistryError, OptionError, RunnerError if the backend cannot be used.
        """
        plugins = backend.plugins if backend else ()
        self._registry = registry or BackendRegistry.discover(plugins)
        self._own = None if servers else Servers(backend, self._registry, config)
        self._servers = servers or self._own
        arguments = {"config": operators_of(config)}
        self.lanes: list[Lane] = []
        for i in range(workers):
            runner = self._runner(backend, limits) if backend else None
            name, server = f"reduce {i}", self._servers.service
            service = Sandbox(SERVICE, arguments, LIMITS, PRELOAD, name, server)
            self.lanes.append(Lane(service, runner))

    def _runner(self, backend: BackendSpec, limits: Limits | None) -> BackendRunner:
        return BackendRunner(backend, self._registry, self._servers.backend, limits)

    def start(self) -> None:
        """Starts all workers ahead of the first job."""
        for lane in self.lanes:
            for sandbox in lane.sandboxes:
                sandbox.start()

    def idle(self) -> Lane | None:
        return next((lane for lane in self.lanes if lane.steps is None), None)

    @property
    def busy(self) -> bool:
        return any(lane.steps for lane in self.lanes)

    def wait(self) -> list[tuple[Any, Tried]]:
        """Blocks until candidates are through; their tickets and results."""
        finished: list[tuple[Any, Tried]] = []
        owner = {id(s): lane for lane in self.lanes for s in lane.sandboxes}
        while not finished and self.busy:
            sandboxes = [s for lane in self.lanes if lane.steps for s in lane.sandboxes]
            for sandbox, event in wait(sandboxes):
                lane = owner[id(sandbox)]
                result = lane.feed(event)
                if result is not None:
                    finished.append((lane.ticket, result))
        return finished

    def run(self, case: TestCase, edits: Group, question: Question) -> Tried:
        """Tries one candidate and waits for it; no lane may be busy."""
        lane = self.lanes[0]
        lane.start(None, lane.attempt(case, edits, None, question, {}))
        return self.wait()[0][1]

    def run_fresh(self, case: TestCase, question: Question) -> Tried:
        """The same for a case as it is, in a new process of the backend."""
        lane = self.lanes[0]
        if lane.runner is None:
            return self.run(case, (), question)
        limits = replace(lane.runner.sandbox.limits, jobs_per_process=1)
        with self._runner(lane.runner.spec, limits) as runner:
            lane.runner, kept = runner, lane.runner
            try:
                return self.run(case, (), question)
            finally:
                lane.runner = kept

    def propose(self, case: TestCase, name: str) -> tuple[list[Group], tuple[int, ...]]:
        """The groups of edits that a pass proposes, and the case's measure.

        Raises: WorkerError if the worker fails.
        """
        header, blobs = case.to_frame()
        lane = self.lanes[0]
        event = lane.service.call({"do": "propose", "case": header, "pass": name}, blobs)
        if not isinstance(event, Reply):
            raise WorkerError(f"pass {name}: {said(event)}")
        found = [tuple(Edit.from_json(e) for e in group) for group in event.header["groups"]]
        return found, tuple(event.header["measure"])

    def close(self) -> None:
        for lane in self.lanes:
            for sandbox in lane.sandboxes:
                sandbox.close()
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Lanes:
        return self

    def __exit__(self, kind: type | None, error: object, trace: TracebackType | None) -> None:
        self.close()
