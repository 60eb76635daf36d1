"""The judge of one test case: which outputs are wrong, and which of its own verdicts it doubts."""

from __future__ import annotations

import time
from collections.abc import Sequence

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import DIRECT, EXPORTED, MODULE, base_form
from nnfuzz.compare.flip import PYTORCH
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.experiment.judgement import (
    doubtful,
    unknown_outputs,
    with_contradictions,
    with_mismatches,
    with_nothing_compared,
)
from nnfuzz.experiment.result import UNDEFINED, Event, Judging, Log, Plan, Workbench
from nnfuzz.materialize.opsets import DYNAMIC
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.client import ProducerError
from nnfuzz.triage.signature import Failure

OWN_FORMS = (DIRECT, DYNAMIC, MODULE, EXPORTED)
"""No exporter to ONNX is to blame: nnfuzz wrote the model, or the compiler reads another form."""


class Judge:
    """Judges the outputs of one test case, as its plan says.

    verdict: the latest one; None before there is one. agreed: whether all outputs are close to
    PyTorch's. seconds: that judging took.
    """

    def __init__(self, case: TestCase, plan: Plan, bench: Workbench, log: Log) -> None:
        self.case, self.plan, self.bench, self.log = case, plan, bench, log
        self.verdict: Verdict | None = None
        self.agreed, self.seconds = False, 0.0
        self._arbiters: list[Outcome] | None = None

    def compared(self, outcomes: list[Outcome]) -> list[Outcome]:
        """The outcomes, with `mismatch` or `not compared` in place of ok where the verdict says so.

        Raises: ProducerError.
        """
        ran = [o for o in outcomes if o.outputs is not None]
        agreeing, always = any(o.agrees for o in outcomes), self.plan.judging is Judging.ALWAYS
        if not (ran or agreeing) or self.plan.judging is Judging.NEVER:
            return outcomes
        start = time.perf_counter()
        doubts = doubtful(self.case, ran)
        self.agreed = not doubts
        self.seconds += time.perf_counter() - start
        asked = list(dict.fromkeys([*doubts, *unknown_outputs(self.case)]))
        if asked or always:
            self.verdict = self.of(ran, () if always else asked)
        if self.verdict is None:
            return outcomes
        judged = with_mismatches(outcomes, self.verdict)
        judged = with_nothing_compared(judged, self.verdict, self.case.expected)
        return with_contradictions(judged, self.verdict)

    def of(self, outcomes: Sequence[Outcome], names: Sequence[str] = ()) -> Verdict | None:
        """The verdict on outcomes; None if it suspects the reference, which then accuses nobody.

        names: of the outputs to look at; none for all. Raises: ProducerError.
        """
        verdict = self._asked(outcomes, names)
        if verdict.suspect_reference:
            self.log.fault("compare", "PyTorch and every backend differ from the reference")
            return None
        return self._uncontradicted(verdict, outcomes, names)

    def defined(self, found: list[Failure]) -> list[Failure]:
        """The failures without errors that a correct compiler may raise as well, since an operator
        may be undefined for the inputs. No input excuses a process that dies.
        """
        raised = OutcomeKind.EXCEPTION
        errors = [f for f in found if f.stage is Stage.EXECUTE and f.kind is raised]
        if not errors or not self.case.graph or self.case.fault:
            return found
        verdict = self.of(())
        if verdict is None or verdict.defined:
            return found
        self.log.events += [_undefined(failure) for failure in errors]
        return [failure for failure in found if failure not in errors]

    def computed_by_onnx(self, case: TestCase) -> list[Outcome]:
        """The outcome of onnx.reference on a model; none if it dies of it or has no end."""
        try:
            return [self.bench.reference(case)]
        except ProducerError:
            return []

    def _asked(self, outcomes: Sequence[Outcome], names: Sequence[str]) -> Verdict:
        start = time.perf_counter()
        verdict = self.bench.judge(self.case, outcomes, names, self.plan.habits)
        self.seconds += time.perf_counter() - start
        return verdict

    def _uncontradicted(
        self, verdict: Verdict, outcomes: Sequence[Outcome], names: Sequence[str]
    ) -> Verdict:
        """The verdict without the mismatches that ONNX's reference evaluator contradicts. Each of
        these is a fault of nnfuzz until shown otherwise. The evaluator is asked only if an output
        is wrong.
        """
        mine = [o.target for o in outcomes]
        wrong = {m.output for t in mine for m in verdict.mismatches.get(t, ())}
        odd = {m.output for m in verdict.mismatches.get(PYTORCH, ())}
        arbiters = self._on_own_form() if wrong and self.plan.arbitrates else []
        if not (odd & wrong) and set(doubtful(self.case, arbiters)).isdisjoint(wrong):
            return verdict  # it agrees with PyTorch
        if not {o.target for o in arbiters}.issubset(mine):
            again = self._asked([*outcomes, *arbiters], names)
            verdict = again if again.contradictions else verdict
        for text in verdict.differences:
            self.log.fault("compare", text)
        return verdict

    def _on_own_form(self) -> list[Outcome]:
        """The outcome of onnx.reference on a model that no exporter wrote; none where there is no
        such model, or the evaluator cannot compute it.
        """
        if self._arbiters is None:
            try:
                own = base_form(self.case.exporter) in OWN_FORMS
                made = self.case if own else self.bench.lower(self.case)
                self._arbiters = [o for o in self.computed_by_onnx(made) if o.ok]
            except ProducerError:
                self._arbiters = []
        return self._arbiters


def _undefined(failure: Failure) -> Event:
    message = f"an operator may be out of its domain: {failure.signature.title}"
    return Event(UNDEFINED, failure.backend, failure.stage.value, message=message)
