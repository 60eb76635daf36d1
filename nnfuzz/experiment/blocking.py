"""Lanes with compilers of their own: for replay, verification, localisation and the library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol, Self

from nnfuzz.backend.contract import OptionError
from nnfuzz.backend.deviation import NO_HABITS, Habits
from nnfuzz.backend.outcome import Outcome
from nnfuzz.backend.registry import BackendRegistry, BackendSpec, labelled
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.backend.target import DIRECT, EXPORTED, MODULE, Target
from nnfuzz.base.writing import as_json
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.compilers import CompilerProcesses
from nnfuzz.experiment.confirm import REPEATS
from nnfuzz.experiment.lane import Lane
from nnfuzz.experiment.result import Judging, Plan, Result, Run
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.client import LocalProducer, ProducerClient, ProducerError


class ProducerJudge(Protocol):
    """Says which outputs are wrong, as ProducerClient.judge does."""

    def __call__(
        self,
        case: TestCase,
        outcomes: Iterable[Outcome],
        names: Sequence[str] = (),
        habits: Mapping[str, Habits] = NO_HABITS,
    ) -> Verdict: ...


@dataclass(frozen=True)
class JudgeAlone:
    """A workbench that only judges."""

    judge: ProducerJudge

    def lower(self, case: TestCase) -> TestCase:
        raise ProducerError("nobody writes models here")

    def reference(self, case: TestCase) -> Outcome:
        raise ProducerError("nobody computes references here")


def examine(
    case: TestCase,
    runner: BackendRunner,
    judge: ProducerJudge,
    levels: Iterable[str] | None = None,
    without: Iterable[str] = (),
    seconds: float = math.inf,
    producer: ProducerClient | None = None,
) -> Result:
    """Runs the case once at the given levels (default: the backend's pair) and judges it in full.

    without: passes to switch off. seconds: see BackendRunner.submit. producer: has onnx.reference
    asked about wrong outputs, and silent deaths located; None for neither. Raises: OptionError for
    an unknown level, RunnerError, and whatever `judge` raises.
    """
    levels = tuple(levels or runner.backend.default_levels())
    order = {runner.spec.name: runner.backend.levels}
    runs = [Run(runner.name, case, levels, without=tuple(without), seconds=seconds)]
    habits = {runner.name: runner.habits}
    plan = Plan(runs, levels=order, habits=habits, locates=producer is not None)
    with CompilerProcesses({runner.name: runner}) as compilers:
        return Lane(compilers, producer or JudgeAlone(judge)).test(case, plan)


class BlockingExperiment:
    """Runs test cases on targets, decides which targets are wrong, and blames a coordinate of them.

        with Experiment(["onnxruntime", "tvm/O0"]) as run:
            result = run(case)

    A target is written as nnfuzz.backend.target has it, or as on the command line, with options:
    "onnxruntime,provider=cuda". Without a level, the backend's least and most optimised ones run.
    Compilers are loaded with the first case. A context manager.
    """

    def __init__(
        self,
        targets: Sequence[str | Target],
        plugins: Iterable[str] = (),
        registry: BackendRegistry | None = None,
        repeats: int = REPEATS,
        tolerance: str = "",
        isolated: bool = True,
    ) -> None:
        """plugins: files with further backends and operators. repeats: fresh processes in which a
        failure must occur in the same way. tolerance: see CaseConfig. isolated: whether outputs are
        judged in a process of their own; if not, in this one, which loads PyTorch.

        Raises: TargetError, RegistryError, OptionError, RunnerError if a compiler is missing.
        """
        self._registry = registry or BackendRegistry.discover(plugins)
        self._repeats, self._tolerance = repeats, tolerance
        wanted = [required_backend(target, self._registry) for target in targets]
        self.specs = labelled(list({str(spec): spec for spec, _ in wanted}.values()))
        self._forms = {target.form for _, target in wanted}
        self._runners: dict[str, BackendRunner] = {}
        self._levels: dict[str, tuple[str, ...]] = {}
        with ExitStack() as stack:
            for spec in self.specs:
                mine = [target for other, target in wanted if other == spec]
                runner = stack.enter_context(BackendRunner(spec, self._registry))
                self._runners[spec.label] = runner
                self._levels[spec.label] = _levels(runner, mine)
            plugins = self.specs[0].plugins if self.specs else ()
            config = as_json(CaseConfig(exporter=DIRECT, plugins=plugins, tolerance=tolerance))
            producer = ProducerClient(0, config) if isolated else LocalProducer.of(config)
            self._producer = stack.enter_context(producer)
            compilers = stack.enter_context(CompilerProcesses(self._runners))
            self._lane = Lane(compilers, self._producer)
            self._stack = stack.pop_all()

    def __call__(self, case: TestCase) -> Result:
        """Carries out the experiment on a case.

        Raises: RunnerError, ProducerError.
        """
        if DIRECT in self._forms and case.exporter != DIRECT:
            case = self._producer.lower(case)
        judging = Judging.ALWAYS if self._tolerance else Judging.DOUBTFUL
        return self._carried_out(case, self._levels, judging, self._repeats)

    def once(self, case: TestCase, levels: Mapping[str, Sequence[str]] | None = None) -> Result:
        """The case on the targets, judged in full and without repetition.

        levels: by backend, those to run instead. Raises: RunnerError, ProducerError.
        """
        return self._carried_out(case, levels or self._levels, Judging.ALWAYS, 0)

    def exposed(self, case: TestCase) -> TestCase:
        """The case with every value as an output. Raises: ProducerError."""
        return self._producer.expose(case)

    def _carried_out(
        self, case: TestCase, levels: Mapping[str, Sequence[str]], judging: Judging, repeats: int
    ) -> Result:
        plan = Plan(
            runs=[Run(name, case, tuple(own)) for name, own in levels.items()],
            judging=judging,
            repeats=lambda failure: repeats,
            isolates=lambda failure: True,
            levels={spec.name: self._registry.get(spec.name).levels for spec in self.specs},
        )
        return self._lane.test(case, plan)

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: object, trace: TracebackType | None) -> None:
        self.close()


_FORMS = (DIRECT, MODULE, EXPORTED)


def required_backend(wanted: str | Target, registry: BackendRegistry) -> tuple[BackendSpec, Target]:
    """The backend that a target needs, with options for the target's device and options."""
    target = Target.parse(wanted) if isinstance(wanted, str) else wanted
    if target.form not in ("", *_FORMS):
        forms = ", ".join(_FORMS)
        raise OptionError(f"{target}: a test case has its exporter; forms to ask for: {forms}")
    name, *pairs = target.compiler.split(",")
    pairs += sorted(target.options)
    backend = registry.get(name)
    options = backend.options_for(target)
    pairs += (f"{key}={value}" for key, value in options.items())
    of_release = target.release and backend.distribution and target.release not in options.values()
    text = ",".join([f"{name}@{target.release}" if of_release else name, *pairs])
    return registry.parse(text), replace(target, compiler=name)


def _levels(runner: BackendRunner, targets: Sequence[Target]) -> tuple[str, ...]:
    """Those that are asked for, in the backend's order. Raises: RunnerError for another release."""
    for target in targets:
        if target.release and not runner.release:
            runner.versions()
        if target.release not in ("", runner.release, runner.spec.release):
            raise RunnerError(f"{target}: release {runner.release} of {runner.name} is installed")
    named = {target.level for target in targets}
    if "" in named:
        named = (named - {""}) | set(runner.backend.default_levels())
    for level in sorted(named):
        runner.backend.check_level(level)
    return runner.backend.having(sorted(named))
