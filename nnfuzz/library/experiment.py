"""Experiments of a user's program: who is wrong, findings and their reduction, and the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from nnfuzz.backend.contract import OptionError
from nnfuzz.backend.registry import BackendRegistry, BackendSpec, labelled
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.backend.target import DIRECT, EXPORTED, MODULE, Target
from nnfuzz.base.reading import Json
from nnfuzz.base.threads import one_thread
from nnfuzz.base.writing import as_json
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.compilers import CompilerProcesses
from nnfuzz.experiment.confirm import REPEATS
from nnfuzz.experiment.lane import Lane
from nnfuzz.experiment.localise import localise
from nnfuzz.experiment.result import Judging, Plan, Result, Run
from nnfuzz.library.case import check_case, checked_arrays
from nnfuzz.library.plugins import known_plugins, operator_registry
from nnfuzz.records.finding import Finding
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.client import ProducerClient, ProducerError
from nnfuzz.triage.survey import declared

if TYPE_CHECKING:
    from nnfuzz.compare.envelope import Enclosure, Envelope
    from nnfuzz.ir.graph import Graph
    from nnfuzz.operators.registry import OpRegistry
    from nnfuzz.reduction.engine import ReductionProgress

BUDGET = 800
"""Candidates of a reduction, as for `nnfuzz reduce`."""
YOURS = "yours"


class Experiment:
    """Runs test cases on targets, decides which of them are wrong, and blames a coordinate of them.

        with nnfuzz.Experiment(["onnxruntime", "tvm/O0"]) as run:
            result = run(case)

    A target is written as `Target` has it, or as on the command line, with options:
    "onnxruntime,timeout=20". Without a level, the compiler's least and most optimised ones run.
    Compilers run in processes of their own: crashes and hangs are
    outcomes. The processes start with the first test case, which takes some seconds, and end with
    the `with` block or `close()`.
    """

    def __init__(
        self,
        targets: Sequence[str | Target],
        plugins: Iterable[str | Path] = (),
        repeats: int = REPEATS,
        isolated: bool = True,
    ) -> None:
        """plugins: files or modules with further backends and operators, beside what is registered.
        repeats: fresh processes in which a failure must occur in the same way; others are `flaky`.
        isolated: whether outputs are judged in a process of their own. If not, it is this process,
        which saves the time to load PyTorch twice, and dies where PyTorch dies of a test case.

        Raises: TypeError if targets are no list of names; CriterionError, TargetError,
        RegistryError, OptionError; RunnerError if a compiler is not installed.
        """
        registry = BackendRegistry.discover(known_plugins(plugins))
        check_targets(targets)
        self._registry, self._repeats = registry, repeats
        wanted = [required_backend(target, registry) for target in targets]
        self.specs = labelled(list({str(spec): spec for spec, _ in wanted}.values()))
        self._forms = {target.form for _, target in wanted}
        self._runners: dict[str, BackendRunner] = {}
        self._levels: dict[str, tuple[str, ...]] = {}
        with ExitStack() as stack:
            for spec in self.specs:
                mine = [target for other, target in wanted if other == spec]
                runner = stack.enter_context(BackendRunner(spec, registry))
                self._runners[spec.label] = runner
                self._levels[spec.label] = _levels(runner, mine)
            operators = self.specs[0].plugins if self.specs else ()
            config = as_json(CaseConfig(exporter=DIRECT, plugins=operators))
            self._producer = stack.enter_context(_producer(config, isolated))
            compilers = stack.enter_context(CompilerProcesses(self._runners))
            self._lane = Lane(compilers, self._producer)
            self._stack = stack.pop_all()

    def __call__(self, case: TestCase) -> Result:
        """Carries out the experiment on a case.

        Raises: RunnerError if an adapter makes a mistake; ProducerError for a fault of nnfuzz;
        TypeError if it is no test case.
        """
        check_case(case)
        if DIRECT in self._forms and case.exporter != DIRECT:
            case = self._producer.lower(case)
        return self._carried_out(case, self._levels, Judging.DOUBTFUL, self._repeats)

    def once(
        self,
        case: TestCase,
        levels: Mapping[str, Sequence[str]] | None = None,
        judging: Judging = Judging.ALWAYS,
    ) -> Result:
        """The case on the targets, without repetition.

        levels: by backend, those to run instead. Raises: RunnerError, ProducerError.
        """
        return self._carried_out(case, levels or self._levels, judging, 0)

    def exposed(self, case: TestCase) -> TestCase:
        """The case with every value as an output. Raises: ProducerError."""
        return self._producer.expose(case)

    def reference(self, case: TestCase) -> Mapping[str, np.ndarray]:
        """The outputs that onnx.reference computes; none if it cannot, or not within its limits."""
        try:
            return self._producer.reference(case).outputs or {}
        except ProducerError:
            return {}

    def _carried_out(
        self, case: TestCase, levels: Mapping[str, Sequence[str]], judging: Judging, repeats: int
    ) -> Result:
        plan = Plan(
            runs=[Run(name, case, tuple(own)) for name, own in levels.items()],
            judging=judging,
            repeats=lambda failure: repeats,
            isolates=lambda failure: True,
            levels={s.name: self._registry.get(s.name).with_default() for s in self.specs},
            habits={s.label: declared(self._registry.get(s.name)) for s in self.specs},
        )
        return self._lane.test(case, plan)

    @property
    def settings(self) -> dict[str, tuple[str, ...]]:
        """By compiler, what its adapter sets and its users do not; `Backend.overrides` says why."""
        classes = {spec.label: self._registry.get(spec.name) for spec in self.specs}
        sets = {label: tuple(own.step for own in cls.overrides) for label, cls in classes.items()}
        return {label: own for label, own in sets.items() if own}

    def findings(self, result: Result) -> list[Finding]:
        """The failures of a result of this experiment, each with its case and all else; `reduce`
        makes them small, and `save_finding` writes them for a tracker.
        """
        return [
            finding for runner in self._runners.values() for finding in findings_of(result, runner)
        ]

    def localise(self, finding: Finding) -> Finding:
        """The finding, saying where it comes from, as far as that can be found.

        Some dozens of runs: of every level, without passes, with every value as an output. Raises:
        RunnerError, ProducerError.
        """
        runner = self._runners[finding.failure.backend]
        localisation = localise(finding.case, finding.failure, runner, self._producer)
        return replace(finding, localisation=as_json(localisation) if localisation else None)

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _producer(config: Mapping[str, Json], isolated: bool) -> ProducerClient:
    if isolated:
        return ProducerClient(0, config)
    from nnfuzz.testcase.bench import LocalProducer  # loads PyTorch

    return LocalProducer.of(config)


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


def check_targets(targets: object) -> None:
    """Raises: TypeError, which says how to write them, if they are not a list of targets."""
    if isinstance(targets, str):
        raise TypeError(f"targets is one name; write a list of them: [{targets!r}]")
    if not isinstance(targets, Iterable):
        raise TypeError(f"targets must be a list of names, not {type(targets).__name__}")
    for target in targets:
        if not isinstance(target, str | Target):
            raise TypeError(
                f"{target!r} is no target: name a backend, such as 'onnxruntime/O0'; a compiler of "
                "your own is a Backend class with @nnfuzz.register"
            )


def findings_of(result: Result, runner: BackendRunner) -> list[Finding]:
    """The failures of a result on the backend of `runner`, each with its case and all else."""
    failures = [failure for failure in result.failures if failure.backend == runner.spec.label]
    case, spec = result.case, runner.spec
    config = as_json(CaseConfig(exporter=case.exporter, opset=case.opset, plugins=spec.plugins))
    versions = runner.versions() if failures else {}
    given = result.outcomes, spec, config, result.verdict, versions
    return [Finding(own, case, *given, blame=result.blame(own)) for own in failures]


def save_finding(finding: Finding, folder: str | Path) -> Path:
    """Writes a finding's folder inside of `folder`; returns its path. It is of use without nnfuzz:
    report.md for a tracker, repro.py, the model and its data.

    The name is made of the signature. A finding of the same signature that is there already is
    kept: it fails in the same way. The source of plug-ins, and of what `register` copied out of
    `__main__`, is written beside repro.py, with the single-file modules that it imports; repro.py
    finds them there, and `nnfuzz replay` runs them if --plugin names them. Packages are not copied:
    the first lines of repro.py name them. Raises: OSError.
    """
    from nnfuzz.findings.folder import write_finding
    from nnfuzz.findings.reduced import repro_program

    path = Path(folder) / finding.failure.folder_name
    return path if path.exists() else write_finding(path, finding, repro_program(finding))


def load_finding(folder: str | Path, plugins: Iterable[str | Path] = ()) -> Finding:
    """The finding that `save_finding` or a campaign has written.

    plugins: plug-in files that you trust. They stand in for those of the same names that the
    finding names; its own files are never run, since a finding may come from anybody.
    Raises: FindingError.
    """
    from nnfuzz.backend.registry import namesake
    from nnfuzz.findings.folder import read_finding

    return read_finding(folder, namesake(known_plugins(plugins)))


def reduce(
    finding: Finding,
    *,
    budget: int = BUDGET,
    localise: bool = True,
    watch: Callable[[ReductionProgress], None] = lambda progress: None,
) -> Finding:
    """The smallest model that fails in the same way, as a finding.

    budget: candidates that are run at most; some seconds to a few minutes, mostly the compiler's.
    localise: whether passes and operators that are at fault are looked for. watch: called with the
    progress.
    Raises: NotReduced if the failure does not occur again; RunnerError, WorkerError.
    """
    from nnfuzz.findings.reduced import reduce_finding
    from nnfuzz.reduction.case import ReduceConfig

    return reduce_finding(finding, ReduceConfig(budget, watch=watch), localised=localise)[1]


class Oracle:
    """Says which results a correct compiler may return, without a tolerance.

        verdict = nnfuzz.Oracle()(case, {"v3": array})
        assert verdict.ok, verdict

    It computes in float64 with an interval around every value, in the calling process, by PyTorch
    with one thread.
    """

    def __init__(
        self,
        plugins: Iterable[str | Path] = (),
    ) -> None:
        """plugins: files or modules with further operators that test cases consist of."""
        self._plugins = tuple(plugins)

    def __call__(
        self, case: TestCase, outputs: Mapping[str, np.ndarray], target: str | Target = YOURS
    ) -> Verdict:
        """Compares the outputs of a compiler, by name, with the envelope.

        The verdict's `mismatches` are under `target`; str(verdict) lists the mismatches, or states
        that there are none, and how much was compared. An output that is not given is a mismatch.
        Raises: TypeError if it is no test case or no mapping to arrays; ValueError for an output
        that the case does not have; ReferenceFault if the reference cannot be computed, which is
        nnfuzz's fault.
        """
        from nnfuzz.compare.verdict import judged

        check_case(case)
        parsed = Target.parse(target) if isinstance(target, str) else target
        arrays = _outputs(case, outputs)
        with one_thread():
            return judged(self.enclosure(case), {parsed: arrays})

    def envelope(self, case: TestCase) -> dict[str, Envelope]:
        """By output: arrays `ref`, `lo` and `hi`, and `any`: a mask of incomparable elements.

        A float may lie one unit in the last place outside of [lo, hi]: `admitted` has these bounds.
        NaN or an infinity as both bounds asks for that.
        Raises: ReferenceFault, TypeError if it is no test case.
        """
        check_case(case)
        return self.enclosure(case).envelopes

    def enclosure(self, case: TestCase) -> Enclosure:
        """The envelopes with what they rest on. Raises: ReferenceFault."""
        from nnfuzz.compare.edges import enclosure

        with one_thread():
            return enclosure(self.graph(case), {**case.inputs, **case.weights}, case.expected)

    def graph(self, case: TestCase) -> Graph:
        """The graph of a case with its operators."""
        from nnfuzz.ir.graph import Graph

        return Graph.of(case.graph, self._registry.get)

    @cached_property
    def _registry(self) -> OpRegistry:
        return operator_registry(self._plugins)


def _outputs(case: TestCase, given: object) -> dict[str, np.ndarray]:
    """The arrays by name. Raises: TypeError, ValueError."""
    outputs = checked_arrays(given, "outputs")
    if surplus := sorted(set(outputs) - set(case.expected)):
        names = ", ".join(case.expected)
        raise ValueError(f"{surplus[0]!r} is no output of the test case; these are: {names}")
    return outputs
