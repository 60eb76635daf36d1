"""The process of a lane: makes tests, runs them on compilers below it, judges and confirms.

It holds PyTorch and the engine. Each compiler is a process of its own, from a fork server that the
scheduler has lent.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

from nnfuzz.backend.outcome import Outcome, OutcomeKind
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import AdapterFault, BackendRunner, CompilerServers, RunnerError
from nnfuzz.backend.target import DEFAULT
from nnfuzz.base.reading import Json, read
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.lane_jobs import (
    PATIENCE,
    REDUCE,
    RUN,
    WITHOUT_SERVER,
    Compiler,
    Enter,
    LaneReport,
    Order,
    RunTests,
)
from nnfuzz.experiment.compilers import CompilerProcesses
from nnfuzz.experiment.confirm import REPEATS
from nnfuzz.experiment.judge import unknown_outputs
from nnfuzz.experiment.lane import Lane
from nnfuzz.experiment.result import FAULT, Judging, Plan, Result, Run
from nnfuzz.findings.reducer_service import ReduceFinding
from nnfuzz.materialize.opsets import is_called
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import EventRow, HangRow, ReductionRow
from nnfuzz.sandbox import worker
from nnfuzz.sandbox.forkserver import ForkClient, ServerLost
from nnfuzz.sandbox.job import Report, Service, does
from nnfuzz.store.evidence import Evidence, defect, not_produced, with_row
from nnfuzz.testcase.bench import LocalProducer
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.testcase.identity import Numbered, TestId
from nnfuzz.testcase.jobs import Configure, ListVocabulary, Produce, Vocabulary
from nnfuzz.triage.signature import Failure

REPORT_SECONDS = 0.5
"""How long tests that agree wait for others, to be reported together."""
FEW = 20  # fewer runs do not show how long a run usually takes
TIMES = 20.0  # the multiple of the slowest run so far that every run gets
_SURE = (OutcomeKind.EXCEPTION, OutcomeKind.ACCEPTED, OutcomeKind.TIMEOUT)
"""Kinds of failures that need one repetition: they come from the same code on the same model, or
each repetition takes the whole time limit."""


class LaneService(Service):
    """Tests of one campaign. Compilers start with the first test."""

    def __init__(
        self,
        config: Mapping[str, Json],
        producer: str,
        reducer: str,
        cache: str = "",
        entered: Mapping[str, Json] | None = None,
    ) -> None:
        """config: the written CampaignConfig. producer, reducer: the factories of the services that
        make test cases and judge, and that reduce findings; "" for a lane that only reduces. cache:
        see nnfuzz.testcase.producer.Producer. entered: the written Enter of the present epoch.
        """
        self._config = CampaignConfig.from_json(config)
        first = Enter(0, 0, self._config.case, (), {}, {})
        self._epoch = read(Enter, entered) if entered else first
        case = as_json(self._epoch.case)
        arguments = {"seed": self._config.seed, "config": case, "cache": cache}
        self._producer = worker.build_service(producer, arguments) if producer else Service()
        self._reducer_factory = reducer
        self._unsent: list[Evidence] = []
        self._accounted = self._sent = 0.0  # CPU time and time of the last report

    @does(ListVocabulary)
    def vocabulary(self, job: ListVocabulary, report: Report) -> Vocabulary:
        return self._producer.done(job, report)

    @does(Produce)
    def produce(self, job: Produce, report: Report) -> TestCase | NotProduced:
        return self._producer.done(job, report)

    @does(Enter)
    def enter(self, job: Enter, report: Report) -> None:
        if job.case != self._epoch.case:
            self._producer.done(Configure(job.case), report)
        self._epoch = job

    @does(ReduceFinding)
    def reduce(self, job: ReduceFinding, report: Report) -> ReductionRow | None:
        report(REDUCE)
        with _leaving_without_server():
            return self._reducer.done(job, Report())

    @does(RunTests)
    def run(self, job: RunTests, report: Report) -> int:
        self._accounted, self._sent = time.process_time(), time.monotonic()
        for place, order in enumerate(job.orders, 1):
            with _leaving_without_server():
                evidence = self._tested(order, report)
            self._unsent.append(evidence)
            late = time.monotonic() - self._sent > REPORT_SECONDS
            small = not (evidence.result or evidence.suspected or evidence.events)
            if late or not small or self._compilers.beyond_help or place == len(job.orders):
                self._send(report)
        return len(job.orders)

    def _send(self, report: Report) -> None:
        """Reports on the tests since the last report."""
        cpu, compilers = self._compilers.taken()
        now = time.process_time()
        cpu["lanes"] = now - self._accounted
        tests, helpless = tuple(self._unsent), self._compilers.beyond_help
        report.part(LaneReport(tests, cpu, compilers, helpless))
        self._unsent.clear()
        self._accounted, self._sent = now, time.monotonic()

    # -- one test -------------------------------------------------------------------------------

    def _tested(self, order: Order, report: Report) -> Evidence:
        made = self._made(order, report)
        report(RUN)
        return self._judged(order, made) if isinstance(made, TestCase) else made

    def _made(self, order: Order, report: Report) -> TestCase | Evidence:
        """The test case, or the evidence that there is none."""
        test, epoch = order.test, self._epoch.epoch
        try:
            made = self._producer.done(Produce(test, order.died), report)
        except Exception as error:
            return self._defect(test, "produce", error)
        if isinstance(made, TestCase):
            return made
        return with_row(not_produced(test, made, epoch), self._epoch.variables)

    def _judged(self, order: Order, case: TestCase) -> Evidence:
        test = order.test
        sampled = isinstance(test, Numbered) and self._config.sampled(test.index)
        limits = self._limits(order)
        try:
            result = self._lane.test(case, self._plan(order, case, limits, sampled))
        except ServerLost:
            raise
        except Exception as error:
            return self._defect(test, RUN, error)
        self._note_seconds(result.outcomes)
        evidence = self._evidence(test, result)
        if hang := self._suspected(order, result, limits):
            return replace(evidence, result=None, suspected=hang)
        return evidence

    def _evidence(self, test: TestId, result: Result) -> Evidence:
        """The evidence of a test. Its result is left out if nothing failed: the row says enough."""
        events = tuple(EventRow(test, **vars(event)) for event in result.events)
        status = "run" if result.outcomes else FAULT
        whole = Evidence(test, self._epoch.epoch, result, status=status, events=events)
        whole = with_row(whole, self._epoch.variables)
        return whole if result.failures or result.flaky else replace(whole, result=None)

    def _defect(self, test: TestId, stage: str, error: Exception) -> Evidence:
        return with_row(defect(test, self._epoch.epoch, stage, error), self._epoch.variables)

    # -- how it is run --------------------------------------------------------------------------

    def _limits(self, order: Order) -> dict[str, float]:
        """The seconds that a level may take, by backend."""
        patient = order.patient or not self._config.timed
        return {
            name: self._paces[name].ceiling if patient else self._paces[name].limit
            for name in self._runners
        }

    def _plan(
        self, order: Order, case: TestCase, limits: Mapping[str, float], sampled: bool
    ) -> Plan:
        runners = {name: self._runners[name] for name in limits}
        # A verdict on one backend needs the outputs of all others, which do not know of it.
        alone = len(limits) == 1 and not sampled and not case.fault and not unknown_outputs(case)
        runs = [
            Run(
                name,
                case,
                self._levels(name, order.test, case),
                seconds=seconds,
                compares=alone,
            )
            for name, seconds in limits.items()
        ]
        known = self._epoch.known
        return Plan(
            runs=runs,
            judging=Judging.ALWAYS if sampled else Judging.DOUBTFUL,
            repeats=lambda failure: self._repeats(failure, known, limits),
            isolates=lambda failure: failure.signature.hash not in known,
            levels={own.spec.name: own.backend.with_default() for own in runners.values()},
            habits={name: own.habits for name, own in runners.items()},
        )

    def _levels(self, name: str, test: TestId, case: TestCase) -> tuple[str, ...]:
        """The levels that a test runs at: a pipeline that is drawn for it takes the place of the
        most optimised one. A function of the settings and the test.
        """
        runner = self._runners[name]
        levels = self._config.levels or runner.backend.default_levels()
        if not isinstance(test, Numbered):
            return levels
        rng = self._config.drawing(test.index, runner.spec.name)
        if drawn := runner.draw_pipeline(rng, is_called(case.exporter)) if rng else None:
            levels = (*(levels[:-1] or levels), str(drawn))
        usual = self._config.at_default(test.index) and runner.backend.given_away()
        return (*levels, DEFAULT) if usual else levels

    def _repeats(self, failure: Failure, known: Sequence[str], limits: Mapping[str, float]) -> int:
        """Runs in fresh workers that must all fail in the same way before it counts.

        A known failure counts at once, unless it is a mismatch: the signatures of those are weak
        evidence. A run that looks like a hang is repeated once it gets the whole time limit.
        """
        is_known = failure.signature.hash in known
        if failure.kind is OutcomeKind.MISMATCH:
            return 1 if is_known else REPEATS
        if is_known or self._looks_hung(failure, limits):
            return 0
        return 1 if failure.kind in _SURE else REPEATS

    # -- hangs ----------------------------------------------------------------------------------

    def _looks_hung(self, failure: Failure, limits: Mapping[str, float]) -> bool:
        """Whether a run has exceeded a limit that was shorter than the compiler's own."""
        shorter = limits[failure.backend] < self._paces[failure.backend].ceiling
        return failure.kind is OutcomeKind.TIMEOUT and shorter

    def _suspected(
        self, order: Order, result: Result, limits: Mapping[str, float]
    ) -> HangRow | None:
        """The first run of a test that looks like a hang, unless hangs like it are known."""
        known = self._epoch.known
        for failure in result.failures:
            if self._looks_hung(failure, limits) and failure.signature.hash not in known:
                return HangRow(
                    order.test,
                    failure.backend,
                    failure.levels[0],
                    failure.stage.value,
                    limits[failure.backend],
                    failure.signature.hash,
                )
        return None

    def _note_seconds(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if outcome.kind is not OutcomeKind.TIMEOUT:
                self._paces[outcome.backend].add(sum(outcome.seconds.values()))

    # -- compilers ------------------------------------------------------------------------------

    @cached_property
    def _servers(self) -> list[ForkClient]:
        """The fork server of lanes, and those of compilers in the order of the settings."""
        return [ForkClient(fd) for fd in worker.lent]

    @cached_property
    def _reducer(self) -> Service:
        plugins, compilers = self._config.plugins, CompilerServers()
        registry = BackendRegistry.discover(plugins)
        for spec, server in zip(self._config.backends, self._servers[1:], strict=True):
            compilers.put(registry.get(spec.name), spec, server)
        arguments = {"plugins": list(plugins), "lent": (self._servers[0], compilers)}
        return worker.build_service(self._reducer_factory, arguments)

    @cached_property
    def _runners(self) -> dict[str, BackendRunner]:
        registry, runners = BackendRegistry.discover(self._config.plugins), {}
        for spec, server in zip(self._config.backends, self._servers[1:], strict=True):
            runner, known = BackendRunner(spec, registry, server), self._known_of(spec.label)
            runner.habits, runner.release = known.habits, known.release
            runners[spec.label] = runner
        return runners

    @cached_property
    def _paces(self) -> dict[str, Pace]:
        paces = {}
        for name, runner in self._runners.items():
            paces[name] = Pace(runner.sandbox.limits.seconds, self._config.patience)
            paces[name].expect(self._known_of(name).usual)
        return paces

    def _known_of(self, name: str) -> Compiler:
        return self._epoch.compilers.get(name, Compiler())

    @cached_property
    def _compilers(self) -> CountedProcesses:
        works = {name for name, own in self._epoch.compilers.items() if own.works}
        return CountedProcesses(self._runners, works)

    @cached_property
    def _lane(self) -> Lane:
        return Lane(self._compilers, LocalProducer(self._producer, self._servers[0]))


class Pace:
    """How long the runs of one compiler take.

    ceiling: its time limit for one level, in seconds. least: seconds that every run gets.
    """

    def __init__(self, ceiling: float, least: float) -> None:
        self.ceiling, self._least = ceiling, least
        self._slowest, self._runs = 0.0, 0

    def expect(self, seconds: float) -> None:
        """Notes how long the slowest elementary model took, where that is known."""
        if seconds:
            self._slowest, self._runs = max(self._slowest, seconds), FEW

    def add(self, seconds: float) -> None:
        """Notes the seconds of a level that has ended by itself."""
        self._slowest, self._runs = max(self._slowest, seconds), self._runs + 1

    @property
    def limit(self) -> float:
        """The seconds after which a level looks like a hang."""
        if self._runs < FEW:
            return self.ceiling
        return min(self.ceiling, max(self._least, TIMES * self._slowest))


class CountedProcesses(CompilerProcesses):
    """beyond_help: why a compiler cannot run any further test; "" while all can.

    A mistake of an adapter costs one test, unless no model did well before.
    """

    def __init__(self, runners: Mapping[str, BackendRunner], works: Iterable[str]) -> None:
        """works: labels of the compilers on which some model did well before."""
        super().__init__(runners, strict=False)
        self.beyond_help = ""
        self._works, self._faults = {*works}, Counter[str]()
        self._cpu: defaultdict[str, float] = defaultdict(float)
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def note(self, runner: BackendRunner, answer: list[Outcome] | RunnerError) -> None:
        """Counts the answer to a run."""
        name = runner.name
        worked = runner.sandbox.take_cpu()
        if isinstance(answer, RunnerError):
            self._faults[name] += 1
            hopeless = isinstance(answer, AdapterFault) and name not in self._works
            if hopeless or self._faults[name] >= PATIENCE:
                self.beyond_help = str(answer)
            return
        self._faults[name] = 0
        inside = sum(outcome.cpu for outcome in answer)
        self._cpu["compilers"] += inside
        self._cpu["workers"] += max(0.0, worked - inside)
        self._seconds[name] += sum(sum(outcome.seconds.values()) for outcome in answer)
        if any(outcome.ok for outcome in answer):
            self._works.add(name)

    def taken(self) -> tuple[dict[str, float], dict[str, float]]:
        """CPU seconds in compilers and around them in their processes, and wall seconds in
        compilers by backend, since the last call.
        """
        taken = dict(self._cpu), dict(self._seconds)
        self._cpu.clear()
        self._seconds.clear()
        return taken


@contextmanager
def _leaving_without_server() -> Iterator[None]:
    """Ends the lane if a fork server is gone that was lent to it."""
    try:
        yield
    except ServerLost as error:
        print(error, file=sys.stderr)
        raise SystemExit(WITHOUT_SERVER) from error
