"""Trials of candidates: each is prepared, run on the backend, and described by how it fails.

A process with torch and onnx prepares candidates (nnfuzz.reduction.service), one of the backend
runs them. This process imports neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TypeVar

import numpy as np

from nnfuzz.backend.numeric import Habits
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.runner import BackendRunner, CompilerServers, limits_of
from nnfuzz.backend.target import Target
from nnfuzz.base.reading import Json
from nnfuzz.base.writing import as_json
from nnfuzz.experiment.compilers import CompilerProcesses
from nnfuzz.experiment.lane import Lane
from nnfuzz.experiment.result import FAULT, Judging, Plan, Run
from nnfuzz.reduction.candidate import (
    CandidateQuestion,
    Explain,
    Explained,
    ExporterError,
    ListFamilies,
    Prepare,
    Propose,
    Rejected,
    Tried,
    failure_key,
    with_keys,
)
from nnfuzz.reduction.edit import Group
from nnfuzz.sandbox.events import Limits, Reply, Trouble, WorkerFault, event_line
from nnfuzz.sandbox.forkserver import ForkClient, ForkServer
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.sandbox import Sandbox
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.client import ProducerClient, ProducerError
from nnfuzz.triage.keys import Hypothesis
from nnfuzz.triage.signature import export_failure
from nnfuzz.triage.survey import learn_habits, patience

SERVICE = "nnfuzz.reduction.service:reduce_service"
LIMITS = Limits(seconds=120.0)
PRELOAD = ("numpy", "onnx", "onnx.numpy_helper", "torch", "nnfuzz.reduction.service")


def needed_operators(config: Mapping[str, Json]) -> dict[str, object]:
    """What of a case's configuration still matters once the case is there: the plug-ins' operators.

    config, result: the written CaseConfig. Equal ones let workers start in a twentieth of the time.
    """
    return as_json(CaseConfig(plugins=tuple(config.get("plugins", ()))))


@dataclass(frozen=True, eq=False)
class Workers:
    """One with torch and onnx (nnfuzz.reduction.service), and one of the backend, if there is any:
    they serve one case at a time. rival: see nnfuzz.reduction.case.Problem.
    """

    service: Sandbox
    runner: BackendRunner | None
    rival: BackendRunner | None = None

    @property
    def sandboxes(self) -> list[Sandbox]:
        return [self.service, *(r.sandbox for r in (self.runner, self.rival) if r)]

    def fit(self, *specs: BackendSpec | None) -> bool:
        """Whether they are of these specifications, labels included."""
        own = [runner and runner.spec for runner in (self.runner, self.rival)]
        labels = [[spec and spec.label for spec in given] for given in (own, specs)]
        return own == [*specs] and labels[0] == labels[1]

    def close(self) -> None:
        for sandbox in self.sandboxes:
            sandbox.close()


class Servers:
    """The fork servers of a reducer, and its workers: those of one finding serve the next one.

    config: the written CaseConfig of the cases. habits: of the backend, once they were asked for. A
    context manager.
    """

    def __init__(
        self,
        backend: BackendSpec | None,
        registry: BackendRegistry,
        config: Mapping[str, Json] | None = None,
        lent: tuple[ForkClient, CompilerServers] | None = None,
    ) -> None:
        """lent: fork servers that are there already, of the service and of compilers; they are left
        open.
        """
        self._registry, self._arguments = registry, {"config": needed_operators(config or {})}
        self._owns = lent is None
        self.service, self.compilers = lent or (
            ForkServer(PRELOAD, warm=(SERVICE, self._arguments)),
            CompilerServers(),
        )
        if backend:
            self.compilers.of(registry.get(backend.name), backend)
        self.habits: Habits | None = None
        self._idle: list[Workers] = []

    def workers(
        self,
        spec: BackendSpec | None,
        limits: Limits | None = None,
        rival: BackendSpec | None = None,
    ) -> Workers:
        """Some that were given back, or new ones. limits: of the backend's; default: its options'.

        Raises: RegistryError, OptionError, RunnerError if the backend cannot be used.
        """
        for idle in self._idle:
            if idle.fit(spec, rival):
                self._idle.remove(idle)
                for runner in filter(None, (idle.runner, idle.rival)):
                    runner.sandbox.limits = limits or limits_of(runner.options)
                return idle
        service = Sandbox(SERVICE, self._arguments, LIMITS, self.service)
        runners = (self.runner(made, limits) if made else None for made in (spec, rival))
        return Workers(service, *runners)

    def runner(self, spec: BackendSpec, limits: Limits | None = None) -> BackendRunner:
        """A new worker of a backend. Raises: as `workers`."""
        return self.compilers.runner(spec, self._registry, limits)

    @contextmanager
    def lent(self, spec: BackendSpec) -> Iterator[tuple[Sandbox, BackendRunner]]:
        """Workers for test cases and of the backend, for a while. Raises: as `workers`."""
        workers = self.workers(spec)
        assert workers.runner is not None
        try:
            yield workers.service, workers.runner
        finally:
            self.give_back(workers)

    def give_back(self, workers: Workers) -> None:
        """Keeps workers for the next case, unless they are at something."""
        if any(sandbox.busy for sandbox in workers.sandboxes):
            workers.close()
        else:
            self._idle.append(workers)

    def close(self) -> None:
        for workers in self._idle:
            workers.close()
        self._idle.clear()
        if self._owns:
            self.service.close()
            self.compilers.close()

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, kind: type | None, error: object, trace: TracebackType | None) -> None:
        self.close()


A = TypeVar("A")
LAST_CHARS = 2000
LEAST_SECONDS, PATIENCE = 5.0, 4.0
"""The time limit of a candidate, unless the failure is a hang: at least LEAST_SECONDS, and PATIENCE
times the longest time that an earlier candidate took. Before one has ended, there is none."""
JUDGED = 20.0
"""Seconds to judge a case that are too many to be spent on each candidate."""


class WorkerError(RuntimeError):
    """A worker of nnfuzz's own failed."""


class Trials:
    """Tries candidates, one after the other. A context manager.

    No candidate runs twice for one question, whoever asks it.
    """

    def __init__(
        self,
        config: Mapping[str, Json],
        backend: BackendSpec | None,
        registry: BackendRegistry | None = None,
        limits: Limits | None = None,
        servers: Servers | None = None,
        rival: BackendSpec | None = None,
    ) -> None:
        """config: the serialised CaseConfig. backend: None for findings about an exporter. servers:
        shared with the caller, so `close` leaves them open; None starts own ones. rival: another
        release of the backend, which must be right (see Problem).

        Raises: RegistryError, OptionError or RunnerError if the backend cannot be used.
        """
        plugins = backend.plugins if backend else ()
        self._servers = servers or Servers(
            backend, registry or BackendRegistry.discover(plugins), config
        )
        self._shared = servers is not None
        self._known: dict[CandidateQuestion, dict[str, Tried]] = {}
        self._usual = 0.0
        """Seconds of the slowest model that ended, 0 before there is one."""
        self._slow: list[frozenset[str]] = []
        """Operators of cases that took JUDGED to judge; onnx.reference is not asked about more."""
        self._workers = self._servers.workers(backend, limits, rival)
        self.words: frozenset[str] = frozenset()
        """See Failure.steady_words; empty: all words of errors count."""

    @property
    def runner(self) -> BackendRunner | None:
        """None for findings about an exporter."""
        return self._workers.runner

    def start(self) -> None:
        """Starts all workers ahead of the first job. Raises: RunnerError."""
        for sandbox in self._workers.sandboxes:
            sandbox.start()
        if self.runner and not self.runner.release:
            self.runner.versions()

    def habits(self) -> Habits:
        """Those of the compiler, for which it is asked once."""
        if self._servers.habits is None:
            self._servers.habits = learn_habits(self.runner) if self.runner else ()
        return self._servers.habits

    def known(self, question: CandidateQuestion) -> dict[str, Tried]:
        """What came of candidates that were asked this, by digest."""
        return self._known.setdefault(question, {})

    def run(
        self,
        case: TestCase,
        edits: Group,
        question: CandidateQuestion,
        below: tuple[int, ...] | None = None,
    ) -> Tried:
        """What came of a case with edits. below: the measure that it has to be less than.

        Raises: RunnerError.
        """
        known = self.known(question)
        tried = self._tried(self._workers, case, edits, question, below, known)
        if tried.digest:
            known.setdefault(tried.digest, tried)
        return tried

    def run_fresh(self, case: TestCase, question: CandidateQuestion) -> Tried:
        """The same for a case as it is, in a new process of the backend."""
        usual = self.runner
        if usual is None:
            return self._tried(self._workers, case, (), question)
        limits = replace(usual.sandbox.limits, jobs_per_process=1)
        with self._servers.runner(usual.spec, limits) as runner:
            runner.release = usual.release
            return self._tried(replace(self._workers, runner=runner), case, (), question)

    def propose(self, case: TestCase, name: str) -> list[Group]:
        """The groups of edits that a pass proposes. Raises: WorkerError if the worker fails."""
        return self._answer(f"pass {name}", Propose(case, name))

    def explain(
        self, case: TestCase, outputs: Mapping[str, np.ndarray], held: Sequence[Hypothesis] = ()
    ) -> Explained:
        """The hypotheses that predict some outputs of a case; among `held`, if any are given.

        Raises: WorkerError if the worker fails.
        """
        return self._answer("explaining", Explain(case, outputs, tuple(held)))

    def families(self, operator: str, attribute: str = "") -> list[str]:
        """The small families of specs that an operator belongs to, or the one of an attribute.

        Raises: WorkerError if the worker fails.
        """
        return self._answer("families", ListFamilies(operator, attribute))

    def _answer(self, about: str, job: Job[A]) -> A:
        event = self._workers.service.call(job)
        if not isinstance(event, Reply):
            raise WorkerError(f"{about}: {_text(event)}")
        return event.value

    def close(self) -> None:
        """Gives the workers back, and ends them unless somebody shares them."""
        self._servers.give_back(self._workers)
        if not self._shared:
            self._servers.close()

    def __enter__(self) -> Trials:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- one candidate --------------------------------------------------------------------------

    def _tried(
        self,
        workers: Workers,
        case: TestCase,
        edits: Group,
        question: CandidateQuestion,
        below: tuple[int, ...] | None = None,
        known: Mapping[str, Tried] | None = None,
    ) -> Tried:
        event = workers.service.call(Prepare(case, edits, below))
        if not isinstance(event, Reply):
            return Tried(reason=f"fault: {_text(event)}")
        prepared = event.value
        if isinstance(prepared, Rejected):
            return Tried(reason=prepared.reason)
        if known and prepared.digest in known:
            return known[prepared.digest]
        tried = Tried(prepared.digest, "", prepared.measure, prepared.case)
        if prepared.failed or workers.runner is None:
            return _not_exported(tried, prepared.failed)
        try:
            return self._ran(workers, workers.runner, tried, prepared.case, question)
        except ProducerError as error:
            return replace(tried, reason=f"fault: {error}")

    def _ran(
        self,
        workers: Workers,
        runner: BackendRunner,
        tried: Tried,
        case: TestCase,
        question: CandidateQuestion,
    ) -> Tried:
        how = question.without, question.until, question.lazy
        patient = max(LEAST_SECONDS, PATIENCE * self._usual)
        seconds = patience(self._usual) if question.hurried else patient
        seconds = seconds if self._usual else math.inf
        run = Run(runner.name, case, question.levels, False, *how, seconds=seconds)
        judging = Judging.ALWAYS if question.judged else Judging.NEVER
        rival = workers.rival
        plan = Plan(
            runs=[run],
            judging=judging,
            isolates=lambda failure: question.isolates,
            levels={runner.spec.name: runner.backend.with_default()},
            habits={runner.name: question.habits},
            locates=False,
            arbitrates=not any(slow.issubset(case.graph.operators) for slow in self._slow),
        )
        bench = ProducerClient.asking(workers.service)
        with CompilerProcesses({own.name: own for own in (runner, rival) if own}) as compilers:
            result = Lane(compilers, bench).test(case, plan)
            if result.seconds > JUDGED:
                self._slow.append(frozenset(case.graph.operators))
            ended = (o for o in result.outcomes if o.ok or o.kind is OutcomeKind.EXCEPTION)
            self._usual = max([self._usual, *(sum(o.seconds.values()) for o in ended)])
            shown = result.verdict.differences if result.verdict else ()
            faults = [e for e in result.events if e.kind == FAULT and e.message not in shown]
            if faults:
                reason = f"fault: {faults[0].message}"
                return replace(tried, reason=reason, outcomes=result.outcomes)
            blames = {}
            for failure in result.failures:
                own = failure.with_words(self.words)
                blames[own] = result.blame(failure)
            failing = with_keys(blames, blames.__getitem__, result.outcomes, question.silent)
            if failing and rival:
                again = Plan([replace(run, backend=rival.name)], judging, locates=False)
                rivals = Lane(compilers, bench).test(case, again).outcomes
                right = {outcome.level for outcome in rivals if outcome.ok}
                failing = [(f, key) for f, key in failing if right.issuperset(f.levels)]
        return replace(
            tried,
            outcomes=result.outcomes,
            failing=tuple(failing),
            verdict=result.verdict,
            blames={own.signature.hash: blame for own, blame in blames.items()},
        )


def _not_exported(tried: Tried, failed: ExporterError | None) -> Tried:
    """The trial of a finding about an exporter: it fails with the exporter's exception, and does
    not fail if a model was written.
    """
    if failed is None:
        return tried
    case = tried.case
    assert case is not None
    texts = failed.error_type, failed.message, failed.traceback
    failure = export_failure(case.exporter, *texts)
    outcome = Outcome(OutcomeKind.EXCEPTION, Stage.EXPORT, Target(case.exporter), *texts)
    return replace(tried, outcomes=(outcome,), failing=((failure, failure_key(failure)),))


def _text(event: Trouble) -> str:
    """What a worker reported instead of an answer, with the end of its trace or output."""
    if isinstance(event, WorkerFault):
        return f"{event_line(event)}\n{event.traceback}"
    return f"{event_line(event)}\n{event.captured[-LAST_CHARS:]}"
