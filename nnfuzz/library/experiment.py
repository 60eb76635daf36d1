"""Experiments as people hold them: their failures are findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.target import Target
from nnfuzz.base.writing import as_json
from nnfuzz.experiment import blocking, result
from nnfuzz.experiment.confirm import REPEATS
from nnfuzz.experiment.localise import localise
from nnfuzz.library.case import TestCase, check_case
from nnfuzz.library.finding import Failure, Finding
from nnfuzz.library.plugins import known_plugins
from nnfuzz.report.text import trimmed
from nnfuzz.testcase import case as engine
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.triage import signature

SHOWN = 300  # characters of a message in a notebook's table


@dataclass(frozen=True, eq=False, repr=False)
class Result(result.Result):
    """The result of an experiment: an outcome per target, the verdict, and confirmed failures."""

    failures: tuple[Failure, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing failed, and something was compared where anything ran; a model that a
        compiler does not support is no failure.
        """
        return self.compared and not (self.failures or self.flaky)

    @property
    def compared(self) -> bool:
        """False where a target ran and no element of its outputs could be compared."""
        return not any(o.kind is OutcomeKind.NOT_COMPARED for o in self.outcomes)

    def __str__(self) -> str:
        """A line on what was compared where that is not nearly all, then one per target."""
        lines = [": ".join(filter(None, row)) for row in self._rows()]
        coverage = self.verdict.coverage if self.verdict and self.verdict.compared else ""
        return "\n".join([f"compared: {coverage}", *lines] if coverage else lines)

    __repr__ = __str__

    def _rows(self) -> list[tuple[str, str, str]]:
        wrong = self.verdict.mismatches if self.verdict else {}
        return [
            (
                str(o.target),
                str(o.kind)
                if o.ok or o.kind is OutcomeKind.NOT_COMPARED
                else f"{o.kind} in {o.stage}",
                trimmed("; ".join(map(str, wrong.get(o.target, ()))) or o.message, SHOWN),
            )
            for o in self.outcomes
        ]


class Experiment(blocking.BlockingExperiment):
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
        tolerance: str = "",
        isolated: bool = True,
    ) -> None:
        """plugins: files or modules with further backends and operators, beside what is registered.
        repeats: fresh processes in which a failure must occur in the same way; others are `flaky`.
        tolerance: a criterion of your own beside the error envelope, such as "rtol=1e-3,atol=1e-5".
        isolated: whether outputs are judged in a process of their own. If not, it is this process,
        which saves the time to load PyTorch twice, and dies where PyTorch dies of a test case.

        Raises: TypeError if targets are no list of names; CriterionError, TargetError,
        RegistryError, OptionError; RunnerError if a compiler is not installed.
        """
        registry = BackendRegistry.discover(known_plugins(plugins))
        check_targets(targets)
        super().__init__(targets, (), registry, repeats, tolerance, isolated)
        self._versions: dict[str, dict[str, str]] = {}

    def __call__(self, case: engine.TestCase) -> Result:
        """Carries out the experiment on a case.

        Raises: RunnerError if an adapter makes a mistake; ProducerError for a fault of nnfuzz;
        TypeError if it is no test case.
        """
        check_case(case)
        answer = super().__call__(case)
        return self._result(answer, case, answer.failures)

    def _result(
        self, answer: result.Result, case: engine.TestCase, failed: Iterable[signature.Failure]
    ) -> Result:
        given = case.config if isinstance(case, TestCase) else {}
        answer = replace(answer, case=TestCase.of(answer.case, given))
        failures = tuple(self._known(failure, answer) for failure in failed)
        return Result(**{**vars(answer), "failures": failures})

    def localise(self, failure: Failure) -> Finding:
        """The failure as a finding that says where it comes from, as far as that can be found.

        Some dozens of runs: of every level, without passes, with every value as an output, in wider
        dtypes. Raises: RunnerError, ProducerError.
        """
        finding = failure.finding
        runner = self._runners[failure.backend]
        localisation = localise(finding.case, failure, runner, self._producer)
        return replace(finding, localisation=as_json(localisation) if localisation else None)

    def _known(self, failure: signature.Failure, answer: result.Result) -> Failure:
        spec = next(spec for spec in self.specs if spec.label == failure.backend)
        if failure.backend not in self._versions:
            self._versions[failure.backend] = self._runners[failure.backend].versions()
        finding = Finding(
            failure=failure,
            case=answer.case,
            outcomes=answer.outcomes,
            backend=spec,
            config={**_config(answer.case, spec.plugins), "tolerance": self._tolerance},
            verdict=answer.verdict,
            versions=self._versions[failure.backend],
            blame=answer.blame(failure),
        )
        return Failure(**vars(failure), finding=finding)


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


def _config(case: engine.TestCase, plugins: Iterable[str]) -> dict[str, object]:
    """The settings of a case, with the plug-ins that its operators may come from."""
    own = case.config if isinstance(case, TestCase) else {}
    config = {**as_json(CaseConfig(exporter=case.exporter, opset=case.opset)), **own}
    return {**config, "plugins": list(dict.fromkeys([*config["plugins"], *plugins]))}
