"""One worker of the reducer: prepares a candidate, runs it, and says how it fails."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nnfuzz.execute.events import Death, Event, Fault, Reply
from nnfuzz.execute.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.execute.runner import BackendRunner
from nnfuzz.execute.sandbox import Sandbox
from nnfuzz.reduce.candidate import Question, Tried, likeness
from nnfuzz.reduce.edit import Group
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.signature import export_failure, failures

DIRECT = "@direct"
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
            return Tried(reason=f"fault: {said(event)}")
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
                return replace(found, reason=f"fault: {said(event)}", outcomes=tuple(outcomes))
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


def said(event: Event | Iterable) -> str:
    """What a worker said instead of an answer."""
    if isinstance(event, Fault):
        return f"{event.error_type}: {event.message}\n{event.traceback}"
    if isinstance(event, Death):
        how = event.signal or event.exit_code
        return f"the worker died: {event.kind} ({how}) in {event.stage}\n{event.captured[-2000:]}"
    return str(event)
