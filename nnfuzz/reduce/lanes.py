"""Workers of the reducer: each lane prepares a candidate, runs it, and says how it fails.

A lane is one worker with torch and onnx (nnfuzz.reduce.service) and one of the backend. The parent
imports neither.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from nnfuzz.execute.events import Death, Event, Fault, Limits, Reply
from nnfuzz.execute.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.execute.registry import BackendRegistry, BackendSpec
from nnfuzz.execute.runner import BackendRunner
from nnfuzz.execute.sandbox import Sandbox, wait
from nnfuzz.reduce.edit import Edit, Group
from nnfuzz.reduce.servers import PRELOAD, SERVICE, Servers, bench
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.signature import (
    FAILURES,
    Failure,
    export_failure,
    failures,
    level_pattern,
)

LIMITS = Limits(seconds=120.0)
DIRECT = "@direct"
_NUMBERS = frozenset({"value", "nonfinite"})


class WorkerError(RuntimeError):
    """A worker of nnfuzz's own failed."""


@dataclass(frozen=True)
class Question:
    """What is run, and how: the same for every candidate.

    levels: of the backend. both: run the direct lowering as well, to tell the exporter's faults.
    judged: whether values matter. without: passes of the optimiser to switch off. until, lazy: see
    BackendRunner.submit; they save what cannot be like the failure.
    """

    levels: tuple[str, ...]
    judged: bool
    both: bool = False
    without: tuple[str, ...] = ()
    until: Stage = Stage.EXECUTE
    lazy: bool = False


@dataclass(frozen=True, eq=False)
class Tried:
    """What came of a candidate. digest: "" if it was rejected before it ran, and why in `reason`.

    failing: (failure, likeness) of each way in which it failed.
    """

    digest: str = ""
    reason: str = ""
    measure: tuple[int, ...] = ()
    case: TestCase | None = None
    outcomes: tuple[Outcome, ...] = ()
    verdict: Mapping[str, Any] | None = None
    failing: tuple[tuple[Failure, str], ...] = ()


def likeness(
    failure: Failure, verdict: Mapping[str, Any] | None = None, outcomes: Iterable[Outcome] = ()
) -> str:
    """What a reduction must keep: equal for failures that are the same for a maintainer.

    The signature without what changes with the model: for mismatches kind, levels and accused
    party, for others the normalised error as well. Levels that do not support the model count
    too: a failure beside a level that works is worth more.
    """
    parts = dict(failure.signature.parts)
    if failure.kind is OutcomeKind.MISMATCH:
        parts.pop("operators", None)
        parts["wrong"] = "number" if parts.get("wrong") in _NUMBERS else parts.get("wrong")
        accused = ((verdict or {}).get("attribution") or {}).get(failure.backend) or {}
        parts["party"] = str(accused.get("party", ""))
    outcomes = list(outcomes)
    if outcomes:
        # A level that fails in another way is no witness for the optimiser's guilt.
        failing = {*failure.levels, *(o.level for o in outcomes if o.kind in FAILURES)}
        parts["levels"] = level_pattern(failing, [o.level for o in outcomes])
    unsupported = [o.level for o in outcomes if o.kind is OutcomeKind.UNSUPPORTED]
    return json.dumps([parts, sorted(unsupported)], sort_keys=True)


Steps = Generator[None, Event, Tried]


class Lane:
    """Tries one candidate at a time; `start`, then `feed` events until it returns the result."""

    def __init__(self, service: Sandbox, runner: BackendRunner | None) -> None:
        self.service, self.runner = service, runner
        self.steps: Steps | None = None
        self.ticket: Any = None

    @property
    def sandboxes(self) -> list[Sandbox]:
        return [self.service, *([self.runner.sandbox] if self.runner else [])]

    def start(self, ticket: Any, steps: Steps) -> Tried | None:
        self.ticket, self.steps = ticket, steps
        return self._advance(None)

    def feed(self, event: Event) -> Tried | None:
        return self._advance(event)

    def _advance(self, event: Event | None) -> Tried | None:
        assert self.steps is not None
        try:
            self.steps.send(event)  # type: ignore[arg-type]
        except StopIteration as stop:
            self.steps = None
            return stop.value
        return None

    def attempt(
        self,
        case: TestCase,
        edits: Group,
        below: Sequence[int] | None,
        question: Question,
        known: Mapping[str, Tried],
    ) -> Steps:
        """The steps of one candidate. known: results by digest, which are not run again."""
        header, blobs = case.to_frame()
        job = {"do": "prepare", "case": header, "edits": [e.to_json() for e in edits]}
        self.service.submit({**job, "below": below}, blobs)
        event = yield
        if not isinstance(event, Reply):
            return Tried(reason=f"fault: {_said(event)}")
        if "rejected" in event.header:
            return Tried(reason=event.header["rejected"])
        digest = event.header["digest"]
        if digest in known:
            return known[digest]
        made = TestCase.from_frame(event.header["case"], event.blobs)
        found = Tried(digest, "", tuple(event.header["measure"]), made)
        failed = event.header.get("failed")
        if failed or self.runner is None:
            return _not_exported(found, failed)
        return (yield from self._run(found, question))

    def _run(self, found: Tried, question: Question) -> Steps:
        case = found.case
        assert case is not None and self.runner is not None
        outcomes = yield from self._outcomes(case.model, case, question)
        verdict = None
        if question.judged and any(outcome.ok for outcome in outcomes):
            also = (yield from self._direct(case, question)) if question.both else []
            event = yield from self._judged(case, [*outcomes, *also])
            if not isinstance(event, Reply):
                return replace(found, reason=f"fault: {_said(event)}", outcomes=tuple(outcomes))
            verdict = event.header["verdict"]
        seen = [
            (f, likeness(f, verdict, outcomes)) for f in failures(outcomes, verdict, case.graph)
        ]
        return replace(found, outcomes=tuple(outcomes), verdict=verdict, failing=tuple(seen))

    def _outcomes(self, model: bytes, case: TestCase, question: Question):
        assert self.runner is not None
        how = question.without, question.until, question.lazy
        self.runner.submit(model, case.inputs, question.levels, *how)
        while (outcomes := self.runner.feed((yield))) is None:
            pass
        return outcomes

    def _direct(self, case: TestCase, question: Question):
        """Outcomes of the direct lowering, which are no failures of the backend."""
        header, blobs = case.to_frame()
        self.service.submit({"do": "lower", "case": header}, blobs)
        event = yield
        if not isinstance(event, Reply):
            return []
        outcomes = yield from self._outcomes(bytes(event.blobs["model"]), case, question)
        return [replace(o, backend=o.backend + DIRECT) for o in outcomes if o.ok]

    def _judged(self, case: TestCase, outcomes: Sequence[Outcome]):
        header, blobs = case.to_frame()
        outcomes = [outcome for outcome in outcomes if outcome.outputs is not None]
        for number, outcome in enumerate(outcomes):
            outputs = outcome.outputs or {}
            blobs.update({f"party/{number}/{name}": array for name, array in outputs.items()})
        parties = [[outcome.backend, outcome.level] for outcome in outcomes]
        self.service.submit({"do": "judge", "case": header, "parties": parties}, blobs)
        return (yield)


def _not_exported(found: Tried, failed: Mapping[str, str] | None) -> Tried:
    """For findings about an exporter: a model is no failure, the same exception is."""
    if failed is None:
        return found
    case = found.case
    assert case is not None
    failure = export_failure(case.exporter, **failed)
    outcome = Outcome(OutcomeKind.EXCEPTION, Stage.EXPORT, case.exporter, "", **failed)
    return replace(found, outcomes=(outcome,), failing=((failure, likeness(failure)),))


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
        arguments = {"config": bench(config)}
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
            raise WorkerError(f"pass {name}: {_said(event)}")
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


def _said(event: Event | Iterable) -> str:
    if isinstance(event, Fault):
        return f"{event.error_type}: {event.message}\n{event.traceback}"
    if isinstance(event, Death):
        how = event.signal or event.exit_code
        return f"the worker died: {event.kind} ({how}) in {event.stage}\n{event.captured[-2000:]}"
    return str(event)
