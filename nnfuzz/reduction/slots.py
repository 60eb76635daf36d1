"""Workers of the reducer: slots that try candidates side by side.

A slot is one worker with torch and onnx (nnfuzz.reduction.service) and one of the backend. The
parent imports neither.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import numpy as np

from nnfuzz.backend.deviation import Habits
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.reading import Json
from nnfuzz.reduction.candidate import CandidateQuestion, Tried
from nnfuzz.reduction.edit import Group
from nnfuzz.reduction.figures import Spent
from nnfuzz.reduction.information import Explained
from nnfuzz.reduction.jobs import Explain, ListFamilies, Propose
from nnfuzz.reduction.servers import Servers
from nnfuzz.reduction.slot import Candidate, Slot, event_text
from nnfuzz.sandbox.events import Limits, Reply
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.pool import Pool
from nnfuzz.testcase.case import TestCase
from nnfuzz.triage.hypothesis import Hypothesis
from nnfuzz.triage.survey import learn_habits

A = TypeVar("A")


class WorkerError(RuntimeError):
    """A worker of nnfuzz's own failed."""


class Slots(Pool[Slot, Candidate, Tried]):
    """All slots, and one job at a time beside them. A context manager.

    spent: by phase. No candidate runs twice for one question, whoever asks it.
    """

    def __init__(
        self,
        config: Mapping[str, Json],
        backend: BackendSpec | None,
        workers: int,
        registry: BackendRegistry | None = None,
        limits: Limits | None = None,
        servers: Servers | None = None,
        rival: BackendSpec | None = None,
    ) -> None:
        """config: the written CaseConfig. backend: None for findings about an exporter. servers: to
        share, and then left open. rival: see Problem.

        Raises: RegistryError, OptionError, RunnerError if the backend cannot be used.
        """
        plugins = backend.plugins if backend else ()
        self._servers = servers or Servers(
            backend, registry or BackendRegistry.discover(plugins), config
        )
        self._shared = servers is not None
        self._known: dict[CandidateQuestion, dict[str, Tried]] = {}
        self.spent: dict[str, Spent] = {}
        self._spent = Spent()
        self._finished: list[tuple[Candidate, Tried]] = []
        made = (self._servers.workers(backend, limits, rival) for _ in range(workers))
        super().__init__(map(Slot, made))

    @property
    def runner(self) -> BackendRunner | None:
        """That of the first slot; None for findings about an exporter."""
        return self.workers[0].runner

    def start(self) -> None:
        """Starts all workers ahead of the first job. Raises: RunnerError."""
        for sandbox in self.sandboxes():
            sandbox.start()
        runners = [slot.runner for slot in self.workers if slot.runner]
        known = [runner.release for runner in runners if runner.release]
        if runners and not known:
            runners[0].versions()
            known = [runners[0].release]
        for runner in runners:
            runner.release = known[0]

    def habits(self) -> Habits:
        """Those of the compiler, for which it is asked once; no slot may be busy."""
        if self._servers.habits is None:
            self._servers.habits = learn_habits(self.runner) if self.runner else ()
        return self._servers.habits

    @contextmanager
    def phase(self, name: str) -> Iterator[Spent]:
        """Counts what is run meanwhile as a part of this phase."""
        outer, start = self._spent, time.perf_counter()
        self._spent = self.spent.setdefault(name, Spent())
        try:
            yield self._spent
        finally:
            self._spent.seconds += time.perf_counter() - start
            self._spent = outer

    def known(self, question: CandidateQuestion) -> dict[str, Tried]:
        """What came of candidates that were asked this, by digest."""
        return self._known.setdefault(question, {})

    def idle(self) -> Slot | None:
        return next((slot for slot in self.workers if slot.order is None), None)

    def ended(self, worker: Slot, order: Candidate, result: Tried) -> None:
        self._finished.append((order, result))
        self._keep(self.known(order.question), result)

    def finished(self) -> list[tuple[Candidate, Tried]]:
        """Blocks until some candidates are through; returns them with their results."""
        while not self._finished and self.busy:
            self.wait()
        finished, self._finished = self._finished, []
        return finished

    def _keep(self, known: dict[str, Tried], tried: Tried) -> None:
        if tried.digest:
            repeated = known.get(tried.digest) is tried
            self._spent.repeated += repeated
            self._spent.run += not repeated
            known.setdefault(tried.digest, tried)

    def run(self, case: TestCase, edits: Group, question: CandidateQuestion) -> Tried:
        """Tries one candidate and waits for it; no slot may be busy."""
        return self._run(case, edits, question, self.known(question))

    def _run(
        self, case: TestCase, edits: Group, question: CandidateQuestion, known: Mapping[str, Tried]
    ) -> Tried:
        self.begin(self.workers[0], Candidate(case, edits, question, known))
        ((_, tried),) = self.finished()
        return tried

    def run_fresh(self, case: TestCase, question: CandidateQuestion) -> Tried:
        """The same for a case as it is, in a new process of the backend."""
        slot = self.workers[0]
        if slot.runner is None:
            return self._run(case, (), question, {})
        limits = replace(slot.runner.sandbox.limits, jobs_per_process=1)
        with self._servers.runner(slot.runner.spec, limits) as runner:
            runner.release = slot.runner.release
            slot.runner, kept = runner, slot.runner
            try:
                return self._run(case, (), question, {})
            finally:
                slot.runner = kept

    def propose(self, case: TestCase, name: str) -> tuple[list[Group], tuple[int, ...]]:
        """The groups of edits that a pass proposes, and the case's measure.

        Raises: WorkerError if the worker fails.
        """
        proposed = self._answer(f"pass {name}", Propose(case, name))
        return proposed.groups, proposed.measure

    def explain(
        self, case: TestCase, outputs: Mapping[str, np.ndarray], held: Sequence[Hypothesis] = ()
    ) -> Explained:
        """The hypotheses that predict some outputs of a case; among `held`, if any are given.

        Raises: WorkerError if the worker fails.
        """
        return self._answer("explaining", Explain(case, outputs, tuple(held)))

    def families(self, operator: str) -> list[str]:
        """The small families of specs that an operator belongs to.

        Raises: WorkerError if the worker fails.
        """
        return self._answer("families", ListFamilies(operator))

    def _answer(self, about: str, job: Job[A]) -> A:
        """Has the first worker do a job. Raises: WorkerError if it fails."""
        event = self.workers[0].service.call(job)
        if not isinstance(event, Reply):
            raise WorkerError(f"{about}: {event_text(event)}")
        return event.value

    def close(self) -> None:
        for slot in self.workers:
            self._servers.give_back(slot.workers)
        if not self._shared:
            self._servers.close()
