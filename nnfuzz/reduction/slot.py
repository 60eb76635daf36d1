"""One worker slot of the reducer: prepares a candidate, runs it, and says how it fails."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.runner import RunnerError
from nnfuzz.backend.target import Target
from nnfuzz.experiment.asking import Asking, TimedEnd
from nnfuzz.experiment.pending import Pending, Task
from nnfuzz.experiment.procedure import FAULT, Procedure
from nnfuzz.experiment.result import Judging, Plan, Run
from nnfuzz.reduction.candidate import CandidateQuestion, Tried, failure_key, with_keys
from nnfuzz.reduction.edit import Group
from nnfuzz.reduction.jobs import ExporterError, Prepare, Rejected
from nnfuzz.reduction.servers import Workers
from nnfuzz.sandbox.events import Event, Progress, Reply, Trouble, WorkerFault, event_line
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.pool import Worker
from nnfuzz.sandbox.sandbox import Sandbox
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.signature import export_failure
from nnfuzz.triage.survey import patience

A = TypeVar("A")
T = TypeVar("T")
LAST_CHARS = 2000


@dataclass(frozen=True, eq=False)
class Candidate:
    """A case with edits that is to be tried. known: results for the question by digest, which are
    not run again. below: the measure that it has to be less than. position: in a list of them.
    """

    case: TestCase
    edits: Group
    question: CandidateQuestion
    known: Mapping[str, Tried]
    below: tuple[int, ...] | None = None
    position: int = 0


class Slot(Worker[Candidate, Tried], Asking):
    """Tries one candidate at a time.

    One of its workers is busy at any time: they serve the experiment one after the other.
    usual: seconds of the slowest model that got through, 0 before there is one.
    """

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self.service, self.runner = workers.service, workers.runner
        self.usual = 0.0
        self._answer: Callable[[Event], None] | None = None
        self._queue: deque[tuple[Callable[[], None], Callable[[Event], None]]] = deque()
        self._result: Tried | None = None

    @property
    def sandboxes(self) -> list[Sandbox]:
        runners = (self.runner, self.workers.rival)
        return [self.service, *(runner.sandbox for runner in runners if runner)]

    def begin(self, order: Candidate) -> None:
        Task(self._tried(order), self._finish)

    def feed(self, event: Event) -> Tried | None:
        if self._answer is not None:
            self._answer(event)
        result, self._result = self._result, None
        return result

    def _finish(self, tried: Tried) -> None:
        self._result = tried

    async def _tried(self, candidate: Candidate) -> Tried:
        known = candidate.known
        event, _ = await self.ask(Prepare(candidate.case, candidate.edits, candidate.below))
        if not isinstance(event, Reply):
            return Tried(reason=f"fault: {event_text(event)}")
        prepared = event.value
        if isinstance(prepared, Rejected):
            return Tried(reason=prepared.reason)
        if prepared.digest in known:
            return known[prepared.digest]
        tried = Tried(prepared.digest, "", prepared.measure, prepared.case)
        if prepared.failed or self.runner is None:
            return _not_exported(tried, prepared.failed)
        return await self._run(tried, candidate.question)

    async def _run(self, tried: Tried, question: CandidateQuestion) -> Tried:
        case = tried.case
        assert self.runner is not None and case is not None
        how = question.without, question.until, question.lazy
        seconds = patience(self.usual) if question.hurried and self.usual else math.inf
        run = Run(self.runner.name, case, question.levels, False, *how, seconds=seconds)
        judging = Judging.ALWAYS if question.judged else Judging.NEVER
        plan = Plan(
            runs=[run],
            judging=judging,
            isolates=lambda failure: question.isolates,
            levels={self.runner.spec.name: self.runner.backend.levels},
            habits={self.runner.name: question.habits},
            locates=False,
        )
        result = await Procedure(case, plan, self).result()
        ended = (sum(o.seconds.values()) for o in result.outcomes if o.ok)
        self.usual = max(self.usual, *ended, 0.0)
        shown = result.verdict.differences if result.verdict else ()
        if troubles := [e for e in result.events if e.kind == FAULT and e.message not in shown]:
            reason = f"fault: {troubles[0].message}"
            return replace(tried, reason=reason, outcomes=result.outcomes)
        mine = tuple(o for o in result.outcomes if o.backend == run.backend)
        failures = [f for f in result.failures if f.backend == run.backend]
        failing = with_keys(failures, result.blame, mine, question.silent)
        if failing and (rival := self.workers.rival):
            again = Plan([replace(run, backend=rival.name)], judging, locates=False)
            rivals = (await Procedure(case, again, self).result()).outcomes
            right = {outcome.level for outcome in rivals if outcome.ok}
            failing = [
                (failure, key) for failure, key in failing if right.issuperset(failure.levels)
            ]
        return replace(
            tried,
            outcomes=mine,
            failing=tuple(failing),
            verdict=result.verdict,
            blames=result.blames,
        )

    # -- services of the experiment -------------------------------------------------------------

    def run(self, run: Run) -> Pending[list[Outcome] | RunnerError]:
        """Raises: RunnerError out of `feed`."""
        pending: Pending[list[Outcome] | RunnerError] = Pending()
        rival = self.workers.rival
        runner = rival if rival and run.backend == rival.name else self.runner
        assert runner is not None

        def answer(event: Event) -> None:
            outcomes = runner.feed(event)
            if outcomes is not None:
                self._done(pending, outcomes)

        self._enqueue(lambda: run.submit(runner), answer)
        return pending

    def ask(self, job: Job[A]) -> Pending[TimedEnd[A]]:
        pending: Pending[TimedEnd[A]] = Pending()

        def answer(event: Event) -> None:
            if not isinstance(event, Progress):
                self._done(pending, (event, 0.0))

        self._enqueue(lambda: self.service.submit(job), answer)
        return pending

    def _enqueue(self, start: Callable[[], None], answer: Callable[[Event], None]) -> None:
        """Has a piece of work wait for those before it."""
        self._queue.append((start, answer))
        self._next()

    def _next(self) -> None:
        if self._answer is None and self._queue:
            start, self._answer = self._queue.popleft()
            start()

    def _done(self, pending: Pending[T], value: T) -> None:
        self._answer = None
        pending.complete(value)
        self._next()


def _not_exported(tried: Tried, failed: ExporterError | None) -> Tried:
    """For findings about an exporter: a model is no failure, the same exception is."""
    if failed is None:
        return tried
    case = tried.case
    assert case is not None
    texts = failed.error_type, failed.message, failed.traceback
    failure = export_failure(case.exporter, *texts)
    outcome = Outcome(OutcomeKind.EXCEPTION, Stage.EXPORT, Target(case.exporter), *texts)
    return replace(tried, outcomes=(outcome,), failing=((failure, failure_key(failure)),))


def event_text(event: Trouble) -> str:
    """What a worker reported instead of an answer, with the end of its trace or output."""
    if isinstance(event, WorkerFault):
        return f"{event_line(event)}\n{event.traceback}"
    return f"{event_line(event)}\n{event.captured[-LAST_CHARS:]}"
