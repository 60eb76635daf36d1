"""The compilers of a lane: each runs models in processes of its own, beside the others."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from nnfuzz.backend.outcome import Outcome
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.experiment.confirm import REPEATS
from nnfuzz.experiment.lane import Lane
from nnfuzz.experiment.result import Plan, Result, Run
from nnfuzz.sandbox.events import Event
from nnfuzz.sandbox.sandbox import wait
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.client import ProducerClient


def examine(
    case: TestCase,
    runner: BackendRunner,
    bench: ProducerClient,
    levels: Iterable[str] | None = None,
    without: Iterable[str] = (),
    seconds: float = math.inf,
    thorough: bool = False,
    confirms: bool = False,
) -> Result:
    """Runs the case once at the given levels (default: the backend's pair) and judges it in full.

    without: passes to switch off. seconds: see BackendRunner.submit. thorough: whether
    onnx.reference is asked about wrong outputs, and silent deaths are located. confirms: whether
    failures are repeated in fresh processes, and the targets that isolate their faults run. Raises:
    OptionError for an unknown level, RunnerError, ProducerError.
    """
    levels = tuple(levels or runner.backend.default_levels())
    plan = Plan(
        runs=[Run(runner.name, case, levels, without=tuple(without), seconds=seconds)],
        repeats=lambda failure: REPEATS if confirms else 0,
        isolates=lambda failure: confirms,
        levels={runner.spec.name: runner.backend.with_default()},
        habits={runner.name: runner.habits},
        locates=thorough,
        arbitrates=thorough,
    )
    with CompilerProcesses({runner.name: runner}) as compilers:
        return Lane(compilers, bench).test(case, plan)


class CompilerProcesses:
    """Runs models on some compilers. A context manager, which does not close the runners given.

    runners: by label. strict: whether a fault of nnfuzz or of an adapter is raised; if not, it is
    the answer to its run.
    """

    def __init__(self, runners: Mapping[str, BackendRunner], strict: bool = True) -> None:
        self._runners, self._strict = dict(runners), strict
        self._fresh: dict[str, BackendRunner] = {}

    def run(self, runs: Sequence[Run]) -> list[list[Outcome] | RunnerError]:
        """The outcomes of each run, or why there are none. Runs of one compiler take turns.

        Raises: OptionError for an unknown level; RunnerError, once all runs have ended, if it is
        strict.
        """
        answers: dict[int, list[Outcome] | RunnerError] = {}
        waiting, under_way = deque(enumerate(runs)), dict[BackendRunner, int]()
        while waiting or under_way:
            for _ in range(len(waiting)):
                position, run = waiting.popleft()
                runner = self._runner(run)
                if runner in under_way:
                    waiting.append((position, run))
                else:
                    run.submit(runner)
                    under_way[runner] = position
            for sandbox, event in wait([runner.sandbox for runner in under_way]):
                runner = next(own for own in under_way if own.sandbox is sandbox)
                answer = outcomes_or_fault(runner, event)
                if answer is not None:
                    self.note(runner, answer)
                    answers[under_way.pop(runner)] = answer
        faults = [answer for answer in answers.values() if isinstance(answer, RunnerError)]
        if faults and self._strict:
            raise faults[0]
        return [answers[position] for position in range(len(runs))]

    def note(self, runner: BackendRunner, answer: list[Outcome] | RunnerError) -> None:
        """Called with the answer to each run."""

    def _runner(self, run: Run) -> BackendRunner:
        usual = self._runners[run.backend]
        if not run.fresh:
            return usual
        if run.backend not in self._fresh:
            limits = replace(usual.sandbox.limits, jobs_per_process=1)
            fresh = BackendRunner(usual.spec, usual.registry, usual.sandbox.server, limits)
            self._fresh[run.backend] = fresh
        self._fresh[run.backend].release = usual.release
        return self._fresh[run.backend]

    def close(self) -> None:
        """Ends the fresh processes."""
        for runner in self._fresh.values():
            runner.close()
        self._fresh.clear()

    def __enter__(self) -> CompilerProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def outcomes_or_fault(runner: BackendRunner, event: Event) -> list[Outcome] | RunnerError | None:
    """The outcomes that an event completes, or the fault of nnfuzz or of the adapter that ends the
    run; None while the run goes on.
    """
    try:
        return runner.feed(event)
    except RunnerError as error:
        return error
